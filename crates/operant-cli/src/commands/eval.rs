//! `operant eval`: plays episodes with a trained agent.

use std::path::Path;

use operant_env::Registry;
use operant_env::search::SCRIPTED;
use operant_learn::EvalActions;
use operant_run::config::{self, EnvFacts};
use operant_run::eval::{self, EvalResult, EvalTarget};
use operant_run::evaluate::EvalSummary;
use operant_run::{CommandLine, Error, Trust, dir, opponent};

use super::checkpoints;
use super::overrides::RunFlags;
use crate::output;
use crate::table::{self, Column, Row};

/// Play episodes with a trained agent and print their mean return
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A run's name or path for its latest checkpoint, RUN@STEP for its checkpoint at that step, or a checkpoint's path
    #[arg(value_name = "RUN[@STEP]|CHECKPOINT")]
    run: String,
    /// Every checkpoint of the run, from the first to the last
    #[arg(long)]
    all: bool,
    /// Episodes to play
    #[arg(long, value_name = "N", default_value = "100", allow_negative_numbers = true)]
    episodes: String,
    /// Draw actions from the policy, as in training, instead of the most
    /// probable one
    #[arg(long)]
    sample: bool,
    /// In a game, who plays the other side: random, minimax:DEPTH,
    /// mcts:PLAYOUTS, a run or a checkpoint [default: that of training, or
    /// random]
    #[arg(long, value_name = "WHO")]
    opponent: Option<String>,
    /// Start the run's environment although it is a program that this user has
    /// not started before
    #[arg(long)]
    trust: bool,
    /// Print one JSON object for each checkpoint
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    of_run: RunFlags,
}

const AFTER_HELP: &str = "\
Examples:
  operant eval cartpole-1-20260101-120000
  operant eval runs/mine/checkpoints/step_000000204800 --episodes 1000 --json
  operant eval mine --all                   the learning curve; keep_checkpoints
                                            sets how many a run keeps

Without --sample the episodes are those of a run's final evaluation: with the
same number, a finished run's result is reproduced exactly.

A run of a Gymnasium environment is a program: Python imports and calls what
its env.world names. A run that this user did not start needs --trust once;
the error without it shows the program.";

/// Evaluates, prints the result, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let mut line = args.of_run.command_line()?;
    let parent = config::run_dir(registry.known(), &line)?;
    line.flags.push(("eval_episodes", "--episodes", args.episodes.clone()));
    if let Some(who) = args.opponent.as_deref().filter(|who| [opponent::ITSELF, opponent::POOL].contains(who))
    {
        let error =
            Error::usage("an agent has no mean return against itself").at(format!("--opponent {who}"));
        return Err(error.remedy(format!("give a run or a checkpoint, or {SCRIPTED}")).into());
    }
    line.flags.extend(args.opponent.clone().map(|who| ("opponent", "--opponent", who)));
    let targets = if args.all { checkpoints::all_of(&parent, &args.run)? } else { vec![args.run.clone()] };
    let actions = if args.sample { EvalActions::Sampled } else { EvalActions::Greedy };
    let (mut results, mut evaluations) = (Vec::new(), 0);
    for target in &targets {
        let target = match EvalTarget::find(&parent, target) {
            // Damaged, or removed by the run meanwhile.
            Err(error) if args.all => {
                output::warn(&error.to_string());
                continue;
            }
            found => found?,
        };
        let (result, threshold) = evaluated(args, registry, &line, actions, &target)?;
        evaluations += 1;
        match (args.json, args.all) {
            (true, _) => output::print(&json(&result)?)?,
            (false, false) => output::print(&summary(&result, actions, threshold))?,
            (false, true) => results.push(result),
        }
    }
    if evaluations == 0 {
        return Err(checkpoints::none(&args.run, &dir::find(&parent, &args.run)?).into());
    }
    if let Some(last) = results.last() {
        let (run, env, episodes) = (&last.run, &last.env, last.eval_episodes);
        output::print(&format!("run {run} ({env}): {episodes} {actions} episodes of each checkpoint\n"))?;
        output::print_painted(&table::text(&COLUMNS, "", &rows(&results)))?;
    }
    Ok(0)
}

/// The result of a checkpoint, and the mean return from which its environment counts as solved.
fn evaluated(
    args: &Args,
    registry: &Registry,
    line: &CommandLine,
    actions: EvalActions,
    target: &EvalTarget,
) -> anyhow::Result<(EvalResult, Option<f64>)> {
    for warning in &target.warnings {
        output::warn(warning);
    }
    let env = target.env(registry, Trust::of_flag(args.trust))?;
    let facts = EnvFacts::of(&env.spec(), registry);
    let mut requested = config::requested(facts, line, Some((&target.run, &target.checkpoint.config)))?;
    let opponent = &mut requested.settings.run.opponent;
    if env.spec().players > 1 {
        *opponent = Some(opponent::evaluated(opponent.as_deref()).to_owned());
    }
    let episodes = requested.settings.run.eval_episodes;
    let result = eval::evaluate(target, &requested, episodes, actions, &mut || false, |requested| {
        // The episodes are few, so the CPU plays them whatever device trained.
        operant_run::backend(&env, requested, &operant_run::Device::cpu())
    })?;
    Ok((result, requested.settings.run.solved_at))
}

/// The columns of `--all`.
const COLUMNS: [Column; 6] = [
    Column::right("steps", 0),
    Column::right("return", 0),
    Column::right("+-", 1),
    Column::right("min", 3),
    Column::right("max", 3),
    Column::right("length", 2),
];

fn rows(results: &[EvalResult]) -> Vec<Row> {
    let row = |result: &EvalResult| {
        let floats =
            [result.eval_return_mean, result.eval_return_std, result.eval_return_min, result.eval_return_max];
        let floats = floats.map(|value| format!("{value:.2}")).into_iter();
        let cells = std::iter::once(result.env_steps.to_string()).chain(floats);
        Row { cells: cells.chain([format!("{:.1}", result.eval_length_mean)]).collect(), ..Row::default() }
    };
    results.iter().map(row).collect()
}

fn json(result: &EvalResult) -> anyhow::Result<String> {
    Ok(serde_json::to_string(result)? + "\n")
}

fn summary(result: &EvalResult, actions: EvalActions, threshold: Option<f64>) -> String {
    let verdict = match (result.solved, threshold) {
        (Some(true), Some(threshold)) => format!(", solved (at {threshold})"),
        (Some(false), Some(threshold)) => format!(", not solved (at {threshold})"),
        _ => String::new(),
    };
    let changed: Vec<String> =
        result.changed_options.iter().map(|(name, value)| format!("env.{name} = {value}")).collect();
    let changed = match changed.is_empty() {
        true => String::new(),
        false => format!("  changed     {} (training used other values)\n", changed.join(", ")),
    };
    let against = result.opponent.as_ref().map_or(String::new(), |who| format!("  against     {who}\n"));
    let kind = eval::run_of(Path::new(&result.checkpoint)).map_or("policy", |_| "run");
    format!(
        "{kind} {} ({}) at {} steps\n{changed}{against}  return      {}, {:.2} to {:.2}{verdict}\n  \
         length      {:.1}\n{}  checkpoint  {}\n",
        result.run,
        result.env,
        result.env_steps,
        EvalSummary::shown(
            result.eval_return_mean,
            result.eval_return_std,
            result.eval_episodes,
            result.eval_distinct,
            actions,
        ),
        result.eval_return_min,
        result.eval_return_max,
        result.eval_length_mean,
        EvalSummary::lines(&result.eval_metrics).iter().fold(String::new(), |all, line| all + line + "\n"),
        result.checkpoint
    )
}
