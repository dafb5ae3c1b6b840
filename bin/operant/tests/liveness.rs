//! The health that a reader of the ring shows for a trainer that is paused, stopped, killed, or ends.

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{
    Sandbox, endless, finish, pid_of, send, wait_for, wait_for_event, wait_for_health, wait_for_progress,
    wait_for_work,
};
use operant_metrics::{Health, RingReader, RunState};
use rustix::process::{Signal, kill_process_group};

const RUNNING: Health = Health::Reported(RunState::Running);

fn start(place: &Sandbox, more: &[&str]) -> (Child, RingReader) {
    let child = place.start(&[&endless("mine")[..], more].concat());
    let ring = place.ring("mine");
    wait_for_health(&ring, RUNNING);
    (child, ring)
}

/// An update of a minute at least.
const SLOW: &[&str] = &["--set", "num_envs=1024", "--set", "num_steps=64", "--set", "update_epochs=10000"];

#[test]
fn kill_9_is_seen_as_soon_as_the_process_is_gone() {
    let place = Sandbox::new();
    let (child, ring) = start(&place, &["--set", "checkpoint_interval=3"]);
    wait_for("a checkpoint", || ring.status().checkpoint);
    send(&child, Signal::KILL);
    finish(child);
    assert_eq!(ring.status().health, Health::Killed);
    // Later readers see the same state, and the checkpoint to resume from.
    let late = place.ring("mine");
    assert_eq!(late.status().health, Health::Killed);
    let saved = late.status().checkpoint.expect("a checkpoint");
    assert!(std::path::Path::new(&saved.path).is_dir(), "{saved:?}");
}

#[test]
fn a_stalled_run_is_seen_and_so_is_its_end() {
    let place = Sandbox::new();
    let (child, ring) = start(&place, &[]);
    wait_for_progress(&ring);
    send(&child, Signal::STOP);
    wait_for_health(&ring, Health::Stalled);
    send(&child, Signal::CONT);
    wait_for_health(&ring, RUNNING);
    wait_for_progress(&ring);
    send(&child, Signal::TERM);
    assert_eq!(finish(child).code, Some(75));
}

#[test]
fn a_long_update_is_not_a_stall() {
    let place = Sandbox::new();
    let (child, ring) = start(&place, SLOW);
    let begun = Instant::now();
    // Longer than [`STALL`], and still in the first update.
    while begun.elapsed() < operant_metrics::STALL + Duration::from_secs(1) {
        assert_eq!(ring.status().health, RUNNING, "after {:?}", begun.elapsed());
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert_eq!(ring.published(), 0, "the update must be longer");
    send(&child, Signal::KILL);
    finish(child);
}

#[test]
fn sigusr2_pauses_and_continues() {
    let place = Sandbox::new();
    let (child, ring) = start(&place, &[]);
    wait_for_progress(&ring);
    send(&child, Signal::USR2);
    wait_for_health(&ring, Health::Reported(RunState::Paused));
    wait_for_event(&ring, "SIGUSR2: paused");
    let published = ring.published();
    let begun = Instant::now();
    // A pause never counts as a stall.
    while begun.elapsed() < operant_metrics::STALL + Duration::from_secs(1) {
        assert_eq!(ring.status().health, Health::Reported(RunState::Paused));
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert_eq!(ring.published(), published);
    send(&child, Signal::USR2);
    wait_for_health(&ring, RUNNING);
    wait_for_progress(&ring);
    wait_for_event(&ring, "training continues after");
    // A stop ends a pause.
    send(&child, Signal::USR2);
    wait_for_health(&ring, Health::Reported(RunState::Paused));
    send(&child, Signal::TERM);
    wait_for_health(&ring, Health::Reported(RunState::Preempted));
    assert_eq!(finish(child).code, Some(75));
}

#[test]
fn the_first_signal_is_acknowledged_at_once_and_the_second_ends_the_process() {
    let place = Sandbox::new();
    let (child, ring) = start(&place, SLOW);
    wait_for_work(&ring);
    send(&child, Signal::TERM);
    wait_for_event(&ring, "SIGTERM received: training stops after this update");
    wait_for("run.json", || (place.run_file("mine")["state"] == "stopping").then_some(()));
    assert_eq!(ring.status().health, RUNNING, "until the update ends");
    send(&child, Signal::TERM);
    wait_for_health(&ring, Health::Killed);
    assert_eq!(finish(child).code, Some(143));
    assert_eq!(place.run_file("mine")["state"], "stopping", "the last state that it wrote");
}

#[test]
fn ctrl_c_reaches_the_whole_group_and_saves() {
    let place = Sandbox::new();
    let mut command = place.command(&endless("mine"));
    // As in a terminal: the foreground group gets the signal.
    let child =
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    place.guard(&child);
    let ring = place.ring("mine");
    wait_for_health(&ring, RUNNING);
    wait_for_progress(&ring);
    kill_process_group(pid_of(&child), Signal::INT).expect("sent");
    wait_for_health(&ring, Health::Reported(RunState::Preempted));
    let status = ring.status();
    assert_eq!(status.reason, "SIGINT");
    let finished = finish(child);
    assert_eq!(finished.code, Some(75), "{finished:#?}");
    let saved = status.checkpoint.expect("a checkpoint");
    assert_eq!(finished.json()["env_steps"].as_u64(), Some(saved.env_steps));
    assert_eq!(ring.status().health, Health::Reported(RunState::Preempted), "after its end too");
}
