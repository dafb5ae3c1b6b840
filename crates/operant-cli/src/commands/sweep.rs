//! `operant sweep`: trains many runs, over seeds and settings, on this machine or on a Ray cluster.

mod dry_run;
mod watch;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use operant_env::Registry;
use operant_run::{CommandLine, Error, Ready, Signals, Trust, config, dir, invocation, path_text};
use operant_sweep::report::counted;
use operant_sweep::{Ended, Executor, Given, Local, Plan, Report, Spec, Sweep, Watch, sweep};
use serde_json::json;

use super::overrides::Overrides;
use super::report::text;
use super::train::Shown;
use super::{ray, run_args};
use crate::{daemon, output};
pub use watch::about;

/// Train many runs: over seeds, and over settings that vary
#[derive(Debug, Default, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[command(mut_arg("seed", |arg| arg.hide(true)))]
#[command(mut_arg("device", |arg| arg.hide(true)))]
#[command(mut_arg("precision", |arg| arg.hide(true)))]
#[command(mut_arg("overlap", |arg| arg.hide(true)))]
#[command(mut_arg("ring", |arg| arg.hide(true)))]
#[command(mut_arg("name", |arg| arg.help("Name of the sweep [default: sweep-ENV-SEED-TIME, with the search's seed]")))]
pub struct Args {
    /// Environments, as in `operant train ENV`, of one sweep; or specifications SPEC.toml, swept one after the other
    #[arg(value_name = "ENV|SPEC.toml", required_unless_present = "resume")]
    targets: Vec<String>,
    /// Continue the sweep of this name or path
    #[arg(long, value_name = "SWEEP", conflicts_with_all = ["targets", "seeds", "search", "trials"])]
    resume: Option<String>,
    /// With --resume: start the sweep's environments although they are programs that this user has not started before
    #[arg(long, requires = "resume")]
    trust: bool,
    /// Print the runs that would be trained and how long that may take, and train nothing
    #[arg(long, conflicts_with_all = ["detach", "ray"])]
    dry_run: bool,
    /// Train as a daemon: return when the sweep has begun, and print its name and how to watch it
    #[arg(long)]
    detach: bool,
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
    /// Print the report as one JSON object on stdout; with --detach sweep, pid and dir; with --dry-run the plan
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
  operant sweep cartpole acrobot --seeds 10         one sweep of both
  operant sweep rates.toml --name rates --dry-run   what it would train
  operant sweep rates.toml --name rates --detach
  operant sweep rates.toml sizes.toml               one after the other
  operant stop rates && operant resume rates
  operant report rates --html rates.html

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
  objective = \"eval_return\"        # or solved_at_step, a metric, -METRIC
  trials = 40
  halving = { first_steps = 25_000, factor = 3 }

Runs train in parallel, with one thread each. A run is bit-identical to
`operant train` with the same seed and settings. Runs train on the CPU, with
--ray also on GPUs.

Output in runs/NAME: sweep.db (SQLite: trials, results and curves) and trials/
with the directory of each run. `operant runs` lists sweeps; show, stop, pause,
resume, rm, monitor and report take their names as they take those of runs.
`operant resume SWEEP` or --resume continues a sweep that was stopped or killed;
by default runs save no periodic checkpoints, so a killed run starts again.

Exit codes: 0 finished; 1 every run failed, or the sweep did; 2 bad usage;
75 stopped by SIGINT, SIGTERM or SIGHUP, with checkpoints saved";

impl Args {
    /// Those of `operant resume SWEEP`.
    pub fn resuming(sweep: &str, trust: bool, shown: &Shown, overrides: &Overrides) -> Self {
        // A sweep has no notes at its start beyond those that it shows.
        let Shown { detach, json, quiet, verbose: _ } = *shown;
        let (resume, overrides) = (Some(sweep.to_owned()), overrides.clone());
        Self { resume, trust, detach, json, quiet, overrides, ..Self::default() }
    }
}

/// Carries out sweeps, prints their reports, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    if args.detach && !daemon::is_daemon() {
        return detach(args, registry);
    }
    let line = args.overrides.command_line();
    // Assignments with several values are not those of a run.
    let of_dir = line.flags.iter().filter(|(key, ..)| *key == "run_dir").cloned().collect();
    let of_dir = CommandLine { flags: of_dir, config: line.config.clone(), ..CommandLine::default() };
    let parent = config::run_dir(registry.known(), &of_dir)?;
    let jobs = args.jobs.map(usize::from);
    let executor = executor(args)?;
    // After Ray, which handles signals itself.
    let signals = Signals::listen(daemon::is_daemon())?;
    if let Some(name) = &args.resume {
        let is_set = !line.set.is_empty() || line.config.is_some();
        if is_set || args.interval.is_some() || line.flags.iter().any(|(key, ..)| *key != "run_dir") {
            return Err(Error::usage("the settings of a sweep cannot change when it resumes")
                .at(if line.set.is_empty() { "--resume" } else { "--set" })
                .remedy("leave the settings out, or start a new sweep")
                .into());
        }
        let path = sweep::find(&parent, name)?;
        if args.dry_run {
            return dry_run::of_sweep(&path, jobs, &*executor, args.json);
        }
        let sweep = Sweep::resume(registry, &path, jobs, executor, Trust::of_flag(args.trust))?;
        return carry_out(args, registry, sweep, &signals, &[]);
    }
    let (given, name) = given(args, &line)?;
    let is_spec = |target: &String| target.ends_with(".toml");
    let each = if args.targets.iter().any(is_spec) { 1 } else { args.targets.len() };
    let targets: Vec<&[String]> = args.targets.chunks(each).collect();
    if name.is_some() && targets.len() > 1 {
        return Err(Error::usage(format!("one name cannot name {} sweeps", targets.len()))
            .at("--name")
            .remedy("leave the name out, or start them one at a time")
            .into());
    }
    let plan = |targets: &&[String]| -> operant_run::Result<Plan> {
        let spec = match targets {
            [file] if is_spec(file) => Spec::read(Path::new(file), &given)?,
            names => Spec::of_environments(names, &given)?,
        };
        Plan::new(spec, registry, jobs, Arc::clone(&executor))
    };
    // All are checked before the first one begins.
    let plans = targets.iter().map(plan).collect::<operant_run::Result<Vec<_>>>()?;
    if args.dry_run {
        for plan in &plans {
            dry_run::of_plan(plan, &parent, args.json)?;
        }
        return Ok(0);
    }
    let mut code = 0;
    for (place, plan) in plans.into_iter().enumerate() {
        let sweep = Sweep::begin(plan, &parent, name.as_deref())?;
        code = code.max(carry_out(args, registry, sweep, &signals, &args.targets[each * (place + 1)..])?);
        if signals.stopped_by().is_some() {
            return Ok(code);
        }
    }
    Ok(code)
}

/// What trains the runs.
fn executor(args: &Args) -> operant_run::Result<Arc<dyn Executor>> {
    let Some(address) = &args.ray else { return Ok(Arc::new(Local)) };
    ray::connect(&ray::Resources {
        address: address.clone(),
        cpus_per_run: args.cpus_per_run.map_or(1, usize::from),
        gpus_per_run: args.gpus_per_run.unwrap_or(0.0),
    })
}

/// The flags with which `operant sweep --resume` trains where this command does.
fn elsewhere(args: &Args) -> String {
    let Some(address) = &args.ray else { return String::new() };
    let cpus = args.cpus_per_run.map(|cpus| format!(" --cpus-per-run {cpus}"));
    let gpus = args.gpus_per_run.map(|gpus| format!(" --gpus-per-run {gpus}"));
    format!("--ray {address}{}{}", cpus.unwrap_or_default(), gpus.unwrap_or_default())
}

/// What the command line says about specifications, and the name of the sweep.
fn given(args: &Args, line: &CommandLine) -> anyhow::Result<(Given, Option<String>)> {
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
    Ok((given, name))
}

/// Trains the runs of a sweep, and prints its report; `rest` are the specifications of the sweeps that follow.
fn carry_out(
    args: &Args,
    registry: &Registry,
    mut sweep: Sweep,
    signals: &Signals,
    rest: &[String],
) -> anyhow::Result<u8> {
    signals.begin();
    // The command that continues a sweep is not the one that began it.
    let began = if args.resume.is_some() { String::new() } else { command() };
    sweep.note_command(&began, &elsewhere(args))?;
    if daemon::is_daemon() {
        daemon::ready(&Ready { run: sweep.name().to_owned(), dir: sweep.dir().to_owned(), ring: None });
    }
    let objective = sweep.spec().search.objective.clone();
    let is_terminal = std::io::stderr().is_terminal() && !daemon::is_daemon();
    let mut watch: Box<dyn Watch> = match (args.quiet, is_terminal) {
        (true, _) => Box::new(watch::Warnings),
        (false, true) => Box::new(watch::Bar::new(objective)),
        (false, false) => Box::new(watch::Lines::new(objective)),
    };
    if !args.quiet {
        output::note(&describe(&sweep));
    }
    let ended = sweep.run(signals, &mut *watch);
    // A signal ends the process at once while the report is made.
    signals.arm();
    let ended = ended?;
    drop(watch);
    if let Ended::Stopped(signal) = ended {
        let resume = run_args::resume_command(registry, sweep.dir());
        output::note(&format!("{signal}: stopped; `{resume}` continues"));
        if !rest.is_empty() {
            let words: Vec<String> = rest.iter().map(|word| path_text::quoted(word)).collect();
            output::note(&format!("not begun: {}", words.join(" ")));
        }
        return Ok(75);
    }
    let report = Report::of_sweep(sweep.dir())?;
    if args.json {
        output::print(&(report.to_json() + "\n"))?;
    } else {
        output::print_painted(&text(&report, 10))?;
        let word = run_args::word(registry, sweep.dir());
        output::print(&format!("\n`operant report {word}` shows more; --html FILE writes a page\n"))?;
    }
    Ok(u8::from(report.has_failed()))
}

/// This command, as a user could type it again.
fn command() -> String {
    let words = invocation::arguments();
    let words = words.iter().map(|word| path_text::quoted(&word.to_string_lossy()));
    std::iter::once("operant".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Starts the daemon, and prints what it trains.
fn detach(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let started = match daemon::start()? {
        Err(code) => return Ok(code),
        Ok(started) => started,
    };
    let daemon::Started { run, pid, dir, .. } = &started;
    if args.json {
        let text = json!({ "sweep": run, "pid": pid, "dir": dir.to_string_lossy() });
        output::print(&format!("{text}\n"))?;
        return Ok(0);
    }
    let word = run_args::word(registry, dir);
    let output = path_text::shown(&daemon::output_file(dir));
    output::print(&format!(
        "sweep {run}: training in the background, process {pid}\n  watch       operant monitor {word}\n  stop        \
         operant stop {word}\n  output      {output}\n"
    ))?;
    Ok(0)
}

fn describe(sweep: &Sweep) -> String {
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

/// Paths of sweeps and runs that a command was given.
pub fn named(parent: &Path, names: &[String]) -> operant_run::Result<Vec<PathBuf>> {
    let of = |name: &String| match dir::locate_sweep(parent, name) {
        Some(path) => Ok(path),
        None => dir::find(parent, name).map_err(|error| {
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
