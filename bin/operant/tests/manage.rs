//! `operant show`, `pause`, `resume` and `rm` on real runs.

use std::process::Child;

use operant_metrics::{Health, RunState};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{
    Daemon, SMALL, Sandbox, endless, finish, send, wait_for, wait_for_health, wait_for_progress,
};
use crate::terminal::Terminal;

fn trained(place: &Sandbox, name: &str) {
    let args =
        ["train", "cartpole", "--name", name, "--quiet", "--steps", "1280", "--set", "checkpoint_interval=5"];
    let finished = place.operant(&[&args, SMALL].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
}

fn live(place: &Sandbox, name: &str, more: &[&str]) -> Child {
    let child = place.start(&[&endless(name)[..], more].concat());
    wait_for_health(&place.ring(name), Health::Reported(RunState::Running));
    child
}

fn state(place: &Sandbox, run: &str) -> String {
    place.operant(&["show", run, "--json"]).json()["state"].as_str().expect("a state").to_owned()
}

/// The columns of the widest line.
fn width(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn a_run_is_shown_on_one_screen() {
    let place = Sandbox::new();
    trained(&place, "mine");
    let shown = place.operant(&["show", "mine"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    for part in [
        "run mine: finished (took every step)\n",
        "environment  cartpole with PPO on cpu, seed 1",
        "steps        1280 of 1280 (100%), ",
        " over 5 greedy episodes",
        "solved       no: a mean return of 1000000000 is needed",
        "directory    runs/mine\n",
        "operant.log (its notes and warnings)",
        "num_envs = 8 (preset: ",
        "solved_at = 1000000000.0 (preset: 475.0)",
        "2 of ",
        "; eval takes 1280\n",
        "operant eval mine\n",
        "operant resume mine --steps N\n",
    ] {
        assert!(shown.stdout.contains(part), "no \"{part}\" in {}", shown.stdout);
    }
    assert!(width(&shown.stdout) <= 80 && shown.stdout.lines().count() <= 40, "{}", shown.stdout);
    let json = place.operant(&["show", "mine", "--json"]).json();
    let steps: Vec<Option<u64>> =
        json["checkpoints"].as_array().expect("a list").iter().map(|it| it["env_steps"].as_u64()).collect();
    assert_eq!(steps, [Some(640), Some(1280)]);
    assert!(json["checkpoints"][1]["bytes"].as_u64() > Some(1000), "{json}");
    assert_eq!((&json["state"], &json["changed"]["num_envs"]), (&"finished".into(), &8.into()));
    // The keys of `runs --json`, with the same values.
    let listed: Value = serde_json::from_str(&place.operant(&["runs", "--json"]).stdout).expect("JSON");
    for (key, value) in listed.as_object().expect("an object") {
        assert_eq!(&json[key], value, "{key}");
    }
    // A damaged checkpoint is not the one that eval takes.
    let (_, latest) = place.checkpoints("mine").pop().expect("a checkpoint");
    std::fs::write(latest.join("meta.json"), "{}").expect("written");
    let shown = place.operant(&["show", "mine"]).stdout;
    let line = shown.lines().find(|line| line.trim_start().starts_with("1280 ")).expect("a line");
    assert!(line.ends_with("  damaged") && shown.contains("; eval takes 640\n"), "{shown}");
    place.operant(&["show", "mime"]).assert_error(2, &["did you mean \"mine\"?"]);
}

#[test]
fn a_copied_run_keeps_the_time_of_its_end() {
    let place = Sandbox::new();
    trained(&place, "mine");
    let ended = |run: &str| place.operant(&["show", run, "--json"]).json()["ended"].clone();
    let log = std::fs::read_to_string(place.path().join("runs/mine/operant.log")).expect("the log");
    let last = log.lines().last().and_then(|line| line.split(' ').next()).expect("an event");
    assert_eq!(ended("mine"), last);
    // As cp without -p: each file has the time of the copy.
    let (from, to) = (place.path().join("runs/mine"), place.path().join("runs/copy"));
    std::fs::create_dir(&to).expect("made");
    for file in ["config.toml", "run.json", "operant.log", "metrics.csv"] {
        std::fs::copy(from.join(file), to.join(file)).expect("copied");
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
        let file = std::fs::File::options().write(true).open(to.join(file)).expect("there");
        file.set_modified(later).expect("set");
    }
    assert_eq!(ended("copy"), last);
}

#[test]
fn a_killed_run_shows_its_last_sign_of_life() {
    let place = Sandbox::new();
    let child = live(&place, "mine", &[]);
    wait_for_progress(&place.ring("mine"));
    send(&child, Signal::KILL);
    finish(child);
    let dir = place.path().join("runs/mine");
    let written = |file: &str, seconds| {
        let moment = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let file = std::fs::File::options().write(true).open(dir.join(file)).expect("there");
        file.set_modified(moment).expect("set");
    };
    written("run.json", 1_600_000_000);
    written("operant.log", 1_600_000_000);
    written("metrics.csv", 1_700_000_000);
    let json = || place.operant(&["show", "mine", "--json"]).json();
    let (started, ended) = (json()["started"].clone(), json()["ended"].clone());
    assert!(ended.as_str() > started.as_str(), "the heartbeat in its ring: {started} {ended}");
    std::fs::remove_dir_all(place.rings()).expect("removed");
    assert_eq!(json()["ended"], "2023-11-14T22:13:20.000Z");
    let shown = place.operant(&["show", "mine"]).stdout;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("last sign of life 2023-11-14 22:13:20 UTC"), "{shown}");
}

#[test]
fn a_ring_goes_after_a_directory_that_was_removed_by_hand() {
    let place = Sandbox::new();
    trained(&place, "mine");
    let ring = place.rings().join("mine.ring");
    let listed = || assert_eq!(place.operant(&["runs"]).code, Some(0));
    listed();
    assert!(ring.is_file());
    std::fs::remove_dir_all(place.path().join("runs/mine")).expect("removed");
    listed();
    assert!(!ring.exists());
}

#[test]
fn a_live_run_that_is_solved_says_so() {
    let place = Sandbox::new();
    let child = live(&place, "mine", &["--set", "solved_at=5", "--set", "eval_interval=1"]);
    let solved = || {
        let json = place.operant(&["show", "mine", "--json"]).json();
        (json["solved_at_step"].is_u64() && json["solved_at_s"].is_f64()).then_some(json)
    };
    let json = wait_for("the solution", solved);
    assert_eq!(json["state"], "running");
    assert!(place.operant(&["show", "mine"]).stdout.contains("  solved       at "));
    send(&child, Signal::TERM);
    assert_eq!(finish(child).code, Some(75));
}

#[test]
fn a_run_is_paused_and_resumed() {
    let place = Sandbox::new();
    let child = live(&place, "mine", &[]);
    let ring = place.ring("mine");
    let paused = place.operant(&["pause", "mine"]);
    assert!(paused.code == Some(0) && paused.stdout.starts_with("run mine: paused at "), "{paused:#?}");
    assert_eq!(state(&place, "mine"), "paused");
    let published = ring.published();
    place.operant(&["pause", "mine"]).assert_error(2, &["is paused already", "operant resume mine"]);
    place.operant(&["resume", "mine", "--set", "gamma=0.9"]).assert_error(2, &["its settings are fixed"]);
    assert_eq!((state(&place, "mine").as_str(), ring.published()), ("paused", published));
    let resumed = place.operant(&["resume", "mine"]);
    assert!(resumed.code == Some(0) && resumed.stdout.starts_with("run mine: running\n"), "{resumed:#?}");
    wait_for_progress(&ring);
    place
        .operant(&["resume", "mine"])
        .assert_error(2, &["is being trained: running", "operant monitor mine"]);
    // One pause of several at once; the others see that it is paused already.
    let asking: Vec<Child> = (0..3).map(|_| place.start(&["pause", "mine"])).collect();
    let codes: Vec<_> = asking.into_iter().map(|child| finish(child).code).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(state(&place, "mine"), "paused");
    let resumed = place.operant(&["resume", "mine", "--json"]).json();
    assert_eq!((&resumed["run"], &resumed["pid"]), (&"mine".into(), &child.id().into()));
    send(&child, Signal::TERM);
    assert_eq!(finish(child).code, Some(75));
    place.operant(&["pause", "mine"]).assert_error(2, &["is not being trained: preempted", "--resume mine"]);
}

#[test]
fn an_ended_run_is_resumed_as_train_resumes_it() {
    let place = Sandbox::new();
    for name in ["one", "two"] {
        trained(&place, name);
    }
    let more = ["--steps", "2560", "--json", "--set", "eval_episodes=3"];
    let by_train = place.operant(&[&["train", "--resume", "one"], &more[..]].concat()).json();
    let resumed = place.operant(&[&["resume", "two"], &more[..]].concat()).json();
    assert_eq!((&resumed["env_steps"], &resumed["eval_episodes"]), (&2560.into(), &3.into()));
    assert_eq!(resumed["eval_return_mean"], by_train["eval_return_mean"]);
    assert!(place.final_state("one") == place.final_state("two"));
    // As a daemon.
    let started = place.operant(&["resume", "two", "--detach", "--json", "--steps", "1e12"]);
    assert_eq!(started.code, Some(0), "{started:#?}");
    let daemon = Daemon(started.json());
    assert_eq!(daemon.0["run"], "two");
    wait_for_progress(&place.ring("two"));
    let stopped = place.operant(&["stop", "two"]);
    assert!(stopped.stdout.contains("preempted at"), "{stopped:#?}");
    daemon.wait();
    place.operant(&["resume", "tow"]).assert_error(2, &["did you mean \"two\"?"]);
}

#[test]
fn ended_runs_are_removed_and_live_ones_are_not() {
    let place = Sandbox::new();
    for name in ["one", "two"] {
        trained(&place, name);
    }
    let dir = |name: &str| place.path().join("runs").join(name);
    let child = live(&place, "live", &[]);
    place.operant(&["rm", "one"]).assert_error(2, &["standard input is not a terminal", "--yes"]);
    place
        .operant(&["rm", "one", "live", "--yes"])
        .assert_error(2, &["is being trained already", "operant stop live"]);
    place.operant(&["rm", "one", "tow", "--yes"]).assert_error(2, &["did you mean \"two\"?"]);
    assert!(dir("one").is_dir() && dir("live").is_dir());
    // A killed run leaves its ring.
    send(&child, Signal::KILL);
    finish(child);
    let has_ring = |run: &str| operant_metrics::rings_in(&place.rings()).iter().any(|ring| ring.name == run);
    assert!(["one", "two", "live"].iter().all(|run| has_ring(run)));
    let removed = place.operant(&["rm", "live", "runs/one", "one", "--yes"]);
    assert_eq!(removed.code, Some(0), "{removed:#?}");
    assert!(removed.stdout.contains("run live: removed runs/live, and its ring, "), "{removed:#?}");
    assert!(removed.stdout.lines().count() == 2 && removed.stdout.contains(" freed\n"), "{removed:#?}");
    assert!(!has_ring("one") && !has_ring("live") && has_ring("two"));
    let left =
        std::fs::read_dir(place.path().join("runs")).expect("read").flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["two"]);
    // On a terminal it asks.
    for (answer, is_left) in [("n\r", true), ("\r", true), ("y\r", false)] {
        let mut terminal = Terminal::start(&place.command(&["rm", "two"]), &[], (80, 24));
        terminal.wait_for(&["two  cartpole, finished, ", "Remove this run? [y/N]"]);
        terminal.press(answer);
        assert_eq!(terminal.finish().code, 0);
        assert_eq!(dir("two").is_dir(), is_left, "{answer:?}");
    }
}

#[test]
fn the_list_of_runs_takes_a_line_each_on_80_columns() {
    let place = Sandbox::new();
    std::fs::create_dir_all(place.path().join("runs")).expect("made");
    let name = "cartpole-12-20261128-031228";
    trained(&place, name);
    trained(&place, "mine");
    let terminal = Terminal::start(&place.command(&["runs"]), &[], (80, 24));
    let text = wait_for("the list", || {
        let text = terminal.text();
        text.contains("no room for").then_some(text)
    });
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("run  "), "{text}");
    assert!(
        lines[1].starts_with(name) && lines[2].starts_with("mine ") && lines[3].starts_with("(no room"),
        "{text}"
    );
    for line in &lines[1..3] {
        assert!(line.contains("finished") && line.contains("lr_schedule="), "{text}");
    }
}
