//! The state of the monitor and what keys do to it. It knows no screen but its size.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use crate::data::{Order, Place, Runs};
use crate::input::Event;
use crate::layout::{Layout, PanelKind};
use crate::list::{Comparison, RunList};
use crate::symbols::{ASCII, Marker, Symbols, UNICODE};
use crate::theme::{Detected, Theme};
use crate::ui::{banner, events, losses, metrics};
use crate::view::View;
use crate::{Action, Options};

/// The window above the panels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    /// Nothing.
    None,
    /// The help.
    Help,
    /// The list of runs.
    Runs,
    /// The settings in which two runs differ.
    Comparison,
}

/// Everything that a frame is drawn from.
pub struct App {
    /// The runs.
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
    /// The metric that has the body to itself.
    pub metric: Option<String>,
    /// What lies above.
    pub overlay: Overlay,
    /// Whether keys go into the filter.
    pub typing: bool,
    /// Time since the monitor began; it stands still while frozen.
    pub now: Duration,
    /// The same, never standing still.
    pub clock: Duration,
    /// The wall clock in nanoseconds since 1970; it stands still while frozen.
    pub unix_ns: u64,
    /// The list of runs.
    pub list: RunList,
    /// What the two runs compared last differ in.
    pub comparison: Comparison,
    /// First line of the help or of a comparison.
    pub scroll: usize,
    /// The exit code, once it is time to exit.
    pub leave: Option<u8>,
    /// Set by Ctrl-Z: restore the terminal and stop until SIGCONT.
    pub suspend: bool,
    selected: [usize; PanelKind::ALL.len()],
    /// The panel whose number was the last key.
    numbered: Option<PanelKind>,
    size: Rect,
    detected: Detected,
}

impl App {
    /// The monitor that `options` ask for, over the runs in `place`.
    pub fn new(options: &Options, place: Place, detected: Detected, utf8: bool) -> Self {
        App {
            theme: Theme::new(options.theme, detected),
            symbols: if utf8 { &UNICODE } else { &ASCII },
            marker: if utf8 { Marker::Braille } else { Marker::Ascii },
            list: RunList::new(options.control.clone()),
            ..Self::of_runs(Runs::new(place, &options.runs), detected)
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
            scroll: 0,
            leave: None,
            suspend: false,
            selected: [0; PanelKind::ALL.len()],
            numbered: None,
            size: Rect::new(0, 0, 80, 24),
            detected,
        }
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

    /// Does something that may move the rows of the list of runs, and selects the same run after it.
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

    /// Where everything stands on a screen of the last known size.
    pub fn layout(&self) -> Layout {
        let banner = self.runs.shown().map_or(0, |run| banner::lines(run, self.size.width).len());
        Layout::new(self.size, banner as u16, self.expanded)
    }

    /// The row that is selected in a panel.
    pub fn selected(&self, panel: PanelKind) -> usize {
        self.selected[panel as usize]
    }

    /// Does what an event asks for.
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Key(key) => self.key(key),
            Event::Mouse(mouse) => {
                self.numbered = None;
                self.mouse(mouse);
            }
            Event::Resize(width, height) => self.resize(Rect::new(0, 0, width, height)),
            Event::Signal(number) => self.leave = Some(u8::try_from(128 + number).unwrap_or(u8::MAX)),
            Event::Suspend => self.suspend = true,
            // The terminal is taken back by the loop.
            Event::Continue | Event::Tick => {}
        }
    }

    fn key(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => self.leave = Some(0),
                KeyCode::Char('z') => self.suspend = true,
                KeyCode::Char('u') if self.typing => self.view.filter.clear(),
                _ => {}
            }
        } else if self.typing {
            self.type_key(key.code);
        } else {
            match self.overlay {
                Overlay::None => self.panel_key(key.code),
                Overlay::Help => self.help_key(key.code),
                Overlay::Runs => self.runs_key(key.code),
                Overlay::Comparison => self.comparison_key(key.code),
            }
        }
    }

    /// Keys while the filter is typed.
    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.view.filter.clear();
            }
            KeyCode::Backspace => {
                self.view.filter.pop();
            }
            KeyCode::Up | KeyCode::Down => self.move_selection(code),
            KeyCode::Char(c) if self.view.filter.len() < 40 && !c.is_control() => self.view.filter.push(c),
            _ => {}
        }
        if !matches!(code, KeyCode::Up | KeyCode::Down) {
            self.selected[PanelKind::Metrics as usize] = 0;
        }
    }

    fn help_key(&mut self, code: KeyCode) {
        if code == KeyCode::Char('q') {
            self.leave = Some(0);
        } else if !self.scroll_key(code, 60) {
            self.overlay = Overlay::None;
        }
    }

    fn comparison_key(&mut self, code: KeyCode) {
        if code == KeyCode::Char('q') {
            self.leave = Some(0);
        } else if !self.scroll_key(code, self.comparison.rows.len()) {
            self.overlay = Overlay::Runs;
        }
    }

    /// Scrolls a text of `lines` lines; false for any other key.
    fn scroll_key(&mut self, code: KeyCode, lines: usize) -> bool {
        self.scroll = match code {
            KeyCode::Down | KeyCode::Char('j') => self.scroll + 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll + 10,
            KeyCode::PageUp => self.scroll.saturating_sub(10),
            _ => return false,
        }
        .min(lines.saturating_sub(1));
        true
    }

    fn runs_key(&mut self, code: KeyCode) {
        if let Some(asked) = &self.list.asked {
            let again = KeyCode::Char(asked.action.key());
            match code == again || code == KeyCode::Char('y') {
                true => self.list.confirm(),
                false => self.list.asked = None,
            }
            return;
        }
        self.list.message.clear();
        let last = self.runs.all().len().saturating_sub(1);
        let row = self.list.row.min(last);
        self.list.row = match code {
            KeyCode::Down | KeyCode::Char('j') => (row + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => row.saturating_sub(1),
            KeyCode::PageDown => (row + 10).min(last),
            KeyCode::PageUp => row.saturating_sub(10),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => row,
        };
        let order = self.runs.order();
        match code {
            KeyCode::Char('q') => self.leave = Some(0),
            KeyCode::Esc | KeyCode::Char('r' | '9') => self.overlay = Overlay::None,
            KeyCode::Enter => {
                self.thaw();
                self.runs.show(self.list.row);
                self.overlay = Overlay::None;
                self.view.window.reset();
            }
            KeyCode::Char(' ' | 'o') => {
                self.thaw();
                self.runs.overlay(self.list.row);
            }
            KeyCode::Char('s') => {
                // Of numbers the greatest are looked for.
                let by = order.by.next();
                self.keep_row(|app| app.runs.sort(Order { by, reversed: by.is_number() }));
            }
            KeyCode::Char('S') => {
                self.keep_row(|app| app.runs.sort(Order { reversed: !order.reversed, ..order }));
            }
            KeyCode::Char('c') => self.list.mark(&self.runs),
            KeyCode::Char('d') => {
                if let Some(comparison) = self.list.compare(&self.runs) {
                    self.comparison = comparison;
                    self.open(Overlay::Comparison);
                }
            }
            KeyCode::Char('X') => self.list.ask(Action::Stop, &self.runs),
            KeyCode::Char('p') => self.list.ask(Action::Pause, &self.runs),
            KeyCode::Char('?') => self.open(Overlay::Help),
            _ => {}
        }
    }

    fn panel_key(&mut self, code: KeyCode) {
        let last = self.runs.shown().map_or(0, |run| run.last_update);
        match code {
            KeyCode::Char('q') => self.leave = Some(0),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.open(Overlay::Help),
            KeyCode::Char('r' | '9') => self.open(Overlay::Runs),
            KeyCode::Tab => self.turn_focus(1),
            KeyCode::BackTab => self.turn_focus(-1),
            KeyCode::Char(digit @ '1'..='8') => {
                if let Some(panel) = PanelKind::of_key(digit as u8 - b'0') {
                    self.go_to(panel);
                    self.numbered = Some(panel);
                    return;
                }
            }
            KeyCode::Char('c') if self.shows_one_chart() => self.view.toggle_cursor(),
            KeyCode::Esc if self.view.cursor.get().is_some() && self.shows_one_chart() => {
                self.view.cursor.set(None)
            }
            KeyCode::Left | KeyCode::Right if self.shows_one_chart() && self.view.cursor.get().is_some() => {
                self.view.move_cursor(if code == KeyCode::Left { 1 } else { -1 });
            }
            KeyCode::Enter => self.enter(),
            KeyCode::Esc | KeyCode::Backspace => self.back(),
            KeyCode::Char('+' | '=') => self.view.window.zoom_in(1.0, last),
            KeyCode::Char('-' | '_') => self.view.window.zoom_out(1.0, last),
            KeyCode::Char('<' | ',') => self.view.window.pan(-0.25, last),
            KeyCode::Char('>' | '.') => self.view.window.pan(0.25, last),
            KeyCode::Char('0') => self.view.window.reset(),
            KeyCode::End => self.view.window.follow(),
            KeyCode::Char(' ') if self.runs.is_frozen() => self.thaw(),
            KeyCode::Char(' ') => self.runs.freeze(),
            KeyCode::Char('y') => self.view.log = !self.view.log,
            KeyCode::Char('a') => self.view.all_values = !self.view.all_values,
            KeyCode::Char('s') => self.view.smoothing = self.view.smoothing.next(),
            KeyCode::Char('x') => self.view.axis = self.view.axis.next(),
            KeyCode::Char('m') => self.marker = self.next_marker(),
            KeyCode::Char('t') => self.theme = Theme::new(self.theme.name.next(), self.detected),
            KeyCode::Char('/') => {
                self.metric = None;
                self.focus = PanelKind::Metrics;
                self.expanded = Some(PanelKind::Metrics);
                self.typing = true;
            }
            KeyCode::Up | KeyCode::Down | KeyCode::Left | KeyCode::Right => self.arrow(code, last),
            KeyCode::PageUp | KeyCode::PageDown | KeyCode::Home => self.move_selection(code),
            KeyCode::Char('k') => self.arrow(KeyCode::Up, last),
            KeyCode::Char('j') => self.arrow(KeyCode::Down, last),
            _ => {}
        }
        self.numbered = None;
    }

    /// Whether a single chart has the screen, in which a cursor can be.
    fn shows_one_chart(&self) -> bool {
        let chart = matches!(self.expanded, Some(PanelKind::Returns | PanelKind::Speed | PanelKind::Phases));
        self.metric.is_some() || chart
    }

    /// The next marker that the locale can show.
    fn next_marker(&self) -> Marker {
        if self.symbols.unicode { self.marker.next() } else { Marker::Ascii }
    }

    fn open(&mut self, overlay: Overlay) {
        self.overlay = overlay;
        self.scroll = 0;
        if overlay == Overlay::Runs {
            self.list.message.clear();
            let rows = 0..self.runs.all().len();
            self.list.row = rows.clone().find(|i| self.runs.curve(*i) == Some(0)).unwrap_or(0);
        }
    }

    fn thaw(&mut self) {
        self.runs.thaw();
    }

    /// The focus to the next panel on the screen; while one is expanded, to the next of all.
    fn turn_focus(&mut self, by: isize) {
        self.metric = None;
        let panels: Vec<PanelKind> = match self.expanded {
            Some(_) => PanelKind::ALL.to_vec(),
            None => {
                let mut panels: Vec<_> = self.layout().panels.into_iter().map(|(panel, _)| panel).collect();
                panels.sort_by_key(|panel| panel.key());
                panels
            }
        };
        if panels.is_empty() {
            return;
        }
        let at = panels.iter().position(|panel| *panel == self.focus);
        let next = match at {
            Some(at) => (at as isize + by).rem_euclid(panels.len() as isize) as usize,
            None => 0,
        };
        self.focus = panels[next];
        if self.expanded.is_some() {
            self.expanded = Some(self.focus);
        }
    }

    /// The focus to a panel; expanded if its number was pressed just before, or it has no place on this screen.
    fn go_to(&mut self, panel: PanelKind) {
        let on_screen = self.layout().area_of(panel).is_some();
        self.metric = None;
        if self.expanded.is_some() || !on_screen || self.numbered == Some(panel) {
            self.expanded = if self.expanded == Some(panel) { None } else { Some(panel) };
        }
        self.focus = panel;
    }

    fn enter(&mut self) {
        if self.metric.is_some() {
            return;
        }
        self.metric = match self.focus {
            PanelKind::Losses => losses::SHOWN.get(self.selected(PanelKind::Losses)).map(ToString::to_string),
            PanelKind::Metrics if self.expanded.is_some() => self.selected_metric(),
            panel => {
                self.expanded = if self.expanded == Some(panel) { None } else { Some(panel) };
                None
            }
        };
    }

    fn selected_metric(&self) -> Option<String> {
        let run = self.runs.shown()?;
        let matching = metrics::matching(run, &self.view.filter);
        let selected = self.selected(PanelKind::Metrics).min(matching.len().checked_sub(1)?);
        run.schema().metrics().get(*matching.get(selected)?).map(|metric| metric.name.clone())
    }

    /// One step back: from a metric to its panel, from an expanded panel to all, from a filter to none.
    fn back(&mut self) {
        if self.metric.take().is_some() {
        } else if self.expanded == Some(PanelKind::Metrics) && !self.view.filter.is_empty() {
            self.view.filter.clear();
        } else if self.expanded.take().is_some() && self.focus == PanelKind::Metrics {
            self.focus = PanelKind::Returns;
        }
    }

    fn arrow(&mut self, code: KeyCode, last: u64) {
        match (&self.metric, self.focus, code) {
            (Some(_), PanelKind::Losses | PanelKind::Metrics, KeyCode::Up | KeyCode::Down) => {
                self.move_selection(code);
                self.metric = None;
                self.enter();
            }
            (None, PanelKind::Losses, _) => self.move_selection(code),
            (_, _, KeyCode::Left) => self.view.window.pan(-0.25, last),
            (_, _, KeyCode::Right) => self.view.window.pan(0.25, last),
            _ => self.move_selection(code),
        }
    }

    fn move_selection(&mut self, code: KeyCode) {
        let (columns, count) = match self.focus {
            PanelKind::Losses if self.metric.is_some() => (1, losses::SHOWN.len()),
            PanelKind::Losses => {
                let area = self.layout().area_of(PanelKind::Losses).unwrap_or_default();
                (losses::grid(area).0, losses::SHOWN.len())
            }
            PanelKind::Metrics => {
                let run = self.runs.shown();
                (1, run.map_or(0, |run| metrics::matching(run, &self.view.filter).len()))
            }
            PanelKind::Events => (1, self.runs.shown().map_or(0, |run| events::folded(&run.events).len())),
            _ => (1, 64),
        };
        let selected = &mut self.selected[self.focus as usize];
        let most = count.saturating_sub(1);
        *selected = match code {
            KeyCode::Up if *selected >= columns => *selected - columns,
            KeyCode::Down if *selected + columns <= most => *selected + columns,
            KeyCode::Left => selected.saturating_sub(1),
            KeyCode::Right => *selected + 1,
            KeyCode::PageUp => selected.saturating_sub(10),
            KeyCode::PageDown => *selected + 10,
            KeyCode::Home => 0,
            _ => *selected,
        }
        .min(most);
    }

    fn mouse(&mut self, mouse: MouseEvent) {
        let layout = self.layout();
        let under = layout.panel_at(mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => match (self.overlay, under) {
                (Overlay::Help, _) => self.overlay = Overlay::None,
                (Overlay::None, Some((panel, area))) if self.metric.is_none() => {
                    self.click(panel, area, mouse)
                }
                _ => {}
            },
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                let up = mouse.kind == MouseEventKind::ScrollUp;
                let arrow = if up { KeyCode::Up } else { KeyCode::Down };
                match (self.overlay, under) {
                    (Overlay::None, Some((panel, area))) => self.wheel(up, panel, area, mouse.column),
                    (Overlay::None, None) => {}
                    (Overlay::Runs, _) => self.runs_key(arrow),
                    (Overlay::Help, _) => self.help_key(arrow),
                    (Overlay::Comparison, _) => self.comparison_key(arrow),
                }
            }
            _ => {}
        }
    }

    fn click(&mut self, panel: PanelKind, area: Rect, mouse: MouseEvent) {
        if panel == PanelKind::Losses {
            let (columns, rows) = losses::grid(area);
            let part = |at: u16, start: u16, length: u16, parts: usize| {
                usize::from(at.saturating_sub(start + 1)) * parts
                    / usize::from(length.saturating_sub(2)).max(1)
            };
            let column = part(mouse.column, area.x, area.width, columns).min(columns - 1);
            let row = part(mouse.row, area.y, area.height, rows).min(rows - 1);
            let page = columns * rows;
            let first = self.selected(panel).min(losses::SHOWN.len() - 1) / page * page;
            let hit = (first + row * columns + column).min(losses::SHOWN.len() - 1);
            let again = self.focus == panel && self.selected(panel) == hit;
            self.selected[panel as usize] = hit;
            self.focus = panel;
            if again {
                self.enter();
            }
        } else if self.focus == panel {
            self.enter();
        } else {
            self.focus = panel;
        }
    }

    fn wheel(&mut self, up: bool, panel: PanelKind, area: Rect, column: u16) {
        if !panel.is_chart() && self.metric.is_none() {
            let focus = std::mem::replace(&mut self.focus, panel);
            self.move_selection(if up { KeyCode::Up } else { KeyCode::Down });
            self.focus = focus;
            return;
        }
        let last = self.runs.shown().map_or(0, |run| run.last_update);
        // Numbers and border take some cells at the left. At the right edge the newest update stays in view.
        let (left, right) = (area.x + 7, area.right().saturating_sub(2));
        let at = match panel == PanelKind::Losses && self.metric.is_none() || right <= left {
            true => 1.0,
            false => f64::from(column.saturating_sub(left)) / f64::from(right - left),
        };
        let at = if at > 0.9 { 1.0 } else { at };
        match up {
            true => self.view.window.zoom_in(at, last),
            false => self.view.window.zoom_out(at, last),
        }
    }
}
