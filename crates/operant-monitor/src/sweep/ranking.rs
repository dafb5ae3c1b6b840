//! The trials of an environment by score, a column for each setting that varies.

use operant_metrics::SweepTrial;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::{CURVES, Window, panel};
use crate::format;
use crate::ui::table::{self, CellLayout};

/// A column of the ranking.
struct Column {
    head: String,
    cells: Vec<String>,
    right: bool,
    /// Columns with the largest number are omitted first where there is no room; 0 stays.
    rank: u8,
}

impl Column {
    fn new(head: &str, rank: u8, cells: Vec<String>) -> Self {
        Self { head: head.to_owned(), cells, right: true, rank }
    }

    fn width(&self) -> u16 {
        let cells = self.cells.iter().map(|cell| cell.chars().count());
        cells.chain([self.head.chars().count()]).max().unwrap_or(0) as u16
    }
}

impl Window<'_> {
    pub(super) fn ranking(&mut self, area: Rect, buffer: &mut Buffer) {
        let (columns, count) = {
            let trials = self.trials();
            (self.columns(&trials), trials.len())
        };
        let env = self.state.environments.get(self.env).cloned().unwrap_or_default();
        let title = match &*env {
            "" => "trials".to_owned(),
            env => format!("{env}: {count} trial{}", if count == 1 { "" } else { "s" }),
        };
        let place = match self.state.environments.len() {
            0 | 1 => String::new(),
            count => format!("environment {} of {count}", self.env + 1),
        };
        let inside = self.frame(&title, &place, area, buffer);
        if let Some(problem) = &self.problem {
            return panel::line(&Line::styled(problem.clone(), self.theme.bad), inside, 0, buffer);
        }
        if count == 0 {
            return panel::line(&Line::styled(" no trial has begun", self.theme.muted), inside, 0, buffer);
        }
        let rows = usize::from(inside.height.saturating_sub(1));
        self.first = self.first.min(self.row).max((self.row + 1).saturating_sub(rows));
        let room = inside.width.saturating_sub(5);
        let columns = fitted(columns, room);
        let layouts: Vec<CellLayout> = columns
            .iter()
            .map(|column| CellLayout { width: Some(column.width().max(1)), right: column.right })
            .collect();
        let line = |cells: Vec<&str>, style: Style, y: u16, buffer: &mut Buffer| {
            let cells: Vec<(String, Style)> =
                cells.into_iter().map(|cell| (cell.to_owned(), style)).collect();
            let area = Rect { x: inside.x + 4, width: room, ..inside };
            table::row(&cells, &layouts, area, y, buffer);
        };
        line(columns.iter().map(|column| column.head.as_str()).collect(), self.theme.muted, 0, buffer);
        for (y, index) in (self.first..count).take(rows).enumerate() {
            let y = y as u16 + 1;
            let is_selected = index == self.row;
            let style = if is_selected { self.theme.strong } else { self.theme.text };
            if is_selected {
                buffer.set_string(inside.x, inside.y + y, self.symbols.pointer, self.theme.accent);
            }
            // The colour of its curve.
            if self.drawn().contains(&index) {
                let mark = if self.symbols.unicode { "━" } else { "-" };
                buffer.set_string(inside.x + 2, inside.y + y, mark, self.theme.curve(index % CURVES));
            }
            line(columns.iter().map(|column| column.cells[index].as_str()).collect(), style, y, buffer);
        }
    }

    fn columns(&self, trials: &[&SweepTrial]) -> Vec<Column> {
        let none = || self.symbols.missing.to_owned();
        let number = |x: f64| if x.is_finite() { format::short(x) } else { none() };
        let each = |cell: &dyn Fn(&SweepTrial) -> String| trials.iter().map(|trial| cell(trial)).collect();
        let interval = |trial: &SweepTrial| match trial.interval {
            Some([low, high]) => format!("{} to {}", format::short(low), format::short(high)),
            None => none(),
        };
        let runs = |trial: &SweepTrial| match trial.failed {
            0 => format!("{}/{}", trial.done, trial.seeds),
            failed => format!("{}/{}, {failed} failed", trial.done, trial.seeds),
        };
        let seconds = |trial: &SweepTrial| match trial.seconds.is_finite() {
            true => format::seconds(trial.seconds),
            false => none(),
        };
        let mut columns = vec![Column {
            right: false,
            ..Column::new("", 0, each(&|trial| if trial.pareto { "*".to_owned() } else { String::new() }))
        }];
        let keys = trials.first().map_or(0, |trial| trial.settings.len());
        for key in 0..keys {
            let value =
                |trial: &SweepTrial| trial.settings.get(key).map_or_else(none, |(_, value)| value.clone());
            columns.push(Column::new(&trials[0].settings[key].0, 0, each(&value)));
        }
        if keys == 0 {
            columns.push(Column::new("trial", 0, each(&|trial| trial.number.to_string())));
        }
        let objective = self.state.objective.as_str();
        if objective != "eval_return" {
            // Those that are to be small are negative.
            let sign = if objective.starts_with("solved") || objective.starts_with('-') { -1.0 } else { 1.0 };
            let value = |trial: &SweepTrial| number(sign * trial.objective);
            let title = objective.trim_start_matches('-').replace('_', " ");
            columns.push(Column::new(&title, 0, each(&value)));
        }
        columns.push(Column::new("score", 0, each(&|trial| number(trial.score))));
        columns.push(Column::new("95% interval", 2, each(&interval)));
        columns.push(Column::new("runs", 1, each(&runs)));
        columns.push(Column::new("solved", 4, each(&|trial| format!("{}/{}", trial.solved, trial.done))));
        columns.push(Column::new("train time", 3, each(&seconds)));
        columns.push(Column::new("steps", 5, each(&|trial| number(trial.steps))));
        columns
    }
}

/// The columns that fit: some are omitted, then the settings share one column, which is cut.
fn fitted(mut columns: Vec<Column>, room: u16) -> Vec<Column> {
    let needed = |columns: &[Column]| -> u16 {
        columns
            .iter()
            .map(|column| column.width().max(1) + table::GAP)
            .sum::<u16>()
            .saturating_sub(table::GAP)
    };
    while needed(&columns) > room {
        let last = (0..columns.len()).filter(|&at| columns[at].rank > 0).max_by_key(|&at| columns[at].rank);
        let Some(last) = last else { break };
        columns.remove(last);
    }
    let over = needed(&columns).saturating_sub(room);
    let settings = columns.len().saturating_sub(2);
    if over > 0 && settings > 1 {
        let own: Vec<Column> = columns.drain(1..=settings).collect();
        let line = |at: usize| {
            let each = own.iter().map(|column| format!("{}={}", column.head, column.cells[at]));
            let text = each.collect::<Vec<_>>().join(" ");
            text.chars().take(usize::from(room.saturating_sub(needed(&columns) + table::GAP))).collect()
        };
        let cells = (0..own[0].cells.len()).map(line).collect();
        columns.insert(1, Column { right: false, ..Column::new("settings", 0, cells) });
    }
    columns
}
