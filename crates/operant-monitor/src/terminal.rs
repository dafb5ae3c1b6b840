//! The terminal: set up at the start, restored on every exit, and the loop in between.

use std::io::{self, BufWriter, Stdout, Write};
use std::mem::ManuallyDrop;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use operant_metrics::ProcessInfo;
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};
use rustix::process::Signal;

use crate::app::{App, Way};
use crate::config::Config;
use crate::input::{Event, Input};
use crate::{MonitorError, Options, sweep, ui};
use operant_draw::symbols;
use operant_draw::theme::{Depth, Detected};

/// Capacity for a whole frame, so that it reaches the terminal in one write.
const FRAME_BYTES: usize = 1 << 16;

/// Shows the runs that `options` name on the terminal until the user quits. Returns the exit code.
pub(crate) fn run(options: &Options) -> Result<u8, MonitorError> {
    let config = Config::of_user()?;
    let mut input = Input::new(options.frame_period())?;
    let mut app = app_of(options, config);
    full_screen(&mut input, |screen, input| {
        Ok(watch(&mut app, options, screen, input)?
            .expect("only the runs of a sweep are left without a code"))
    })
}

fn app_of(options: &Options, config: Config) -> App {
    let detected = Detected::from_environment();
    App::new(options, config, options.locations(), detected, symbols::locale_is_utf8())
}

/// Shows the runs of a sweep's trial. Returns the exit code, or none if the user goes back to the sweep.
pub(crate) fn runs_of_sweep(
    options: &Options,
    screen: &mut Screen,
    input: &mut Input,
) -> Result<Option<u8>, MonitorError> {
    let mut app = app_of(options, Config::of_user()?);
    app.is_of_sweep = true;
    watch(&mut app, options, screen, input)
}

/// Runs a loop on the whole terminal, which is restored at its end. After a signal, errors of the terminal do not count: after a
/// hangup there is none on which they could be reported. The exit code is then 128 and the number of the signal.
pub(crate) fn full_screen<T: From<u8>>(
    input: &mut Input,
    run: impl FnOnce(&mut Screen, &mut Input) -> Result<T, MonitorError>,
) -> Result<T, MonitorError> {
    let mut screen = Screen::open()?;
    let outcome = run(&mut screen, input);
    let closed = screen.close();
    match (outcome.and_then(|left| closed.map(|()| left)), input.signal()) {
        (Err(_), Some(number)) => Ok(signal_code(number).into()),
        (outcome, _) => outcome,
    }
}

/// The exit code after a signal.
pub(crate) fn signal_code(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(u8::MAX)
}

/// Shows runs until the user quits, which gives an exit code, or goes back to the sweep that they are of.
fn watch(
    app: &mut App,
    options: &Options,
    screen: &mut Screen,
    input: &mut Input,
) -> Result<Option<u8>, MonitorError> {
    let started = Instant::now();
    let reading = |source| MonitorError::Terminal { doing: "read from", source };
    loop {
        let event = input.next_event().map_err(reading)?;
        app.handle(event);
        if let Some(code) = app.leave {
            return Ok(Some(code));
        }
        match app.way.take() {
            Some(Way::Back) => return Ok(None),
            Some(Way::Sweep(dir)) => {
                if let Some(mut source) = app.list.sweep(&dir)
                    && let Some(code) = sweep::show(&mut *source, options, true, screen, input)?
                {
                    return Ok(Some(code));
                }
            }
            None => {}
        }
        if std::mem::take(&mut app.suspend) {
            screen.suspend()?;
        } else if event == Event::Continue {
            screen.retake()?;
        }
        if event != Event::Tick && input.is_pending() {
            continue;
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        app.advance(started.elapsed(), since_1970.as_nanos() as u64);
        screen.draw(app.theme.depth != Depth::None, |frame| {
            app.resize(frame.area());
            ui::draw(app, frame.buffer_mut());
        })?;
    }
}

type FrameTerminal = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// A terminal on which nothing has been drawn.
fn new_terminal() -> io::Result<FrameTerminal> {
    let writer = BufWriter::with_capacity(FRAME_BYTES, io::stdout());
    Terminal::new(CrosstermBackend::new(writer))
}

/// The terminal while the monitor uses it; restored when dropped.
pub(crate) struct Screen {
    /// Never dropped: where the terminal is gone, ratatui's destructor panics, since it can neither show the cursor nor say so.
    terminal: ManuallyDrop<FrameTerminal>,
    open: bool,
}

impl Screen {
    pub(crate) fn open() -> Result<Self, MonitorError> {
        let setting_up = |source| MonitorError::Terminal { doing: "set up", source };
        // Before anything can panic.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let _ = restore();
            hook(info);
        }));
        match enter().and_then(|()| new_terminal()) {
            Ok(terminal) => Ok(Screen { terminal: ManuallyDrop::new(terminal), open: true }),
            Err(source) => {
                let _ = restore();
                Err(setting_up(source))
            }
        }
    }

    /// Draws a frame; without colours if `colours` is false.
    pub(crate) fn draw(&mut self, colours: bool, paint: impl FnOnce(&mut Frame)) -> Result<(), MonitorError> {
        // The theme decides about colours: crossterm would drop them under NO_COLOR.
        crossterm::style::force_color_output(colours);
        let draw = |terminal: &mut FrameTerminal| -> io::Result<()> {
            queue!(terminal.backend_mut(), BeginSynchronizedUpdate)?;
            terminal.draw(paint)?;
            queue!(terminal.backend_mut(), EndSynchronizedUpdate)?;
            io::Write::flush(terminal.backend_mut())
        };
        draw(&mut self.terminal).map_err(|source| MonitorError::Terminal { doing: "draw on", source })
    }

    /// Restores the terminal, stops as Ctrl-Z does, and sets it up again after SIGCONT. Without a shell that could continue
    /// it, nothing happens.
    pub(crate) fn suspend(&mut self) -> Result<(), MonitorError> {
        let failed = |source| MonitorError::Terminal { doing: "set up", source };
        if !has_job_control() {
            return Ok(());
        }
        restore().map_err(failed)?;
        // The whole process group, as Ctrl-Z does: also a script that started the monitor.
        let stopped = rustix::process::kill_current_process_group(Signal::STOP);
        self.retake()?;
        stopped.map_err(|error| failed(error.into()))
    }

    /// Sets the terminal up after a stop; the next frame draws everything.
    pub(crate) fn retake(&mut self) -> Result<(), MonitorError> {
        let failed = |source| MonitorError::Terminal { doing: "set up", source };
        // Not `Terminal::clear`: it queries the cursor position, and the answer would be read as keys.
        let cleared = enter().and_then(|()| execute!(io::stdout(), Clear(ClearType::All)));
        self.terminal = ManuallyDrop::new(cleared.and_then(|()| new_terminal()).map_err(failed)?);
        Ok(())
    }

    pub(crate) fn close(mut self) -> Result<(), MonitorError> {
        self.open = false;
        restore().map_err(|source| MonitorError::Terminal { doing: "give back", source })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.open {
            let _ = restore();
        }
    }
}

/// Whether a shell of the same POSIX session waits for the process group of the monitor, to continue it after a stop: its leader's
/// parent is in the same session and another group.
fn has_job_control() -> bool {
    let shell = || {
        let this = ProcessInfo::this()?;
        let shell = ProcessInfo::find(ProcessInfo::find(this.group)?.parent)?;
        (shell.session == this.session && shell.group != this.group).then_some(())
    };
    shell().is_some()
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, cursor::Hide)
}

/// Restores the terminal. Continues after a failed step, so that as much as possible is restored.
fn restore() -> io::Result<()> {
    let mouse = execute!(io::stdout(), EndSynchronizedUpdate, DisableMouseCapture, cursor::Show);
    let rest = ratatui::try_restore();
    mouse.and(rest).and_then(|()| io::stdout().flush())
}
