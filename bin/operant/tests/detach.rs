//! `train --detach`: returns when training begins, reports what fails before that, and leaves a daemon that only its
//! own signals end.

use std::process::Stdio;

use crate::common::{Daemon, Finished, SMALL, Sandbox, finish, send, wait_for, wait_for_progress};
use rustix::process::{Signal, getsid};

const ENDLESS: &[&str] = &["--name", "night", "--steps", "1e12"];

fn start(place: &Sandbox, more: &[&str]) -> Daemon {
    place.detach(&[ENDLESS, SMALL, more].concat())
}

fn output(place: &Sandbox) -> String {
    std::fs::read_to_string(place.path().join("runs/night/daemon.out")).unwrap_or_default()
}

/// Stops it and waits for its end.
fn stop(place: &Sandbox, daemon: &Daemon) {
    let stopped = place.operant(&["stop", "night"]);
    assert_eq!(stopped.code, Some(0), "{stopped:#?}");
    daemon.wait();
}

#[test]
fn returns_when_training_begins_and_names_the_run() {
    let place = Sandbox::new();
    let daemon = start(&place, &[]);
    let keys: Vec<&String> = daemon.0.as_object().expect("an object").keys().collect();
    assert_eq!(keys.len(), 4, "{keys:?}");
    assert_eq!(daemon.0["run"], "night");
    let dir = std::fs::canonicalize(place.path().join("runs/night")).expect("there");
    assert_eq!(daemon.0["dir"].as_str(), dir.to_str());
    assert!(daemon.is_alive());
    let ring = place.ring("night");
    assert_eq!(daemon.0["ring"].as_str(), ring.path().to_str());
    assert_eq!(i64::from(ring.identity().pid), daemon.0["pid"].as_i64().expect("a pid"));
    assert!(ring.status().health.is_alive());
    wait_for_progress(&ring);

    daemon.send(Signal::TERM);
    daemon.wait();
    assert_eq!(place.run_file("night")["state"], "preempted");
    let output = output(&place);
    let result: serde_json::Value =
        serde_json::from_str(output.lines().last().expect("a line")).expect("the result, as --json asked");
    assert_eq!(result["run"], "night");
    assert!(output.contains("SIGTERM: saving a checkpoint"), "{output}");
}

#[test]
fn the_output_shows_how_to_watch_and_stop() {
    let place = Sandbox::new();
    let args = [&["train", "cartpole", "--detach"], ENDLESS, SMALL].concat();
    let started = place.operant(&args);
    assert_eq!(started.code, Some(0), "{started:#?}");
    let _daemon = Daemon(place.run_file("night"));
    for part in ["run night", "operant monitor night", "operant stop night", "daemon.out"] {
        assert!(started.stdout.contains(part), "no \"{part}\" in {started:#?}");
    }
    assert!(started.stderr.starts_with("cartpole with PPO on cpu"), "the daemon's output: {started:#?}");
    let stopped = place.operant(&["stop", "night"]);
    assert_eq!(stopped.code, Some(0), "{stopped:#?}");
}

#[test]
fn the_daemon_is_in_a_session_of_its_own_and_holds_no_pipe() {
    let place = Sandbox::new();
    let daemon = start(&place, &[]);
    assert_eq!(getsid(Some(daemon.pid())).expect("alive"), daemon.pid());
    let links = |fd: u32| {
        let path = format!("/proc/{}/fd/{fd}", daemon.pid().as_raw_pid());
        std::fs::read_link(path).expect("open").display().to_string()
    };
    assert_eq!(links(0), "/dev/null");
    // stderr is redirected last, just after the parent has its line.
    wait_for("the output to be redirected", || links(2).ends_with("night/daemon.out").then_some(()));
    assert!(links(1).ends_with("night/daemon.out"), "{}", links(1));
}

#[test]
fn output_never_goes_to_what_a_link_names() {
    let place = Sandbox::new();
    stop(&place, &start(&place, &[]));
    for name in ["own", "absent"] {
        let file = place.path().join("runs/night/daemon.out");
        std::fs::remove_file(&file).expect("removed");
        std::os::unix::fs::symlink(place.path().join(name), &file).expect("linked");
        let resumed = place.operant(&["train", "--resume", "night", "--detach", "--json"]);
        assert_eq!(resumed.code, Some(0), "{resumed:#?}");
        let daemon = Daemon(resumed.json());
        let stderr = format!("/proc/{}/fd/2", daemon.pid().as_raw_pid());
        let redirected =
            || std::fs::read_link(&stderr).is_ok_and(|to| to.ends_with("dev/null")).then_some(());
        wait_for("the output to be redirected", redirected);
        assert!(!place.path().join(name).exists());
        stop(&place, &daemon);
    }
}

#[test]
fn bad_input_is_the_parents_own_error_and_starts_nothing() {
    let place = Sandbox::new();
    for (args, part) in [
        (&["train", "cartpol", "--detach"][..], "did you mean \"cartpole\"?"),
        (&["train", "cartpole", "--detach", "--envs", "0"], "num_envs = 0"),
        (&["train", "cartpole", "--detach", "--set", "num_minibatches=7"], "does not divide"),
        (&["train", "--detach", "--resume", "nothing"], "there is no run \"nothing\""),
    ] {
        place.operant(args).assert_error(2, &[part]);
    }
    assert!(!place.path().join("runs").exists());
}

#[test]
fn a_failure_in_the_daemon_is_reported_by_the_parent() {
    let place = Sandbox::new();
    let daemon = start(&place, &[]);
    let again = [&["train", "cartpole", "--detach"], ENDLESS, SMALL].concat();
    place.operant(&again).assert_error(2, &["a run named night exists already", "--resume night"]);
    place
        .operant(&["train", "--resume", "night", "--detach"])
        .assert_error(2, &["being trained already", "operant stop night"]);
    let args = ["train", "minatar_breakout", "--detach", "--set", "env.sticky_action_prob=1.5"];
    place.operant(&args).assert_error(2, &["sticky_action_prob", "where: --set"]);
    place.write("file", "");
    let args = ["train", "cartpole", "--detach", "--run-dir", "file/runs"];
    place.operant(&args).assert_error(1, &["the run directory cannot be created"]);
    assert!(daemon.is_alive());
}

#[test]
fn a_hangup_does_not_end_it() {
    let place = Sandbox::new();
    let daemon = start(&place, &[]);
    let ring = place.ring("night");
    for _ in 0..3 {
        daemon.send(Signal::HUP);
        wait_for_progress(&ring);
    }
    assert!(daemon.is_alive());
}

#[test]
fn a_parent_that_is_killed_does_not_hurt_it() {
    let place = Sandbox::new();
    // Killed at several times: before the daemon runs, during its start, and after.
    for (i, time) in ["at once", "with a directory", "with a ring"].into_iter().enumerate() {
        let name = format!("night{i}");
        let args = [&["train", "cartpole", "--detach", "--steps", "1e12", "--name", &name], SMALL].concat();
        let mut command = place.command(&args);
        let parent = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        let children = format!("/proc/{0}/task/{0}/children", parent.id());
        let pid = wait_for("the daemon", || {
            let text = std::fs::read_to_string(&children).expect("the parent is there");
            text.split_whitespace().next().and_then(|pid| pid.parse::<i64>().ok())
        });
        let daemon = Daemon(serde_json::json!({ "pid": pid }));
        match time {
            "with a directory" => {
                wait_for(time, || place.path().join("runs").join(&name).exists().then_some(()));
            }
            "with a ring" => drop(place.ring(&name)),
            _ => {}
        }
        send(&parent, Signal::KILL);
        finish(parent);
        wait_for_progress(&place.ring(&name));
        assert!(daemon.is_alive(), "{time}");
    }
}

#[test]
fn a_run_may_resume_as_a_daemon() {
    let place = Sandbox::new();
    let daemon = start(&place, &[]);
    wait_for_progress(&place.ring("night"));
    assert_eq!(place.operant(&["stop", "night"]).code, Some(0));
    drop(daemon);
    let resumed = place.operant(&["train", "--resume", "night", "--detach", "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    let daemon = Daemon(resumed.json());
    let ring = place.ring("night");
    // The history before the resume is available to a monitor.
    let update = ring.schema().position("update").expect("a metric");
    assert_eq!(ring.records(0).rows.first().map(|row| row[update]), Some(1.0));
    daemon.send(Signal::TERM);
    daemon.wait();
    assert_eq!(place.run_file("night")["state"], "preempted");
}

#[test]
fn it_returns_without_a_ring_too() {
    let place = Sandbox::new();
    let daemon = start(&place, &["--no-ring"]);
    assert!(daemon.0["ring"].is_null() && daemon.is_alive());
    assert!(!place.rings().exists());
    let stopped = place.operant(&["stop", "night"]);
    assert_eq!(stopped.code, Some(0), "{stopped:#?}");
    assert!(stopped.stdout.contains("preempted at"), "{stopped:#?}");
}

#[test]
fn command_substitution_does_not_wait_for_the_daemon() {
    let place = Sandbox::new();
    let args = [&["train", "cartpole", "--detach", "--json"], ENDLESS, SMALL].concat();
    let mut shell = std::process::Command::new("sh");
    let operant = place.command(&args);
    shell.args(["-c", "output=$(\"$0\" \"$@\" 2>&1); echo \"$output\" | tail -n 1"]);
    shell.arg(operant.get_program()).args(operant.get_args()).current_dir(place.path());
    for (name, value) in operant.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let finished = Finished::of(shell.output().expect("started"));
    let daemon = Daemon(finished.json());
    assert!(daemon.is_alive());
}
