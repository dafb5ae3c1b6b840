//! `operant report`: summarizes a sweep, or a set of runs.

use std::path::{Path, PathBuf};

use operant_env::Registry;
use operant_metrics::plain;
use operant_run::dir::is_sweep;
use operant_run::league::League;
use operant_run::progress::short;
use operant_run::{Error, ErrorKind, SavedPolicy, dir, path_text};
use operant_sweep::player::{self, Theme};
use operant_sweep::plot::Plot;
use operant_sweep::report::{EnvReport, SeedGroup, counted};
use operant_sweep::{Report, html};

use super::{league, run_args, sweep};
use crate::output;
use crate::table::{self, Column, Row};

/// Summarize a sweep, or a set of runs, with intervals over seeds
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// One sweep, or one or more runs
    #[arg(value_name = "SWEEP|RUN", required = true)]
    runs: Vec<String>,
    /// Write a self-contained HTML page with tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// In the page, leave out the player of the best run's agent, 0.9 MB or more
    #[arg(long, requires = "html")]
    no_player: bool,
    /// Write the plots as SVG and PNG into this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// For runs of a game: their ratings, a file that `operant league --json` printed
    #[arg(long, value_name = "FILE")]
    league: Option<PathBuf>,
    /// Show at most N configurations
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    /// Directory that holds sweeps and runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  operant report rates --html rates.html
  operant report rates --json | jq '.environments[0].groups[0].settings'
  operant report run-a run-b run-c --plots plots
  operant report a b --league ratings.json --html page.html

Runs that differ only in their seed form one configuration. Its score is the
interquartile mean of the runs' last greedy evaluations: the mean of the middle
half, or the plain mean of up to three. The interval is a 95% percentile
bootstrap over seeds (20,000 resamples), the method of Agarwal et al. (2021),
rliable. Intervals of fewer than 5 seeds are unreliable.

  *           Pareto front: no other configuration is at least as good in both
              score and training time
  solved      runs that reached solved_at
  solved at   median of their steps until then
  train time  median of the seconds of training";

/// Prints or writes the report, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    let league = args.league.as_deref().map(league_of).transpose()?;
    let report = Report { league, ..of(&sweep::named(&parent, &args.runs)?)? };
    if let Some(path) = &args.html {
        let best = if args.no_player { None } else { best(&report, registry) };
        let best = best.as_ref().map(|(run, player)| (run.as_str(), player.as_str()));
        write(path, html::page(&report, best).as_bytes())?;
        output::note(&format!("written: {}", path.display()));
    }
    if let Some(dir) = &args.plots {
        std::fs::create_dir_all(dir)
            .map_err(|error| Error::disk("the directory of the plots cannot be made", dir, &error))?;
        for part in &report.environments {
            for plot in Plot::ALL {
                let name = path_text::file_name(&part.env);
                let file = |ending: &str| dir.join(format!("{name}-{}.{ending}", plot.name()));
                if let (Some(svg), Some(png)) = (plot.svg(part), plot.png(part)) {
                    write(&file("svg"), svg.as_bytes())?;
                    write(&file("png"), &png)?;
                }
            }
        }
        output::note(&format!("written: {}", dir.display()));
    }
    if args.json {
        output::print(&(report.to_json() + "\n"))?;
    } else if args.html.is_none() && args.plots.is_none() {
        output::print_painted(&text(&report, args.top))?;
    }
    Ok(0)
}

/// A larger player would make the page hard to send.
const LARGEST_PLAYER: usize = 6 << 20;

/// The best run of the best configuration of the first environment, and the player of its agent; None, with a note, where a page cannot play it.
fn best(report: &Report, registry: &Registry) -> Option<(String, String)> {
    let group = report.environments.iter().find_map(|part| part.groups.first())?;
    let scored = group.runs.iter().filter_map(|run| Some((run, run.score?)));
    let (run, _) = scored.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let path = run.dir.display().to_string();
    let saved = SavedPolicy::load(registry, Path::new("."), &path);
    let player = saved.and_then(|saved| Ok((player::fragment(&saved, Theme::Light)?, saved.run)));
    match player {
        Ok((player, name)) if player.len() <= LARGEST_PLAYER => Some((name, player)),
        Ok((player, name)) => {
            output::note(&format!(
                "the page has no player of {name}, which would take {} MB; `operant export {path} --html FILE` writes one",
                player.len() >> 20
            ));
            None
        }
        Err(error) => {
            output::note(&format!("the page has no player: {}", error.what));
            None
        }
    }
}

/// The report of one sweep, or of runs.
pub fn of(paths: &[PathBuf]) -> operant_run::Result<Report> {
    match paths {
        [sweep] if is_sweep(sweep) => Report::of_sweep(sweep),
        several if several.iter().any(|path| is_sweep(path)) => {
            Err(Error::usage("report takes one sweep, or any number of runs, not both")
                .remedy("compare two with `operant compare A B`"))
        }
        runs => Report::of_runs(runs),
    }
}

/// The league in a file.
fn league_of(path: &Path) -> operant_run::Result<League> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::disk("the league cannot be read", path, &error))?;
    League::from_json(&text).map_err(|problem| {
        Error::usage(format!("this is not a league: {problem}"))
            .at(path.display().to_string())
            .remedy("write it with `operant league RUN random --json > FILE`")
    })
}

fn write(path: &Path, bytes: &[u8]) -> operant_run::Result<()> {
    dir::write_output(path, bytes).map_err(|error| {
        Error::new(ErrorKind::Disk, format!("the report cannot be written: {error}"))
            .at(path.display().to_string())
            .remedy("choose a path that can be written")
    })
}

/// The report for a terminal, with at most `top` configurations of each environment.
pub fn text(report: &Report, top: usize) -> String {
    let mut text = format!("{}: {}\n", plain(&report.title), plain(&report.summary()));
    if let Some(league) = &report.league {
        text.push_str(&format!("\n{}", league::text(league)));
    }
    for part in &report.environments {
        if part.groups.is_empty() {
            continue;
        }
        let width = table::width().unwrap_or(table::DEFAULT_WIDTH);
        text.push_str(&format!(
            "\n{}\n{}\n\n",
            plain(&part.env),
            table::wrapped(&plain(&part.verdict), width).join("\n")
        ));
        text.push_str(&configurations(part, top));
        if part.groups.len() > top {
            text.push_str(&format!("and {} more\n", counted(part.groups.len() - top, "configuration")));
        }
        if !part.importance.is_empty() {
            let shares =
                part.importance.iter().map(|(key, share)| format!("{key} {}", html::percent(*share)));
            text.push_str(&format!(
                "variance explained: {}\n",
                plain(&shares.collect::<Vec<_>>().join(", "))
            ));
        }
        let errors = part.groups.iter().flat_map(|group| &group.runs).filter_map(|run| run.error.as_deref());
        if let Some(first) = errors.clone().next() {
            text.push_str(&format!(
                "{} failed, the first because: {}\n",
                counted(errors.count(), "run"),
                plain(first)
            ));
        }
    }
    text
}

fn configurations(part: &EnvReport, top: usize) -> String {
    let mut columns = vec![
        Column::left("configuration", 0),
        Column::right("score", 0),
        Column::right("95% interval", 2),
        Column::right("seeds", 4),
        Column::right("failed", 1),
        Column::right("solved", 3),
        Column::right("solved at", 5),
        Column::right("train time", 6),
        Column::right("steps", 7),
    ];
    if let Some((metric, _)) = &part.metric {
        columns.insert(1, Column::right(metric, 0));
    }
    let row = |group: &SeedGroup| {
        let (score, interval) = match group.score {
            Some(score) if group.scores().len() > 1 => {
                let [value, low, high] = [score.value, score.low, score.high].map(html::number);
                (value, format!("{low} to {high}"))
            }
            Some(score) => (html::number(score.value), "-".to_owned()),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let mark = if group.pareto && part.groups.len() > 1 { " *" } else { "" };
        let seconds =
            if group.train_s.is_finite() { format!("{:.2} s", group.train_s) } else { "-".to_owned() };
        let start = std::iter::once(format!("{}{mark}", group.name)).chain(part.metric_of(group));
        Row {
            cells: start
                .chain([
                    score,
                    interval,
                    group.runs.len().to_string(),
                    group.failed().to_string(),
                    format!("{}/{}", group.solved, group.runs.len()),
                    group.solved_at_step.map_or_else(|| "-".to_owned(), short),
                    seconds,
                    if group.env_steps.is_finite() { short(group.env_steps) } else { "-".to_owned() },
                ])
                .collect(),
            ..Row::default()
        }
    };
    table::text(&columns, "", &part.groups.iter().take(top).map(row).collect::<Vec<_>>())
}
