//! The panel that keys go to, what is expanded, and what is selected in it.

use crossterm::event::KeyCode;

use super::{App, Way};
use crate::layout::PanelKind;
use crate::ui::{events, losses, metrics};

impl App {
    /// Moves the focus to the next panel on the screen; while a panel is expanded, to the next of all panels.
    pub(super) fn turn_focus(&mut self, by: isize) {
        self.metric = None;
        let panels: Vec<PanelKind> = match self.expanded {
            Some(_) => {
                let has_own = self.runs.shown().is_some_and(|run| !run.own().is_empty());
                PanelKind::ALL.into_iter().filter(|it| *it != PanelKind::Environment || has_own).collect()
            }
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

    /// Moves the focus to a panel. Also expands the panel, or collapses it, if a panel is expanded, if this one is not on the screen,
    /// or if its number was also the previous key.
    pub(super) fn go_to(&mut self, panel: PanelKind) {
        let on_screen = self.layout().area_of(panel).is_some();
        self.metric = None;
        if self.expanded.is_some() || !on_screen || self.numbered == Some(panel) {
            self.expanded = if self.expanded == Some(panel) { None } else { Some(panel) };
        }
        self.focus = panel;
    }

    pub(super) fn enter(&mut self) {
        if self.metric.is_some() {
            return;
        }
        self.metric = match self.focus {
            PanelKind::Losses => {
                let selected = self.selected(PanelKind::Losses);
                self.runs.shown().and_then(|run| Some(run.losses().get(selected)?.name.clone()))
            }
            PanelKind::Metrics if self.expanded.is_some() => self.selected_metric(),
            PanelKind::Environment if self.expanded.is_some() => self.selected_own(),
            panel => {
                self.expanded = if self.expanded == Some(panel) { None } else { Some(panel) };
                None
            }
        };
    }

    /// Metrics in the panel of losses.
    pub(super) fn losses(&self) -> usize {
        self.runs.shown().map_or(0, |run| run.losses().len())
    }

    fn selected_metric(&self) -> Option<String> {
        let run = self.runs.shown()?;
        let matching = metrics::matching(run, &self.view.filter);
        let selected = self.selected(PanelKind::Metrics).min(matching.len().checked_sub(1)?);
        run.schema().metrics().get(*matching.get(selected)?).map(|metric| metric.name.clone())
    }

    fn selected_own(&self) -> Option<String> {
        let run = self.runs.shown()?;
        let own = run.own();
        let selected = self.selected(PanelKind::Environment).min(own.len().checked_sub(1)?);
        run.schema().metrics().get(own[selected]).map(|metric| metric.name.clone())
    }

    /// Goes back one step: from a metric to its panel, from an expanded panel to all panels, from a filter to no filter, from the runs of
    /// a sweep to the sweep.
    pub(super) fn back(&mut self) {
        if self.metric.take().is_some() {
        } else if self.expanded == Some(PanelKind::Metrics) && !self.view.filter.is_empty() {
            self.view.filter.clear();
        } else if self.expanded.take().is_some() {
            if matches!(self.focus, PanelKind::Metrics | PanelKind::Environment) {
                self.focus = PanelKind::Returns;
            }
        } else if self.is_of_sweep {
            self.way = Some(Way::Back);
        }
    }

    pub(super) fn arrow(&mut self, code: KeyCode, last: u64) {
        match (&self.metric, self.focus, code) {
            (
                Some(_),
                PanelKind::Losses | PanelKind::Metrics | PanelKind::Environment,
                KeyCode::Up | KeyCode::Down,
            ) => {
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

    pub(super) fn move_selection(&mut self, code: KeyCode) {
        let (columns, count) = match self.focus {
            PanelKind::Losses if self.metric.is_some() => (1, self.losses()),
            PanelKind::Losses => {
                let area = self.layout().area_of(PanelKind::Losses).unwrap_or_default();
                (losses::grid(self.losses(), area).0, self.losses())
            }
            PanelKind::Metrics => {
                let run = self.runs.shown();
                (1, run.map_or(0, |run| metrics::matching(run, &self.view.filter).len()))
            }
            PanelKind::Environment => (1, self.runs.shown().map_or(0, |run| run.own().len())),
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
}
