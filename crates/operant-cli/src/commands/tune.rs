//! `operant tune`: searches for better settings on this machine, and writes them to an operant.toml.

mod show;

use std::path::{Path, PathBuf};
use std::time::Duration;

use operant_bench::tune::file::ConfigFile;
use operant_bench::tune::search::search;
use operant_bench::tune::space::{Space, is_same};
use operant_bench::tune::{Goal, Report};
use operant_env::Registry;
use operant_run::config::EnvFacts;
use operant_run::{CommandLine, device, dir};

use super::overrides::Overrides;
use super::run_args::seconds;
use crate::bar::Bar;
use crate::output;

/// The file that every run in the working directory reads.
const DEFAULT_OUTPUT: &str = "operant.toml";

/// Find the best settings for an environment on this machine, and write them to operant.toml
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Environment: a name such as cartpole or CartPole-v1, a file NAME.world, a class in Python, module:Class, or a
    /// Gymnasium id, gym:ID
    env: String,
    /// What to optimize for
    #[arg(long = "for", value_name = "GOAL", value_enum, default_value = "sps")]
    goal: Goal,
    /// Approximate total time in seconds
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    budget: Duration,
    /// The file to write, in its table of this environment
    #[arg(long, value_name = "FILE", default_value = DEFAULT_OUTPUT)]
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
  operant tune cartpole              two minutes, for steps per second
  operant tune cartpole --for solve  the shortest time until it is solved
  operant tune pendulum --envs 32    keep the number of environments

Tries settings in turn, each against the best so far, in several rounds:
  the machine   threads, rollout_tile, waiting; on a GPU kernels.
                On a CPU no result depends on them.
  learning      num_envs and num_minibatches; on a GPU precision and overlap.
                They change what is learned: one is taken only if training still
                reaches the preset's threshold under three seeds, within the
                preset's steps.
Finally the best and the automatic settings alternate once more, and the gain
is printed with its spread. A gain that is not present in every round (for
`solve`: not outside the middle half of times) does not count, and its settings
are not used.

Keys set by a flag, --set or a variable are not varied. The results are written
to the environment's table of the file, each key marked, and replace those of
an earlier tune; the rest of the file is unchanged. Settings of learning are
written with the device that they were found on.";

/// Searches, prints and writes.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let env = device::find(registry, &args.env)?;
    let facts = EnvFacts::of(&env.spec(), registry);
    let line: CommandLine = args.overrides.command_line();
    let mut names = vec![facts.name.as_str()];
    let aliases = facts.known.iter().filter(|(alias, name)| **name == facts.name && **alias != facts.name);
    names.extend(aliases.map(|(alias, _)| alias.as_str()));
    let mut file = ConfigFile::read(&args.output, &names)?;
    if !args.dry_run {
        file.check_writable()?;
    }
    let space = Space::new(&env, facts.clone(), line, &file)?;
    let mut bar = Bar::new();
    let found = search(&space, args.goal, args.budget, &mut bar);
    bar.finish();
    let report = found?;
    // The result is printed even if the file cannot be written.
    if !args.json {
        output::print_painted(&show::text(&report))?;
    }
    let written = if args.dry_run { Ok(None) } else { write(&mut file, &space, &report).map(Some) };
    let path = written.as_ref().ok().and_then(Option::as_ref).map(|_| file.path().display().to_string());
    if args.json {
        output::print(&(report.to_json(path.as_deref()).to_string() + "\n"))?;
    } else if let Some(path) = &path {
        output::print(&format!("written to {path}, table [{}]\n", file.table()))?;
    } else if args.dry_run {
        output::print("nothing was written\n")?;
    }
    for overruled in written?.into_iter().flatten() {
        output::warn(&overruled);
    }
    Ok(0)
}

/// Writes the result, and returns a warning for each setting that another source overrides.
fn write(file: &mut ConfigFile, space: &Space, report: &Report) -> operant_run::Result<Vec<String>> {
    let about = format!("{}, {}, {}: {}", report.env, dir::today(), report.machine, show::outcome(report));
    file.write(&space.to_write(&report.choice), &about)?;
    // Only the default file is read by every run, so only its settings can be overridden.
    let is_read = is_same(file.path(), Path::new(DEFAULT_OUTPUT)) && !report.choice.is_empty();
    if is_read { space.overridden(&report.choice) } else { Ok(Vec::new()) }
}
