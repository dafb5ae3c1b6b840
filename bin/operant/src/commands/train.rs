//! `operant train`: trains an agent, or continues a run.

use std::io::IsTerminal;
use std::time::Instant;

use operant_run::config::{self, EnvFacts};
use operant_run::progress::{Bar, Lines, Progress, Quiet, short};
use operant_run::{Ending, Job, Log, Outcome, Resume, Signals};

use super::overrides::Overrides;
use crate::output;

/// Train an agent, or continue a run
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Environment, such as cartpole or CartPole-v1; `operant envs` lists them all
    #[arg(required_unless_present = "resume")]
    env: Option<String>,
    /// Continue the run of this name or path from its latest checkpoint, bit for bit
    #[arg(long, value_name = "RUN", conflicts_with = "name")]
    resume: Option<String>,
    /// Print the result as one JSON object on stdout
    #[arg(long)]
    json: bool,
    /// No progress on stderr; warnings stay
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    overrides: Overrides,
}

const AFTER_HELP: &str = "\
Examples:
  operant train cartpole
  operant train CartPole-v1 --seed 7 --steps 2e5 --json
  operant train pendulum --set learning_rate=0.002 --set hidden=128,128
  operant train minatar_breakout --set env.sticky_action_prob=0.1 --name sticky
  operant train --resume sticky --steps 2e7

Configuration, each over the one before:
  built-in defaults, the environment's preset,
  the user's operant.toml (in $XDG_CONFIG_HOME/operant), ./operant.toml,
  --config FILE, OPERANT_* variables (such as OPERANT_LEARNING_RATE=0.001),
  the configuration of a resumed run, and last --set and flags.
`operant config ENV` shows the outcome, and where each value came from.

Signals:
  SIGINT, SIGTERM  finish the update, save a checkpoint, exit 75; a second one
                   ends the process at once (130, 143)
  SIGUSR1          save a checkpoint and go on

A run leaves in runs/NAME: config.toml, checkpoints/, metrics.csv, a TensorBoard
event file, operant.log (OPERANT_LOG=debug for more) and result.json.";

/// Trains, prints the result, and gives the exit code.
pub fn run(args: &Args, started: Instant) -> anyhow::Result<u8> {
    let signals = Signals::listen()?;
    let line = args.overrides.command_line();
    // An unknown environment is an error whatever else is wrong.
    let asked = args.env.as_deref().map(EnvFacts::registered).transpose()?;
    let resume = match &args.resume {
        Some(run) => Some(Resume::open(&config::run_dir(EnvFacts::known(), &line)?, run)?),
        None => None,
    };
    let facts = match (asked, &resume) {
        (Some(facts), _) => facts,
        (None, Some(resume)) => EnvFacts::registered(resume.environment())?,
        (None, None) => unreachable!("clap asks for ENV or --resume"),
    };
    if let Some(resume) = &resume {
        resume.expect_env(&facts.name)?;
    }
    let resumed = resume.as_ref().map(|resume| (resume.name(), resume.config()));
    let settings = config::settings(facts, &line, resumed)?;
    let threshold = settings.run.solved_at;
    let progress: Box<dyn Progress> = match (args.quiet, std::io::stderr().is_terminal()) {
        (true, _) => Box::new(Quiet),
        (false, true) => Box::new(Bar::new(settings.steps())),
        (false, false) => Box::new(Lines::new(std::io::stderr())),
    };
    let job = Job { settings, resume, started, signals, progress, log: Log::install() };
    let outcome = operant_run::train(job, operant_run::registered)?;
    let text = if args.json { outcome.result.to_json() + "\n" } else { summary(&outcome, threshold) };
    output::print(&text)?;
    match &outcome.unsaved {
        Some(error) => Err(error.clone().into()),
        None => Ok(outcome.exit_code()),
    }
}

/// The result for a person.
#[allow(clippy::cast_precision_loss)] // counts shown to three figures
fn summary(outcome: &Outcome, threshold: Option<f64>) -> String {
    let result = &outcome.result;
    let ending = match outcome.ending {
        Ending::Finished => "finished".to_string(),
        Ending::Solved => "solved, and stopped there".to_string(),
        Ending::Stopped(signal) => format!("stopped by {signal}"),
    };
    let mut lines = vec![
        format!("run {}: {ending}", result.run),
        format!(
            "  steps       {} in {:.2} s of training ({} steps/s), {:.2} s in all",
            result.env_steps,
            result.train_s,
            short(result.sps),
            result.wall_s
        ),
    ];
    if let (Some(mean), Some(std)) = (result.eval_return_mean, result.eval_return_std) {
        let episodes = result.eval_episodes;
        lines.push(format!("  return      {mean:.2} +- {std:.2} over {episodes} greedy episodes"));
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
        lines.push(format!("  checkpoint  {checkpoint}"));
    }
    if let Ending::Stopped(_) = outcome.ending {
        lines.push(format!("  continue    operant train --resume {}", result.run));
    }
    lines.join("\n") + "\n"
}
