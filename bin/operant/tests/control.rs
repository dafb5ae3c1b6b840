//! `operant runs`, `stop` and `checkpoint` on real runs; they never signal another process.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{
    SMALL, Sandbox, endless, finish, send, wait_for, wait_for_event, wait_for_health, wait_for_progress,
    wait_for_work,
};
use operant_metrics::{Health, RunState};
use rustix::process::Signal;
use serde_json::Value;

fn start(place: &Sandbox, name: &str, more: &[&str]) -> Child {
    place.start(&[&endless(name)[..], more].concat())
}

/// The objects that `operant runs --json` prints, by run.
fn listed(place: &Sandbox, more: &[&str]) -> Vec<Value> {
    let finished = place.operant(&[&["runs", "--json"], more].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished.stdout.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect()
}

fn one(place: &Sandbox, run: &str) -> Value {
    listed(place, &[]).into_iter().find(|found| found["run"] == run).unwrap_or_else(|| panic!("no {run}"))
}

#[test]
fn a_run_is_listed_through_its_whole_life() {
    let place = Sandbox::new();
    assert_eq!(listed(&place, &[]), [] as [Value; 0]);
    assert!(place.operant(&["runs"]).stdout.contains("operant train ENV"));
    let child = start(&place, "mine", &[]);
    let ring = place.ring("mine");
    wait_for_progress(&ring);
    let live = one(&place, "mine");
    let contract = ["run", "env", "device", "state", "pid", "env_steps", "sps", "started", "dir"];
    let line = place.operant(&["runs", "--json"]).stdout;
    let places: Vec<usize> = contract
        .iter()
        .map(|key| line.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("no {key}")))
        .collect();
    assert!(places.is_sorted(), "{line}");
    assert_eq!(
        (&live["env"], &live["device"], &live["state"]),
        (&"cartpole".into(), &"cpu".into(), &"running".into())
    );
    assert_eq!(live["pid"].as_u64(), Some(u64::from(child.id())));
    assert!(live["env_steps"].as_u64() > Some(0) && live["sps"].as_f64() > Some(0.0), "{live}");
    let dir = Path::new(live["dir"].as_str().expect("a path"));
    assert!(dir.is_absolute() && dir.join("run.json").exists());
    assert!(
        live["started"].as_str().is_some_and(|when| when.starts_with("20") && when.ends_with('Z')),
        "{live}"
    );

    let stopped = place.operant(&["stop", "mine"]);
    assert_eq!(stopped.code, Some(0), "{stopped:#?}");
    let result = finish(child).json();
    let ended = one(&place, "mine");
    assert_eq!((&ended["state"], &ended["pid"]), (&"preempted".into(), &Value::Null));
    assert_eq!((&ended["env_steps"], &ended["sps"]), (&result["env_steps"], &result["sps"]));
    assert_eq!(ended["started"], live["started"]);
    let table = place.operant(&["runs"]).stdout;
    assert!(table.contains("mine") && table.contains("preempted") && table.contains("runs/mine"), "{table}");
}

#[test]
fn a_killed_run_is_listed_as_such_with_and_without_its_ring() {
    let place = Sandbox::new();
    for (name, more) in [("ring", &[][..]), ("bare", &["--no-ring"])] {
        let child = start(&place, name, more);
        // The sinks flush their rows once a second.
        wait_for("rows", || {
            let text =
                std::fs::read_to_string(place.path().join("runs").join(name).join("metrics.csv")).ok()?;
            (text.lines().count() > 1).then_some(())
        });
        assert_eq!(one(&place, name)["state"], "running");
        send(&child, Signal::KILL);
        finish(child);
        let killed = one(&place, name);
        assert_eq!((&killed["state"], &killed["pid"]), (&"killed".into(), &Value::Null));
        assert!(killed["env_steps"].as_u64() > Some(0) && killed["sps"].as_f64() > Some(0.0), "{killed}");
        // There is no process to signal.
        let stopped = place.operant(&["stop", name]);
        assert!(
            stopped.code == Some(0) && stopped.stdout.contains("had ended already: killed"),
            "{stopped:#?}"
        );
        place.operant(&["checkpoint", name]).assert_error(2, &["is not being trained: killed", "--resume"]);
    }
}

#[test]
fn live_runs_elsewhere_are_listed_and_found_by_name() {
    let place = Sandbox::new();
    let child = start(&place, "far", &["--run-dir", "elsewhere"]);
    wait_for_progress(&place.ring("far"));
    assert_eq!(one(&place, "far")["state"], "running");
    let stopped = place.operant(&["stop", "far"]);
    assert!(stopped.code == Some(0) && stopped.stdout.contains("preempted at"), "{stopped:#?}");
    assert_eq!(finish(child).code, Some(75));
    assert_eq!(listed(&place, &[]).len(), 0, "an ended run is listed only in its directory");
    assert_eq!(listed(&place, &["--run-dir", "elsewhere"]).len(), 1);
}

#[test]
fn two_trainers_may_have_one_name_in_two_directories() {
    let place = Sandbox::new();
    let here = start(&place, "twin", &[]);
    wait_for_progress(&place.ring("twin"));
    let there = start(&place, "twin", &["--run-dir", "elsewhere"]);
    wait_for_progress(&place.ring("twin~2"));
    assert_eq!(listed(&place, &[]).len(), 2);
    let stopped = place.operant(&["stop", "twin~2"]);
    assert!(stopped.stdout.contains("elsewhere/twin"), "{stopped:#?}");
    assert_eq!(finish(there).code, Some(75));
    assert!(place.ring("twin").status().health.is_alive());
    assert_eq!(place.operant(&["stop", "runs/twin"]).code, Some(0));
    assert_eq!(finish(here).code, Some(75));
}

#[test]
fn a_typo_is_answered_with_the_nearest_name_and_signals_no_process() {
    let place = Sandbox::new();
    let child = start(&place, "mine", &[]);
    let ring = place.ring("mine");
    wait_for_progress(&ring);
    place.operant(&["stop", "mime"]).assert_error(2, &["did you mean \"mine\"?"]);
    place.operant(&["stop", "mine", "nobody"]).assert_error(2, &["there is no run or sweep \"nobody\""]);
    place.operant(&["checkpoint", "mime"]).assert_error(2, &["did you mean \"mine\"?"]);
    let bad = place.operant(&["stop", "mine", "--timeout", "soon"]);
    assert_eq!(bad.code, Some(2));
    wait_for_progress(&ring);
    assert_eq!(ring.status().health, Health::Reported(RunState::Running));
    send(&child, Signal::TERM);
    assert_eq!(finish(child).code, Some(75));
}

#[test]
fn a_second_stop_waits_instead_of_ending_the_run_at_once() {
    let place = Sandbox::new();
    // An update of a few seconds at least.
    let slow = ["--set", "num_envs=1024", "--set", "num_steps=64", "--set", "update_epochs=60"];
    let child = start(&place, "slow", &slow);
    let ring = place.ring("slow");
    wait_for_health(&ring, Health::Reported(RunState::Running));
    let stop = place.operant(&["stop", "slow", "--no-wait"]);
    assert!(stop.code == Some(0) && stop.stdout.contains("asked to stop"), "{stop:#?}");
    wait_for_event(&ring, "SIGTERM received");
    wait_for("run.json", || (place.run_file("slow")["state"] != "running").then_some(()));
    let late = place.operant(&["stop", "slow", "--timeout", "0"]);
    assert!(late.code == Some(1) && late.stdout.contains("has not ended within 0 s"), "{late:#?}");
    let again = place.operant(&["stop", "slow", "--timeout", "100"]);
    assert!(again.code == Some(0) && again.stdout.contains("preempted at"), "{again:#?}");
    assert_eq!(finish(child).code, Some(75));
}

#[test]
fn concurrent_stops_send_one_signal() {
    let place = Sandbox::new();
    let slow = ["--set", "num_envs=1024", "--set", "num_steps=64", "--set", "update_epochs=30"];
    let run = |name: &str, ask: &dyn Fn()| {
        let child = start(&place, name, &slow);
        wait_for_health(&place.ring(name), Health::Reported(RunState::Running));
        ask();
        let finished = finish(child);
        assert_eq!(finished.code, Some(75), "{finished:#?}");
    };
    run("twice", &|| {
        let stopped = place.operant(&["stop", "twice", "runs/twice", "twice", "--timeout", "100"]);
        assert_eq!(stopped.code, Some(0), "{stopped:#?}");
        assert_eq!(stopped.stdout.matches("preempted at").count(), 1, "{stopped:#?}");
    });
    run("many", &|| {
        let asking: Vec<Child> = (0..4).map(|_| place.start(&["stop", "many", "--timeout", "100"])).collect();
        for child in asking {
            let stopped = finish(child);
            assert!(stopped.code == Some(0) && stopped.stdout.contains("preempted at"), "{stopped:#?}");
        }
    });
    // Still in its update when the second command asks, however slow that is to start.
    let slower = ["--set", "num_envs=1024", "--set", "num_steps=64", "--set", "update_epochs=10000"];
    let child = start(&place, "again", &slower);
    let ring = place.ring("again");
    wait_for_health(&ring, Health::Reported(RunState::Running));
    wait_for_work(&ring);
    assert_eq!(place.operant(&["stop", "again", "--no-wait"]).code, Some(0));
    let again = place.operant(&["stop", "again", "again", "--no-wait"]);
    assert!(again.code == Some(0) && again.stdout.contains("is stopping already"), "{again:#?}");
    send(&child, Signal::KILL);
    finish(child);
}

#[test]
fn a_pause_is_listed_with_and_without_a_ring() {
    let place = Sandbox::new();
    for (name, more) in [("ring", &[][..]), ("bare", &["--no-ring"])] {
        let child = start(&place, name, more);
        wait_for("a row", || (place.checkpoints(name).len() + rows(&place, name) > 0).then_some(()));
        for state in ["paused", "running", "paused"] {
            send(&child, Signal::USR2);
            wait_for(state, || (one(&place, name)["state"] == state).then_some(()));
            wait_for(state, || (place.run_file(name)["state"] == state).then_some(()));
        }
        let stopped = place.operant(&["stop", name]);
        assert!(stopped.code == Some(0) && stopped.stdout.contains("preempted at"), "{stopped:#?}");
        assert_eq!(finish(child).code, Some(75));
    }
}

/// Rows that a run has flushed, which it does once a second.
fn rows(place: &Sandbox, name: &str) -> usize {
    let text = std::fs::read_to_string(place.path().join("runs").join(name).join("metrics.csv"));
    text.map_or(0, |text| text.lines().count().saturating_sub(1))
}

#[test]
fn a_checkpoint_is_requested_awaited_and_printed() {
    let place = Sandbox::new();
    let child = start(&place, "mine", &["--set", "checkpoint_interval=0"]);
    let ring = place.ring("mine");
    wait_for_progress(&ring);
    assert_eq!(place.checkpoints("mine"), []);
    let mut before = None;
    for _ in 0..2 {
        let saved = place.operant(&["checkpoint", "mine"]);
        assert_eq!(saved.code, Some(0), "{saved:#?}");
        let path = saved.stdout.trim_end().to_string();
        assert!(Path::new(&path).join("state.safetensors").exists(), "{saved:#?}");
        assert_ne!(before, Some(path.clone()));
        before = Some(path);
    }
    wait_for_event(&ring, "SIGUSR1 received");
    wait_for_event(&ring, "checkpoint saved at");
    // While paused the same step is saved again, which counts as new.
    send(&child, Signal::USR2);
    wait_for_health(&ring, Health::Reported(RunState::Paused));
    let paused = place.operant(&["checkpoint", "mine"]).stdout;
    assert_eq!(place.operant(&["checkpoint", "mine"]).stdout, paused);
    let eval = place.operant(&["eval", paused.trim_end(), "--episodes", "2"]);
    assert_eq!(eval.code, Some(0), "{eval:#?}");
    assert_eq!(place.operant(&["stop", "mine"]).code, Some(0));
    assert_eq!(finish(child).code, Some(75));
}

#[test]
fn stopping_a_finished_run_is_not_an_error() {
    let place = Sandbox::new();
    let args = [&["train", "cartpole", "--name", "done", "--quiet"], SMALL, &["--steps", "1280"]].concat();
    let finished = place.operant(&args);
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let stopped = place.operant(&["stop", "done"]);
    assert!(
        stopped.code == Some(0) && stopped.stdout.contains("had ended already: finished at 1280 steps"),
        "{stopped:#?}"
    );
    place
        .operant(&["checkpoint", "done"])
        .assert_error(2, &["not being trained: finished", "step_000000001280"]);
}

/// A process unrelated to operant, which ends with the test.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        Bystander(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().expect("started"))
    }

    fn start_time(&self) -> u64 {
        operant_metrics::process_start(self.0.id()).expect("alive")
    }

    fn assert_untouched(&mut self) {
        assert!(
            self.0.try_wait().expect("waited").is_none(),
            "a process that is not a trainer was signalled"
        );
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Rewrites run.json of a run.
fn forge(place: &Sandbox, run: &str, change: impl FnOnce(&mut Value)) {
    let mut file = place.run_file(run);
    change(&mut file);
    place.write(&format!("runs/{run}/run.json"), &file.to_string());
}

#[test]
fn a_process_with_the_id_of_a_killed_trainer_is_not_signalled() {
    let place = Sandbox::new();
    let child = start(&place, "bare", &["--no-ring"]);
    wait_for("training", || place.path().join("runs/bare/run.json").exists().then_some(()));
    send(&child, Signal::KILL);
    finish(child);
    let mut bystander = Bystander::new();
    // The id alone; then id and start time, with the lock held by a third process.
    forge(&place, "bare", |file| file["pid"] = bystander.0.id().into());
    let stopped = place.operant(&["stop", "bare"]);
    assert!(stopped.code == Some(0) && stopped.stdout.contains("had ended already: killed"), "{stopped:#?}");
    bystander.assert_untouched();

    let log = std::fs::File::open(place.path().join("runs/bare/operant.log")).expect("opened");
    log.try_lock().expect("free");
    for start in [1, bystander.start_time()] {
        forge(&place, "bare", |file| file["process_start"] = start.into());
        for command in ["stop", "checkpoint"] {
            place.operant(&[command, "bare"]).assert_error(2, &["is not its trainer"]);
        }
        bystander.assert_untouched();
    }
    drop(log);
    // A child that another test is starting may have inherited the lock for a moment.
    wait_for("the lock to be free", || (one(&place, "bare")["state"] == "killed").then_some(()));
}
