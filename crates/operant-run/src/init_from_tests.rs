//! Runs that begin with the weights of other runs, on the CPU.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::*;
use crate::checkpoint::{self, Checkpoint};
use crate::config::{CommandLine, EnvFacts, Origin, Requested};
use crate::device;
use crate::progress::{Progress, Tick};
use crate::{Device, Job, Outcome, Resume, eval};
use operant_learn::EvalActions;

/// Settings of every run: updates of 512 steps.
const SMALL: [&str; 12] = [
    "num_envs=16",
    "num_steps=32",
    "num_minibatches=2",
    "update_epochs=2",
    "threads=1",
    "eval_episodes=8",
    "solved_at=1000",
    "lr_schedule=constant",
    "ring=false",
    "csv=false",
    "tensorboard=false",
    "device=cpu",
];

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Progress for Notes {
    fn tick(&mut self, _: &Tick) {}

    fn note(&mut self, line: &str) {
        self.0.lock().expect("unpoisoned").push(line.to_owned());
    }

    fn warn(&mut self, line: &str) {
        self.note(&format!("warning: {line}"));
    }
}

fn requested(runs: &Path, env: &str, resume: Option<&Resume>, set: &[&str]) -> Result<Requested> {
    let registry = operant_env::builtin();
    // An algorithm with a replay does not have them.
    let of_rollouts = ["num_minibatches=2", "update_epochs=2"];
    let has_replay = set.iter().any(|setting| setting.starts_with("learning_starts"));
    let small = SMALL.iter().filter(|setting| !has_replay || !of_rollouts.contains(setting));
    let set = small.chain(set).map(ToString::to_string).collect();
    let flags = vec![("run_dir", "--run-dir", runs.display().to_string())];
    let line = CommandLine { set, flags, ..CommandLine::default() };
    let saved = resume.map(|resume| (resume.name(), resume.config()));
    config::requested(EnvFacts::registered(&registry, env)?, &line, saved)
}

/// Trains, or continues the run `resumed`; returns the notes too.
fn carry_out(runs: &Path, env: &str, resumed: Option<&str>, set: &[&str]) -> Result<(Outcome, Vec<String>)> {
    let resume = resumed.map(|run| Resume::open(runs, run)).transpose()?;
    let requested = requested(runs, env, resume.as_ref(), set)?;
    let env = device::find(&operant_env::builtin(), env)?;
    let notes = Notes::default();
    let job = Job { resume, progress: Box::new(notes.clone()), ..Job::new(requested) };
    let outcome = crate::train(job, |requested, device| crate::backend(&env, requested, device))?;
    let notes = notes.0.lock().expect("unpoisoned").clone();
    Ok((outcome, notes))
}

/// Trains a new run, and returns the line about its weights.
fn trained(runs: &Path, env: &str, name: &str, set: &[&str]) -> String {
    let name = format!("name={name}");
    let (_, notes) = carry_out(runs, env, None, &[set, &[&name]].concat()).expect("trained");
    notes.into_iter().find(|note| note.starts_with("weights:")).unwrap_or_default()
}

/// The checkpoint of a run at a step.
fn at(runs: &Path, name: &str, step: u64) -> Checkpoint {
    EvalTarget::find(runs, &format!("{name}@{step}")).expect("a checkpoint").checkpoint
}

fn latest(runs: &Path, name: &str) -> Snapshot {
    checkpoint::load_latest(&runs.join(name).join("checkpoints")).expect("a checkpoint").checkpoint.snapshot
}

/// The tensors of a kind.
fn tensors<'a>(snapshot: &'a Snapshot, kind: &str) -> Vec<&'a Tensor> {
    snapshot.tensors.iter().filter(|tensor| tensor.name.starts_with(kind)).collect()
}

/// Mean return of greedy episodes of a checkpoint.
fn mean_return(runs: &Path, what: &str) -> f64 {
    let target = EvalTarget::find(runs, what).expect("found");
    let registry = operant_env::builtin();
    let facts = EnvFacts::registered(&registry, &target.checkpoint.env).expect("built in");
    let saved = Some((target.run.as_str(), target.checkpoint.config.as_str()));
    let requested = config::requested(facts, &CommandLine::default(), saved).expect("valid");
    let env = device::find(&registry, &target.checkpoint.env).expect("built in");
    let make = |requested: &Requested| crate::backend(&env, requested, &Device::cpu());
    let played = eval::evaluate(&target, &requested, 20, EvalActions::Greedy, &mut || false, make);
    played.expect("played").eval_return_mean
}

#[test]
fn a_run_begins_with_the_weights_of_another_and_with_nothing_else_of_it() {
    let scratch = tempfile::tempdir().expect("a directory");
    let runs = scratch.path();
    trained(runs, "cartpole", "a", &["hidden=12,8", "norm_obs=true", "total_timesteps=4096"]);
    let from = latest(runs, "a");
    let set = ["init_from=a", "num_envs=32", "learning_rate=1e-30", "total_timesteps=1024"];
    let line = trained(runs, "cartpole", "b", &set);
    assert_eq!(line, "weights: from a at step 4096");

    let begun = at(runs, "b", 0).snapshot;
    for kind in ["params.", "norm_obs."] {
        assert_eq!(tensors(&begun, kind), tensors(&from, kind));
    }
    let is_zero = |tensor: &&Tensor| tensor.data.iter().all(|byte| *byte == 0);
    assert!(tensors(&begun, "exp_avg").iter().all(is_zero) && !tensors(&from, "exp_avg").iter().all(is_zero));
    assert!(begun.counters.values().all(|count| *count == 0), "{:?}", begun.counters);
    assert!(tensors(&begun, "episode.").iter().all(|tensor| tensor.shape == [32]));
    // Steps this small change no bit, so that the last checkpoint plays as the source does.
    let after = latest(runs, "b");
    assert_eq!((tensors(&after, "params."), after.counters["adam_step"]), (tensors(&from, "params."), 4));
    assert!(mean_return(runs, "a") > 20.0, "trained");
    assert_eq!(mean_return(runs, "b@0"), mean_return(runs, "a"));
}

#[test]
fn critics_and_their_targets_begin_with_the_weights_too() {
    let scratch = tempfile::tempdir().expect("a directory");
    let runs = scratch.path();
    let small = ["learning_starts=256", "batch_size=32", "updates_per_step=0.1"];
    let own = ["algorithm=sac", "hidden=8", "total_timesteps=1024"];
    trained(runs, "pendulum", "a", &[&small[..], &own].concat());
    let line =
        trained(runs, "pendulum", "b", &[&small[..], &["init_from=a", "total_timesteps=512"]].concat());
    assert_eq!(line, "weights: from a at step 1024");
    let (from, begun) = (latest(runs, "a"), at(runs, "b", 0).snapshot);
    assert_eq!(tensors(&begun, "params."), tensors(&from, "params."));
    let data = |snapshot: &Snapshot, kind: &str| -> Vec<Vec<u8>> {
        tensors(snapshot, kind).into_iter().map(|tensor| tensor.data.clone()).collect()
    };
    assert_eq!(data(&begun, "targets."), data(&begun, "params."));
    assert_ne!(data(&from, "targets."), data(&from, "params."), "targets lag behind");
}

#[test]
fn the_network_and_its_algorithm_come_from_the_weights_and_what_is_recorded_is_a_checkpoint() {
    let scratch = tempfile::tempdir().expect("a directory");
    let runs = scratch.path();
    trained(
        runs,
        "cartpole",
        "a",
        &["hidden=12", "algorithm=pqn", "shared_trunk=true", "total_timesteps=512"],
    );
    let requested = requested(runs, "cartpole", None, &["init_from=a", "norm_obs=true"]).expect("valid");
    let learner = &requested.settings.learner;
    assert_eq!((&*learner.hidden, learner.algorithm.name(), learner.layer_norm), (&[12][..], "pqn", true));
    let origin = |key: &str| requested.origin(key).map(ToString::to_string).expect("set");
    assert_eq!((origin("hidden"), origin("norm_obs")), ("weights of a at step 512".into(), "--set".into()));
    assert!(
        matches!(requested.origin("learning_rate"), Some(origin) if !matches!(origin, Origin::Weights(_)))
    );
    let recorded = requested.settings.run.init_from.clone().expect("recorded");
    assert!(Path::new(&recorded).is_absolute() && recorded.ends_with("a/checkpoints/step_000000000512"));
    // The values are equal, so that this is no contradiction; and a run's configuration can be used again.
    let again = requested.settings.to_saved_toml();
    std::fs::write(runs.join("again.toml"), again).expect("written");
    let line = CommandLine { config: Some(runs.join("again.toml")), ..CommandLine::default() };
    let facts = EnvFacts::registered(&operant_env::builtin(), "cartpole").expect("built in");
    let again = config::requested(facts, &line, None).expect("valid");
    assert_eq!((&again.settings.learner, again.settings.run.init_from), (learner, Some(recorded)));
}

#[test]
fn layers_of_other_spaces_are_new() {
    let scratch = tempfile::tempdir().expect("a directory");
    let runs = scratch.path();
    let source = ["hidden=12,8", "norm_obs=true", "norm_reward=false", "total_timesteps=512"];
    trained(runs, "mountain_car", "a", &source);
    let line = trained(runs, "mountain_car_continuous", "b", &["init_from=a@512", "total_timesteps=512"]);
    assert_eq!(
        line,
        "weights: from a at step 512; new: policy (3 -> 1 outputs), log_std (not in the checkpoint)"
    );
    let line = trained(runs, "cartpole", "c", &["init_from=a", "total_timesteps=512"]);
    assert_eq!(
        line,
        "weights: from a at step 512; new: actor.0, critic.0 (2 -> 4 inputs), policy (3 -> 2 outputs); \
         statistics of observations are new (2 -> 4 features)"
    );
    let (begun, from) = (at(runs, "c", 0).snapshot, latest(runs, "a"));
    let named = |snapshot: &Snapshot, name| tensors(snapshot, name).into_iter().next().cloned();
    let name = "params.actor.1.weight";
    assert_eq!(named(&begun, name), named(&from, name));
    let line = trained(runs, "mountain_car", "d", &["init_from=a", "norm_obs=false", "total_timesteps=512"]);
    assert!(
        line.ends_with("; observations are not normalised: the weights were trained with norm_obs"),
        "{line}"
    );
}

#[test]
fn a_run_that_began_with_weights_resumes_without_their_source_bit_for_bit() {
    let scratch = tempfile::tempdir().expect("a directory");
    let runs = scratch.path();
    trained(runs, "cartpole", "a", &["hidden=12", "total_timesteps=1024"]);
    let whole = ["init_from=a", "seed=7", "total_timesteps=2048"];
    trained(runs, "cartpole", "whole", &whole);
    trained(runs, "cartpole", "parts", &["init_from=a", "seed=7", "total_timesteps=1024"]);
    trained(runs, "cartpole", "killed", &["init_from=a", "seed=7", "total_timesteps=512"]);
    std::fs::remove_dir_all(runs.join("killed/checkpoints")).expect("removed");

    // Killed before its first checkpoint: the weights are read again.
    let more = ["total_timesteps=2048"];
    let (_, notes) = carry_out(runs, "cartpole", Some("killed"), &more).expect("resumed");
    assert!(notes.iter().any(|note| note == "weights: from a at step 1024"), "{notes:?}");
    assert_eq!(latest(runs, "killed"), latest(runs, "whole"));

    std::fs::remove_dir_all(runs.join("killed/checkpoints")).expect("removed");
    std::fs::remove_dir_all(runs.join("a")).expect("removed");
    let (_, notes) = carry_out(runs, "cartpole", Some("parts"), &more).expect("resumed");
    assert!(!notes.iter().any(|note| note.starts_with("weights:")), "{notes:?}");
    assert_eq!(latest(runs, "parts"), latest(runs, "whole"));
    let error = carry_out(runs, "cartpole", Some("killed"), &more).expect_err("its weights are lost");
    assert!(error.to_string().contains("there is no run") && error.exit_code() == 2, "{error}");
}

#[test]
fn weights_of_another_network_are_refused_before_a_run_begins() {
    let scratch = tempfile::tempdir().expect("a directory");
    let runs = scratch.path();
    trained(runs, "cartpole", "a", &["hidden=12", "total_timesteps=512"]);
    for (env, set, what, place) in [
        ("cartpole", "hidden=13", "hidden = [13] does not match the weights of a at step 512", "--set"),
        ("cartpole", "core=gru", "core = \"gru\" does not match the weights of a", "--set"),
        ("cartpole", "algorithm=pqn", "which have algorithm = \"ppo\"", "--set"),
        ("acrobot", "seed=1", "no hidden layer of a at step 512 fits", "step_000000000512"),
        ("cartpole", "init_from=b", "there is no run \"b\"", &runs.display().to_string()),
        ("cartpole", "init_from=a@1e5", "run a has no checkpoint at step 100000", "a/checkpoints"),
        ("cartpole", "init_from=a@last", "\"last\" in a@last is not a step", "--set"),
    ] {
        let error = carry_out(runs, env, None, &["name=x", "init_from=a", set]).expect_err("refused");
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.what.contains(what), "{error}");
        assert!(
            error.place.as_ref().is_some_and(|at| at.contains(place)) && error.remedy.is_some(),
            "{error}"
        );
        assert!(!runs.join("x").exists());
    }
    let error = EvalTarget::find(runs, "a@7").expect_err("none");
    assert_eq!(error.remedy.as_deref(), Some("the nearest: a@512"));
    assert_eq!(EvalTarget::find(runs, "a@5.12e2").expect("found").checkpoint.env_steps, 512);
}
