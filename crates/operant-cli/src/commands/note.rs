//! `operant note`: what a user writes about a run.

use operant_env::Registry;
use operant_metrics::plain;
use operant_run::notes::Notes;
use operant_run::runs;

use super::run_args;
use crate::output;

/// Write a note about a run, or print it
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Name or directory of a run
    #[arg(value_name = "RUN")]
    run: String,
    /// The new note, which replaces the old one; "" removes it. Without TEXT the note is printed
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  operant note mine \"a wider network, same seed\"
  operant note mine                         print it
  operant train cartpole --note \"first try\" --tag baseline

The note and the tags (`operant tag`) are in notes.json in the run's directory.
They change neither its configuration nor its results; `operant show` prints
them, and `operant runs --json`.";

/// Writes or prints the note.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    let run = runs::find(&parent, &args.run)?;
    let name = plain(&run.run);
    let text = match &args.text {
        None => match Notes::read(&run.dir)?.note {
            note if note.is_empty() => format!("run {name} has no note\n"),
            note => format!("{note}\n"),
        },
        Some(note) => {
            let notes = Notes::change(&run.dir, |notes| notes.set_note(note))?;
            let done = if notes.note.is_empty() { "its note is removed" } else { "its note is written" };
            format!("run {name}: {done}\n")
        }
    };
    output::print(&text)?;
    Ok(0)
}
