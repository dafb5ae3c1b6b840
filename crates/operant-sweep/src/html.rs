//! A report as one self-contained HTML page, for screens from phones up.

use std::fmt::Write as _;

use crate::league;
use crate::plot::Plot;
use crate::report::{CURVES, EnvReport, Report, SeedGroup};
use crate::stats::Estimate;

const STYLE: &str = "
:root { color-scheme: light; --ink: #1d2126; --soft: #5b636d; --line: #e3e6ea; --accent: #0072b2 }
* { box-sizing: border-box }
body { font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; color: var(--ink); background: #f6f7f9; margin: 0 }
main { max-width: 66rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
h1 { font-size: 1.9rem; line-height: 1.2; letter-spacing: -.01em; margin: 0 0 1rem; overflow-wrap: anywhere }
h2 { font-size: 1.35rem; margin: 3rem 0 .75rem } h3 { font-size: 1.05rem; margin: 0 0 .5rem }
section.card { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 1.25rem; margin: 1rem 0 }
.verdict { font-size: 1.2rem; line-height: 1.45; border-left: 4px solid var(--accent); padding: .1rem 0 .1rem 1rem; margin: 0 0 1.5rem;
  overflow-wrap: anywhere }
.verdict p { margin: 0 0 .5rem } .verdict p:last-child { margin: 0 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; margin: 0; font-size: .92rem }
dt { color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere }
code, pre { font: .88em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0 0 }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .4rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap }
th { white-space: normal; vertical-align: bottom; font-weight: 600; color: var(--soft); font-size: .82rem } tr:last-child td { border-bottom: 0 }
td:first-child, th:first-child { text-align: left; white-space: normal; padding-left: 0; min-width: 12rem }
td:first-child span { display: inline-block }
tr.best td:first-child { font-weight: 600 }
.bar { width: 22% } .bar svg { display: block; width: 100%; height: 1.5em; min-width: 4rem }
.note { color: var(--soft); font-size: .86rem; margin: .75rem 0 0 } .scroll { overflow-x: auto }
.chart svg { display: block; width: 100%; height: auto } .chart svg text { font-family: inherit }
.narrow { display: none } .legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .25rem 0 0; padding: 0; list-style: none;
  font-size: .88rem }
.legend i { display: inline-block; width: 1.3rem; height: .25rem; border-radius: 2px; vertical-align: middle; margin-right: .5rem }
.error { color: #b00020 } summary { cursor: pointer; color: var(--accent) }
@media (max-width: 40rem) {
  main { padding: 1.25rem .75rem 3rem } h1 { font-size: 1.5rem } .verdict { font-size: 1.08rem }
  section.card { padding: .9rem .75rem; border-radius: 8px } .minor { display: none } th, td { padding: .4rem .3rem }
  td:first-child, th:first-child { min-width: 6rem }
  .wide { display: none } .narrow { display: block } dl { grid-template-columns: 1fr; gap: 0 } dd { margin: 0 0 .4rem }
}
@media print { body { background: #fff } section.card { break-inside: avoid } }
";

/// The page of a report. `best` is its best run, and the player of its agent ([`crate::player::fragment`]).
pub fn page(report: &Report, best: Option<(&str, &str)>) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title><style>{STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n",
        title = escaped(&report.title)
    );
    let verdicts: String =
        report.environments.iter().map(|part| format!("<p>{}</p>", escaped(&part.verdict))).collect();
    let _ = writeln!(html, "<div class=\"verdict\">{verdicts}</div>");
    facts(&mut html, report);
    if let Some((run, player)) = best {
        let run = escaped(run);
        let _ =
            writeln!(html, "<section class=\"card\"><h3>The best run plays: {run}</h3>\n{player}</section>");
    }
    if let Some(league) = &report.league {
        league::section(&mut html, league);
    }
    for part in &report.environments {
        environment(&mut html, part);
    }
    html + "</main></body></html>\n"
}

/// When, how and where.
fn facts(html: &mut String, report: &Report) {
    let date = report.date.get(..19).unwrap_or_default().replace('T', " ");
    let command = report.command.as_deref().map(|command| format!("<code>{}</code>", escaped(command)));
    let rows = [
        ("Date", if date.is_empty() { String::new() } else { format!("{date} UTC") }),
        ("Command", command.unwrap_or_default()),
        ("Runs", escaped(&report.extent())),
        ("Machine", escaped(&report.machine)),
        ("Version", format!("operant {}", escaped(&report.version))),
    ];
    html.push_str("<section class=\"card\"><dl>");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(html, "<dt>{name}</dt><dd>{value}</dd>");
    }
    html.push_str("</dl></section>\n");
}

fn environment(html: &mut String, part: &EnvReport) {
    let _ = writeln!(html, "<h2>{}</h2>", escaped(&part.env));
    table(html, part);
    for plot in [Plot::Steps, Plot::Seconds, Plot::Pareto] {
        figure(html, plot, part);
    }
    if !part.importance.is_empty() {
        html.push_str("<section class=\"card\"><h3>Importance of settings</h3>\n<table>\n");
        for (key, share) in &part.importance {
            let width = if share.is_finite() { share * 100.0 } else { 0.0 };
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td class=\"bar\"><svg viewBox=\"0 0 100 20\" preserveAspectRatio=\"none\"><rect y=\"5\" \
                 width=\"{width:.1}\" height=\"10\" fill=\"#0072b2\"/></svg></td><td>{}</td></tr>",
                escaped(key),
                percent(*share)
            );
        }
        html.push_str(
            "</table><p class=\"note\">The share of the variance of the runs' objectives that a setting explains by itself.</p></section>\n",
        );
    }
    if part.improvement.iter().flatten().any(Option::is_some) {
        improvement(html, part);
    }
    let common = part.common.iter().map(|(key, value)| format!("{key} = {value}\n"));
    let common = escaped(&common.collect::<String>());
    let _ = writeln!(
        html,
        "<section class=\"card\"><details><summary>Settings that all runs share</summary><pre>{common}</pre></details></section>"
    );
    failures(html, part);
}

fn figure(html: &mut String, plot: Plot, part: &EnvReport) {
    let Some([wide, narrow]) = plot.figure(part) else { return };
    let title = plot.title();
    let _ = write!(
        html,
        "<section class=\"card\"><h3>{title}</h3><div class=\"chart\"><div class=\"wide\">{wide}</div><div class=\"narrow\">{narrow}</div></div>"
    );
    let names = plot.legend(part);
    if !names.is_empty() {
        html.push_str("<ul class=\"legend\">");
        for ((r, g, b), name) in names {
            let _ = write!(html, "<li><i style=\"background:rgb({r},{g},{b})\"></i>{}</li>", escaped(&name));
        }
        html.push_str("</ul>");
    }
    html.push_str("</section>\n");
}

fn failures(html: &mut String, part: &EnvReport) {
    let failed: Vec<(&SeedGroup, &str, u64)> = part
        .groups
        .iter()
        .flat_map(|group| {
            group.runs.iter().filter_map(move |run| Some((group, run.error.as_deref()?, run.seed)))
        })
        .collect();
    if failed.is_empty() {
        return;
    }
    html.push_str("<section class=\"card\"><h3>Failed runs</h3>\n<ul>\n");
    for (group, error, seed) in failed {
        let _ = writeln!(
            html,
            "<li class=\"error\">{}, seed {seed}: {}</li>",
            escaped(&group.name),
            escaped(error)
        );
    }
    html.push_str("</ul></section>\n");
}

/// Headers of the table, and whether phones show them.
const COLUMNS: [(&str, bool); 8] = [
    ("score", true),
    ("95% interval", false),
    ("seeds", false),
    ("failed", false),
    ("solved", false),
    ("solved at step", false),
    ("solved at", false),
    ("train time", true),
];

fn table(html: &mut String, part: &EnvReport) {
    html.push_str("<section class=\"card\"><h3>Configurations</h3><table>\n<tr><th>configuration</th>");
    if let Some((metric, _)) = &part.metric {
        let _ = write!(html, "<th>{}</th>", escaped(metric).replace('_', "_<wbr>"));
    }
    // Phones have room for one of them.
    let bar_class = if part.metric.is_some() { "bar minor" } else { "bar" };
    let _ = write!(html, "<th class=\"{bar_class}\"></th>");
    let class = |shown: bool| if shown { "" } else { " class=\"minor\"" };
    for (column, shown) in COLUMNS {
        let _ = write!(html, "<th{}>{column}</th>", class(shown));
    }
    html.push_str("</tr>\n");
    let scores: Vec<Estimate> = part.groups.iter().filter_map(|group| group.score).collect();
    let low = scores.iter().map(|score| score.low).fold(f64::INFINITY, f64::min);
    let high = scores.iter().map(|score| score.high).fold(f64::NEG_INFINITY, f64::max);
    for (place, group) in part.groups.iter().enumerate() {
        let (score, interval) = match group.score {
            Some(Estimate { value, low, high }) if group.scores().len() > 1 => {
                (number(value), format!("{} to {}", number(low), number(high)))
            }
            Some(score) => (number(score.value), String::new()),
            None => (String::new(), String::new()),
        };
        let cells = [
            score,
            interval,
            group.runs.len().to_string(),
            group.failed().to_string(),
            group.solved.to_string(),
            group.solved_at_step.map_or_else(String::new, operant_run::progress::short),
            group.solved_at_s.map_or_else(String::new, seconds),
            if group.train_s.is_finite() { seconds(group.train_s) } else { String::new() },
        ];
        let cells: String = cells
            .iter()
            .zip(COLUMNS)
            .map(|(cell, (_, shown))| format!("<td{}>{cell}</td>", class(shown)))
            .collect();
        let mark = if group.pareto && part.groups.len() > 1 { " *" } else { "" };
        let row = if place == 0 { " class=\"best\"" } else { "" };
        let bar = group.score.map_or_else(String::new, |score| bar(score, low, high));
        let metric = part.metric_of(group).map_or_else(String::new, |value| format!("<td>{value}</td>"));
        let _ = writeln!(
            html,
            "<tr{row}><td>{}{mark}</td>{metric}<td class=\"{bar_class}\">{bar}</td>{cells}</tr>",
            breakable(&group.name)
        );
    }
    html.push_str(
        "</table>\n<p class=\"note\">Score: interquartile mean of the runs' last greedy evaluations (the plain mean of up to \
         three), with a 95% percentile bootstrap interval over seeds (20,000 resamples). Times and steps are medians. * Pareto front: no \
         other configuration is at least as good in both score and training time.</p></section>\n",
    );
}

/// A score with its interval, between the lowest and the highest end of all intervals.
fn bar(score: Estimate, low: f64, high: f64) -> String {
    let width = if high > low { high - low } else { 1.0 };
    let at = |x: f64| 2.0 + 96.0 * (x - low) / width;
    format!(
        "<svg viewBox=\"0 0 100 20\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\"><line x1=\"0\" x2=\"100\" y1=\"10\" \
         y2=\"10\" stroke=\"#e3e6ea\" vector-effect=\"non-scaling-stroke\"/><line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"10\" y2=\"10\" \
         stroke=\"#0072b2\" stroke-width=\"4\" vector-effect=\"non-scaling-stroke\"/><line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"3\" y2=\"17\" \
         stroke=\"#0072b2\" stroke-width=\"3\" vector-effect=\"non-scaling-stroke\"/></svg>",
        number(score.value),
        at(score.low),
        at(score.high),
        at(score.value),
        at(score.value)
    )
}

fn improvement(html: &mut String, part: &EnvReport) {
    let _ = writeln!(
        html,
        "<section class=\"card\"><h3>Probability of improvement</h3>\n<div class=\"scroll\"><table>"
    );
    let labels: Vec<String> =
        part.groups.iter().take(part.improvement.len()).map(|group| breakable(&group.name)).collect();
    let head: String = (2..=labels.len()).map(|place| format!("<th>{place}</th>")).collect();
    let _ = writeln!(html, "<tr><th></th>{head}</tr>");
    for (place, (row, label)) in part.improvement.iter().zip(&labels).take(labels.len() - 1).enumerate() {
        let cell = |cell: &Option<Estimate>| {
            cell.map_or_else(String::new, |e| {
                let interval = format!("{:.2} to {:.2}", e.low, e.high);
                format!("{:.2}<br><span class=\"note\">{interval}</span>", e.value)
            })
        };
        let cells: String = row[1..].iter().map(|of| format!("<td>{}</td>", cell(of))).collect();
        let _ = writeln!(html, "<tr><td>{}. {label}</td>{cells}</tr>", place + 1);
    }
    let _ = writeln!(
        html,
        "</table></div><p class=\"note\">Probability that a run of the row's configuration scores higher than a run of the column's, with \
         its 95% interval. Columns are numbered by rank; at most the best {CURVES} are shown.</p></section>"
    );
}

/// A time in the unit that leaves few digits.
fn seconds(s: f64) -> String {
    match s {
        ..100.0 => format!("{s:.2} s"),
        ..6000.0 => format!("{:.1} min", s / 60.0),
        _ => format!("{:.1} h", s / 3600.0),
    }
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.0}%", share * 100.0) } else { "too few runs".to_owned() }
}

/// A score with digits that matter.
pub fn number(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => String::new(),
        1000.0.. => format!("{x:.0}"),
        10.0.. => format!("{x:.1}"),
        _ => format!("{x:.3}"),
    }
}

/// A label that wraps between settings, and within one only where there is no room for it.
fn breakable(label: &str) -> String {
    let each = label.split(' ').map(|part| format!("<span>{}</span>", escaped(part).replace('=', "=<wbr>")));
    each.collect::<Vec<_>>().join(" ")
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
