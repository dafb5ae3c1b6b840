//! What each key does: in the panels, in the filter and in each window above the panels.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{App, Overlay, Way};
use crate::Action;
use crate::data::{Order, RunView};
use crate::layout::PanelKind;
use crate::ui::popup::Scroll;
use operant_draw::symbols::Marker;

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => self.leave = Some(0),
                KeyCode::Char('z') => self.suspend = true,
                KeyCode::Char('u') if self.typing => self.view.filter.clear(),
                KeyCode::Char('u') if self.list.typing => self.list.filter.clear(),
                _ => {}
            }
        } else if self.typing {
            self.type_key(key.code);
        } else if self.list.typing {
            self.type_list_key(key.code);
        } else {
            let code = self.config.meant(key.code);
            match self.overlay {
                Overlay::None => self.panel_key(code),
                Overlay::Help => self.help_key(code),
                Overlay::Runs => self.runs_key(code),
                Overlay::Comparison => self.comparison_key(code),
            }
        }
    }

    /// Keys while the filter of the metrics is typed.
    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Up | KeyCode::Down => self.move_selection(code),
            _ => self.typing = typed(&mut self.view.filter, code),
        }
        if !matches!(code, KeyCode::Up | KeyCode::Down) {
            self.selected[PanelKind::Metrics as usize] = 0;
        }
    }

    /// Keys while the filter of the list is typed.
    fn type_list_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Up => self.list.move_by(-1, &self.runs),
            KeyCode::Down => self.list.move_by(1, &self.runs),
            _ => {
                self.list.typing = typed(&mut self.list.filter, code);
                self.list.move_by(0, &self.runs);
            }
        }
    }

    pub(super) fn help_key(&mut self, code: KeyCode) {
        if code == KeyCode::Char('q') {
            self.leave = Some(0);
        } else if !self.scroll.key(code) {
            self.overlay = Overlay::None;
        }
    }

    pub(super) fn comparison_key(&mut self, code: KeyCode) {
        if code == KeyCode::Char('q') {
            self.leave = Some(0);
        } else if !self.scroll.key(code) {
            self.overlay = Overlay::Runs;
        }
    }

    pub(super) fn runs_key(&mut self, code: KeyCode) {
        if let Some(asked) = &self.list.asked {
            let again = KeyCode::Char(asked.action.key());
            match code == again || code == KeyCode::Char('y') {
                true => self.list.confirm(),
                false => self.list.asked = None,
            }
            return;
        }
        self.list.message.clear();
        let by = match code {
            KeyCode::Down | KeyCode::Char('j') => 1,
            KeyCode::Up | KeyCode::Char('k') => -1,
            KeyCode::PageDown => 10,
            KeyCode::PageUp => -10,
            KeyCode::Home => isize::MIN,
            KeyCode::End => isize::MAX,
            _ => 0,
        };
        self.list.move_by(by, &self.runs);
        let selected = self.list.selected(&self.runs);
        let (is_listed, is_sweep) = (selected.is_some(), selected.is_some_and(RunView::is_sweep));
        let (order, are_marked) = (self.runs.order(), self.list.marked.len() == 2);
        match code {
            KeyCode::Char('q') => self.leave = Some(0),
            KeyCode::Char('/') => self.list.typing = true,
            KeyCode::Esc if !self.list.filter.is_empty() => self.list.filter.clear(),
            KeyCode::Esc | KeyCode::Char('r' | '9') => self.overlay = Overlay::None,
            KeyCode::Enter if is_sweep => {
                let opened = self.runs.all().get(self.list.row).and_then(|run| self.list.open_sweep(run));
                self.way = opened.map(Way::Sweep);
            }
            KeyCode::Char(' ' | 'o' | 'c' | 'd')
                if is_sweep && !(code == KeyCode::Char('d') && are_marked) =>
            {
                self.list.message =
                    "that is a sweep, whose runs are not drawn here: Enter opens it".to_owned();
            }
            KeyCode::Enter if is_listed => {
                self.thaw();
                self.runs.show(self.list.row);
                self.overlay = Overlay::None;
                self.view.window.reset();
            }
            KeyCode::Char(' ' | 'o') if is_listed => {
                self.thaw();
                self.runs.overlay(self.list.row);
            }
            KeyCode::Char('s') => {
                // Numbers are sorted in descending order.
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
            KeyCode::Char(key @ ('1'..='8' | 'e')) => {
                if let Some(panel) = PanelKind::of_key(key) {
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
            KeyCode::Char('g') => self.view.grouped = !self.view.grouped,
            KeyCode::Char('a') => self.view.all_values = !self.view.all_values,
            KeyCode::Char('s') => self.view.smoothing = self.view.smoothing.next(),
            KeyCode::Char('x') => self.view.axis = self.view.axis.next(),
            KeyCode::Char('m') => self.marker = self.next_marker(),
            KeyCode::Char('t') => self.theme = self.themed(self.theme.name.next()),
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

    /// Whether one chart fills the screen, so that it can show a cursor.
    pub fn shows_one_chart(&self) -> bool {
        let chart = matches!(self.expanded, Some(PanelKind::Returns | PanelKind::Speed | PanelKind::Phases));
        self.metric.is_some() || chart
    }

    /// The next marker that the locale can show.
    fn next_marker(&self) -> Marker {
        if self.symbols.unicode { self.marker.next() } else { Marker::Ascii }
    }

    fn open(&mut self, overlay: Overlay) {
        self.overlay = overlay;
        self.scroll = Scroll::default();
        if overlay == Overlay::Runs {
            self.list.message.clear();
            let rows = 0..self.runs.all().len();
            self.list.row = rows.clone().find(|i| self.runs.curve(*i) == Some(0)).unwrap_or(0);
            self.list.move_by(0, &self.runs);
        }
    }

    fn thaw(&mut self) {
        self.runs.thaw();
    }
}

/// Changes a filter by a key. Returns whether it is still typed.
fn typed(filter: &mut String, code: KeyCode) -> bool {
    match code {
        KeyCode::Enter => return false,
        KeyCode::Esc => {
            filter.clear();
            return false;
        }
        KeyCode::Backspace => {
            filter.pop();
        }
        KeyCode::Char(c) if filter.len() < 40 && !c.is_control() => filter.push(c),
        _ => {}
    }
    true
}
