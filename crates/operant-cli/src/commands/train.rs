//! `operant train`: trains an agent, or continues a run.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use operant_env::{AnyEnv, Registry};
use operant_learn::{Alone, EvalActions, Group};
use operant_mpi::Unavailable;
use operant_run::checkpoint;
use operant_run::config::{self, EnvFacts};
use operant_run::distributed::{self, Leading};
use operant_run::evaluate::EvalSummary;
use operant_run::notes::Notes;
use operant_run::progress::{self, Bar, Lines, Progress, Quiet, short};
use operant_run::{
    ExitReason, Job, Log, Outcome, Requested, Resume, Signals, Trust, device, gpu, path_text, world,
};

use super::overrides::Overrides;
use super::run_args;
use crate::daemon::{self, Started};
use crate::output;

/// Train an agent, or continue a run
#[derive(Debug, Default, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Environment: a name such as cartpole or CartPole-v1, which `operant envs` lists; a file NAME.world; a world or a Gymnasium class
    /// in Python, module:Class; or a Gymnasium id, gym:ID, as in gym:LunarLander-v3?continuous=true
    pub(super) env: Option<String>,
    /// Continue the run of this name or path from its latest checkpoint; on the same device bit for bit
    #[arg(long, value_name = "RUN", conflicts_with = "name")]
    pub(super) resume: Option<String>,
    /// With --resume: start the run's environment although it is a program that this user has not started before
    #[arg(long, requires = "resume")]
    pub(super) trust: bool,
    /// Preset of Gymnasium environments; atari: preprocessing and hyperparameters after CleanRL's ppo_atari.py
    #[arg(long, value_name = "PRESET", value_parser = ["atari"], requires = "env")]
    pub(super) preset: Option<String>,
    /// Data-parallel training. mpi: a rank for each process that mpirun or srun started, on CPUs or with a GPU each; nccl: all visible
    /// GPUs of this machine, in one process. Needs shuffle = "blocks"
    #[arg(long, value_name = "MODE", conflicts_with = "detach")]
    pub(super) distributed: Option<Distributed>,
    #[command(flatten)]
    pub(super) about: About,
    #[command(flatten)]
    pub(super) shown: Shown,
    #[command(flatten)]
    pub(super) overrides: Overrides,
}

/// What the user writes about a run.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct About {
    /// A note about the run, which `operant show` prints
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// A tag of the run, for `operant runs --tag`; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

impl About {
    pub fn notes(&self) -> operant_run::Result<Notes> {
        Notes::new(self.note.as_deref(), &self.tags)
    }
}

/// Where a run trains, and what it prints.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Shown {
    /// Train as a daemon: return when training begins, and print the run's name and how to watch it
    #[arg(long)]
    pub detach: bool,
    /// Print the result as one JSON object on stdout; with --detach, run, pid, dir and ring
    #[arg(long)]
    pub json: bool,
    /// No progress on stderr; warnings are still printed
    #[arg(long, short, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also print the start-up notes of operant.log: the reason for the device, the plan for threads, the kernels
    #[arg(long, short)]
    pub verbose: bool,
}

const AFTER_HELP: &str = "\
Examples:
  operant train cartpole
  operant train CartPole-v1 --seed 7 --steps 2e5 --json
  operant train pendulum --set learning_rate=0.002 --set hidden=128,128
  operant train minatar_breakout --set env.sticky_action_prob=0 --name plain
  operant train --resume plain --steps 2e7
  operant train cartpole --note \"wider\" --tag baseline --set hidden=128,128
  operant train minatar_breakout --init-from plain  starts from its weights
  operant train mine.py:Treasure                a class with @operant.world
  operant train gym:LunarLander-v3              a Gymnasium environment
  operant train gym:ALE/Pong-v5 --preset atari
  operant train acrobot --name night --detach && operant monitor night
  mpirun -n 4 operant train acrobot --envs 2048 --set shuffle=blocks \\
    --distributed mpi

Configuration, each over the one before:
  built-in defaults, the environment's preset, on a GPU that preset's [gpu],
  what comes with the weights of --init-from, the user's operant.toml (in
  $XDG_CONFIG_HOME/operant), ./operant.toml, operant.toml in the directory that
  holds the runs, --config FILE, OPERANT_* variables (such as
  OPERANT_LEARNING_RATE=0.001), the configuration of a resumed run, and last
  --set and flags.
`operant config ENV` shows the result, and the origin of each value.

Devices: `operant info` shows this machine's devices, what auto chooses, and
why. auto chooses a GPU if one is usable, the environment has a preset for GPUs
and the run fits; else it chooses the CPU; -v prints why. cuda:1,cuda:0,cpu
tries devices in this order. Where a file sets a precision or overlap that the
device lacks, it is overridden. Presets have thousands of environments on a GPU
and few on the CPU. A run can resume on another device: the state and the
settings are the same, the roundings differ. auto leaves a resumed run on its
kind of device.

Weights of another run: --init-from takes what `operant eval` takes, RUN[@STEP]
or a checkpoint. The statistics of norm_obs come with the weights, and so do the
settings algorithm, norm_obs, clip_obs and those of the network; to set another
network is an error. The optimiser's moments, counters and random streams are
new, and so are layers for other observations or actions; the run logs them.

Steps: a run trains for whole updates of num_envs x num_steps environment steps,
so --steps is rounded up to the next of them.

Signals (sent by `operant stop`, `pause`, `resume` and `checkpoint`):
  SIGINT, SIGTERM, finish the update, save a checkpoint, exit 75; a second
  SIGHUP           SIGINT or SIGTERM ends the process at once (130, 143)
  SIGUSR1          save a checkpoint and continue
  SIGUSR2          pause after the update; a second one continues
A closed terminal sends SIGHUP. It has no effect on a run that is detached or
started with nohup.

A daemon inherits every open descriptor of its parent, including locks: 9>&-
closes one.

Exit codes:
  0    finished                       75        stopped by a signal with a
  1    failed                                   checkpoint saved
  2    bad usage or configuration     130, 143  ended at once by a second
  70   a bug in operant                         SIGINT, SIGTERM
  With --detach: 0 when training has begun; else the daemon's exit code.

A run leaves in runs/NAME: config.toml, checkpoints/, metrics.csv, a TensorBoard
event file, operant.log (OPERANT_LOG=debug for more), run.json (its state),
result.json, and daemon.out (what a detached run printed). While it trains, its
metrics are in a ring in shared memory (/dev/shm/operant-UID/NAME.ring, or in
$OPERANT_RING_DIR), where `operant monitor` reads them without slowing the run.

Under systemd, train in the foreground with Type=notify: the run reports that it
is ready and its status, and pings the watchdog (WatchdogSec=) on progress.";

/// What connects the parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Distributed {
    /// Processes, on CPUs or with a GPU each.
    Mpi,
    /// GPUs of this machine, in one process.
    Nccl,
}

/// Trains, prints the result, and returns the exit code.
pub fn run(args: &Args, registry: &Registry, started: Instant) -> anyhow::Result<u8> {
    args.about.notes()?;
    if args.shown.detach
        && !daemon::is_daemon()
        && let Some(code) = detach(args, registry)?
    {
        return Ok(code);
    }
    let signals = Signals::listen(daemon::is_daemon())?;
    let group = match args.distributed {
        None => Arc::new(Alone) as Arc<dyn Group>,
        Some(Distributed::Nccl) => {
            let count = gpu::count()?;
            return distributed::on_gpus(count, registry, |group| {
                train(args, registry, started, signals, group)
            });
        }
        Some(Distributed::Mpi) => match processes() {
            Ok(group) => group,
            // The first process reports it. A launcher ends all processes when one fails, maybe before the first has; without MPI all do.
            Err(error) if operant_mpi::launched().is_some_and(|launched| launched.rank > 0) => {
                return Ok(if operant_mpi::IS_AVAILABLE { error.exit_code() } else { 0 });
            }
            Err(error) => return Err(error.into()),
        },
    };
    if group.rank() > 0 {
        // Process 0 handles the first one.
        signals.begin();
        return Ok(distributed::follow(&group, registry).map_or(1, |()| 0));
    }
    let _leading = Leading::new(Arc::clone(&group));
    train(args, registry, started, signals, &group)
}

/// Trains as process 0 of a group.
fn train(
    args: &Args,
    registry: &Registry,
    started: Instant,
    signals: Signals,
    group: &Arc<dyn Group>,
) -> anyhow::Result<u8> {
    let (env, resume, requested) = configure(args, registry)?;
    let threshold = requested.settings.run.solved_at;
    let progress: Box<dyn Progress> = match (args.shown.quiet, std::io::stderr().is_terminal()) {
        (true, _) => Box::new(Quiet),
        (false, _) if daemon::is_daemon() => Box::new(progress::Notes),
        (false, true) => Box::new(Bar::new(requested.settings.steps())),
        (false, false) => Box::new(Lines::new(anstream::stderr())),
    };
    let (verbose, announce) = (args.shown.verbose, progress.announcer());
    let (notes, log) = (args.about.notes()?, Log::install());
    let mut job = Job { resume, started, progress, notes, verbose, log, ..Job::new(requested) };
    if daemon::is_daemon() {
        job.ready = Some(Box::new(daemon::ready));
    } else if !args.shown.quiet {
        let runs = config::default_run_dir(registry.known());
        job.ready = Some(Box::new(move |ready| {
            let word = watched(ready.ring.as_deref(), &ready.dir, &runs);
            announce(&output::message(&format!("watch with `operant monitor {word}`")));
        }));
    }
    job.signals = signals;
    let outcome = operant_run::train(job, |requested, device| {
        if args.distributed == Some(Distributed::Nccl) && !device.is_gpu() {
            let error = operant_run::Error::usage("--distributed nccl requires GPUs, but device is cpu");
            return Err(error.remedy("leave device out, or set it to cuda"));
        }
        distributed::lead(&env, requested, device, group)
    })?;
    let text = if args.shown.json {
        outcome.result.to_json() + "\n"
    } else {
        summary(&outcome, registry, threshold)
    };
    output::print(&text)?;
    match &outcome.unsaved {
        Some(error) => Err(error.clone().into()),
        None => Ok(outcome.exit_code()),
    }
}

/// The processes that the launcher started.
fn processes() -> operant_run::Result<Arc<dyn Group>> {
    operant_mpi::start().map_err(|Unavailable { what, remedy }| {
        operant_run::Error::usage(what).at("--distributed mpi").remedy(remedy)
    })
}

/// The environment, the run to continue, if any, and the whole configuration, checked.
fn configure(
    args: &Args,
    registry: &Registry,
) -> operant_run::Result<(Arc<dyn AnyEnv>, Option<Resume>, Requested)> {
    let mut line = args.overrides.command_line();
    if args.distributed == Some(Distributed::Nccl) {
        line.flags.insert(0, ("device", "--distributed nccl", "cuda".to_owned()));
    }
    // An unknown environment is reported first.
    let find = |name: &str| match &args.preset {
        None => device::find(registry, name),
        Some(preset) => device::find(registry, &world::with_preset(name, preset)?),
    };
    let asked = args.env.as_deref().map(find).transpose()?;
    let resume = match &args.resume {
        Some(run) => Some(Resume::open(&config::run_dir(registry.known(), &line)?, run)?),
        None => None,
    };
    let env = match (asked, &resume) {
        (Some(env), _) => env,
        (None, Some(resume)) => resume.env(registry, Trust::of_flag(args.trust))?,
        (None, None) => {
            return Err(operant_run::Error::usage("train needs an environment, or a run to resume")
                .remedy("`operant train cartpole`, or `operant train --resume RUN`; `operant envs` lists environments"));
        }
    };
    let facts = EnvFacts::of(&env.spec(), registry);
    if let Some(resume) = &resume {
        resume.expect_env(&facts.name)?;
        resume.expect_own_weights(&line)?;
    }
    let resumed = resume.as_ref().map(|resume| (resume.name(), resume.config()));
    let requested = config::requested(facts, &line, resumed)?;
    Ok((env, resume, requested))
}

/// Checks the configuration in this process, then starts the daemon. None for a run that has nothing left to do, which needs none.
fn detach(args: &Args, registry: &Registry) -> anyhow::Result<Option<u8>> {
    // Dropped before the daemon starts, which opens the run itself.
    let (_, resume, requested) = configure(args, registry)?;
    if resume.is_some_and(|resume| resume.ended(&requested.settings).is_some()) {
        return Ok(None);
    }
    match daemon::start()? {
        Err(code) => Ok(Some(code)),
        Ok(started) => {
            let text = if args.shown.json {
                serde_json::to_string(&started)? + "\n"
            } else {
                how_to_watch(&started)
            };
            output::print(&text)?;
            Ok(Some(0))
        }
    }
}

/// The text that `--detach` prints.
fn how_to_watch(started: &Started) -> String {
    let Started { run, pid, dir, ring } = started;
    let output = daemon::output_file(dir);
    let name = ring.as_deref().and_then(ring_name);
    let watch = match &name {
        Some(name) => format!("operant monitor {name}"),
        None => format!("nothing: the run has no ring; see {}", dir.join("metrics.csv").display()),
    };
    let target = name.unwrap_or_else(|| path_text::quoted(&dir.to_string_lossy()));
    format!(
        "run {run}: training in the background, process {pid}\n  watch       {watch}\n  stop        operant stop \
         {target}\n  output      {}\n",
        path_text::shown(&output)
    )
}

/// The name of a ring, which a second run of a name does not share with the first.
fn ring_name(ring: &Path) -> Option<String> {
    Some(ring.file_stem()?.to_string_lossy().into_owned())
}

/// The argument of `operant monitor` that shows this run; one without a ring is found by its directory.
fn watched(ring: Option<&Path>, dir: &Path, runs: &Path) -> String {
    ring.and_then(ring_name).unwrap_or_else(|| path_text::run_word(dir, runs))
}

/// Evaluation and step of the best checkpoint, if the run's last evaluation is below it.
fn better(outcome: &Outcome) -> Option<(f64, u64)> {
    let last = outcome.result.eval_return_mean?;
    let saved = checkpoint::list(&outcome.dir.join("checkpoints")).ok()?;
    let evaluated = saved.iter().filter_map(|saved| Some((saved.eval_mean?, saved.env_steps)));
    evaluated.filter(|(mean, _)| *mean > last).max_by(|(a, _), (b, _)| a.total_cmp(b))
}

/// The result as text.
#[allow(clippy::cast_precision_loss)] // counts shown to three figures
fn summary(outcome: &Outcome, registry: &Registry, threshold: Option<f64>) -> String {
    let result = &outcome.result;
    let exit_reason = match outcome.exit_reason {
        ExitReason::Finished => "finished".to_string(),
        ExitReason::Solved => "solved, and stopped there".to_string(),
        ExitReason::Stopped(signal) => format!("stopped by {signal}"),
    };
    let mut lines = vec![
        format!("run {}: {exit_reason}", result.run),
        format!(
            "  steps       {} in {:.2} s of training ({} steps/s), {:.2} s in all",
            result.env_steps,
            result.train_s,
            short(result.sps),
            result.wall_s
        ),
    ];
    if let (Some(mean), Some(std)) = (result.eval_return_mean, result.eval_return_std) {
        let shown =
            EvalSummary::shown(mean, std, result.eval_episodes, result.eval_distinct, EvalActions::Greedy);
        lines.push(format!("  return      {shown}"));
        lines.extend(EvalSummary::lines(&result.eval_metrics));
    }
    match (result.solved_at_step, result.solved_at_s, threshold) {
        (Some(step), Some(seconds), _) => {
            lines.push(format!("  solved      at {step} steps, after {seconds:.2} s"));
        }
        (_, _, Some(threshold)) => {
            lines.push(format!("  solved      no: a mean return of {threshold} is needed"))
        }
        _ => {}
    }
    if let Some(checkpoint) = &result.checkpoint {
        lines.push(format!("  checkpoint  {}", run_args::near(Path::new(checkpoint))));
    }
    let word = run_args::word(registry, &outcome.dir);
    if let Some((mean, steps)) = better(outcome) {
        lines.push(format!("  best        {mean:.2} at step {steps}: operant eval {word}@{steps}"));
    }
    if let ExitReason::Stopped(_) = outcome.exit_reason {
        let has_lost = result.config.get("checkpoint_replay").and_then(toml::Value::as_bool) == Some(false);
        let replay = if has_lost { " (fills a new replay)" } else { "" };
        lines.push(format!("  continue    operant train --resume {word}{replay}"));
    }
    lines.join("\n") + "\n"
}
