//! The monitor in a real pseudo-terminal: what it shows, and that it gives the terminal back on every way out.

#[path = "../examples/synthetic/mod.rs"]
mod synthetic;

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use operant_metrics::{Ring, RingOptions, RunState, create_in};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::{MouseProtocolMode, Parser};

/// Longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What came from the terminal so far, as a screen and as bytes.
struct Seen {
    parser: Parser,
    bytes: Vec<u8>,
}

struct Monitor {
    child: Box<dyn Child + Send + Sync>,
    master: Option<Box<dyn MasterPty + Send>>,
    keys: Option<Box<dyn Write + Send>>,
    seen: Arc<Mutex<Seen>>,
    reader: Option<std::thread::JoinHandle<()>>,
    /// Makes the reader stop after what it reads next.
    enough: Arc<AtomicBool>,
}

fn parser(rows: u16, columns: u16) -> Parser {
    let size = |value: u16| std::num::NonZeroU16::new(value).unwrap();
    Parser::new(size(rows), size(columns), 0)
}

fn start(dir: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Monitor {
    let (rows, cols) = (40, 120);
    let pty = native_pty_system().openpty(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_operant-monitor"));
    command.args(arguments);
    for name in ["NO_COLOR", "COLORTERM", "COLORFGBG", "LC_ALL", "LC_CTYPE"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color");
    command.env("LANG", "C.UTF-8");
    command.env("OPERANT_RING_DIR", dir);
    environment.iter().for_each(|(name, value)| command.env(name, value));
    let child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let seen = Arc::new(Mutex::new(Seen { parser: parser(rows, cols), bytes: Vec::new() }));
    let mut output = pty.master.try_clone_reader().unwrap();
    let sink = Arc::clone(&seen);
    let enough = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&enough);
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            let mut seen = sink.lock().unwrap();
            seen.parser.process(&buffer[..count]);
            seen.bytes.extend_from_slice(&buffer[..count]);
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    });
    let keys = pty.master.take_writer().unwrap();
    Monitor { child, master: Some(pty.master), keys: Some(keys), seen, reader: Some(reader), enough }
}

impl Monitor {
    fn screen(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// Waits until the screen shows `text`.
    fn expect(&self, text: &str) {
        wait_for(|| self.screen().contains(text), || format!("no {text:?} on\n{}", self.screen()));
    }

    fn press(&mut self, keys: &str) {
        self.keys.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&mut self, rows: u16, cols: u16) {
        // The screen first: what is drawn for the new size must find it.
        let [height, width] = [rows, cols].map(|value| std::num::NonZeroU16::new(value).unwrap());
        self.seen.lock().unwrap().parser.screen_mut().set_size(height, width);
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        self.master.as_ref().unwrap().resize(size).unwrap();
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.child.process_id().unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
    }

    /// Waits for its end, and gives the exit code.
    fn code(&mut self) -> u32 {
        let mut code = None;
        let child = &mut self.child;
        wait_for(
            || {
                code = child.try_wait().unwrap();
                code.is_some()
            },
            || "it does not end".to_string(),
        );
        code.unwrap().exit_code()
    }

    /// Checks that the terminal is as it was before, once all of its output was read.
    fn gave_back(&mut self) {
        self.keys.take();
        self.reader.take().unwrap().join().unwrap();
        let seen = self.seen.lock().unwrap();
        let screen = seen.parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        assert_eq!(screen.mouse_protocol_mode(), MouseProtocolMode::None);
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(mut condition: impl FnMut() -> bool, otherwise: impl FnOnce() -> String) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{}", otherwise());
        std::thread::sleep(Duration::from_millis(10));
    }
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
    let dir = tempfile::tempdir().unwrap();
    let _ring = run(dir.path(), "first", 500);
    let mut monitor = start(dir.path(), &[], &[]);
    monitor.expect("running  first");
    monitor.expect("episodic return");
    monitor.press("?");
    monitor.expect("this help");
    monitor.press("?");
    monitor.press("8");
    monitor.expect("all metrics");
    monitor.press("/kl\r\r");
    monitor.expect("how far the policy moved");
    monitor.press("q");
    assert_eq!(monitor.code(), 0);
    monitor.gave_back();
}

#[test]
fn it_waits_for_a_run_and_says_when_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut monitor = start(dir.path(), &["late"], &[]);
    monitor.expect("waiting for run late");
    let ring = run(dir.path(), "late", 100);
    monitor.expect("running  late");
    // A trainer that vanishes without a last word.
    let started = Instant::now();
    drop(ring);
    monitor.expect("daemon killed");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    monitor.expect("start again with: operant train cartpole");
    monitor.press("q");
    assert_eq!(monitor.code(), 0);
    monitor.gave_back();
}

#[test]
fn signals_end_it_and_the_terminal_comes_back() {
    use rustix::process::Signal;
    let dir = tempfile::tempdir().unwrap();
    let _ring = run(dir.path(), "first", 100);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut monitor = start(dir.path(), &[], &[]);
        monitor.expect("running  first");
        monitor.signal(signal);
        assert_eq!(monitor.code(), code);
        monitor.gave_back();
    }
}

#[test]
fn a_terminal_that_is_closed_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let _ring = run(dir.path(), "first", 100);
    let mut monitor = start(dir.path(), &[], &[]);
    monitor.expect("running  first");
    // All three copies of the master; the reader lets its own go at the next frame.
    monitor.enough.store(true, Ordering::Relaxed);
    monitor.keys.take();
    monitor.master.take();
    monitor.reader.take().unwrap().join().unwrap();
    assert_ne!(monitor.code(), 0);
}

#[test]
fn it_survives_every_size() {
    let dir = tempfile::tempdir().unwrap();
    let _ring = run(dir.path(), "first", 100);
    let mut monitor = start(dir.path(), &[], &[]);
    monitor.expect("running  first");
    for (rows, columns) in [(1, 1), (2, 7), (12, 40), (80, 250), (1, 200), (40, 3)] {
        monitor.resize(rows, columns);
        if columns >= 40 {
            monitor.expect("first");
        }
    }
    monitor.resize(40, 120);
    monitor.expect("running  first");
    monitor.press("q");
    assert_eq!(monitor.code(), 0);
    monitor.gave_back();
}

#[test]
fn under_no_color_not_one_colour_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let _ring = run(dir.path(), "first", 100);
    let mut monitor = start(dir.path(), &[], &[("NO_COLOR", "1")]);
    monitor.expect("running  first");
    monitor.press("q");
    assert_eq!(monitor.code(), 0);
    monitor.gave_back();
    let seen = monitor.seen.lock().unwrap();
    let text = String::from_utf8_lossy(&seen.bytes);
    for sequence in text.split("\u{1b}[").skip(1) {
        let Some((parameters, _)) = sequence.split_once('m') else { continue };
        if parameters.chars().all(|c| c.is_ascii_digit() || c == ';') {
            let styles = ["", "0", "1", "2", "7", "22", "27"];
            assert!(parameters.split(';').all(|part| styles.contains(&part)), "CSI {parameters} m");
        }
    }
    assert!(text.contains("\u{1b}[1m"), "bold tells things apart");
}
