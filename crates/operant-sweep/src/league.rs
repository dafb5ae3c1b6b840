//! Ratings of players in a game, as a plot and as a part of the page of a report.

use std::fmt::Write as _;

use operant_draw::chart::{self, Axis, Chart, Look, Mark};
use operant_draw::theme::Rgb;
use operant_run::league::{League, Standing};
use operant_run::progress::short;

use crate::html::escaped;

const LOOK: Look =
    Look { size: (960, 600), margins: (16, 16), labels: (52, 84), font: 16, fine_lines: true, legend: true };

const TITLE: &str = "Elo rating, 95% interval";

/// The ratings as SVG text, or an error message: over the steps of training if a run has several checkpoints, otherwise one column per player. It is drawn in memory, so errors are unlikely.
pub fn svg(league: &League) -> std::result::Result<String, String> {
    let mut players: Vec<&Standing> = league.standings.iter().collect();
    players.sort_by(|a, b| b.elo.total_cmp(&a.elo));
    let (mut runs, mut scripted) = (Vec::<(&str, Vec<&Standing>)>::new(), Vec::new());
    for player in &players {
        match (&player.run, player.env_steps) {
            (Some(run), Some(_)) => match runs.iter_mut().find(|(name, _)| name == run) {
                Some((_, all)) => all.push(player),
                None => runs.push((run, vec![player])),
            },
            _ => scripted.push(*player),
        }
    }
    let low = players.iter().map(|player| player.elo_low).fold(f64::INFINITY, f64::min);
    let high = players.iter().map(|player| player.elo_high).fold(f64::NEG_INFINITY, f64::max);
    let room = 0.05 * (high - low).max(1.0);
    let y = Axis {
        range: low - room..high + room,
        log: false,
        title: TITLE,
        label: &|elo| format!("{elo:.0}"),
        names: None,
    };
    if runs.iter().all(|(_, checkpoints)| checkpoints.len() < 2) {
        let named = |x: &f64| {
            let player = (x.fract() == 0.0).then(|| players.get((*x as usize).wrapping_sub(1))).flatten();
            player.map_or_else(String::new, |player| label(player))
        };
        let range = 0.5..players.len() as f64 + 0.5;
        let x = Axis { range, log: false, title: "", label: &named, names: Some(players.len()) };
        let bars = players.iter().enumerate().map(|(at, player)| bar(at as f64 + 1.0, player));
        let marks = bars.map(|bar| (chart::colour(0), bar)).collect();
        return Chart { look: LOOK, axes: [x, y], marks }.svg();
    }
    let most = players.iter().filter_map(|player| player.env_steps).max().unwrap_or(1) as f64;
    let x = Axis {
        range: 0.0..most * 1.03,
        log: false,
        title: "environment steps",
        label: &|x| chart::tick_label(*x),
        names: None,
    };
    let mut marks = Vec::new();
    for (number, (run, checkpoints)) in runs.iter_mut().enumerate() {
        checkpoints.sort_by_key(|player| player.env_steps);
        let colour = chart::colour(number);
        let steps = |player: &Standing| player.env_steps.unwrap_or(0) as f64;
        let line = checkpoints.iter().map(|player| (steps(player), player.elo)).collect();
        marks.push((colour, Mark::Line(line, 2, Some((*run).to_owned()))));
        marks.extend(checkpoints.iter().map(|player| (colour, bar(steps(player), player))));
    }
    let first = runs.len();
    marks.extend(scripted.iter().enumerate().map(|(number, player)| across(first + number, player, most)));
    Chart { look: LOOK, axes: [x, y], marks }.svg()
}

/// A name that is short enough for an axis.
fn label(player: &Standing) -> String {
    match (&player.run, player.env_steps) {
        (Some(run), Some(steps)) => format!("{run} {}", short(steps as f64)),
        _ => player.name.clone(),
    }
}

fn bar(x: f64, player: &Standing) -> Mark {
    Mark::Bar(x, [player.elo_low, player.elo, player.elo_high])
}

/// The rating of a player that does not learn.
fn across(number: usize, player: &Standing, most: f64) -> (Rgb, Mark) {
    let line = vec![(0.0, player.elo), (most * 1.03, player.elo)];
    (chart::colour(number), Mark::Line(line, 1, Some(player.name.clone())))
}

/// The part of the page.
pub(crate) fn section(html: &mut String, league: &League) {
    let ranked = league.ranked();
    let _ = write!(
        html,
        "<section class=\"card\"><h3>Ratings</h3><div class=\"scroll\"><table>\n<tr><th>player</th><th>Elo</th><th>95% interval</th><th>score</th>"
    );
    for rank in 1..=ranked.len() {
        let _ = write!(html, "<th>{rank}</th>");
    }
    html.push_str("</tr>\n");
    for (rank, (standing, points)) in ranked.iter().enumerate() {
        let Standing { name, elo, elo_low, elo_high, score, .. } = standing;
        let _ = write!(
            html,
            "<tr><td>{}. {}</td><td>{elo:.0}</td><td>{elo_low:.0} to {elo_high:.0}</td><td>{:.1}%</td>",
            rank + 1,
            escaped(name),
            100.0 * score
        );
        for points in points {
            // Blue for wins and red for losses; white is even.
            let cell = points.map_or(String::new(), |points| {
                let (rgb, share) =
                    if points >= 50.0 { ("0,114,178", points - 50.0) } else { ("213,94,0", 50.0 - points) };
                format!(" style=\"background:rgba({rgb},{:.2})\"", 0.012 * share)
            });
            let text = points.map_or_else(|| "–".to_owned(), |points| format!("{points:.0}"));
            let _ = write!(html, "<td{cell}>{text}</td>");
        }
        html.push_str("</tr>\n");
    }
    let _ = writeln!(
        html,
        "</table></div><p class=\"note\">{}: {}. The last columns are percent of the points against the player of that rank. 400 points of Elo are odds of 10 to 1; the intervals \
         are from a bootstrap of the games.</p></section>",
        escaped(&league.env),
        league.summary()
    );
    if let Ok(svg) = svg(league) {
        let _ = writeln!(
            html,
            "<section class=\"card\"><h3>{TITLE}</h3><div class=\"chart scroll\">{svg}</div></section>"
        );
    }
}
