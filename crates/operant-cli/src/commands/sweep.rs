//! `operant sweep`: trains many runs, over seeds and settings, on this machine or on a Ray cluster.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use operant_env::Registry;
use operant_run::progress::short;
use operant_run::{CommandLine, Error, Signals, Trust, config};
use operant_sweep::report::counted;
use operant_sweep::spec::Objective;
use operant_sweep::{Ended, Executor, Given, Local, Report, Spec, Status, Sweep, Watch, sweep};

use super::overrides::Overrides;
use super::ray;
use super::report::text;
use crate::output;

/// Train many runs: over seeds, and over settings that vary
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[command(mut_arg("seed", |arg| arg.hide(true)))]
#[command(mut_arg("device", |arg| arg.hide(true)))]
#[command(mut_arg("precision", |arg| arg.hide(true)))]
#[command(mut_arg("overlap", |arg| arg.hide(true)))]
#[command(mut_arg("ring", |arg| arg.hide(true)))]
#[command(mut_arg("name", |arg| arg.help("Name of the sweep [default: sweep-ENV-SEED-TIME, with the search's seed]")))]
pub struct Args {
    /// Environment, as in `operant train ENV`, or a specification SPEC.toml
    #[arg(value_name = "ENV|SPEC.toml", required_unless_present = "resume")]
    target: Option<String>,
    /// Continue the sweep of this name or path
    #[arg(long, value_name = "SWEEP", conflicts_with_all = ["target", "seeds", "search", "trials"])]
    resume: Option<String>,
    /// With --resume: start the sweep's environments although they are programs that this user has not started before
    #[arg(long, requires = "resume")]
    trust: bool,
    /// Seeds of each trial: a number (10 is 1 to 10), a range 1..10 with both ends included, or a list 1,5,9 [default: 1]
    #[arg(long, value_name = "SEEDS")]
    seeds: Option<String>,
    /// Method of search [default: grid, or random if a setting has a range]
    #[arg(long, value_name = "METHOD", value_parser = ["grid", "random", "bayes", "pbt"])]
    search: Option<String>,
    /// Number of trials of random and bayes; population of pbt
    #[arg(long, value_name = "N")]
    trials: Option<usize>,
    /// Environment steps between generations of pbt
    #[arg(long, value_name = "N")]
    interval: Option<u64>,
    /// Number of parallel runs [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: Option<u16>,
    /// Train on a Ray cluster: its address, `auto` for that of this machine, or `local` to start one here. Needs Python with
    /// operant-rl[ray]
    #[arg(long, value_name = "ADDRESS")]
    ray: Option<String>,
    /// With --ray: CPU cores, and threads, of each run [default: 1]
    #[arg(long, value_name = "N", requires = "ray", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus_per_run: Option<u16>,
    /// With --ray: GPUs of each run, such as 0.25 [default: 0, runs train on the CPU]
    #[arg(long, value_name = "N", requires = "ray")]
    gpus_per_run: Option<f64>,
    /// Print the report as one JSON object on stdout
    #[arg(long)]
    json: bool,
    /// No progress on stderr; warnings are still printed
    #[arg(long, short)]
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

A setting with several values varies: every combination of values is a trial,
and each trial is trained once per seed. Semicolons separate values that are
lists, such as hidden. A specification file has the same and more:

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

Runs train in parallel, with one thread each. A run is bit-identical to
`operant train` with the same seed and settings. Runs train on the CPU, with
--ray also on GPUs.

Output in runs/NAME: sweep.db (SQLite: trials, results and curves) and trials/
with the directory of each run. --resume continues a sweep that was stopped or
killed; by default runs save no periodic checkpoints, so a killed run starts
again.

Exit codes: 0 finished; 1 every run failed, or the sweep did; 2 bad usage;
75 stopped by SIGINT, SIGTERM or SIGHUP, with checkpoints saved";

/// Carries out a sweep, prints its report, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let line = args.overrides.command_line();
    // Assignments with several values are not those of a run.
    let of_dir = line.flags.iter().filter(|(key, ..)| *key == "run_dir").cloned().collect();
    let of_dir = CommandLine { flags: of_dir, config: line.config.clone(), ..CommandLine::default() };
    let parent = config::run_dir(registry.known(), &of_dir)?;
    let jobs = args.jobs.map(usize::from);
    let executor: Arc<dyn Executor> = match &args.ray {
        None => Arc::new(Local),
        Some(address) => {
            let resources = ray::Resources {
                address: address.clone(),
                cpus_per_run: args.cpus_per_run.map_or(1, usize::from),
                gpus_per_run: args.gpus_per_run.unwrap_or(0.0),
            };
            ray::connect(&resources)?
        }
    };
    // After Ray, which handles signals itself.
    let signals = Signals::listen(false)?;
    let mut sweep = match (&args.resume, &args.target) {
        (Some(name), _) => {
            let is_set = !line.set.is_empty() || line.config.is_some();
            if is_set || args.interval.is_some() || line.flags.iter().any(|(key, ..)| *key != "run_dir") {
                return Err(Error::usage("a sweep continues with the settings that it began with")
                    .at("--resume")
                    .remedy("leave the settings out, or start a new sweep")
                    .into());
            }
            let path = sweep::find(&parent, name)?;
            Sweep::resume(registry, &path, jobs, executor, Trust::of_flag(args.trust))?
        }
        (None, target) => {
            let target = target.as_deref().unwrap_or_default();
            let mut given = Given {
                seeds: args.seeds.clone(),
                method: args.search.clone(),
                trials: args.trials,
                interval: args.interval,
                // It is read again when the sweep continues, from another directory perhaps.
                config: line.config.as_deref().map(std::path::absolute).transpose()?,
                ..Given::default()
            };
            let mut name = None;
            for (key, flag, value) in &line.flags {
                match *key {
                    "run_dir" => {}
                    "name" => name = Some(value.clone()),
                    key => given.set.push((format!("{key}={value}"), (*flag).to_owned())),
                }
            }
            given.set.extend(line.set.iter().map(|set| (set.clone(), "--set".to_owned())));
            let spec = match target.ends_with(".toml") {
                true => Spec::read(Path::new(target), &given)?,
                false => Spec::of_environment(target, &given)?,
            };
            Sweep::new(spec, registry, &parent, name.as_deref(), jobs, executor)?
        }
    };
    signals.begin();
    let mut watch: Box<dyn Watch> = match (args.quiet, std::io::stderr().is_terminal()) {
        (true, _) => Box::new(Warnings),
        (false, true) => Box::new(Bar::new(sweep.spec().search.objective)),
        (false, false) => Box::new(Lines { last: Instant::now(), objective: sweep.spec().search.objective }),
    };
    if !args.quiet {
        output::note(&about(&sweep));
    }
    let ended = sweep.run(&signals, &mut *watch);
    // A signal ends the process at once while the report is made.
    signals.arm();
    let ended = ended?;
    drop(watch);
    let name = sweep.name().to_owned();
    if let Ended::Stopped(signal) = ended {
        output::note(&format!("{signal}: stopped; `operant sweep --resume {name}` continues"));
        return Ok(75);
    }
    let report = Report::of_sweep(sweep.dir())?;
    if args.json {
        output::print(&(report.to_json() + "\n"))?;
    } else {
        output::print_painted(&text(&report, 10))?;
        output::print(&format!("\n`operant report {name}` shows more; --html FILE writes a page\n"))?;
    }
    Ok(u8::from(report.has_failed()))
}

fn about(sweep: &Sweep) -> String {
    let spec = sweep.spec();
    let (jobs, threads) = sweep.cores();
    let each = if spec.environments.len() > 1 { " per environment" } else { "" };
    format!(
        "sweep {} in {}: {}, {}{each}, {}; {}, {} each",
        sweep.name(),
        sweep.dir().display(),
        spec.environments.join(" and "),
        counted(spec.search.trials, "trial"),
        counted(spec.seeds.len(), "seed"),
        counted(jobs, "parallel run"),
        counted(threads, "thread")
    )
}

/// The best trial so far, in a few words.
fn best(status: &Status, objective: Objective) -> String {
    let Some((trial, value, values)) = &status.best else { return String::new() };
    let value = match objective {
        Objective::EvalReturn => format!("{value:.1}"),
        Objective::SolvedAtStep => format!("{} steps to solve", short(-value)),
        Objective::SolvedAtS => format!("{:.2} s to solve", -value),
    };
    let which = if values.is_empty() { format!("trial {trial}") } else { values.clone() };
    format!("best {value}, {which}")
}

/// Finished, running and failed runs.
fn runs(status: &Status) -> String {
    let running = if status.running > 0 { format!(", {} running", status.running) } else { String::new() };
    let failed = if status.failed > 0 { format!(", {} failed", status.failed) } else { String::new() };
    format!("{}/{} runs{running}{failed}", status.done, status.planned)
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
    last: Instant,
    objective: Objective,
}

impl Watch for Lines {
    fn status(&mut self, status: &Status) {
        if self.last.elapsed() > Duration::from_secs(10) {
            self.last = Instant::now();
            output::note(&format!("{}  {}  {}", runs(status), speed(status), best(status, self.objective)));
        }
    }

    fn warn(&mut self, line: &str) {
        output::warn(line);
    }
}

/// A bar on a terminal.
struct Bar {
    bar: ProgressBar,
    objective: Objective,
}

impl Bar {
    fn new(objective: Objective) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:20.cyan} {elapsed}  {wide_msg}");
        bar.set_style(style.expect("the template is valid"));
        Self { bar, objective }
    }
}

impl Watch for Bar {
    fn status(&mut self, status: &Status) {
        self.bar.set_length(status.planned as u64);
        self.bar.set_position(status.done as u64);
        self.bar.set_message(format!(
            "{}  {}  {}",
            runs(status),
            speed(status),
            best(status, self.objective)
        ));
    }

    fn warn(&mut self, line: &str) {
        self.bar.suspend(|| output::warn(line));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Paths of sweeps and runs that a command was given.
pub fn named(parent: &Path, names: &[String]) -> operant_run::Result<Vec<PathBuf>> {
    let of = |name: &String| match sweep::locate(parent, name) {
        Some(path) => Ok(path),
        None => operant_run::dir::find(parent, name).map_err(|error| {
            // Sweeps are more likely meant than runs.
            let of_sweep = sweep::find(parent, name).expect_err("it was not located");
            if of_sweep.what.contains("did you mean") {
                of_sweep
            } else {
                Error { what: error.what.replace("there is no run ", "there is no sweep or run "), ..error }
            }
        }),
    };
    names.iter().map(of).collect()
}
