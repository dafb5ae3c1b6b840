//! One stream of events: keys, mouse, resizes, the frame's tick, and signals, from one thread.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self, KeyEvent, KeyEventKind, MouseEvent, MouseEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};

use crate::MonitorError;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A key went down, or repeats.
    Key(KeyEvent),
    /// A button went down, or the wheel turned.
    Mouse(MouseEvent),
    /// The screen has this many columns and rows now.
    Resize(u16, u16),
    /// It is time for a frame.
    Tick,
    /// A signal requested the end.
    Signal(i32),
    /// SIGTSTP: stop until SIGCONT, as Ctrl-Z does outside raw mode.
    Suspend,
    /// The process continues after a stop: the screen must be redrawn.
    Continue,
}

/// Where events come from.
///
/// It waits for the terminal itself and calls crossterm only when there is something to read: at a hangup crossterm 0.29
/// reads the end of the file for ever.
pub struct Input {
    period: Duration,
    next_tick: Instant,
    /// Events since the last tick.
    served: u32,
    signal: Arc<AtomicUsize>,
    suspend: Arc<AtomicBool>,
    continued: Arc<AtomicBool>,
    /// The source of keys when standard input is not the terminal.
    terminal: Option<File>,
}

/// The reason why a wait ended.
enum Waited {
    /// Something can be read, or a signal interrupted the wait: the size may have changed.
    Ready,
    /// Nothing came.
    Quiet,
}

impl Input {
    /// Events with a tick every `period`. From here on SIGTERM, SIGINT and SIGHUP are events too; the second of them
    /// ends the process at once.
    ///
    /// # Errors
    /// When a signal handler cannot be installed.
    pub fn new(period: Duration) -> Result<Self, MonitorError> {
        let failed = |source| MonitorError::Signals { source };
        let signal = Arc::new(AtomicUsize::new(0));
        let second = Arc::new(AtomicBool::new(false));
        for number in [SIGTERM, SIGINT, SIGHUP] {
            let shutdown = signal_hook::flag::register_conditional_shutdown;
            shutdown(number, 128 + number, Arc::clone(&second)).map_err(failed)?;
            signal_hook::flag::register(number, Arc::clone(&second)).map_err(failed)?;
            signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)
                .map_err(failed)?;
        }
        end_after_hangup().map_err(failed)?;
        let [suspend, continued] =
            [SIGTSTP, SIGCONT].map(|number| (number, Arc::new(AtomicBool::new(false))));
        for (number, flag) in [&suspend, &continued] {
            signal_hook::flag::register(*number, Arc::clone(flag)).map_err(failed)?;
        }
        let (suspend, continued) = (suspend.1, continued.1);
        let stdin_is_terminal = io::stdin().is_terminal();
        let terminal = if stdin_is_terminal { None } else { File::open("/dev/tty").ok() };
        Ok(Input { period, next_tick: Instant::now(), served: 0, signal, suspend, continued, terminal })
    }

    /// Waits for the next event. Ticks that were missed are omitted.
    ///
    /// # Errors
    /// When the terminal cannot be read any more, as after a hangup.
    pub fn next_event(&mut self) -> io::Result<Event> {
        loop {
            if let Some(number) = self.signal() {
                return Ok(Event::Signal(number));
            }
            for (flag, event) in [(&self.suspend, Event::Suspend), (&self.continued, Event::Continue)] {
                if flag.swap(false, Ordering::Relaxed) {
                    return Ok(event);
                }
            }
            let now = Instant::now();
            // Pending input is read between two ticks, even if a frame takes longer than the period.
            if now >= self.next_tick && (self.served >= BURST || !self.is_pending()) {
                self.served = 0;
                self.next_tick = (self.next_tick + self.period).max(now);
                return Ok(Event::Tick);
            }
            // A signal that arrives just before the wait is handled within a tenth of a second, at any frame rate.
            let patience = (self.next_tick - now).min(Duration::from_millis(100));
            if self.is_pending()
                && let Some(event) = of_crossterm(event::read()?)
            {
                self.served += 1;
                return Ok(event);
            }
            if let Waited::Quiet = self.wait(patience)? {
                continue;
            }
            if event::poll(POLL)?
                && let Some(event) = of_crossterm(event::read()?)
            {
                return Ok(event);
            }
        }
    }

    /// Waits until the terminal has something to read.
    fn wait(&self, patience: Duration) -> io::Result<Waited> {
        let stdin = io::stdin();
        let descriptor: BorrowedFd =
            self.terminal.as_ref().map_or_else(|| stdin.as_fd(), |file| file.as_fd());
        let mut descriptors = [PollFd::new(&descriptor, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        match poll(&mut descriptors, Some(&timeout)) {
            // The signal may have been the hangup, after which crossterm must not read.
            Err(Errno::INTR) if !patience.is_zero() => return self.wait(Duration::ZERO),
            Err(Errno::INTR) => return Ok(Waited::Quiet),
            Err(error) => return Err(error.into()),
            Ok(0) => return Ok(Waited::Quiet),
            Ok(_) => {}
        }
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        match descriptors[0].revents().intersects(gone) {
            true => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the terminal is gone")),
            false => Ok(Waited::Ready),
        }
    }

    /// Whether another event is pending, so that drawing can be postponed.
    pub fn is_pending(&self) -> bool {
        self.wait(Duration::ZERO).is_ok() && event::poll(POLL).unwrap_or(false)
    }

    /// The signal that came, if one did.
    pub fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            number => Some(number as i32),
        }
    }
}

/// Most events between two ticks that are due.
const BURST: u32 = 100;

/// Timeout for reading an event that is already pending. With a timeout of zero crossterm does not check for events.
const POLL: Duration = Duration::from_millis(1);

/// How long the loop has to end by itself after a hangup.
const HANGUP_GRACE: Duration = Duration::from_secs(1);

/// Ends the process some time after SIGHUP: crossterm never returns from a read of a terminal that has gone away since it was polled.
fn end_after_hangup() -> io::Result<()> {
    let mut hangups = signal_hook::iterator::Signals::new([SIGHUP])?;
    let wait = move || {
        if hangups.forever().next().is_some() {
            std::thread::sleep(HANGUP_GRACE);
            std::process::exit(128 + SIGHUP);
        }
    };
    std::thread::Builder::new().name("hangup".to_owned()).spawn(wait).map(drop)
}

fn of_crossterm(event: event::Event) -> Option<Event> {
    match event {
        event::Event::Key(key) if key.kind != KeyEventKind::Release => Some(Event::Key(key)),
        event::Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(_) | MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                Some(Event::Mouse(mouse))
            }
            _ => None,
        },
        event::Event::Resize(width, height) => Some(Event::Resize(width, height)),
        _ => None,
    }
}
