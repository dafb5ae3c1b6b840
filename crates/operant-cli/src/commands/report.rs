//! `operant report`: what a sweep, or a set of runs, says.

use std::path::{Path, PathBuf};

use operant_env::Registry;
use operant_run::progress::short;
use operant_run::{Error, ErrorKind};
use operant_sweep::plot::Plot;
use operant_sweep::report::{EnvReport, Group, is_sweep};
use operant_sweep::{Report, html};

use super::{place, sweep};
use crate::output;
use crate::table::{self, Column, Row};

/// Summarize a sweep, or a set of runs, with intervals over seeds
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A sweep, or runs that are compared with each other
    #[arg(value_name = "SWEEP|RUN", required = true)]
    runs: Vec<String>,
    /// Write one HTML page with tables and plots, which needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the plots as SVG and PNG into this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Show this number of settings
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

Runs that differ in their seeds only are one setting. Its score is the
interquartile mean of the runs' last greedy evaluations: the mean of the middle
half. The interval is a bootstrap over seeds (95%, 20,000 resamples), as in
Agarwal et al. (2021) and their package rliable.

  *         no other setting has a higher score in less time of training
  solved    runs that reached solved_at, and the median of their steps
  training  median of the seconds of training";

/// Prints or writes the report, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = place::run_dir(registry, args.run_dir.as_deref())?;
    let report = of(&sweep::named(&parent, &args.runs)?)?;
    if let Some(path) = &args.html {
        write(path, html::page(&report).as_bytes())?;
        output::note(&format!("written: {}", path.display()));
    }
    if let Some(dir) = &args.plots {
        std::fs::create_dir_all(dir)
            .map_err(|error| Error::disk("the directory of the plots cannot be made", dir, &error))?;
        for part in &report.environments {
            for plot in Plot::ALL {
                let path = dir.join(format!("{}-{}", part.env.replace(['/', ':'], "_"), plot.name()));
                if let (Some(svg), Some(png)) = (plot.svg(part), plot.png(part)) {
                    write(&path.with_extension("svg"), svg.as_bytes())?;
                    write(&path.with_extension("png"), &png)?;
                }
            }
        }
        output::note(&format!("written: {}", dir.display()));
    }
    if args.json {
        output::print(&(report.to_json() + "\n"))?;
    } else if args.html.is_none() && args.plots.is_none() {
        output::print(&text(&report, args.top))?;
    }
    Ok(0)
}

/// The report of one sweep, or of runs.
pub fn of(paths: &[PathBuf]) -> operant_run::Result<Report> {
    match paths {
        [sweep] if is_sweep(sweep) => Report::of_sweep(sweep),
        several if several.iter().any(|path| is_sweep(path)) => {
            Err(Error::usage("a report is of one sweep, or of runs")
                .remedy("compare two with `operant compare A B`"))
        }
        runs => Report::of_runs(runs),
    }
}

fn write(path: &Path, bytes: &[u8]) -> operant_run::Result<()> {
    std::fs::write(path, bytes).map_err(|error| {
        Error::new(ErrorKind::Disk, format!("the report cannot be written: {error}"))
            .at(path.display().to_string())
            .remedy("choose a path that can be written")
    })
}

/// The report for a terminal, with at most `top` settings of each environment.
pub fn text(report: &Report, top: usize) -> String {
    let mut text = format!("{}: {}\n", report.title, report.summary());
    for part in &report.environments {
        text.push_str(&format!("\n{}\n{}", part.env, settings(part, top)));
        if part.groups.len() > top {
            text.push_str(&format!("and {} more settings; --top N shows them\n", part.groups.len() - top));
        }
        if let Some(Some(better)) = part.improvement.first().and_then(|row| row.get(1)) {
            text.push_str(&format!(
                "the first beats the second with probability {:.2} ({:.2} to {:.2})\n",
                better.value, better.low, better.high
            ));
        }
        if !part.importance.is_empty() {
            let shares = part.importance.iter().map(|(key, share)| format!("{key} {:.0}%", share * 100.0));
            text.push_str(&format!("variance explained: {}\n", shares.collect::<Vec<_>>().join(", ")));
        }
    }
    text
}

fn settings(part: &EnvReport, top: usize) -> String {
    let columns = [
        Column::left("setting", 0),
        Column::right("score", 0),
        Column::right("95% interval", 1),
        Column::right("seeds", 4),
        Column::right("failed", 6),
        Column::right("solved", 2),
        Column::right("steps to solve", 3),
        Column::right("training", 5),
        Column::right("steps", 7),
    ];
    let row = |group: &Group| {
        let (score, interval) = group.score.map_or(("failed".to_owned(), String::new()), |score| {
            let [value, low, high] = [score.value, score.low, score.high].map(html::number);
            (value, format!("{low} to {high}"))
        });
        let failed = group.runs.iter().filter(|run| run.error.is_some()).count();
        let mark = if group.pareto && part.groups.len() > 1 { " *" } else { "" };
        let seconds =
            if group.train_s.is_finite() { format!("{:.2} s", group.train_s) } else { String::new() };
        Row {
            cells: vec![
                group.label() + mark,
                score,
                interval,
                group.runs.len().to_string(),
                failed.to_string(),
                format!("{}/{}", group.solved, group.runs.len()),
                group.solved_at_step.map_or_else(String::new, short),
                seconds,
                if group.env_steps.is_finite() { short(group.env_steps) } else { String::new() },
            ],
            note: String::new(),
        }
    };
    table::text(&columns, "", &part.groups.iter().take(top).map(row).collect::<Vec<_>>())
}
