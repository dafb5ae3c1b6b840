//! The mouse: a click focuses a panel or expands it, the wheel zooms and scrolls.

use crossterm::event::{KeyCode, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::{App, Overlay};
use crate::layout::PanelKind;
use crate::ui::losses;

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent) {
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
            let (columns, rows) = losses::grid(self.losses(), area);
            let part = |at: u16, start: u16, length: u16, parts: usize| {
                usize::from(at.saturating_sub(start + 1)) * parts
                    / usize::from(length.saturating_sub(2)).max(1)
            };
            let column = part(mouse.column, area.x, area.width, columns).min(columns - 1);
            let row = part(mouse.row, area.y, area.height, rows).min(rows - 1);
            let page = columns * rows;
            let last = self.losses().saturating_sub(1);
            let first = self.selected(panel).min(last) / page * page;
            let hit = (first + row * columns + column).min(last);
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
        // Labels and border take some cells at the left. Zooming at the right edge keeps the newest update in view.
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
