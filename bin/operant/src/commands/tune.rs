//! `operant tune`: looks for better settings on this machine, and writes them to an operant.toml.

use std::path::PathBuf;
use std::time::Duration;

use operant_run::config::EnvFacts;
use operant_run::{CommandLine, dir};

use super::overrides::Overrides;
use super::place::seconds;
use crate::bar::Bar;
use crate::output;
use crate::tune::file::ConfigFile;
use crate::tune::search::search;
use crate::tune::space::Space;
use crate::tune::{Goal, show};

/// Find the best settings for an environment on this machine, and write them to operant.toml
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Environment, such as cartpole or CartPole-v1
    env: String,
    /// What the settings are to be best at
    #[arg(long = "for", value_name = "GOAL", value_enum, default_value = "sps")]
    goal: Goal,
    /// Seconds for all of it, about
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    budget: Duration,
    /// The file whose table of this environment is written
    #[arg(long, value_name = "FILE", default_value = "operant.toml")]
    output: PathBuf,
    /// Write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overrides: Overrides,
}

const AFTER_HELP: &str = "\
Examples:
  operant tune cartpole                      two minutes, then `operant train cartpole` is as fast as it gets
  operant tune cartpole --for solve          the least time until it is solved
  operant tune pendulum --budget 600 --envs 32   leave the environments, vary the rest

Tried in turn, each against the settings so far, round after round:
  the machine   threads, rollout_tile, lane_width, waiting; on a GPU kernels. No result depends on them on a CPU.
  learning      num_envs and num_minibatches. They change what is learned: one is taken only if training still
                reaches the preset's threshold under three seeds, within the preset's steps.
Last, the best and the automatic settings take turns until the time is up, and the gain is told with its spread.
One that is not in every round (for `solve`: not outside the middle half of times) is none, and nothing is changed.

What a flag or --set says is not tried. The environment's table of the file gets what was found, and loses
what was tuned before; the rest of the file stays as it is.";

/// Searches, prints and writes.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let facts = EnvFacts::registered(&args.env)?;
    let line: CommandLine = args.overrides.command_line();
    let mut file = if args.dry_run { None } else { Some(ConfigFile::open(&args.output)?) };
    let space = Space::new(&facts.name, line, &args.output)?;
    let mut bar = Bar::new();
    let found = search(&space, args.goal, args.budget, &mut bar);
    bar.finish();
    let report = found?;
    let mut names = vec![facts.name.as_str()];
    let aliases = facts.known.iter().filter(|(alias, name)| **name == facts.name && **alias != facts.name);
    names.extend(aliases.map(|(alias, _)| alias.as_str()));
    if let Some(file) = &mut file {
        let (choice, lost) = space.to_write(&report.choice, &args.output)?;
        let about =
            format!("{}, {}, {}: {}", facts.name, dir::today(), report.machine, show::outcome(&report));
        file.write(&names, &choice, &lost, &about)?;
    }
    let path = file.as_ref().map(|file| file.path().display().to_string());
    let text = if args.json {
        report.to_json(path.as_deref()).to_string() + "\n"
    } else {
        let written = path.map_or_else(
            || "nothing was written".to_owned(),
            |path| format!("written to {path}, table [{}]", facts.name),
        );
        format!("{}{written}\n", show::text(&report))
    };
    output::print(&text)?;
    Ok(0)
}
