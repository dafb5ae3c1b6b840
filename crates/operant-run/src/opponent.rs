//! The opponent in a game: one that moves by a rule, or the policy of a checkpoint.

use std::path::Path;
use std::sync::Arc;

use operant_env::search::{REMEDY, SCRIPTED, Scripted};
use operant_env::{AnyEnv, EnvSpec, Versus, builtin};
use operant_learn::TrainedPolicy;
use operant_learn::cpu::inference::Inference;
use operant_learn::opponent::PolicyOpponent;
use operant_learn::pool::{Pool, PoolOptions};

use crate::config::{self, CommandLine, EnvFacts, RunConfig, Settings};
use crate::device::learn_error;
use crate::error::{Error, Result};
use crate::eval::EvalTarget;
use crate::league::Player;

/// The value of `opponent` with which the agent plays all sides itself.
pub const ITSELF: &str = "self";

/// The value of `opponent` with which policies that the run had earlier play the other side.
pub const POOL: &str = "pool";

/// Who plays the other side in evaluations of a run with this `opponent`.
pub fn evaluated(opponent: Option<&str>) -> &str {
    opponent.filter(|who| ![ITSELF, POOL].contains(who)).unwrap_or("random")
}

/// The environment that a run with these settings trains in: with another opponent than itself, one side of the game.
///
/// # Errors
/// When the environment has one player, or the opponent cannot play it.
pub fn opposed(env: Arc<dyn AnyEnv>, settings: &Settings) -> Result<Arc<dyn AnyEnv>> {
    let Some(what) = &settings.run.opponent else { return Ok(env) };
    let at = |error: Error| match settings.origin("opponent") {
        Some(origin) if error.place.is_none() => error.at(origin.to_string()),
        _ => error,
    };
    let is_game = env.spec().players > 1;
    match what.as_str() {
        ITSELF if is_game => Ok(env),
        POOL if is_game => {
            let RunConfig { pool_size, pool_interval, pool_latest, pool_sampling, .. } = settings.run;
            let (size, interval, latest, sampling) = (pool_size, pool_interval, pool_latest, pool_sampling);
            let options = PoolOptions { size, interval, latest, sampling };
            let pool = Pool::new(&*env, &settings.learner, options)
                .map_err(|error| learn_error(error, |key| settings.origin(key).cloned()))?;
            Ok(Arc::new(Versus::new(env, Arc::new(pool))))
        }
        _ => against(&env, what, &settings.run.run_dir).map_err(at),
    }
}

/// A game as an environment of one player, against an opponent that [`find`] finds.
///
/// # Errors
/// When the environment has one player, or the opponent cannot play it.
pub fn against(env: &Arc<dyn AnyEnv>, what: &str, run_dir: &Path) -> Result<Arc<dyn AnyEnv>> {
    let EnvSpec { name, players, .. } = env.spec();
    if players == 1 {
        let error = Error::usage(format!("the opponent is \"{what}\", but {name} has one player"));
        return Err(error.remedy("leave the opponent out"));
    }
    Ok(Arc::new(Versus::new(Arc::clone(env), find(env, what, run_dir, false)?.opponent)))
}

/// A player of a game by its name: one of [`SCRIPTED`], or what [`EvalTarget::find`] takes, which draws its moves unless it `is_greedy`.
///
/// # Errors
/// When there is none of that name, or it was trained for something else.
pub fn find(env: &Arc<dyn AnyEnv>, what: &str, run_dir: &Path, is_greedy: bool) -> Result<Player> {
    if let Ok(scripted) = what.parse::<Scripted>() {
        if let Some(why) = scripted.refused(&env.spec()) {
            return Err(Error::usage(format!("{what} cannot play {}: {why}", env.spec().name)).remedy(REMEDY));
        }
        let opponent = scripted.opponent();
        return Ok(Player { name: opponent.name(), trained: None, opponent });
    }
    if what.starts_with("minimax:") || what.starts_with("mcts:") {
        let error = Error::usage(format!("there is no opponent \"{what}\""));
        return Err(error.remedy(format!("give a run or a checkpoint, or {SCRIPTED}")));
    }
    if what == POOL {
        let error = Error::usage("a pool is made of what a run has learned, and plays in its training alone");
        return Err(error.remedy(format!("give a run or a checkpoint, or {SCRIPTED}")));
    }
    let found = EvalTarget::find(run_dir, what).map_err(|error| Error {
        remedy: Some(format!("give a run or a checkpoint, or {SCRIPTED}")),
        ..error
    });
    let EvalTarget { run, path, checkpoint, .. } = found?;
    let (name, path) = (env.spec().name, path.display().to_string());
    if checkpoint.env != name {
        return Err(Error::usage(format!(
            "the opponent {what} was trained in {}, not in {name}",
            checkpoint.env
        ))
        .at(path)
        .remedy(format!("give a run of {name}")));
    }
    let facts = EnvFacts::of(&env.spec(), &builtin().with_shared(Arc::clone(env)));
    let requested = config::requested(facts, &CommandLine::default(), Some((&run, &checkpoint.config)))?;
    let policy = TrainedPolicy::from_snapshot(&**env, &requested.settings.learner, &checkpoint.snapshot)
        .map_err(|error| Error::from(error).at(path))?;
    let name = format!("{run} at step {}", checkpoint.env_steps);
    let opponent = Arc::new(PolicyOpponent::new(name.clone(), Inference::new(policy), is_greedy));
    Ok(Player { name, trained: Some((run, checkpoint.env_steps)), opponent })
}
