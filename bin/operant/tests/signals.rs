//! Signals and kill -9: a stopped or killed run resumes to the same bits.

use std::process::{Child, Stdio};

use crate::common::{SMALL, Sandbox, finish, read_until, send, wait_for, wait_for_health, wait_for_work};
use operant_metrics::{Health, RunState};
use rustix::process::Signal;

/// A checkpoint every 512 environment steps.
const OFTEN: &[&str] = &["--set", "checkpoint_interval=4"];
const BATCH: u64 = 128;

fn start(place: &Sandbox, name: &str, more: &[&str]) -> Child {
    let mut args = vec!["train", "cartpole", "--json", "--name", name];
    args.extend([SMALL, OFTEN].concat());
    args.extend(more);
    place.start(&args)
}

/// Trains to `steps` without interruption and checks that `name`, resumed up to there, ends with the same state and rows.
fn assert_resumes_to_the_same_bits(place: &Sandbox, name: &str, steps: u64) {
    let steps = steps.to_string();
    let straight = finish(start(place, "straight", &["--steps", &steps]));
    assert_eq!(straight.code, Some(0), "{straight:#?}");
    let resumed = place.operant(&["train", "--resume", name, "--steps", &steps, "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    assert!(place.final_state("straight") == place.final_state(name), "the weights differ");
    assert_eq!(place.metrics("straight"), place.metrics(name));
    let (a, b) = (straight.json(), resumed.json());
    for key in ["env_steps", "updates", "eval_return_mean", "eval_return_std", "solved_at_step"] {
        assert_eq!(a[key], b[key], "{key}");
    }
}

#[test]
fn sigint_saves_and_exits_with_75_and_the_run_resumes() {
    for (signal, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")] {
        let place = Sandbox::new();
        let mut child = start(&place, "stopped", &["--steps", "1e12"]);
        read_until(&mut child, "env_steps");
        send(&child, signal);
        let stopped = finish(child);
        assert_eq!(stopped.code, Some(75), "{stopped:#?}");
        assert!(stopped.stderr.contains(name), "{stopped:#?}");
        let result = stopped.json();
        let steps = result["env_steps"].as_u64().expect("a count");
        assert!(result["eval_return_mean"].is_null());
        assert_eq!(place.checkpoints("stopped").last().map(|(step, _)| *step), Some(steps));
        assert_resumes_to_the_same_bits(&place, "stopped", steps + 6 * BATCH);
    }
}

#[test]
fn an_evaluation_whose_episodes_do_not_end_is_stopped() {
    let place = Sandbox::new();
    let world = include_str!("../../../crates/operant-env/tests/data/pendulum.world");
    let endless = world.replacen("\"time_limit\": 200", "\"time_limit\": 4294967294", 1);
    assert_ne!(endless, world);
    place.write("endless.world", &endless);
    let mut child =
        place.start(&[&["train", "./endless.world", "--name", "x", "--steps", "1280"], SMALL].concat());
    read_until(&mut child, "100%");
    send(&child, Signal::TERM);
    let stopped = finish(child);
    assert!(stopped.code == Some(75) && stopped.stderr.contains("SIGTERM"), "{stopped:#?}");
    assert_eq!(place.checkpoints("x").last().map(|(step, _)| *step), Some(1280));
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let place = Sandbox::new();
    // An update that takes far longer than this test.
    let more = ["--set", "update_epochs=10000", "--set", "num_envs=4096", "--set", "num_steps=256"];
    // A terminal that is closed sends SIGHUP twice, so a second one has no effect.
    let ends = [
        (Signal::INT, Signal::INT, 130),
        (Signal::TERM, Signal::TERM, 143),
        (Signal::HUP, Signal::TERM, 143),
    ];
    for (number, (signal, last, code)) in ends.into_iter().enumerate() {
        let name = format!("slow-{number}");
        let mut child = start(&place, &name, &more);
        let ring = place.ring(&name);
        wait_for_health(&ring, Health::Reported(RunState::Running));
        wait_for_work(&ring);
        send(&child, signal);
        // Said at once, long before the update ends.
        read_until(
            &mut child,
            "received: training stops after this update; another SIGINT or SIGTERM ends it at once",
        );
        let status = wait_for("the process to end", || {
            send(&child, signal);
            send(&child, last);
            child.try_wait().expect("waited")
        });
        assert_eq!(status.code(), Some(code));
    }
}

#[test]
fn a_signal_before_training_ends_the_process_and_leaves_nothing() {
    let place = Sandbox::new();
    // Weights that take far longer to initialise than this test.
    let wide = ["train", "cartpole", "--set", "hidden=4000,4000,4000"];
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let child = place.start(&wide);
        wait_for("a handler", || handles(&child, signal).then_some(()));
        send(&child, signal);
        let ended = finish(child);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{ended:#?}");
        assert!(!place.path().join("runs").exists());
    }
}

#[test]
fn a_hangup_that_is_ignored_at_the_start_stays_ignored() {
    let place = Sandbox::new();
    let train = [&["train", "cartpole", "--name", "kept", "--steps", "1e12", "--json"], SMALL].concat();
    // As nohup starts it.
    let mut command = place.shell("trap '' HUP", &train);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("started");
    read_until(&mut child, "env_steps");
    assert!(in_mask(&child, "SigIgn:", Signal::HUP) && !handles(&child, Signal::HUP));
    send(&child, Signal::HUP);
    send(&child, Signal::TERM);
    let stopped = finish(child);
    assert!(stopped.code == Some(75) && stopped.stderr.contains("SIGTERM"), "{stopped:#?}");
}

/// Whether a process has installed a handler for this signal.
fn handles(child: &Child, signal: Signal) -> bool {
    in_mask(child, "SigCgt:", signal)
}

/// Whether a signal is in one of the masks of a process's status.
fn in_mask(child: &Child, mask: &str, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("alive");
    let mask = status.lines().find_map(|line| line.strip_prefix(mask)).expect("a mask");
    let mask = u64::from_str_radix(mask.trim(), 16).expect("hexadecimal");
    mask & 1 << (signal.as_raw() - 1) != 0
}

#[test]
fn a_signal_sent_twice_at_once_counts_once() {
    let place = Sandbox::new();
    let mut child = start(&place, "doubled", &["--steps", "1e12"]);
    read_until(&mut child, "env_steps");
    // To the process and to its group, as `timeout` does.
    send(&child, Signal::TERM);
    send(&child, Signal::TERM);
    let stopped = finish(child);
    assert_eq!(stopped.code, Some(75), "{stopped:#?}");
    assert!(!place.checkpoints("doubled").is_empty());
}

#[test]
fn kill_9_loses_only_what_came_after_the_last_checkpoint() {
    let place = Sandbox::new();
    let mut command = place.command(&["train", "cartpole", "--name", "killed", "--steps", "1e12", "--quiet"]);
    let mut child =
        command.args(SMALL).args(OFTEN).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    wait_for("two checkpoints", || (place.checkpoints("killed").len() >= 2).then_some(()));
    send(&child, Signal::KILL);
    assert_eq!(child.wait().expect("waited").code(), None, "killed by the signal");
    let (step, _) = place.checkpoints("killed").pop().expect("a checkpoint");
    assert_resumes_to_the_same_bits(&place, "killed", step + 6 * BATCH);
}

#[test]
fn sigusr1_saves_and_training_continues() {
    let place = Sandbox::new();
    let mut child = start(
        &place,
        "asked",
        &["--steps", "1e12", "--set", "checkpoint_interval=0", "--set", "solved_at=1e9"],
    );
    read_until(&mut child, "env_steps");
    assert_eq!(place.checkpoints("asked"), []);
    send(&child, Signal::USR1);
    let (first, _) = wait_for("the checkpoint", || place.checkpoints("asked").pop());
    send(&child, Signal::INT);
    let stopped = finish(child);
    assert_eq!(stopped.code, Some(75), "{stopped:#?}");
    assert!(stopped.json()["env_steps"].as_u64() >= Some(first));
}

#[test]
fn a_run_has_one_trainer() {
    let place = Sandbox::new();
    let mut child = start(&place, "mine", &["--steps", "1e12"]);
    read_until(&mut child, "env_steps");
    place.operant(&["train", "--resume", "mine"]).assert_error(2, &["being trained already"]);
    send(&child, Signal::INT);
    assert_eq!(finish(child).code, Some(75));
}
