//! The monitor in a real terminal on real runs: from the first record to the end, with every key and several sizes.

use std::io::Write;
use std::process::Stdio;
use std::time::Instant;

use crate::common::{Daemon, Sandbox, endless, finish, send, wait_for, wait_for_health, wait_for_progress};
use crate::sweep::BRIEF;
use crate::terminal::Terminal;
use operant_metrics::{Health, RunState};
use rustix::process::Signal;

const SIZE: (u16, u16) = (120, 40);

/// Written directly: the test harness captures `println!`.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A live run called `live`, with regular checkpoints.
fn live(place: &Sandbox) -> Daemon {
    detached(place, "live", "checkpoint_interval=50")
}

/// A live run on one thread, with one more setting.
fn detached(place: &Sandbox, name: &str, setting: &str) -> Daemon {
    let mut args = endless(name);
    args.retain(|arg| !["train", "cartpole", "--json"].contains(arg));
    args.extend(["--set", setting, "--set", "threads=1"]);
    place.detach(&args)
}

/// Waits until the list of runs shows all of `parts` in the row of a run.
fn wait_for_row(terminal: &Terminal, run: &str, parts: &[&str]) {
    wait_for(&format!("{parts:?} in the row of {run}"), || {
        let screen = terminal.text();
        // The name is a cell of the row, between spaces.
        let is_of = |line: &&str| line.split_whitespace().any(|cell| cell == run);
        screen.lines().any(|line| is_of(&line) && parts.iter().all(|part| line.contains(part))).then_some(())
    });
}

/// Presses Escape and waits, since Escape right before another key means Alt.
fn escape(terminal: &mut Terminal) {
    let before = terminal.text();
    terminal.press("\x1b");
    terminal.wait_for_change(&before);
}

/// A run in the foreground that ends.
fn to_steps<'a>(name: &'a str, steps: &'a str) -> Vec<&'a str> {
    endless(name).into_iter().map(|arg| if arg == "1e12" { steps } else { arg }).collect()
}

#[test]
fn a_run_is_watched_from_its_first_update_to_its_death() {
    let place = Sandbox::new();
    let daemon = live(&place);
    let mut terminal = Terminal::start(&place.command(&["monitor", "live"]), &[], SIZE);
    terminal.wait_for(&[
        "running",
        "live",
        "cartpole",
        "episodic return",
        "steps per second",
        "losses",
        "scene",
    ]);
    wait_for_progress(&place.ring("live"));
    // An episode of environment 0, recorded by the trainer, is played.
    terminal.wait_for(&["frame"]);

    // Every key, each with what it must change.
    terminal.press("?");
    terminal.wait_for(&["next, previous panel", "smoothing"]);
    escape(&mut terminal);
    terminal.wait_for_no("next, previous panel");
    terminal.press(" ");
    terminal.wait_for(&["FROZEN"]);
    let frozen = terminal.text();
    for key in [
        "\t", "\x1b[Z", "\r", "\x1b", "+", "-", "<", ">", "0", "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D",
        "\x1b[F",
    ] {
        terminal.press(key);
    }
    terminal.press("y");
    terminal.wait_for_change(&frozen);
    terminal.wait_for(&["log"]);
    terminal.press("y");
    terminal.press(" ");
    terminal.wait_for_no("FROZEN");
    terminal.press("s");
    terminal.wait_for(&["smooth"]);
    terminal.press("x");
    terminal.press("m");
    terminal.press("m");
    terminal.press("m");
    for _ in 0..4 {
        terminal.press("t");
    }
    for panel in 1..=9 {
        terminal.press(&panel.to_string());
        terminal.wait_for(&["live"]);
        terminal.press("\r");
        terminal.wait_for(&["live"]);
        escape(&mut terminal);
    }
    terminal.press("r");
    terminal.wait_for(&["draw with it"]);
    escape(&mut terminal);
    terminal.wait_for_no("draw with it");
    terminal.press("8");
    terminal.press("/");
    terminal.press("explained");
    terminal.wait_for(&["explained_variance"]);
    for _ in 0..3 {
        escape(&mut terminal);
    }
    // A click on the chart, and the wheel.
    terminal.press("\x1b[<0;20;10M\x1b[<0;20;10m\x1b[<64;20;10M\x1b[<65;20;10M");
    terminal.wait_for(&["running", "live"]);

    for (columns, rows) in [(1, 1), (40, 12), (2, 50), (250, 80), (200, 1), SIZE] {
        terminal.resize(columns, rows);
        if columns >= 40 && rows >= 12 {
            terminal.wait_for(&["running", "live"]);
        }
    }

    let begun = Instant::now();
    daemon.send(Signal::STOP);
    terminal.wait_for(&["stalled", "no progress for"]);
    print_line(&format!("stall detected after {:.2} s", begun.elapsed().as_secs_f64()));
    daemon.send(Signal::CONT);
    terminal.wait_for(&["running"]);
    terminal.wait_for_no("no progress for");

    let begun = Instant::now();
    daemon.send(Signal::KILL);
    let seen = terminal.wait_for(&["daemon killed", "operant train --resume live"]);
    print_line(&format!("death detected after {:.2} s", begun.elapsed().as_secs_f64()));
    assert!(seen.contains("last checkpoint at step"), "{seen}");
    terminal.press("q");
    let left = terminal.finish();
    assert!(left.code == 0 && left.restored, "{left:?}");
}

/// The output of `operant monitor live --json`, checked to be complete: only values that this machine lacks are null.
/// Metrics of other settings than the run's.
const OTHERS: [&str; 8] = [
    "epsilon",
    "td_loss",
    "q_values",
    "intrinsic_reward",
    "actor_loss",
    "alpha",
    "replay_size",
    "minibatches",
];

fn monitor_json(place: &Sandbox) -> serde_json::Value {
    let report = place.operant(&["monitor", "live", "--json"]);
    assert_eq!(report.code, Some(0), "{report:#?}");
    let report = report.json();
    for metric in operant_metrics::METRICS {
        // Of two kinds of cores, of several cores, of environments in worker processes, and of several processes.
        let kinds = ["cpu_performance", "cpu_efficiency", "cpu_balance", "core_balance"];
        let kinds =
            kinds.iter().chain(&["env_wait", "env_restarts", "comm_share"]).any(|kind| *kind == metric.name);
        let known = report.get(metric.name).is_some_and(serde_json::Value::is_number);
        let kinds = kinds || OTHERS.contains(&metric.name);
        // No greedy evaluation may have come yet.
        let later = metric.name.starts_with("eval_");
        assert!(known || later || metric.group == "gpu" || kinds, "{} in {report:#}", metric.name);
    }
    report
}

#[test]
fn the_json_of_live_killed_and_finished_runs_is_complete() {
    let place = Sandbox::new();
    let daemon = live(&place);
    wait_for("an episode", || {
        (place.operant(&["monitor", "live", "--json"]).json()["episodes"] != 0).then_some(())
    });
    assert_eq!(monitor_json(&place)["state"], "running");
    let saved = place.operant(&["checkpoint", "live"]);
    assert_eq!(saved.code, Some(0), "{saved:#?}");
    // The side thread writes events into the ring.
    wait_for("the checkpoint in the ring", || (!monitor_json(&place)["checkpoint"].is_null()).then_some(()));
    daemon.send(Signal::KILL);
    daemon.wait();
    // The process ends before the last of its threads releases the lock.
    let killed = wait_for("the end of the lock", || {
        let report = monitor_json(&place);
        (report["state"] != "running").then_some(report)
    });
    assert_eq!((&killed["state"], killed["checkpoint"].is_null()), (&"killed".into(), false));
    let text = place.operant(&["monitor", "live", "--once"]);
    assert!(text.stdout.contains("daemon killed") && text.stdout.contains("explained_variance"), "{text:#?}");
    let steps = killed["env_steps"].as_u64().expect("a count") + 12_800;
    let resumed = place.operant(&["train", "--resume", "live", "--steps", &steps.to_string(), "--quiet"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    let finished = monitor_json(&place);
    assert_eq!(finished["state"], "finished");
    // The whole run, including the part before the resume.
    let updates = finished["update"].as_u64().expect("a count");
    let report_of = finished["history"]["policy_loss"]["count"].as_u64().expect("a count");
    assert!(report_of * 2 > updates, "{report_of} of {updates} updates: {finished:#}");
}

#[test]
fn a_monitor_may_start_before_the_run_and_after_its_end() {
    let place = Sandbox::new();
    // A name that differs in its number alone is no slip.
    assert_eq!(finish(place.start(&to_steps("later-1", "12800"))).code, Some(0));
    let mut early = Terminal::start(&place.command(&["monitor", "later-2"]), &[], (80, 24));
    early.wait_for(&["waiting for run later-2"]);
    assert_eq!(finish(place.start(&to_steps("later-2", "12800"))).code, Some(0));
    early.wait_for(&["finished", "operant eval later-2"]);
    let mut late = Terminal::start(&place.command(&["monitor", "later-2"]), &[], (80, 24));
    late.wait_for(&["finished", "operant eval later-2"]);
    for mut terminal in [early, late] {
        terminal.press("q");
        let left = terminal.finish();
        assert!(left.code == 0 && left.restored, "{left:?}");
    }
    let report = place.operant(&["monitor", "later-2", "--once", "--json"]);
    assert_eq!((report.code, report.json()["state"].as_str()), (Some(0), Some("finished")), "{report:#?}");
    assert_eq!(report.json()["env_steps"].as_u64(), Some(12_800));
    // The metric of an environment is one of the ring: a snake has three cells and one for each reward.
    let snake = place.operant(&["train", "snake", "--name", "long", "--steps", "12800"]);
    assert_eq!(snake.code, Some(0), "{snake:#?}");
    let report = place.operant(&["monitor", "long", "--once", "--json"]).json();
    let [length, gained] =
        ["snake_length", "episodic_return"].map(|key| report[key].as_f64().expect("a number"));
    assert!((length - 3.0 - gained).abs() < 1e-6, "{report}");
}

#[test]
fn the_list_of_runs_pauses_continues_and_stops_the_selected_run_once_confirmed() {
    const RUNNING: Health = Health::Reported(RunState::Running);
    const PAUSED: Health = Health::Reported(RunState::Paused);
    const PREEMPTED: Health = Health::Reported(RunState::Preempted);
    let place = Sandbox::new();
    // Without checkpoints: the ring keeps only its latest events, and the number of pauses is counted below.
    let [first, second] = ["first", "second"].map(|name| detached(&place, name, "checkpoint_interval=0"));
    let [ring_of_first, ring_of_second] = ["first", "second"].map(|name| place.ring(name));
    wait_for_health(&ring_of_first, RUNNING);
    wait_for_health(&ring_of_second, RUNNING);

    let mut terminal = Terminal::start(&place.command(&["monitor", "first"]), &[], SIZE);
    terminal.wait_for(&["running", "first"]);
    terminal.press("r");
    terminal.wait_for(&["2 runs", "draw with it"]);
    wait_for_row(&terminal, "first", &["▸", "running"]);
    terminal.press("j");
    wait_for_row(&terminal, "second", &["▸", "running"]);

    // Any other key cancels, and the keys of the list are back.
    for (key, question) in [("p", "pause second? p again"), ("X", "stop second? X again")] {
        for other in ["n", "\x1b", if key == "p" { "X" } else { "p" }] {
            terminal.press(key);
            terminal.wait_for(&[question]);
            terminal.press(other);
            terminal.wait_for_no(question);
            let screen = terminal.wait_for(&["2 runs", "draw with it"]);
            assert!(!screen.contains("second: "), "a cancelled action was answered:\n{screen}");
        }
    }
    wait_for_progress(&ring_of_second);
    assert_eq!(ring_of_second.status().health, RUNNING);

    terminal.press("p");
    terminal.wait_for(&["pause second? p again"]);
    terminal.press("p");
    wait_for_health(&ring_of_second, PAUSED);
    terminal.wait_for(&["second: pauses after its update"]);
    wait_for_row(&terminal, "second", &["▸", "paused"]);
    wait_for_row(&terminal, "first", &["running"]);

    // A pause that is not continued stays.
    terminal.press("p");
    terminal.wait_for(&["continue second? p again"]);
    terminal.press("n");
    terminal.wait_for_no("continue second?");
    wait_for_progress(&ring_of_first);
    assert_eq!(ring_of_second.status().health, PAUSED);

    terminal.press("p");
    terminal.wait_for(&["continue second? p again"]);
    terminal.press("y");
    wait_for_health(&ring_of_second, RUNNING);
    wait_for_progress(&ring_of_second);
    terminal.wait_for(&["second: continues"]);
    wait_for_row(&terminal, "second", &["▸", "running"]);

    terminal.press("X");
    terminal.wait_for(&["stop second? X again"]);
    terminal.press("X");
    wait_for_health(&ring_of_second, PREEMPTED);
    second.wait();
    wait_for_row(&terminal, "second", &["preempted"]);
    // A signal sent by a cancelled key would have paused the run once more.
    let pauses =
        ring_of_second.events().iter().filter(|event| event.text.contains("SIGUSR2: paused")).count();
    assert_eq!(pauses, 1, "{:#?}", ring_of_second.events());

    // The other run received no signal.
    wait_for_progress(&ring_of_first);
    assert_eq!((first.is_alive(), ring_of_first.status().health), (true, RUNNING));
    wait_for_row(&terminal, "first", &["running"]);
    assert!(!ring_of_first.events().iter().any(|event| event.text.contains("SIGUSR2")));
    terminal.press("q");
    let left = terminal.finish();
    assert!(left.code == 0 && left.restored, "{left:?}");
    let states = ["first", "second"].map(|name| place.run_file(name)["state"].clone());
    assert_eq!(states, ["running", "preempted"]);
}

#[test]
fn ten_monitors_and_a_killed_one_leave_the_run_as_it_is() {
    let place = Sandbox::new();
    let train = |name: &str, watched: bool| {
        let child = place.start(&to_steps(name, "64000"));
        let mut monitors = Vec::new();
        if watched {
            let _ = place.ring(name);
            for _ in 0..10 {
                let mut command = place.command(&["monitor", name, "--json", "--interval", "0.05"]);
                let monitor = command.stdout(Stdio::piped()).spawn().expect("started");
                place.guard(&monitor);
                monitors.push(monitor);
            }
            send(&monitors[0], Signal::KILL);
        }
        let finished = finish(child);
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        for (number, monitor) in monitors.into_iter().enumerate() {
            let report = finish(monitor);
            assert_eq!(report.code, (number > 0).then_some(0), "{report:#?}");
            let lines: Vec<serde_json::Value> =
                report.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            if number > 0 {
                assert_eq!(lines.len(), report.stdout.lines().count(), "every line is JSON");
                assert_eq!(lines.last().expect("a line")["state"], "finished");
                let steps: Vec<f64> = lines.iter().filter_map(|line| line["env_steps"].as_f64()).collect();
                assert!(steps.windows(2).all(|pair| pair[0] <= pair[1]), "{steps:?}");
            }
        }
    };
    train("alone", false);
    train("watched", true);
    assert!(place.final_state("alone") == place.final_state("watched"), "watching changed the weights");
    assert_eq!(place.metrics("alone"), place.metrics("watched"));
}

#[test]
fn a_ring_damaged_under_a_monitor_ends_in_a_message() {
    let place = Sandbox::new();
    let daemon = live(&place);
    let path = place.ring("live").path().to_owned();
    let mut terminal = Terminal::start(&place.command(&["monitor", "live"]), &[], SIZE);
    terminal.wait_for(&["running"]);
    daemon.send(Signal::KILL);
    daemon.wait();
    terminal.wait_for(&["daemon killed"]);
    std::fs::write(&path, b"garbage").expect("written");
    let before = terminal.text();
    terminal.press("+");
    terminal.press("?");
    terminal.wait_for_change(&before);
    terminal.press("\x1b");
    std::fs::remove_file(&path).expect("removed");
    terminal.press("-");
    terminal.press("q");
    let left = terminal.finish();
    assert!(left.code == 0 && left.restored, "{left:?}");
    // Without its ring the run is shown from its directory.
    let recorded = place.operant(&["monitor", "live", "--once"]);
    assert!(recorded.code == Some(0) && recorded.stdout.starts_with("live  killed"), "{recorded:#?}");
    // Nothing at all to be seen: one clear error, and no terminal is touched.
    std::fs::remove_dir_all(place.path().join("runs/live")).expect("removed");
    let none = place.operant(&["monitor", "live", "--once"]);
    none.assert_error(2, &["live"]);
    std::fs::write(&path, b"garbage").expect("written");
    let garbage = place.operant(&["monitor", "live", "--once"]);
    garbage.assert_error(2, &["not an operant ring"]);
}

#[test]
fn a_sweep_opens_from_the_list_and_escape_leads_back() {
    let place = Sandbox::new();
    let made = |args: &[&str]| assert_eq!(place.operant(&[args, &BRIEF].concat()).code, Some(0));
    made(&["sweep", "cartpole", "--name", "rates", "--set", "gamma=0.9,0.99", "--quiet"]);
    made(&["train", "cartpole", "--name", "mine", "--quiet"]);
    place.operant(&["monitor", "mine", "rates"]).assert_error(2, &["rates is a sweep, which is shown alone"]);
    let mut terminal = Terminal::start(&place.command(&["monitor", "mine"]), &[], SIZE);
    terminal.wait_for(&["mine", "episodic return"]);
    terminal.press("r");
    terminal.wait_for(&["rates", "sweep, cartpole"]);
    terminal.press("/rates\r");
    terminal.wait_for(&["1 of 2 runs"]);
    terminal.press("\r");
    terminal.wait_for(&["cartpole: 2 trials", "Esc back", "? help"]);
    terminal.press("?");
    terminal.wait_for(&["quit; the sweep continues"]);
    escape(&mut terminal);
    terminal.wait_for_no("the sweep continues");
    terminal.press("\r");
    terminal.wait_for(&["Esc sweep", "episodic return"]);
    escape(&mut terminal);
    terminal.wait_for(&["cartpole: 2 trials"]);
    escape(&mut terminal);
    terminal.wait_for(&["1 of 2 runs"]);
    terminal.press("\rq");
    assert_eq!(terminal.finish().code, 0);
}

#[test]
fn the_ring_of_a_run_whose_directory_was_deleted_goes() {
    let place = Sandbox::new();
    let trained = place.operant(&[&["train", "cartpole", "--name", "gone", "--quiet"], &BRIEF[..]].concat());
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    let rings = || {
        let files = std::fs::read_dir(place.rings()).expect("read").flatten();
        files.filter(|file| file.path().extension().is_some_and(|ending| ending == "ring")).count()
    };
    let once = || place.operant(&["monitor", "--once"]);
    assert_eq!((once().code, rings()), (Some(0), 1));
    std::fs::remove_dir_all(place.path().join("runs/gone")).expect("removed");
    once().assert_error(1, &["there is no run to show"]);
    assert_eq!(rings(), 0);
}
