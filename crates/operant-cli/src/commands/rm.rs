//! `operant rm`: removes ended runs and sweeps.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use operant_env::Registry;
use operant_metrics::printable;
use operant_run::Error;
use operant_run::runs::{Kind, Removal};
use operant_sweep::report::counted;
use operant_sweep::sweep::TRIALS;

use super::run_args;
use crate::output;
use crate::table::size;

/// Remove ended runs and sweeps: their directories, and rings that they left
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Names or directories of runs or sweeps
    #[arg(value_name = "RUN|SWEEP", required = true)]
    runs: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  operant rm mine
  operant rm mine other --yes

On a terminal it asks for confirmation; elsewhere --yes is required. A removal
cannot be undone. If one of the runs is being trained, nothing is removed;
`operant stop RUN` ends it. Symbolic links in a run's directory are removed,
their targets are not. Removing a sweep removes all its runs.

Exit codes:
  0  the runs are removed, or you said no
  1  something cannot be removed
  2  there is no such run, or it is being trained";

/// Asks, removes the runs, prints what that frees, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    // All are looked up before any is removed.
    let mut removals: Vec<Removal> = Vec::new();
    for name in &args.runs {
        let run = run_args::find_job(&parent, name)?;
        if run.health.is_alive() {
            let what = format!("{} is being trained already: {}", run.title(), run.health.name());
            let stop = format!("`operant stop {}` ends it", run_args::word(registry, &run.dir));
            return Err(Error::usage(what).at(run.dir.display().to_string()).remedy(stop).into());
        }
        let removal = Removal::of(&parent, name)?;
        if !removals.iter().any(|other| other.dir == removal.dir) {
            removals.push(removal);
        }
    }
    if !args.yes && !asked(&removals)? {
        output::note("nothing is removed");
        return Ok(0);
    }
    for removal in &removals {
        removal.carry_out()?;
        let rings = match removal.rings.len() {
            0 => String::new(),
            1 => ", and its ring".to_owned(),
            count => format!(", and its {count} rings"),
        };
        let dir = run_args::near(&removal.dir);
        output::print(&format!(
            "{}: removed {dir}{rings}, {} freed\n",
            removal.run.title(),
            size(removal.bytes)
        ))?;
    }
    Ok(0)
}

/// Asks on the terminal.
fn asked(removals: &[Removal]) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Error::usage("removal needs a confirmation, and standard input is not a terminal")
            .remedy("add --yes to remove without confirmation")
            .into());
    }
    let mut text = String::new();
    for Removal { run, dir, bytes, .. } in removals {
        let about = match run.kind {
            Kind::Run => format!("{}, {}", run.env, run.health.name()),
            Kind::Sweep => format!("sweep, {}, {}", run.env, runs_of(dir)),
        };
        text.push_str(&format!("  {}  {about}, {}, {}\n", run.run, size(*bytes), run_args::near(dir)));
    }
    let kinds: Vec<Kind> = removals.iter().map(|removal| removal.run.kind).collect();
    let question = match kinds[..] {
        [kind] => format!("Remove this {}?", kind.name()),
        _ if !kinds.contains(&Kind::Sweep) => "Remove these runs?".to_owned(),
        _ if !kinds.contains(&Kind::Run) => "Remove these sweeps?".to_owned(),
        _ => "Remove these runs and sweeps?".to_owned(),
    };
    let mut stderr = std::io::stderr();
    write!(stderr, "{}{question} [y/N] ", printable(&text)).and_then(|()| stderr.flush())?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// How many runs a sweep has.
fn runs_of(sweep: &Path) -> String {
    counted(std::fs::read_dir(sweep.join(TRIALS)).map_or(0, Iterator::count), "run")
}
