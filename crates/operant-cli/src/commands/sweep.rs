//! `operant sweep`: trains many runs on this machine, over seeds and settings.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use operant_env::Registry;
use operant_run::progress::short;
use operant_run::{CommandLine, Error, Signals, config};
use operant_sweep::{Ended, Given, Report, Spec, Status, Sweep, Watch, sweep};

use super::overrides::Overrides;
use super::report::text;
use crate::output;

/// Train many runs: over seeds, and over settings that vary
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Environment, as in `operant train ENV`, or a specification SPEC.toml
    #[arg(value_name = "ENV|SPEC.toml", required_unless_present = "resume")]
    target: Option<String>,
    /// Continue the sweep of this name or path
    #[arg(long, value_name = "SWEEP", conflicts_with_all = ["target", "seeds", "search", "trials"])]
    resume: Option<String>,
    /// Seeds of each trial: a number (10 is 1 to 10), a range 1..10, or a list 1,5,9 [default: 1]
    #[arg(long, value_name = "SEEDS")]
    seeds: Option<String>,
    /// Method of search [default: grid, or random if a setting has a range]
    #[arg(long, value_name = "METHOD", value_parser = ["grid", "random", "bayes", "pbt"])]
    search: Option<String>,
    /// Number of trials of random and bayes; population of pbt
    #[arg(long, value_name = "N")]
    trials: Option<usize>,
    /// Runs side by side [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print the report as one JSON object on stdout
    #[arg(long)]
    json: bool,
    /// No progress on stderr; warnings are still printed
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    overrides: Overrides,
}

const AFTER_HELP: &str = "\
Examples:
  operant sweep cartpole --seeds 10
  operant sweep cartpole --seeds 10 --set learning_rate=1e-4,1e-3,1e-2
  operant sweep acrobot --set 'hidden=64,64;128,128' --set gamma=0.99,0.999
  operant sweep rates.toml --name rates
  operant sweep --resume rates
  operant report rates

A value with commas varies: every combination is a trial, and each trial is
trained with every seed. Values of lists, such as hidden, are separated by
semicolons. The specification has the same and more:

  env = [\"cartpole\", \"acrobot\"]
  seeds = \"1..10\"
  [set]                            # the same for all runs
  total_timesteps = 200_000
  [vary]
  learning_rate = { log_uniform = [1e-4, 1e-2] }
  num_steps = [32, 64, 128]
  [search]
  method = \"random\"                # grid, random, bayes or pbt
  trials = 40
  halving = { first_steps = 25_000, factor = 3 }

Small runs train side by side with one thread each. A seed gives the same bits
as `operant train` with it. Sweeps train on the CPU.

A sweep leaves in runs/NAME: sweep.db (an SQLite table of trials, results and
curves) and trials/, a directory for each run, as `operant train` makes it.
Killed at any moment, it continues with --resume. SIGINT or SIGTERM: running
updates finish, checkpoints are saved, exit 75.";

/// Carries out a sweep, prints its report, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let signals = Signals::listen()?;
    let line = args.overrides.command_line();
    // Assignments with several values are not those of a run.
    let of_dir = line.flags.iter().filter(|(key, ..)| *key == "run_dir").cloned().collect();
    let of_dir = CommandLine { flags: of_dir, config: line.config.clone(), ..CommandLine::default() };
    let parent = config::run_dir(registry.known(), &of_dir)?;
    let mut sweep = match (&args.resume, &args.target) {
        (Some(name), _) => {
            if !line.set.is_empty() || line.flags.iter().any(|(key, ..)| *key != "run_dir") {
                return Err(Error::usage("a sweep continues with the settings that it began with")
                    .at("--resume")
                    .remedy("leave the settings out, or start a new sweep")
                    .into());
            }
            Sweep::resume(registry, &sweep::find(&parent, name)?, args.jobs)?
        }
        (None, target) => {
            let target = target.as_deref().unwrap_or_default();
            let mut given = Given {
                seeds: args.seeds.clone(),
                method: args.search.clone(),
                trials: args.trials,
                config: line.config.clone(),
                ..Given::default()
            };
            let mut name = None;
            for (key, _, value) in &line.flags {
                match *key {
                    "run_dir" => {}
                    "name" => name = Some(value.clone()),
                    key => given.set.push(format!("{key}={value}")),
                }
            }
            given.set.extend(line.set.iter().cloned());
            let spec = match target.ends_with(".toml") {
                true => Spec::read(Path::new(target), &given)?,
                false => Spec::of_environment(target, &given)?,
            };
            Sweep::new(spec, registry, &parent, name.as_deref(), args.jobs)?
        }
    };
    signals.begin();
    let mut watch: Box<dyn Watch> = match (args.quiet, std::io::stderr().is_terminal()) {
        (true, _) => Box::new(Warnings),
        (false, true) => Box::new(Bar::new()),
        (false, false) => Box::new(Lines { last: None }),
    };
    if !args.quiet {
        output::note(&about(&sweep));
    }
    let ended = sweep.run(&signals, &mut *watch)?;
    drop(watch);
    let name = sweep.name().to_owned();
    if let Ended::Stopped(signal) = ended {
        output::note(&format!("{signal}: stopped; `operant sweep --resume {name}` continues"));
        return Ok(75);
    }
    let report = Report::of_sweep(sweep.dir())?;
    output::print(&if args.json { report.to_json() + "\n" } else { text(&report, 10) })?;
    if !args.json {
        output::print(&format!("\n`operant report {name}` shows more; --html FILE writes a page\n"))?;
    }
    Ok(0)
}

fn about(sweep: &Sweep) -> String {
    let spec = sweep.spec();
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (jobs, threads) = sweep.cores();
    format!(
        "sweep {} in {}: {}, {}, {}; {} side by side, {} each",
        sweep.name(),
        sweep.dir().display(),
        spec.environments.join(" and "),
        count(spec.search.trials, "trial"),
        count(spec.seeds.len(), "seed"),
        count(jobs, "run"),
        count(threads, "thread")
    )
}

/// The best trial so far, in a few words.
fn best(status: &Status) -> String {
    match &status.best {
        None => String::new(),
        Some((trial, objective, values)) if values.is_empty() => {
            format!("best {objective:.1}, trial {trial}")
        }
        Some((_, objective, values)) => format!("best {objective:.1}, {values}"),
    }
}

fn speed(status: &Status) -> String {
    let sps = status.env_steps as f64 / status.seconds;
    if status.env_steps > 0 { format!("{} steps/s", short(sps)) } else { String::new() }
}

/// Shows warnings only.
struct Warnings;

impl Watch for Warnings {
    fn status(&mut self, _: &Status) {}

    fn warn(&mut self, line: &str) {
        output::warn(line);
    }
}

/// A line every few seconds.
struct Lines {
    last: Option<Instant>,
}

impl Watch for Lines {
    fn status(&mut self, status: &Status) {
        if status.done > 0 && self.last.is_none_or(|last| last.elapsed() > Duration::from_secs(10)) {
            self.last = Some(Instant::now());
            let failed =
                if status.failed > 0 { format!("  failed {}", status.failed) } else { String::new() };
            output::note(&format!(
                "{}/{} runs{failed}  {}  {}",
                status.done,
                status.decided,
                speed(status),
                best(status)
            ));
        }
    }

    fn warn(&mut self, line: &str) {
        output::warn(line);
    }
}

/// A bar on a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len} runs  {elapsed}  {wide_msg}");
        bar.set_style(style.expect("the template is valid"));
        Self(bar)
    }
}

impl Watch for Bar {
    fn status(&mut self, status: &Status) {
        self.0.set_length(status.decided as u64);
        self.0.set_position(status.done as u64);
        self.0.set_message(format!("{}  {}", speed(status), best(status)));
    }

    fn warn(&mut self, line: &str) {
        self.0.suspend(|| output::warn(line));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Paths of sweeps and runs that a command was given.
pub fn named(parent: &Path, names: &[String]) -> operant_run::Result<Vec<PathBuf>> {
    let of = |name: &String| match sweep::locate(parent, name) {
        Some(path) => Ok(path),
        None => operant_run::dir::find(parent, name),
    };
    names.iter().map(of).collect()
}
