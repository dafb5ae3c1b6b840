//! `operant rm`: removes ended runs.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use operant_env::Registry;
use operant_metrics::printable;
use operant_run::Error;
use operant_run::runs::{self, Removal};

use super::run_args;
use crate::output;
use crate::table::size;

/// Remove ended runs: their directories, and rings that they left
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Names or directories of runs
    #[arg(value_name = "RUN", required = true)]
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
their targets are not.

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
            "run {}: removed {dir}{rings}, {} freed\n",
            removal.run,
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
        let about = runs::find(dir, &dir.to_string_lossy()).ok();
        let about = about.map_or_else(String::new, |run| format!("{}, {}, ", run.env, run.health.name()));
        text.push_str(&format!("  {run}  {about}{}, {}\n", size(*bytes), run_args::near(dir)));
    }
    let question = if removals.len() == 1 { "Remove this run?" } else { "Remove these runs?" };
    let mut stderr = std::io::stderr();
    write!(stderr, "{}{question} [y/N] ", printable(&text)).and_then(|()| stderr.flush())?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
