//! Paths that are not UTF-8, paths that need quotes, and text with control characters.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Daemon, Finished, SMALL, Sandbox, endless, finish, send, wait_for, wait_for_progress};
use rustix::process::Signal;

/// A directory whose name is not UTF-8.
fn not_utf8(parent: &Path) -> PathBuf {
    let dir = parent.join(OsStr::from_bytes(b"x\xff"));
    std::fs::create_dir_all(&dir).expect("made");
    dir
}

/// Runs `operant` in a directory to its end, with a timeout.
fn operant_in(place: &Sandbox, dir: &Path, args: &[&str]) -> Finished {
    let mut command = place.command(args);
    command.current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    place.guard(&child);
    wait_for("the command's end", || child.try_wait().expect("waited"));
    finish(child)
}

#[test]
fn a_run_under_a_path_that_is_not_utf8_succeeds() {
    let place = Sandbox::new();
    let dir = not_utf8(place.path());
    let args = [&["train", "cartpole", "--name", "mine", "--steps", "1280", "--json"], SMALL].concat();
    let trained = operant_in(&place, &dir, &args);
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    let listed = operant_in(&place, &dir, &["runs", "--json"]).json();
    assert_eq!((&listed["run"], &listed["state"]), (&"mine".into(), &"finished".into()));
    let resumed = operant_in(&place, &dir, &["train", "--resume", "mine", "--steps", "2560", "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
}

#[test]
fn a_daemon_under_a_path_that_is_not_utf8_starts_and_is_listed_once() {
    let place = Sandbox::new();
    let dir = not_utf8(place.path());
    let args = ["train", "cartpole", "--name", "night", "--steps", "1e12", "--detach", "--json"];
    let started = operant_in(&place, &dir, &[&args[..], SMALL].concat());
    assert_eq!(started.code, Some(0), "{started:#?}");
    let daemon = Daemon(started.json());
    assert!(daemon.0["dir"].as_str().is_some_and(|dir| dir.contains("x\u{fffd}")), "{started:#?}");
    wait_for_progress(&place.ring("night"));
    let listed = operant_in(&place, &dir, &["runs", "--json"]).json();
    assert_eq!((&listed["run"], &listed["state"]), (&"night".into(), &"running".into()));
    let stopped = operant_in(&place, &dir, &["stop", "night"]);
    assert!(stopped.code == Some(0) && stopped.stdout.contains("preempted at"), "{stopped:#?}");
}

#[test]
fn a_name_that_is_not_utf8_does_not_hide_other_runs() {
    let place = Sandbox::new();
    let args = [&["train", "cartpole", "--name", "mine", "--steps", "1280", "--quiet"], SMALL].concat();
    assert_eq!(place.operant(&args).code, Some(0));
    let bad = not_utf8(&place.path().join("runs"));
    std::fs::write(bad.join("config.toml"), "").expect("written");
    let listed = place.operant(&["runs", "--json"]);
    assert!(listed.code == Some(0) && listed.stdout.lines().count() == 2, "{listed:#?}");
    assert!(listed.stdout.contains("x\u{fffd}"), "{listed:#?}");
}

#[test]
fn control_characters_in_a_directory_never_reach_a_terminal() {
    let place = Sandbox::new();
    let name = "a\u{1b}[31m\u{202e}b";
    let dir = place.path().join("runs").join(name);
    std::fs::create_dir_all(&dir).expect("made");
    std::fs::write(dir.join("config.toml"), "").expect("written");
    let evil = "x\u{1b}]0;title\u{7}";
    let file = serde_json::json!({ "run": evil, "env": evil, "device": evil, "state": "failed", "reason": evil,
        "started": evil, "checkpoint": dir });
    std::fs::write(dir.join("run.json"), file.to_string()).expect("written");
    for args in [&["runs"][..], &["stop", name], &["checkpoint", name], &["runs", "--json"], &["stop", evil]]
    {
        let output = place.operant(args);
        let text = output.stdout.clone() + &output.stderr;
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']) || args.contains(&"--json"), "{output:#?}");
        assert!(!text.contains(['\u{1b}', '\u{7}']) && !text.is_empty(), "{output:#?}");
    }
}

/// Runs the `operant` command in a text, up to the end of the line or a backtick, in a shell.
fn paste(place: &Sandbox, text: &str, more: &[&str]) -> Finished {
    let advice = text.split("operant train --resume ").nth(1).expect("advice");
    let advice = advice.split(['\n', '`']).next().expect("a line");
    let mut shell = place.shell(&format!("set -- train --resume {advice} \"$@\""), more);
    Finished::of(shell.output().expect("started"))
}

/// Waits until the run "far" under this directory has begun.
fn wait_for_begin(place: &Sandbox, parent: &str) {
    let file = place.path().join(parent).join("far/run.json");
    wait_for("run.json", || file.exists().then_some(()));
}

#[test]
fn printed_commands_can_be_pasted_for_any_directory() {
    let place = Sandbox::new();
    // Another run of that name is in the default directory.
    let args = [&["train", "minatar_breakout", "--name", "far", "--quiet", "--steps", "128"], SMALL].concat();
    assert_eq!(place.operant(&args).code, Some(0));
    for parent in ["my runs", "it's $HOME"] {
        let child = place.start(&[&endless("far")[..], &["--run-dir", parent]].concat());
        wait_for_begin(&place, parent);
        let stopped = place.operant(&["stop", "far", "--run-dir", parent]);
        assert!(stopped.code == Some(0) && stopped.stdout.contains("preempted"), "{stopped:#?}");
        finish(child);
        let resumed = paste(&place, &stopped.stdout, &["--steps", "128", "--json"]);
        assert_eq!(resumed.code, Some(0), "{stopped:#?} {resumed:#?}");
        assert_eq!(resumed.json()["env"], "cartpole", "{stopped:#?}");
    }
    // A run's own output, and a run without a checkpoint.
    let mut child = place.command(&["train", "cartpole", "--name", "far", "--run-dir", "own place"]);
    let child = child.args(SMALL).args(["--steps", "1e12"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("started");
    place.guard(&child);
    wait_for_begin(&place, "own place");
    send(&child, Signal::TERM);
    let ended = finish(child);
    assert_eq!(paste(&place, &ended.stdout, &["--steps", "128", "--json"]).json()["env"], "cartpole");

    let more = ["--run-dir", "no checkpoint", "--set", "checkpoint_interval=0"];
    let child = place.start(&[&endless("far")[..], &more].concat());
    wait_for_begin(&place, "no checkpoint");
    send(&child, Signal::KILL);
    finish(child);
    let refused = place.operant(&["checkpoint", "far", "--run-dir", "no checkpoint"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    let resumed = paste(&place, &refused.stderr, &["--steps", "1280", "--json"]);
    assert_eq!(resumed.code, Some(0), "{refused:#?} {resumed:#?}");
    assert_eq!(resumed.json()["env"], "cartpole", "{refused:#?}");
}

#[test]
fn a_run_in_the_default_directory_is_named_by_its_name() {
    let place = Sandbox::new();
    let child = place.start(&endless("mine"));
    wait_for_progress(&place.ring("mine"));
    let stopped = place.operant(&["stop", "mine"]);
    assert!(stopped.stdout.contains("operant train --resume mine\n"), "{stopped:#?}");
    finish(child);
}

#[test]
fn control_characters_in_results_and_worlds_never_reach_a_terminal() {
    let place = Sandbox::new();
    let evil = "x\u{1b}]0;title\u{7}\u{202e}\u{9b}31m\nforged";
    for name in ["a", "b"] {
        let args = ["train", "cartpole", "--name", name, "--steps", "1280", "--quiet"];
        assert_eq!(place.operant(&[&args[..], SMALL].concat()).code, Some(0));
        let file = place.path().join("runs").join(name).join("result.json");
        let mut result: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&file).expect("a result")).expect("JSON");
        (result["env"], result["run"]) = (evil.into(), evil.into());
        result["config"]["gamma"] = format!("{evil}{name}").into();
        std::fs::write(file, result.to_string()).expect("written");
        let config = place.path().join("runs").join(name).join("config.toml");
        let text = std::fs::read_to_string(&config).expect("a configuration");
        std::fs::write(config, text.replacen("cartpole", "\u{202e}", 1)).expect("written");
    }
    let world = std::fs::read_to_string(format!(
        "{}/../../crates/operant-env/tests/data/cartpole.world",
        env!("CARGO_MANIFEST_DIR")
    ));
    let world = world.expect("a fixture").replacen("Balance a pole on a cart", "\u{202e}\u{2066}forged", 1);
    place.write("evil.world", &world);
    for args in [
        &["report", "a", "b"][..],
        &["report", "a", "b", "--json"],
        &["compare", "a", "b"],
        &["compare", "a", "b", "--json"],
        &["monitor", "a", "--once"],
        &["monitor", "a", "--once", "--json"],
        &["envs", "evil.world"],
        &["envs", "evil.world", "--json"],
        &["runs"],
    ] {
        let output = place.operant(args);
        let text = output.stdout.clone() + &output.stderr;
        let obeyed = text.chars().find(|c| operant_metrics::is_obeyed(*c) && !matches!(c, '\n' | '\t'));
        assert!(obeyed.is_none() && output.code == Some(0), "{args:?}: {output:#?}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{args:?}: {output:#?}");
    }
}
