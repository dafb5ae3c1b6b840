//! The terminal: taken at the start, given back on every way out, and the loop in between.

use std::io::{self, BufWriter, Stdout, Write};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use signal_hook::consts::SIGTSTP;

use crate::app::App;
use crate::input::{Event, Input};
use crate::theme::{Depth, Detected};
use crate::{MonitorError, Options, symbols, ui};

/// Room for a whole frame, so that it reaches the terminal in one piece.
const FRAME_BYTES: usize = 1 << 16;

/// Shows what `options` ask for on the terminal until the user leaves. Gives the exit code.
pub(crate) fn run(options: &Options) -> Result<u8, MonitorError> {
    let mut input = Input::new(options.frame_period())?;
    let mut app = App::new(options, options.place(), Detected::from_environment(), symbols::locale_is_utf8());
    let mut screen = Screen::open()?;
    let outcome = watch(&mut app, &mut screen, &mut input);
    let closed = screen.close();
    match (outcome, input.signal()) {
        // After a hangup there is no terminal to complain about, or to.
        (Err(_), Some(number)) => Ok(u8::try_from(128 + number).unwrap_or(u8::MAX)),
        (Ok(code), _) if code > 128 => Ok(code),
        (outcome, _) => {
            let code = outcome?;
            closed?;
            Ok(code)
        }
    }
}

fn watch(app: &mut App, screen: &mut Screen, input: &mut Input) -> Result<u8, MonitorError> {
    let started = Instant::now();
    let reading = |source| MonitorError::Terminal { doing: "read from", source };
    loop {
        let event = input.next_event().map_err(reading)?;
        app.handle(event);
        if let Some(code) = app.leave {
            return Ok(code);
        }
        if std::mem::take(&mut app.suspend) {
            screen.suspend()?;
        }
        if event != Event::Tick && input.is_pending() {
            continue;
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        app.advance(started.elapsed(), since_1970.as_nanos() as u64);
        screen.draw(app)?;
    }
}

/// The terminal while it is ours. Dropped, it is given back.
struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    open: bool,
}

impl Screen {
    fn open() -> Result<Self, MonitorError> {
        let setting_up = |source| MonitorError::Terminal { doing: "set up", source };
        // Before anything can panic.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let _ = restore();
            hook(info);
        }));
        let writer = BufWriter::with_capacity(FRAME_BYTES, io::stdout());
        let entered = enter().and_then(|()| Terminal::new(CrosstermBackend::new(writer)));
        match entered {
            Ok(terminal) => Ok(Screen { terminal, open: true }),
            Err(source) => {
                let _ = restore();
                Err(setting_up(source))
            }
        }
    }

    fn draw(&mut self, app: &mut App) -> Result<(), MonitorError> {
        // A theme of our choice has the last word: crossterm would drop its colours under NO_COLOR.
        crossterm::style::force_color_output(app.theme.depth != Depth::None);
        let mut draw = |terminal: &mut Terminal<CrosstermBackend<BufWriter<Stdout>>>| -> io::Result<()> {
            queue!(terminal.backend_mut(), BeginSynchronizedUpdate)?;
            terminal.draw(|frame| {
                app.resize(frame.area());
                ui::draw(app, frame.buffer_mut());
            })?;
            queue!(terminal.backend_mut(), EndSynchronizedUpdate)?;
            io::Write::flush(terminal.backend_mut())
        };
        draw(&mut self.terminal).map_err(|source| MonitorError::Terminal { doing: "draw on", source })
    }

    /// Gives the terminal back, stops as Ctrl-Z does, and takes it again after SIGCONT.
    fn suspend(&mut self) -> Result<(), MonitorError> {
        let failed = |source| MonitorError::Terminal { doing: "set up", source };
        restore().map_err(failed)?;
        let stopped = signal_hook::low_level::raise(SIGTSTP);
        enter().and_then(|()| self.terminal.clear()).map_err(failed)?;
        stopped.map_err(failed)
    }

    fn close(mut self) -> Result<(), MonitorError> {
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

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, cursor::Hide)
}

/// The terminal as it was. What can be undone is, even where something else fails.
fn restore() -> io::Result<()> {
    let mouse = execute!(io::stdout(), EndSynchronizedUpdate, DisableMouseCapture, cursor::Show);
    let rest = ratatui::try_restore();
    mouse.and(rest).and_then(|()| io::stdout().flush())
}
