//! Worlds from outside the program: files, and classes that a Python records. The Python here is a script that answers as Python does.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Finished, SMALL, Sandbox};

/// A world that was recorded from examples/worlds.
fn fixture(name: &str) -> String {
    format!("{}/../../crates/operant-env/tests/data/{name}.world", env!("CARGO_MANIFEST_DIR"))
}

/// `operant` with a Python of its own, whose environment is active.
fn with_python(place: &Sandbox, script: &str, args: &[&str]) -> Finished {
    let python = place.path().join("venv/bin/python");
    std::fs::create_dir_all(python.parent().expect("a directory")).expect("made");
    std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let mut command = place.command(args);
    Finished::of(command.env("VIRTUAL_ENV", place.path().join("venv")).output().expect("started"))
}

#[test]
fn a_world_trains_and_its_run_needs_no_file() {
    let place = Sandbox::new();
    std::fs::copy(fixture("cartpole"), place.path().join("mine.world")).expect("copied");
    let short = ["--set", "total_timesteps=1280", "--set", "eval_episodes=2", "--quiet"];
    let train = [&["train", "./mine.world", "--name", "first"][..], SMALL, &short[..]].concat();
    assert_eq!(place.operant(&train).code, Some(0));
    std::fs::remove_file(place.path().join("mine.world")).expect("removed");
    assert_eq!(place.operant(&["eval", "first", "--episodes", "2", "--json"]).json()["env"], "my_cartpole");

    // Another world of the name in the run's place: its checkpoint is refused, and nothing changes.
    let kept = place.path().join("runs/first/env.world");
    let text = std::fs::read_to_string(&kept).expect("the run keeps its world");
    std::fs::write(&kept, text.replacen("\"time_limit\":500", "\"time_limit\":400", 1)).expect("written");
    assert_eq!(place.operant(&["eval", "first", "--episodes", "2"]).code, Some(0), "a limit is no rule");
    std::fs::write(&kept, text.replacen("\"float_mul\"", "\"float_add\"", 1)).expect("written");
    place.operant(&["eval", "first"]).assert_error(2, &["its file or rules have changed", "step_"]);
    std::fs::write(&kept, text.replacen("my_cartpole", "other", 1)).expect("written");
    place
        .operant(&["eval", "first"])
        .assert_error(2, &["trained with my_cartpole", "contains other", "env.world"]);
}

#[test]
fn files_that_are_no_worlds_are_refused() {
    let place = Sandbox::new();
    place
        .operant(&["train", "./none.world"])
        .assert_error(2, &["cannot be read", "./none.world", "check the path"]);
    place.write("text.world", "hello");
    place.operant(&["train", "text.world"]).assert_error(2, &["it is not a world", "text.world"]);
    let text = std::fs::read_to_string(fixture("cartpole")).expect("a fixture");
    place.write("later.world", &text.replacen("\"operant_world\": 1", "\"operant_world\": 9", 1));
    place.operant(&["envs", "later.world"]).assert_error(2, &["version 9", "update operant"]);
    place.write("own.world", &text.replacen("solved_at = 475.0", "run_dir = 'there'", 1));
    place.operant(&["train", "own.world"]).assert_error(2, &["preset sets run_dir", "own.world"]);
    place.write(
        "alias.world",
        &text.replacen("\"summary\"", "\"aliases\": [\"mine\", \"CartPole-v1\"], \"summary\"", 1),
    );
    place.operant(&["train", "alias.world"]).assert_error(
        2,
        &["an alias of the world names the built-in environment cartpole", "remove the alias"],
    );
    place.write("slow.world", &text.replacen("\"fps\": 50.0", "\"fps\": 1e-38", 1));
    place.operant(&["play", "slow.world"]).assert_error(2, &["fps is 1e-38; 0.1 to 1000 are possible"]);
    place.write("taken.world", &text.replacen("my_cartpole", "cartpole", 1));
    place
        .operant(&["train", "taken.world"])
        .assert_error(2, &["built-in environment cartpole", "my_cartpole"]);
    assert!(!Path::new(&place.path().join("runs")).exists(), "nothing was trained");
}

#[test]
fn classes_are_recorded_by_the_active_python() {
    let place = Sandbox::new();
    let copy = format!(
        "echo printed by the module; [ \"$3\" = operant._record ] && cp {} \"$5\"",
        fixture("cartpole")
    );
    let shown = with_python(&place, &copy, &["emit", "mine.py:CartPole"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    assert!(shown.stdout.starts_with("// my_cartpole"), "only the result is on stdout: {}", shown.stdout);
    assert!(
        shown.stderr.contains("recording mine.py:CartPole with") && shown.stderr.contains("venv/bin/python")
    );

    // What Python says when the package is missing, or an older one without this module.
    for message in [
        "python: Error while finding module specification for 'operant._record' (ModuleNotFoundError: No module named 'operant')",
        "python: No module named operant._record",
    ] {
        let failed =
            with_python(&place, &format!("echo \"{message}\" >&2; exit 1"), &["train", "mine:World"]);
        failed.assert_error(2, &["has no package operant", "pip install operant-rl"]);
    }
    // A module of the user's whose name begins alike.
    let message = "ModuleNotFoundError: No module named 'operant_extras'\n  mine.py:1 in <module>";
    let failed = with_python(&place, &format!("printf \"{message}\" >&2; exit 1"), &["train", "mine:World"]);
    failed.assert_error(2, &["No module named 'operant_extras'", "where: mine:World"]);
    let missing = place.path().join("missing");
    let missing =
        place.command(&["train", "mine:World"]).env("VIRTUAL_ENV", missing).output().expect("started");
    Finished::of(missing).assert_error(2, &["cannot be started", "activate the Python environment"]);
}

/// What Python writes of a Gymnasium environment.
const DESCRIPTION: &str = r#"{"operant_gym":1,"make":"gym:Mine-v0","directory":"/","masked":false,"starts":[0],"atari":false,"spec":{"name":"mine_v0","obs":{"box":{"low":[-1.0],"high":["inf"]}},"actions":{"discrete":[2]},"time_limit":10}}"#;

/// A Python that records this description, and does something else as a worker.
fn records(description: &str, worker: &str) -> String {
    format!("if [ \"$3\" = operant._record ]; then echo '{description}' > \"$5\"; else {worker}; fi")
}

#[test]
fn workers_that_end_before_training_leave_nothing() {
    let place = Sandbox::new();
    for (worker, says) in [
        ("echo hello; printf 'wrong: \\033[2Jthere\\n' >&2; exit 7", "ended with exit code 7"),
        ("kill -9 $$", "was killed by signal 9"),
    ] {
        let train = ["train", "gym:Mine-v0", "--envs", "4", "--set", "env.workers=2", "--quiet"];
        let ended = with_python(&place, &records(DESCRIPTION, worker), &train);
        ended.assert_error(1, &["environment mine_v0: environments 0 to 1: the worker process", says]);
        let is_final =
            ended.stderr.contains("\nno step had been completed, so the worker is not restarted\n");
        assert!(is_final, "a failure in the first reset is final: {}", ended.stderr);
        // What workers print is marked as theirs.
        let is_shown = ended.stderr.contains("\nmine_v0 worker: hello\n")
            && ended.stderr.contains("\nmine_v0 worker: wrong:  [2Jthere\n");
        assert!(is_shown == worker.starts_with("echo"), "{}", ended.stderr);
    }
    assert!(!place.path().join("runs").exists(), "nothing was trained");
}

#[test]
fn descriptions_of_environments_are_checked() {
    let place = Sandbox::new();
    let train = |text: &str| with_python(&place, &records(text, "exit 1"), &["train", "gym:Mine-v0"]);
    train(&DESCRIPTION.replacen("\"operant_gym\":1", "\"operant_gym\":9", 1))
        .assert_error(2, &["version 9", "update operant", "gym:Mine-v0"]);
    train(&DESCRIPTION.replacen("[2]", "[]", 1)).assert_error(2, &["action_space", "no choices"]);
    train(&DESCRIPTION.replacen("\"masked\"", "\"mask\"", 1))
        .assert_error(2, &["not a valid description", "mask"]);
    with_python(&place, "[ \"$3\" = operant._record ]", &["train", "gym:Mine-v0"])
        .assert_error(2, &["exited without recording gym:Mine-v0", "ends the process"]);
    with_python(&place, "kill -9 $$", &["train", "gym:Mine-v0"])
        .assert_error(2, &["was killed by signal 9 while it recorded", "too little memory"]);
    with_python(&place, "exit 3", &["train", "gym:Mine-v0"])
        .assert_error(2, &["ended (exit status: 3) without recording the environment"]);
    let file = place.path().join("mine.world");
    std::fs::write(&file, DESCRIPTION).expect("written");
    place
        .operant(&["train", "./mine.world"])
        .assert_error(2, &["only describes a Gymnasium environment", "gym:ID"]);
    place
        .operant(&["train", "cartpole", "--preset", "atari"])
        .assert_error(2, &["cartpole is not a Gymnasium environment", "--preset"]);
}

/// Replaces what makes the environment in the file of a run.
fn made_by(run: &Path, make: &str) {
    let text = DESCRIPTION.replacen("gym:Mine-v0", make, 1);
    std::fs::write(run.join("env.world"), text).expect("written");
}

#[test]
fn a_strangers_run_starts_no_program_until_it_is_trusted() {
    let place = Sandbox::new();
    // Killed before its first checkpoint, so nothing but the file says what it trains.
    let run = place.path().join("runs/theirs");
    std::fs::create_dir_all(&run).expect("made");
    place.write(
        "runs/theirs/config.toml",
        "environment = \"mine_v0\"\ndevice = \"cpu\"\nnum_envs = 4\n[env]\nworkers = 2\n",
    );
    let evil = "os:system?command=touch evil";
    made_by(&run, evil);
    let started = || std::fs::remove_file(place.path().join("started")).is_ok();
    let resume = |run: &str, more: &[&str]| {
        with_python(&place, "touch started; exit 7", &[&["train", "--resume", run], more].concat())
    };
    let refused = resume("theirs", &[]);
    refused
        .assert_error(2, &[&format!("{evil:?}"), "modules from \"/\"", "runs/theirs/env.world", "--trust"]);
    let bench = ["bench", "train", "--run", "theirs"];
    with_python(&place, "touch started; exit 7", &bench).assert_error(2, &["touch evil", "--trust"]);
    assert!(!started() && !run.join("env.mark").exists(), "{}", refused.stderr);
    made_by(&run, "here:lambda");
    place.operant(&bench).assert_error(2, &["made by a Python function", "runs/theirs/env.world"]);
    made_by(&run, evil);

    resume("theirs", &["--trust"]).assert_error(1, &["ended with exit code 7"]);
    assert!(started());
    // It has this user's mark now, and so has a copy.
    resume("theirs", &[]).assert_error(1, &["ended with exit code 7"]);
    let copied =
        std::process::Command::new("cp").arg("-r").arg(&run).arg(place.path().join("runs/copy")).status();
    assert!(copied.expect("cp").success());
    resume("copy", &[]).assert_error(1, &["ended with exit code 7"]);
    assert!(started());

    // The mark is of this program and of this user.
    made_by(&place.path().join("runs/copy"), "os:system?command=touch evil2");
    resume("copy", &[]).assert_error(2, &["touch evil2", "--trust"]);
    std::fs::remove_dir_all(place.path().join(".cache")).expect("the key is there");
    resume("theirs", &[]).assert_error(2, &["touch evil", "--trust"]);
    assert!(!started());
}

#[test]
fn the_environment_is_compared_with_the_checkpoint_before_a_worker_starts() {
    let place = Sandbox::new();
    std::fs::copy(fixture("cartpole"), place.path().join("mine.world")).expect("copied");
    let short = ["--set", "total_timesteps=1280", "--set", "eval_episodes=2", "--quiet"];
    let train = [&["train", "./mine.world", "--name", "first"][..], SMALL, &short[..]].concat();
    assert_eq!(place.operant(&train).code, Some(0));
    let text = DESCRIPTION.replacen("mine_v0", "my_cartpole", 1);
    std::fs::write(place.path().join("runs/first/env.world"), text).expect("written");
    for command in [&["eval", "first", "--trust"][..], &["train", "--resume", "first", "--trust"]] {
        with_python(&place, "touch started", command).assert_error(2, &["its file or rules have changed"]);
    }
    assert!(!place.path().join("started").exists());
}

#[test]
fn a_strangers_sweep_starts_no_program_until_it_is_trusted() {
    let place = Sandbox::new();
    std::fs::copy(fixture("cartpole"), place.path().join("mine.world")).expect("copied");
    let settings = ["--set", "total_timesteps=1280", "--set", "eval_episodes=2", "--seeds", "1", "--quiet"];
    let sweep = [&["sweep", "./mine.world", "--name", "theirs"][..], &settings[..]].concat();
    assert_eq!(place.operant(&sweep).code, Some(0));
    let text =
        DESCRIPTION.replacen("mine_v0", "my_cartpole", 1).replacen("gym:Mine-v0", "os:system?command=x", 1);
    std::fs::write(place.path().join("runs/theirs/worlds/0/env.world"), text).expect("written");
    with_python(&place, "touch started", &["sweep", "--resume", "theirs"])
        .assert_error(2, &["os:system?command=x", "--trust"]);
    assert!(!place.path().join("started").exists());
}

#[test]
fn files_of_worlds_are_regular_and_bounded() {
    let place = Sandbox::new();
    std::os::unix::fs::symlink("/dev/zero", place.path().join("zero.world")).expect("linked");
    let pipe = std::process::Command::new("mkfifo").arg(place.path().join("pipe.world")).status();
    assert!(pipe.expect("mkfifo").success());
    for file in ["zero.world", "pipe.world"] {
        place.operant(&["envs", file]).assert_error(2, &["not a regular file", file]);
    }
}
