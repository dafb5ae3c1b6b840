//! A disk that fills up under a run: training goes on, the result is printed, and the exit code tells.

mod common;

use std::io::Write;
use std::process::Command;

use common::{Finished, Place};

/// A command that runs `operant` with `runs/` on a file system of `size`, or nothing where this system forbids that.
fn on_a_disk_of(place: &Place, size: &str, args: &[&str]) -> Option<Command> {
    std::fs::create_dir_all(place.path().join("runs")).expect("made");
    let script = format!("mount -t tmpfs -o size={size} tmpfs runs && exec \"$0\" \"$@\"");
    let namespace = ["--map-root-user", "--mount", "sh", "-c"];
    let mut probe = Command::new("unshare");
    probe.args(namespace).args([script.as_str(), "true"]).current_dir(place.path());
    if !probe.output().is_ok_and(|output| output.status.success()) {
        // Written past the test harness, which would swallow it.
        let _ = writeln!(std::io::stderr(), "SKIPPED disk tests: no small file system can be mounted here");
        return None;
    }
    let operant = place.command(args);
    let mut command = Command::new("unshare");
    command.args(namespace).arg(script).arg(operant.get_program()).args(operant.get_args());
    command.current_dir(place.path());
    for (name, value) in operant.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Some(command)
}

#[test]
fn a_full_disk_never_kills_training() {
    let place = Place::new();
    let args = [
        "train",
        "cartpole",
        "--json",
        "--steps",
        "1e5",
        "--set",
        "checkpoint_interval=2",
        "--set",
        "solved_at=1e9",
    ];
    let Some(mut command) = on_a_disk_of(&place, "250k", &args) else { return };
    let finished = Finished::of(command.output().expect("started"));
    assert_eq!(finished.code, Some(1), "{finished:#?}");
    let result = finished.json();
    assert!(
        result["env_steps"].as_u64() >= Some(100_000) && result["eval_return_mean"].is_number(),
        "{result}"
    );
    assert!(result["checkpoint"].is_string(), "the last good one: {result}");
    for part in ["training goes on", "No space left", "remedy: make room", "--resume"] {
        assert!(finished.stderr.contains(part), "no \"{part}\" in {finished:#?}");
    }
    assert!(
        finished.stderr.matches("checkpoints lost so far").count() < 10,
        "warnings grow rare: {finished:#?}"
    );
}

#[test]
fn a_disk_full_from_the_start_is_an_error_before_training() {
    let place = Place::new();
    let Some(mut command) = on_a_disk_of(&place, "4k", &["train", "cartpole", "--name", "mine"]) else {
        return;
    };
    let finished = Finished::of(command.output().expect("started"));
    finished.assert_error(1, &["No space left"]);
}
