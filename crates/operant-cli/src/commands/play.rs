//! `operant play`: shows episodes of a trained agent, of random actions or of the keyboard, in the terminal or as a
//! film.

mod episodes;
mod film;
pub mod keyboard;
mod window;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use operant_draw::film::Film;
use operant_env::{AnyEnv, EnvOptions, Registry};
use operant_learn::EvalActions;
use operant_learn::cpu::inference::Inference;
use operant_run::config::{self, EnvFacts};
use operant_run::eval::EvalTarget;
use operant_run::{CommandLine, Error, ErrorKind, SavedPolicy, device, dir, opponent, world};

use self::episodes::{Agent, Outcome, Tile};
use self::film::Format;
pub use self::keyboard::Keyboard;
use self::window::{Numbers, Window};
use super::checkpoints;
use super::overrides::RunFlags;
use crate::output;

/// Number of episodes that --best and --worst choose from.
const CANDIDATES: u32 = 100;

/// Show an agent, or play yourself
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A run's name or path for its latest checkpoint, RUN@STEP for its checkpoint at that step, a checkpoint's path, or an environment's name (random actions)
    #[arg(value_name = "RUN|ENV")]
    what: String,
    /// Act with the arrow keys, digits and letters
    #[arg(long, conflicts_with_all = ["best", "worst"])]
    keyboard: bool,
    /// With --keyboard: every step waits for a key
    #[arg(long, requires = "keyboard")]
    turns: bool,
    /// In a game, who plays the other side: random, minimax:DEPTH, mcts:PLAYOUTS, a run, a checkpoint, or self for all sides [default: as in eval; self without a run]
    #[arg(long, value_name = "WHO")]
    opponent: Option<String>,
    /// Episodes to show [default: until q; with --record, --best or --worst, 1]; with --all, of each checkpoint
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    episodes: Option<u32>,
    /// Seed of the episodes [default: that of the run, or 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Show an episode of each checkpoint of the run, from the first to the last
    #[arg(long, conflicts_with_all = ["best", "worst", "keyboard"])]
    all: bool,
    /// Show the episodes with the highest returns of 100
    #[arg(long, conflicts_with = "worst")]
    best: bool,
    /// Show the episodes with the lowest returns of 100
    #[arg(long)]
    worst: bool,
    /// Draw actions from the policy, as in training, instead of the most
    /// probable one
    #[arg(long, conflicts_with = "keyboard")]
    sample: bool,
    /// Write a film: .gif, .mp4 (needs ffmpeg), or .png, a sheet of up to 12 frames
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    of_run: RunFlags,
}

const AFTER_HELP: &str = "\
Examples:
  operant play first                        the greedy policy of a run
  operant play first --worst                its worst episode of 100
  operant play cartpole --keyboard          play with the keyboard
  operant play minatar_breakout             random actions
  operant play connect_four --keyboard --opponent first
                                            play against an agent
  operant play first --best --record a.gif  a film; needs no terminal
  operant play first --all --record a.gif   a film through training: best with
                                            keep_checkpoints=log

Keys: q quits, space pauses, n goes to the next episode. With --keyboard the
window shows which key is which action. If an action is named none or stay, it
is taken while no key is pressed; otherwise, or with --turns, every step waits
for a key. Without --turns, an action that is one real number is 0 while no key
is pressed. The first episode begins when a key is pressed.

A run's episodes are those of `operant eval`, starting with the first. If a name
is both an environment and a run, the environment is used; give runs/NAME for
the run.

Exit codes: 0, 2 for bad usage, 1 for what cannot be read or written, 128 + N
after signal N.";

/// The environment and the agent that plays it.
struct Cast {
    env: Arc<dyn AnyEnv>,
    agent: Agent,
    /// The title of the window: environment and agent.
    title: String,
    seed: u64,
    /// Who plays the other side of a game by default, as in `operant eval`; None for the agent itself.
    opponent: Option<String>,
    /// The opponent, for the title.
    against: String,
    /// Environment steps that its agent had trained for, where several checkpoints are shown.
    trained: Option<u64>,
}

/// Plays, prints how the episodes ended and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let line = args.of_run.command_line()?;
    let format = args.record.as_deref().map(Format::of).transpose()?;
    if let Some(episodes) = args.episodes.filter(|&count| (args.best || args.worst) && count > CANDIDATES) {
        let error = Error::usage(format!("--best and --worst choose among {CANDIDATES} episodes"));
        return Err(error
            .at(format!("--episodes {episodes}"))
            .remedy(format!("give at most {CANDIDATES}"))
            .into());
    }
    let mut casts = casts(args, &line, registry)?;
    let runs = config::run_dir(registry.known(), &line)?;
    for cast in &mut casts {
        let who = args.opponent.as_ref().or(cast.opponent.as_ref());
        if let Some(who) = who.filter(|who| *who != opponent::ITSELF) {
            cast.env = opponent::against(&cast.env, who, &runs)?;
            cast.against = format!(" against {who}");
            cast.title += &cast.against;
        }
    }
    let needs_window = args.record.is_none() || args.keyboard;
    if needs_window && !std::io::stdout().is_terminal() {
        let error = Error::usage("standard output is not a terminal, in which episodes are shown");
        let remedy = match args.keyboard {
            true => "run it in a terminal, or remove --keyboard",
            false => "record a film instead: --record FILE.gif",
        };
        return Err(error.remedy(remedy).into());
    }
    let spec = casts[0].env.spec();
    let keyboard = args.keyboard.then(|| Keyboard::of(&spec, args.turns)).transpose()?;
    if keyboard.is_some() {
        casts[0].title = format!("{}: keyboard{}", spec.name, casts[0].against);
    }
    let numbers = numbers(args, &casts[0])?;
    let tile = Tile::new(&casts[0], numbers.first()).map_err(failed)?;
    let film = args.record.as_ref().map(|_| Film::new(&spec.name, spec.fps));
    let mut window = Window::new(&casts, tile, numbers, keyboard, film);
    let code = if needs_window { window.show()? } else { window.play_all()? };
    let Window { outcomes, film, .. } = window;
    output::print(&outcomes.iter().map(Outcome::line).collect::<String>())?;
    if let (Some(film), Some(format), Some(path)) = (film, format, &args.record) {
        output::print(&film::write(&film, format, path)?)?;
    }
    Ok(code)
}

/// The error for an environment that failed.
fn failed(error: operant_env::StepError) -> Error {
    Error::new(ErrorKind::Device, error.to_string())
}

/// The episodes to show.
fn numbers(args: &Args, cast: &Cast) -> anyhow::Result<Numbers> {
    if !(args.best || args.worst) {
        let one = args.all || (args.record.is_some() && !args.keyboard);
        return Ok(Numbers::FromZero { count: args.episodes.or(one.then_some(1)) });
    }
    let mut ranked = episodes::play(cast, CANDIDATES).map_err(failed)?;
    // Episodes with equal returns stay in order (the sort is stable).
    let sign = if args.best { -1.0 } else { 1.0 };
    ranked.sort_by(|a, b| (sign * a.episodic_return).total_cmp(&(sign * b.episodic_return)));
    let count = args.episodes.unwrap_or(1) as usize;
    Ok(Numbers::These(ranked[..count].iter().map(|outcome| outcome.number).collect()))
}

/// The environment with these options.
fn with_options(env: &dyn AnyEnv, options: &EnvOptions) -> Result<Arc<dyn AnyEnv>, Error> {
    env.with_options(options).map_err(|error| {
        let name = env.spec().name;
        Error::usage(error.to_string())
            .remedy(format!("`operant envs {name}` lists the options and their values"))
    })
}

/// An environment in worker processes has no picture.
fn check_picture(env: &dyn AnyEnv) -> Result<(), Error> {
    if !env.leaves().is_empty() {
        return Ok(());
    }
    let what = format!("{} cannot be drawn: Gymnasium environments run in worker processes", env.spec().name);
    Err(Error::usage(what).remedy(
        "watch it in Python: make the environment with render_mode=\"human\" and call `operant.load(RUN)` on its observations; docs/your-own-world.md has the loop",
    ))
}

/// The environment, or the environment and policies of the run, that the arguments name; at least one.
fn casts(args: &Args, line: &CommandLine, registry: &Registry) -> anyhow::Result<Vec<Cast>> {
    let what = &args.what;
    // A run may have a colon in its name.
    let is_run = || config::run_dir(registry.known(), line).is_ok_and(|runs| EvalTarget::is_run(&runs, what));
    let found = match registry.find(what) {
        Ok(env) => Ok(Arc::clone(env)),
        Err(_) if world::is_file(what) || (world::is_python(what) && !is_run()) => {
            Ok(device::find(registry, what)?)
        }
        Err(unknown) => Err(unknown),
    };
    let unknown = match found {
        Ok(env) => {
            check_picture(&*env)?;
            let spec = env.spec();
            let settings = config::requested(EnvFacts::of(&spec, registry), line, None)?.settings;
            let env = with_options(&*env, &settings.env_options)?;
            if args.sample || args.all {
                let flag = if args.all { "--all" } else { "--sample" };
                let error = Error::usage(format!("{} is an environment, which has no policy", args.what));
                return Err(error.at(flag).remedy("give a run, such as runs/NAME").into());
            }
            let runs = config::run_dir(registry.known(), line)?;
            if let Ok(run) = dir::find(&runs, &args.what) {
                output::warn(&format!("{} is also a run; to play it, give {}", args.what, run.display()));
            }
            let title = format!("{}: random actions", spec.name);
            let seed = args.seed.unwrap_or(settings.learner.seed);
            return Ok(vec![Cast {
                agent: Agent::Random,
                env,
                title,
                seed,
                opponent: None,
                against: String::new(),
                trained: None,
            }]);
        }
        Err(unknown) => unknown,
    };
    let parent = config::run_dir(registry.known(), line)?;
    if !Path::new(&args.what).is_dir() && !EvalTarget::is_run(&parent, &args.what) {
        if dir::locate_sweep(&parent, &args.what).is_some() {
            dir::find(&parent, &args.what)?;
        }
        let hint = unknown.nearest.map_or_else(String::new, |name| format!(" (did you mean \"{name}\"?)"));
        let what = format!("no environment or run is named \"{}\"{hint}", args.what);
        let remedy = "`operant envs` lists the environments, `operant runs` the runs; --run-dir sets the directory of the runs";
        return Err(Error::usage(what).remedy(remedy).into());
    }
    let load = |what: &str| SavedPolicy::load_with(registry, &parent, what, line);
    if !args.all {
        return Ok(vec![trained(args, load(&args.what)?)?]);
    }
    let mut casts = Vec::new();
    for target in checkpoints::all_of(&parent, &args.what)? {
        match load(&target) {
            Ok(saved) => casts.push(trained(args, saved)?),
            // Damaged, or removed by the run meanwhile.
            Err(error) => output::warn(&error.to_string()),
        }
    }
    if casts.is_empty() {
        return Err(checkpoints::none(&args.what, &dir::find(&parent, &args.what)?).into());
    }
    Ok(casts)
}

/// The cast of a trained policy.
fn trained(args: &Args, saved: SavedPolicy) -> operant_run::Result<Cast> {
    saved.warnings.iter().for_each(|warning| output::warn(warning));
    let SavedPolicy { run, env_steps, policy, env, seed, opponent, .. } = saved;
    check_picture(&*env)?;
    let actions = if args.sample { EvalActions::Sampled } else { EvalActions::Greedy };
    let sampled = if args.sample { ", sampled" } else { "" };
    let title = format!("{}: {run} at {env_steps} steps{sampled}", policy.env);
    let seed = args.seed.unwrap_or(seed);
    let agent = Agent::Policy { inference: Box::new(Inference::new(policy)), actions };
    let against = String::new();
    Ok(Cast { agent, env, title, seed, opponent, against, trained: args.all.then_some(env_steps) })
}
