//! The state of the monitor, and the effects of keys on it. It depends on the screen only through its size.

mod focus;
mod keys;
mod mouse;

use std::path::PathBuf;
use std::time::Duration;

use ratatui::layout::Rect;

use crate::Options;
use crate::config::Config;
use crate::data::{RunLocations, Runs};
use crate::input::Event;
use crate::layout::{Layout, PanelKind};
use crate::list::{Comparison, RunList};
use crate::terminal::signal_code;
use crate::ui::banner;
use crate::ui::popup::Scroll;
use crate::view::View;
use operant_draw::symbols::{ASCII, Marker, Symbols, UNICODE};
use operant_draw::theme::{Detected, Theme, ThemeName};

/// The window above the panels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    /// Nothing.
    None,
    Help,
    /// The list of runs.
    Runs,
    /// The settings in which two runs differ.
    Comparison,
}

/// Where the user goes from the screen of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// Back to the sweep from which the runs were opened.
    Back,
    /// To the sweep in this directory.
    Sweep(PathBuf),
}

/// Everything that a frame is drawn from.
pub struct App {
    pub runs: Runs,
    /// How charts are drawn.
    pub view: View,
    /// Styles.
    pub theme: Theme,
    /// Glyphs.
    pub symbols: &'static Symbols,
    /// Dots.
    pub marker: Marker,
    /// The panel that keys go to.
    pub focus: PanelKind,
    /// The panel that has the body to itself.
    pub expanded: Option<PanelKind>,
    /// The metric whose chart fills the body.
    pub metric: Option<String>,
    /// The window above the panels.
    pub overlay: Overlay,
    /// Whether keys go into the filter.
    pub typing: bool,
    /// Time since the monitor started; it stops while the screen is frozen.
    pub now: Duration,
    /// Like `now`, but it also advances while the screen is frozen.
    pub clock: Duration,
    /// The wall clock in nanoseconds since 1970; it stops while the screen is frozen.
    pub unix_ns: u64,
    pub list: RunList,
    /// What the two runs compared last differ in.
    pub comparison: Comparison,
    /// Of the help or of a comparison.
    pub scroll: Scroll,
    /// The exit code, once it is time to exit.
    pub leave: Option<u8>,
    /// Where to go instead.
    pub way: Option<Way>,
    /// Whether the runs were opened from a sweep, to which Esc leads back.
    pub is_of_sweep: bool,
    /// Set by Ctrl-Z: restore the terminal and stop until SIGCONT.
    pub suspend: bool,
    selected: [usize; PanelKind::ALL.len()],
    /// The panel whose number was the last key.
    numbered: Option<PanelKind>,
    size: Rect,
    detected: Detected,
    /// What the user configured.
    config: Config,
}

impl App {
    /// The monitor that `options` and the user's configuration describe, for the runs in `locations`.
    pub fn new(
        options: &Options,
        config: Config,
        locations: RunLocations,
        detected: Detected,
        utf8: bool,
    ) -> Self {
        let theme = if options.theme == ThemeName::Auto { config.theme } else { options.theme };
        App {
            theme: Theme::coloured(theme, detected, &config.colours),
            symbols: if utf8 { &UNICODE } else { &ASCII },
            marker: if utf8 { config.marker.unwrap_or(Marker::Braille) } else { Marker::Ascii },
            list: RunList::new(options.control.clone()),
            config,
            ..Self::of_runs(Runs::new(locations, &options.runs), detected)
        }
    }

    /// A monitor of runs that are open, in the dark theme with braille.
    pub fn of_runs(runs: Runs, detected: Detected) -> Self {
        App {
            runs,
            view: View::default(),
            theme: Theme::dark(),
            symbols: &UNICODE,
            marker: Marker::Braille,
            focus: PanelKind::Returns,
            expanded: None,
            metric: None,
            overlay: Overlay::None,
            typing: false,
            now: Duration::ZERO,
            clock: Duration::ZERO,
            unix_ns: 0,
            list: RunList::default(),
            comparison: Comparison::default(),
            scroll: Scroll::default(),
            leave: None,
            way: None,
            is_of_sweep: false,
            suspend: false,
            selected: [0; PanelKind::ALL.len()],
            numbered: None,
            size: Rect::new(0, 0, 80, 24),
            detected,
            config: Config::default(),
        }
    }

    /// The theme of this name, with the user's colours.
    fn themed(&self, name: ThemeName) -> Theme {
        Theme::coloured(name, self.detected, &self.config.colours)
    }

    /// Reads the rings for the frame at `clock` after the start, `unix_ns` on the wall.
    pub fn advance(&mut self, clock: Duration, unix_ns: u64) {
        self.clock = clock;
        self.list.listen();
        if self.runs.is_frozen() {
            return;
        }
        (self.now, self.unix_ns) = (clock, unix_ns);
        let list = self.overlay == Overlay::Runs || self.runs.shown().is_none();
        self.keep_row(|app| app.runs.refresh(clock, list));
        let scene_is_seen = self.metric.is_none() && self.layout().area_of(PanelKind::Scene).is_some();
        if let Some(run) = self.runs.shown_mut()
            && scene_is_seen
        {
            run.play(clock);
        }
    }

    /// Runs an action that may reorder the list of runs, and keeps the same run selected.
    fn keep_row(&mut self, change: impl FnOnce(&mut Self)) {
        let selected = self.runs.all().get(self.list.row).map(|run| run.path().to_path_buf());
        change(self);
        let rows = self.runs.all();
        let same = rows.iter().position(|run| Some(run.path()) == selected.as_deref());
        self.list.row = same.unwrap_or(self.list.row).min(rows.len().saturating_sub(1));
    }

    /// Takes over the screen's size.
    pub fn resize(&mut self, size: Rect) {
        self.size = size;
    }

    /// The layout of a screen of the last known size.
    pub fn layout(&self) -> Layout {
        let banner = self.runs.shown().map_or(0, |run| banner::lines(run, self.size.width).len());
        Layout::new(self.size, banner as u16, self.expanded, &self.config.layout)
    }

    /// The row that is selected in a panel.
    pub fn selected(&self, panel: PanelKind) -> usize {
        self.selected[panel as usize]
    }

    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Key(key) => self.key(key),
            Event::Mouse(mouse) => {
                self.numbered = None;
                self.mouse(mouse);
            }
            Event::Resize(width, height) => self.resize(Rect::new(0, 0, width, height)),
            Event::Signal(number) => self.leave = Some(signal_code(number)),
            Event::Suspend => self.suspend = true,
            // The terminal is taken back by the loop.
            Event::Continue | Event::Tick => {}
        }
    }
}
