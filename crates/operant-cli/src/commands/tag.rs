//! `operant tag`: tags of a run.

use operant_env::Registry;
use operant_metrics::plain;
use operant_run::error::did_you_mean;
use operant_run::notes::Notes;
use operant_run::{Error, runs};

use super::run_args;
use crate::output;

/// Add tags to a run, remove them, or print them
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Name or directory of a run
    #[arg(value_name = "RUN")]
    run: String,
    /// Tags to add; without any the run's tags are printed
    #[arg(value_name = "TAG")]
    tags: Vec<String>,
    /// Remove these tags
    #[arg(long, requires = "tags")]
    remove: bool,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  operant tag mine baseline paper
  operant tag mine paper --remove
  operant runs --tag baseline               the runs with this tag
  operant train cartpole --tag baseline";

/// Changes or prints the tags.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    let run = runs::find(&parent, &args.run)?;
    let change = |notes: &mut Notes| {
        args.tags.iter().try_for_each(|tag| match args.remove {
            false => notes.add(tag),
            true => remove(notes, &run.run, tag),
        })
    };
    let notes = if args.tags.is_empty() { Notes::read(&run.dir)? } else { Notes::change(&run.dir, change)? };
    let tags = if notes.tags.is_empty() { "no tags".to_owned() } else { notes.tags.join(", ") };
    output::print(&format!("run {}: {tags}\n", plain(&run.run)))?;
    Ok(0)
}

fn remove(notes: &mut Notes, run: &str, tag: &str) -> operant_run::Result<()> {
    let before = notes.tags.len();
    notes.tags.retain(|known| known != tag);
    if notes.tags.len() < before {
        return Ok(());
    }
    let hint = did_you_mean(tag, notes.tags.iter().map(String::as_str));
    let remedy = match notes.tags.len() {
        0 => "it has no tags".to_owned(),
        _ => format!("its tags are {}", notes.tags.join(", ")),
    };
    Err(Error::usage(format!("run {} has no tag \"{tag}\"{hint}", plain(run))).remedy(remedy))
}
