//! Runs a program in a pseudo-terminal: sends keys and reads the screen. Shared with the monitor's tests.
#![allow(dead_code)] // not every test file uses all of it

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

/// Longest wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pseudo-terminal and the `operant` that runs in it.
pub struct Terminal {
    /// None once the window is closed.
    master: Option<Box<dyn MasterPty + Send>>,
    keys: Option<Box<dyn Write + Send>>,
    child: Box<dyn Child + Send + Sync>,
    shown: Arc<Mutex<Shown>>,
    reader: Option<JoinHandle<()>>,
    /// Makes the reader close its copy of the terminal after its next read.
    closing: Arc<AtomicBool>,
    /// The terminal's settings before the program began.
    settings: String,
}

/// The output.
struct Shown {
    screen: vt100::Parser,
    raw: Vec<u8>,
}

/// How a program in a terminal ended, and the terminal's state.
#[derive(Debug)]
pub struct Left {
    pub code: u32,
    /// Whether the terminal was restored: main screen, cursor, no mouse, cooked input.
    pub restored: bool,
    pub raw: String,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, ..PtySize::default() }
}

fn cells(columns: u16, rows: u16) -> (NonZeroU16, NonZeroU16) {
    let cells = |count| NonZeroU16::new(count).expect("a terminal has cells");
    (cells(rows), cells(columns))
}

impl Terminal {
    /// Starts a program with these additional variables in a terminal of this size. The command's standard input and
    /// output are ignored.
    pub fn start(plain: &Command, variables: &[(&str, &str)], (columns, rows): (u16, u16)) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).expect("a pseudo-terminal");
        let settings = settings(&*pair.master);
        let mut command = CommandBuilder::new(plain.get_program());
        command.args(plain.get_args());
        if let Some(dir) = plain.get_current_dir() {
            command.cwd(dir);
        }
        for name in ["NO_COLOR", "COLORTERM", "COLORFGBG", "LC_ALL", "LC_CTYPE"] {
            command.env_remove(name);
        }
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            }
        }
        for (name, value) in [("TERM", "xterm-256color"), ("LANG", "C.UTF-8")].iter().chain(variables) {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("started");
        drop(pair.slave);

        let (rows, columns) = cells(columns, rows);
        let shown = Shown { screen: vt100::Parser::new(rows, columns, 0), raw: Vec::new() };
        let shown = Arc::new(Mutex::new(shown));
        let closing = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&closing);
        let (sink, mut out) = (Arc::clone(&shown), pair.master.try_clone_reader().expect("a reader"));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 8192];
            // The end of a terminal is a read error.
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                let mut shown = sink.lock().expect("no reader panics");
                shown.screen.process(&bytes[..count]);
                shown.raw.extend_from_slice(&bytes[..count]);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let keys = pair.master.take_writer().expect("a writer");
        let (master, keys, reader) = (Some(pair.master), Some(keys), Some(reader));
        Terminal { master, keys, child, shown, reader, closing, settings }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().expect("no reader panics")
    }

    /// The screen as text.
    pub fn text(&self) -> String {
        self.shown().screen.screen().contents()
    }

    /// Waits until the screen shows all of `parts`, and gives it.
    pub fn wait_for(&mut self, parts: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if parts.iter().all(|part| text.contains(part)) {
                return text;
            }
            assert!(self.is_running(), "the program ended; it showed\n{text}");
            assert!(begun.elapsed() < PATIENCE, "timed out waiting for {parts:?} on\n{text}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Waits until the screen no longer shows `part`.
    pub fn wait_for_no(&mut self, part: &str) {
        wait_until(|| !self.text().contains(part), || format!("\"{part}\" stays on\n{}", self.text()));
    }

    /// Waits until the screen differs from what it was.
    pub fn wait_for_change(&mut self, before: &str) {
        wait_until(|| self.text() != before, || format!("nothing changes on\n{before}"));
    }

    /// Types.
    pub fn press(&mut self, keys: &str) {
        let writer = self.keys.as_mut().expect("an open window");
        writer.write_all(keys.as_bytes()).and_then(|()| writer.flush()).expect("typed");
    }

    /// Gives the window another size.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        // The screen is resized first.
        let (in_rows, in_columns) = cells(columns, rows);
        self.shown().screen.screen_mut().set_size(in_rows, in_columns);
        self.master.as_ref().expect("an open window").resize(size(columns, rows)).expect("resized");
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("waited").is_none()
    }

    pub fn pid(&self) -> Pid {
        let pid = self.child.process_id().and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Pid::from_raw).expect("a pid")
    }

    pub fn send(&self, signal: Signal) {
        let _ = kill_process(self.pid(), signal);
    }

    /// Closes the window, as a user does.
    pub fn close(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        self.keys = None;
        self.master = None;
    }

    /// Waits for the program's end.
    pub fn finish(mut self) -> Left {
        let mut status = None;
        let ended = || {
            status = self.child.try_wait().expect("waited");
            status.is_some()
        };
        wait_until(ended, || "the program does not end".to_string());
        let code = status.map_or(u32::MAX, |status| status.exit_code());
        let settings = self.master.as_deref().map(|master| settings(master));
        // If the window is open, remaining output is read first.
        self.keys = None;
        self.master = None;
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no reader panics");
        }
        let shown = self.shown();
        let screen = shown.screen.screen();
        let modes = !screen.alternate_screen()
            && !screen.hide_cursor()
            && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None;
        let cooked = settings.is_none_or(|settings| settings == self.settings);
        Left { code, restored: modes && cooked, raw: String::from_utf8_lossy(&shown.raw).into_owned() }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// The terminal's settings, comparable.
fn settings(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().expect("a terminal has settings"))
}

fn wait_until(mut condition: impl FnMut() -> bool, otherwise: impl FnOnce() -> String) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "{}", otherwise());
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
