//! The monitor in a real pseudo-terminal: its screens, and that it restores the terminal on every exit.

use std::path::Path;
use std::process::Command;

use crate::synthetic;
use crate::window::Terminal;
use operant_metrics::{Ring, RingOptions, RunState, create_in};
use rustix::process::Signal;

fn start(dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
    let mut command = Command::new(env!("CARGO_BIN_EXE_operant-monitor"));
    command.args(arguments).env("OPERANT_RING_DIR", dir);
    Terminal::start(&command, variables, (120, 40))
}

/// A monitor that shows the live run `first`, with its terminal and files.
fn beside_a_run(updates: u64, variables: &[(&str, &str)]) -> (tempfile::TempDir, Ring, Terminal) {
    let dir = tempfile::tempdir().unwrap();
    let ring = run(dir.path(), "first", updates);
    let mut monitor = start(dir.path(), &[], variables);
    monitor.wait_for(&["  first"]);
    (dir, ring, monitor)
}

/// Presses `q`; what comes out last, when the terminal is as it was before.
fn quit(mut monitor: Terminal) -> String {
    monitor.press("q");
    ended(monitor, 0)
}

/// Checks how it ended, and that the terminal is as it was before; what came out.
fn ended(monitor: Terminal, code: u32) -> String {
    let left = monitor.finish();
    assert_eq!((left.code, left.restored), (code, true));
    left.raw
}

fn run(dir: &Path, name: &str, updates: u64) -> Ring {
    let mut ring = create_in(dir, &synthetic::identity(name, 1000), &RingOptions::default()).unwrap();
    for i in 1..=updates {
        ring.writer.refill(&synthetic::record(i, 1000, 0));
    }
    ring.writer.set_state(RunState::Running, "");
    ring.writer.publish(&synthetic::record(updates + 1, 1000, 0));
    ring
}

#[test]
fn it_shows_a_run_takes_keys_and_leaves_the_terminal_as_it_was() {
    let (_dir, _ring, mut monitor) = beside_a_run(500, &[]);
    monitor.wait_for(&["episodic return"]);
    monitor.press("?");
    monitor.wait_for(&["this help"]);
    monitor.press("?");
    monitor.press("8");
    monitor.wait_for(&["all metrics"]);
    monitor.press("/kl\r\r");
    monitor.wait_for(&["how far the policy moved"]);
    quit(monitor);
}

#[test]
fn it_waits_for_a_run_and_says_when_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut monitor = start(dir.path(), &["late"], &[]);
    monitor.wait_for(&["waiting for run late"]);
    let ring = run(dir.path(), "late", 100);
    monitor.wait_for(&["  late"]);
    // A trainer that disappears without a final state.
    drop(ring);
    monitor.wait_for(&["daemon killed"]);
    monitor.wait_for(&["start over with: operant train --resume late"]);
    quit(monitor);
}

#[test]
fn signals_end_it_and_the_terminal_comes_back() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let (_dir, _ring, monitor) = beside_a_run(100, &[]);
        monitor.send(signal);
        ended(monitor, code);
    }
}

#[test]
fn a_terminal_that_is_closed_ends_it() {
    let (_dir, _ring, mut monitor) = beside_a_run(100, &[]);
    monitor.close();
    let code = monitor.finish().code;
    assert!([1, 129].contains(&code), "{code}");
}

#[test]
fn it_survives_every_size() {
    let (_dir, _ring, mut monitor) = beside_a_run(100, &[]);
    for (columns, rows) in [(1, 1), (7, 2), (40, 12), (250, 80), (200, 1), (3, 40)] {
        monitor.resize(columns, rows);
        if columns >= 40 {
            monitor.wait_for(&["first"]);
        }
    }
    monitor.resize(120, 40);
    monitor.wait_for(&["  first"]);
    quit(monitor);
}

#[test]
fn ctrl_z_gives_the_terminal_back_and_fg_draws_the_screen_again() {
    let dir = tempfile::tempdir().unwrap();
    let _ring = run(dir.path(), "first", 100);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-i"]).env("OPERANT_RING_DIR", dir.path()).env("PS1", "prompt> ").env_remove("ENV");
    let mut terminal = Terminal::start(&shell, &[], (120, 40));
    terminal.wait_for(&["prompt>"]);
    terminal.press(&format!("{} first\n", env!("CARGO_BIN_EXE_operant-monitor")));
    terminal.wait_for(&["  first", "episodic return"]);
    for _ in 0..2 {
        terminal.press("\u{1a}");
        let shown = terminal.wait_for(&["Stopped"]);
        assert!(!shown.contains("episodic return"), "{shown}");
        terminal.press("clear; fg\n");
        terminal.wait_for(&["  first", "episodic return"]);
        terminal.wait_for_no("Stopped");
    }
    terminal.press("q");
    terminal.wait_for(&["prompt>"]);
    terminal.press("exit\n");
    let left = terminal.finish();
    assert!(left.restored, "{left:?}");
}

#[test]
fn without_a_shell_to_continue_it_ctrl_z_does_nothing() {
    let (_dir, mut ring, mut monitor) = beside_a_run(100, &[]);
    monitor.press("\u{1a}");
    monitor.send(Signal::TSTP);
    ring.writer.publish(&synthetic::record(700, 1000, 0));
    monitor.wait_for(&["update 700"]);
    // Stopped and continued by others, it draws everything again.
    monitor.send(Signal::STOP);
    monitor.send(Signal::CONT);
    ring.writer.publish(&synthetic::record(701, 1000, 0));
    monitor.wait_for(&["update 701"]);
    quit(monitor);
}

#[test]
fn a_dumb_terminal_gets_lines_until_the_run_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut ring = run(dir.path(), "first", 100);
    let mut monitor = start(dir.path(), &["--interval", "0.02"], &[("TERM", "dumb")]);
    // The end of a page: its beginning may have left the screen.
    monitor.wait_for(&["bytes_d2h"]);
    ring.writer.set_state(RunState::Finished, "");
    let text = ended(monitor, 0);
    // On a busy machine it may start seconds after the run's last update.
    let is_shown = ["first  running", "first  stalled"].iter().any(|shown| text.contains(shown));
    assert!(is_shown && text.contains("first  finished"), "{text}");
    assert!(!text.contains('\u{1b}'), "no escape sequence");
}

#[test]
fn under_no_color_not_one_colour_is_sent() {
    let (_dir, _ring, monitor) = beside_a_run(100, &[("NO_COLOR", "1")]);
    let text = quit(monitor);
    for sequence in text.split("\u{1b}[").skip(1) {
        let Some((parameters, _)) = sequence.split_once('m') else { continue };
        if parameters.chars().all(|c| c.is_ascii_digit() || c == ';') {
            let styles = ["", "0", "1", "2", "7", "22", "27"];
            assert!(parameters.split(';').all(|part| styles.contains(&part)), "CSI {parameters} m");
        }
    }
    assert!(text.contains("\u{1b}[1m"), "bold tells things apart");
}
