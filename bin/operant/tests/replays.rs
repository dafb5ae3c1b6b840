//! Algorithms with a replay as a user runs them: impossible requests are one error each, and a damaged replay loses nothing.

use std::path::{Path, PathBuf};

use crate::common::Sandbox;

#[test]
fn impossible_requests_are_one_error_each() {
    let place = Sandbox::new();
    // Settings, and what the error says: the last part is of the remedy.
    let sac: &[(&[&str], &[&str])] = &[
        (
            &["batch_size=8000"],
            &["batch_size = 8000 is more than learning_starts = 5000", "lower batch_size"],
        ),
        (&["learning_starts=50"], &["batch_size = 256 is more than learning_starts = 50", "where: --set"]),
        (
            &["buffer_size=100"],
            &["buffer_size = 100 is less than learning_starts = 5000", "raise buffer_size"],
        ),
        (&["learning_starts=2000000"], &["is less than learning_starts = 2000000", "where: --set"]),
        (&["num_envs=4096", "buffer_size=6000"], &["less than two steps of num_envs = 4096"]),
        (&["buffer_size=4294967296"], &["needs", "GiB are available", "use a buffer_size of at most"]),
        (&["buffer_size=1e12"], &["is too large", "at most 4294967296"]),
        (&["max_updates_per_step=0.5"], &["is less than updates_per_step = 1", "or set it to 0"]),
        (&["max_updates_per_step=4"], &["ant does not step in processes of its own", "where: --set"]),
        (&["n_step=0"], &["n_step = 0 is too small", "at least 1"]),
        (&["tau=0"], &["tau = 0: the target networks would never follow", "above 0"]),
        (&["tau=2"], &["tau = 2 is not a number from 0 to 1"]),
        (&["updates_per_step=-1"], &["updates_per_step = -1 is not a finite number above 0"]),
        (&["core=gru"], &["networks with critics of actions have no memory", "core = \"mlp\""]),
        (&["burn_in=4"], &["burn_in is a setting of algorithm = \"dqn\""]),
        (&["intrinsic=counts"], &["intrinsic is a setting of algorithm = \"ppo\""]),
        (&["norm_reward=true"], &["norm_reward is a setting of", "the run has \"sac\""]),
        (&["target_kl=0.1"], &["target_kl is a setting of algorithm = \"ppo\""]),
        (&["replay_size=10"], &["\"replay_size\" is not a configuration key", "\"buffer_size\" here"]),
    ];
    for (settings, parts) in sac {
        let mut args = vec!["train", "ant", "--algorithm", "sac", "--set", "learning_starts=5000"];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        place.operant(&args).assert_error(2, parts);
    }
    for (args, parts) in [
        (&["cartpole", "--algorithm", "sac"][..], &["\"sac\" needs actions that are real numbers"][..]),
        (&["cartpole", "--algorithm", "td3"], &["\"td3\" needs actions that are real numbers"]),
        (&["pendulum", "--algorithm", "dqn"], &["\"dqn\" chooses among actions"]),
        (
            &["cartpole", "--algorithm", "dqn", "--set", "core=gru", "--set", "sequence_length=7"],
            &["batch_size = 64 is no multiple of sequence_length = 7", "a multiple of sequence_length"],
        ),
        (
            &["cartpole", "--algorithm", "dqn", "--set", "core=gru", "--set", "burn_in=1000"],
            &["learning_starts = 1000 gives num_envs = 1 environments no more than the 1032 steps"],
        ),
        (&["cartpole", "--algorithm", "dqn", "--set", "burn_in=4"], &["core = \"mlp\" has no memory"]),
        (&["pendulum", "--algorithm", "ddpg"], &["algorithm = \"ddpg\" is not one of the choices", "sac"]),
        (
            &["pendulum", "--set", "checkpoint_replay=true"],
            &["checkpoint_replay is a setting of algorithm = ", "the run has \"ppo\""],
        ),
    ] {
        place.operant(&[&["train"], args].concat()).assert_error(2, parts);
    }
    assert!(!place.path().join("runs").exists(), "nothing was trained");
}

const RUN: &[&str] = &[
    "train",
    "pendulum",
    "--algorithm",
    "sac",
    "--name",
    "mine",
    "--quiet",
    "--steps",
    "400",
    "--set",
    "num_envs=2",
    "--set",
    "num_steps=50",
    "--set",
    "learning_starts=100",
    "--set",
    "batch_size=16",
    "--set",
    "hidden=8",
    "--set",
    "eval_episodes=2",
    "--set",
    "checkpoint_interval=1",
    "--set",
    "checkpoint_replay=true",
];

/// The files of a directory below its directory, with their bytes.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found: Vec<_> = std::fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![(path.clone(), std::fs::read(&path).expect("read"))],
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_damaged_replay_falls_back_or_is_one_error_that_names_it_and_loses_nothing() {
    let place = Sandbox::new();
    let trained = place.operant(RUN);
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    let whole = place.final_state("mine");
    let all: Vec<PathBuf> =
        place.checkpoints("mine").into_iter().map(|(_, path)| path.join("replay.safetensors")).collect();
    let last = all.last().expect("a checkpoint");
    let bytes = std::fs::read(last).expect("read");
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 4;
    for damaged in [Some(&bytes[..bytes.len() / 2]), Some(&flipped), Some(&[]), None] {
        match damaged {
            Some(damaged) => std::fs::write(last, damaged).expect("written"),
            None => std::fs::remove_file(last).expect("removed"),
        }
        // A policy needs no replay.
        let eval = place.operant(&["eval", "mine", "--episodes", "2", "--json"]);
        assert_eq!((eval.code, &eval.stderr[..]), (Some(0), ""), "{eval:#?}");
        let resumed = place.operant(&["train", "--resume", "mine", "--quiet"]);
        assert_eq!(resumed.code, Some(0), "{resumed:#?}");
        for part in ["warning: ", "/replay.safetensors is ", "is used instead"] {
            assert!(resumed.stderr.contains(part), "{resumed:#?}");
        }
        assert_eq!(place.final_state("mine"), whole, "the lost update was trained again, to the same bits");
    }
    // All of them.
    let sound: Vec<_> = all.iter().map(|path| (path, std::fs::read(path).expect("read"))).collect();
    all.iter().for_each(|path| std::fs::write(path, "no replay").expect("written"));
    let before = files(&place.path().join("runs/mine/checkpoints"));
    place.operant(&["train", "--resume", "mine"]).assert_error(
        2,
        &["can be loaded", "replay.safetensors is damaged", "--init-from RUN needs no replay"],
    );
    assert_eq!(files(&place.path().join("runs/mine/checkpoints")), before, "nothing is lost");
    sound.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).expect("written"));

    // Another size than the run's.
    let other = ["train", "--resume", "mine", "--steps", "500", "--set", "buffer_size=150"];
    let before = files(&place.path().join("runs/mine/checkpoints"));
    place
        .operant(&other)
        .assert_error(2, &["replay.safetensors does not fit", "here are 76 of 2", "buffer_size"]);
    assert_eq!(files(&place.path().join("runs/mine/checkpoints")), before, "nothing is lost");
    let resumed = place.operant(&["train", "--resume", "mine", "--steps", "500", "--quiet"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
}

#[test]
fn a_run_without_its_replay_says_that_it_fills_another_and_one_that_never_learns_is_warned_of() {
    let place = Sandbox::new();
    let without: Vec<&str> = RUN
        .iter()
        .map(|arg| arg.strip_suffix("replay=true").map_or(*arg, |_| "checkpoint_replay=false"))
        .collect();
    let without: Vec<&str> = without.into_iter().filter(|arg| *arg != "--quiet").collect();
    let trained = place.operant(&without);
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    assert!(!trained.stderr.contains("warning"), "{trained:#?}");
    let resumed = place.operant(&["train", "--resume", "mine", "--steps", "600"]);
    assert!(
        resumed.stderr.contains("the checkpoint has no replay: a new one is filled with 100"),
        "{resumed:#?}"
    );
    let random = place.operant(&["train", "pendulum", "--algorithm", "sac", "--steps", "500", "--quiet"]);
    assert_eq!(random.code, Some(0), "{random:#?}");
    assert!(
        random.stderr.contains("warning: all of the 500 steps are random and nothing is learned"),
        "{random:#?}"
    );
}

#[test]
fn runs_and_reports_name_the_algorithm() {
    let place = Sandbox::new();
    for (name, algorithm, seed) in
        [("a", "dqn", "1"), ("b", "DQN", "2"), ("c", "dqn", "1"), ("d", "ppo", "1")]
    {
        let args = ["train", "cartpole", "--quiet", "--steps", "2048", "--set", "threads=1"];
        let own = ["--name", name, "--algorithm", algorithm, "--seed", seed];
        assert_eq!(place.operant(&[&args[..], &own].concat()).code, Some(0));
    }
    let rows = place.operant(&["runs"]).stdout;
    assert!(rows.starts_with("run\tenvironment\talgorithm\tstate\t"), "{rows}");
    let listed = place.operant(&["runs", "--filter", "algorithm=ppo", "--json"]).json();
    assert_eq!((&listed["run"], &listed["algorithm"]), (&"d".into(), &"ppo".into()));
    assert!(place.operant(&["show", "a"]).stdout.contains("environment  cartpole with DQN on cpu, seed 1"));
    assert!(place.operant(&["monitor", "a", "--once"]).stdout.contains("cartpole · DQN · on cpu"));
    // Settings of an algorithm do not tell it from another, and the same run twice is one seed.
    let report = place.operant(&["report", "a", "b", "c", "d", "--json"]).json();
    let groups = report["environments"][0]["groups"].as_array().expect("groups");
    let names: Vec<(&str, usize)> = (groups.iter())
        .map(|group| (group["name"].as_str().unwrap(), group["runs"].as_array().unwrap().len()))
        .collect();
    assert!(
        names.len() == 2 && names.contains(&("algorithm=dqn", 2)) && names.contains(&("algorithm=ppo", 1)),
        "{names:?}"
    );
    place
        .operant(&["tune", "cartpole", "--algorithm", "dqn"])
        .assert_error(2, &["cannot tune \"dqn\"", "operant sweep"]);
}
