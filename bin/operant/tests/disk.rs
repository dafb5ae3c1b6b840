//! A disk that fills up during a run: training continues, the result is printed, and the exit code is not 0.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{Finished, Sandbox, finish, read_until, send, wait_for};
use rustix::process::Signal;

/// A command that runs `operant` with `runs/` on a file system of `size`, or none if this system forbids that.
fn on_a_disk_of(place: &Sandbox, size: &str, args: &[&str]) -> Option<Command> {
    std::fs::create_dir_all(place.path().join("runs")).expect("made");
    place.unshared(&["--mount"], &format!("mount -t tmpfs -o size={size} tmpfs runs"), args)
}

#[test]
fn a_full_disk_never_ends_training() {
    let place = Sandbox::new();
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
    for part in ["training continues", "No space left", "remedy: free space", "--resume"] {
        assert!(finished.stderr.contains(part), "no \"{part}\" in {finished:#?}");
    }
    assert!(
        finished.stderr.matches("checkpoints lost so far").count() < 10,
        "warnings grow rare: {finished:#?}"
    );
}

#[test]
fn metrics_continue_once_there_is_space_again() {
    let place = Sandbox::new();
    let args = [
        "train",
        "cartpole",
        "--name",
        "mine",
        "--steps",
        "1e12",
        "--json",
        "--set",
        "checkpoint_interval=0",
        "--set",
        "solved_at=1e9",
    ];
    // Far more than the rows written until the signal, however late this test gets its turns: a checkpoint has to fit as well.
    let Some(mut command) = on_a_disk_of(&place, "128m", &args) else { return };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    place.guard(&child);
    let runs = format!("/proc/{}/root{}/runs", child.id(), place.path().display());
    let metrics = format!("{runs}/mine/metrics.csv");
    // The namespace's mount exists once the run does.
    wait_for("rows", || std::fs::metadata(&metrics).ok().filter(|file| file.len() > 2_000).map(drop));
    // Filled by the test until nothing more fits.
    let filler = format!("{runs}/filler");
    let mut file = std::fs::File::create(&filler).expect("made");
    while file.write_all(&[0; 4096]).is_ok() {}
    drop(file);
    read_until(&mut child, "training continues without this file");
    std::fs::remove_file(&filler).expect("removed");
    read_until(&mut child, "is written again; updates after");
    send(&child, Signal::TERM);
    let finished = finish(child);
    assert_eq!(finished.code, Some(75), "{finished:#?}");
}

#[test]
fn a_disk_full_from_the_start_is_an_error_before_training() {
    let place = Sandbox::new();
    let Some(mut command) = on_a_disk_of(&place, "4k", &["train", "cartpole", "--name", "mine"]) else {
        return;
    };
    let finished = Finished::of(command.output().expect("started"));
    finished.assert_error(1, &["No space left"]);
}
