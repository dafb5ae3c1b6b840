//! Monitors at work: `operant monitor RUN` on pseudo terminals, whose screens are read and thrown away.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::cores;

/// Bytes that a monitor must have drawn to count as drawing: more than one screen.
const SCREEN: u64 = 10_000;

/// A monitor on its own terminal.
pub struct Monitor {
    child: Box<dyn Child + Send + Sync>,
    terminal: Box<dyn MasterPty + Send>,
    drain: JoinHandle<Vec<u8>>,
    drawn: Arc<AtomicU64>,
    begin: Instant,
    /// Processor seconds and bytes drawn at `begin`.
    before: (f64, u64),
}

/// The load of a monitor.
pub struct MonitorLoad {
    /// Share of a core that it took.
    pub load: f64,
    /// Most bytes that it had resident.
    pub peak_memory: f64,
    /// Bytes to the terminal per second.
    pub bytes_per_second: f64,
}

impl Monitor {
    /// Starts `operant monitor RUN` at ten frames a second, on the cores of this thread and a terminal of this size.
    pub fn start(operant: &Path, run: &str, rings: &Path, (cols, rows): (u16, u16)) -> Result<Self> {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).context("cannot make a pseudo terminal")?;
        let mut command = CommandBuilder::new(operant);
        command.args(["monitor", run, "--interval", "0.1"]);
        command.env("OPERANT_RING_DIR", rings);
        command.env("TERM", "xterm-256color");
        command.env("COLORTERM", "truecolor");
        command.env("LC_ALL", "C.UTF-8");
        command.cwd(rings);
        let child = pair.slave.spawn_command(command).context("cannot start `operant monitor`")?;
        let mut screen = pair.master.try_clone_reader().context("cannot read the pseudo terminal")?;
        let drawn = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&drawn);
        let drain = std::thread::spawn(move || {
            let (mut buffer, mut tail) = (vec![0; 1 << 16], Vec::new());
            while let Ok(bytes @ 1..) = screen.read(&mut buffer) {
                counter.fetch_add(bytes as u64, Ordering::Relaxed);
                tail = buffer[bytes.saturating_sub(2000)..bytes].to_vec();
            }
            tail
        });
        Ok(Monitor { child, terminal: pair.master, drain, drawn, begin: Instant::now(), before: (0.0, 0) })
    }

    /// Whether it has drawn a screen.
    pub fn has_drawn(&self) -> bool {
        self.drawn.load(Ordering::Relaxed) > SCREEN / 5
    }

    /// Measures from now on, instead of from the start.
    pub fn restart_measurement(&mut self) {
        self.begin = Instant::now();
        self.before = (self.processor_seconds(), self.drawn.load(Ordering::Relaxed));
    }

    fn processor_seconds(&self) -> f64 {
        self.child.process_id().and_then(cores::processor_seconds).unwrap_or(f64::NAN)
    }

    /// Ends it, and returns its CPU load.
    ///
    /// # Errors
    /// When it had ended by itself, or drew less than a screen.
    pub fn stop(mut self) -> Result<MonitorLoad> {
        let ended = self.child.try_wait()?;
        let (seconds, watched) =
            (self.processor_seconds() - self.before.0, self.begin.elapsed().as_secs_f64());
        let peak_memory = self.child.process_id().and_then(cores::peak_memory).unwrap_or(f64::NAN);
        let bytes_per_second = (self.drawn.load(Ordering::Relaxed) - self.before.1) as f64 / watched;
        let mut keys = self.terminal.take_writer()?;
        let _ = keys.write_all(b"q");
        let begin = Instant::now();
        while self.child.try_wait()?.is_none() && begin.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        self.child.wait()?;
        drop((keys, self.terminal));
        let tail = self.drain.join().unwrap_or_default();
        let said = String::from_utf8_lossy(&tail);
        ensure!(ended.is_none(), "a monitor ended by itself ({ended:?}); its last words: {said}");
        let drawn = self.drawn.load(Ordering::Relaxed);
        ensure!(drawn > SCREEN, "a monitor drew {drawn} bytes only: {said}");
        Ok(MonitorLoad { load: seconds / watched, peak_memory, bytes_per_second })
    }
}
