//! The list of runs: which there are, in what state, and which of them are on the screen.

use operant_metrics::{Health, RunState};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::chart::Paint;
use super::header::tone_style;
use super::{popup, text};
use crate::data::{RunView, Runs};
use crate::format;

/// Title, width, whether to the right, and the least width of the window that has it.
type Column = (&'static str, u16, bool, u16);

const COLUMNS: [Column; 8] = [
    ("", 2, false, 0),
    ("run", 22, false, 0),
    ("state", 9, false, 0),
    ("env", 16, false, 64),
    ("done", 6, true, 48),
    ("steps", 8, true, 84),
    ("sps", 7, true, 72),
    ("return", 8, true, 56),
];

/// Draws the list over `screen` with the run at `selected` marked.
pub fn draw(paint: Paint, runs: &Runs, selected: usize, screen: Rect, buffer: &mut Buffer) {
    let theme = paint.theme;
    let count = runs.all().len();
    let height = (count + runs.broken.len()).max(1) as u16 + 5;
    let inner = popup::draw(paint, "runs", (100, height), screen, buffer);
    if inner.is_empty() {
        return;
    }
    if count + runs.broken.len() == 0 {
        buffer.set_stringn(inner.x, inner.y, "there is no run", usize::from(inner.width), theme.muted);
        return;
    }
    let heads = COLUMNS.map(|(title, ..)| (title.to_string(), theme.muted));
    row(&heads, inner, 0, buffer);
    let room = list_rows(inner);
    let selected = selected.min(count.saturating_sub(1));
    let first = (selected + 1).saturating_sub(room);
    for (i, run) in runs.all().iter().enumerate().skip(first).take(room) {
        let at = (i - first) as u16 + 1;
        row(&cells(paint, run, runs.curve(i), i == selected), inner, at, buffer);
        if i == selected {
            let line = Rect { y: inner.y + at, height: 1, ..inner };
            match theme.selection.bg {
                Some(tint) => buffer.set_style(line, Style::new().bg(tint)),
                None => buffer.set_style(line, Style::new().add_modifier(Modifier::REVERSED)),
            }
        }
    }
    let below = count.saturating_sub(first).min(room) as u16 + 1;
    for (i, (name, why)) in runs.broken.iter().enumerate() {
        let at = below + i as u16;
        if at + 1 < inner.height {
            let line = format!("  {name}: {why}");
            buffer.set_stringn(inner.x, inner.y + at, line, usize::from(inner.width), theme.bad);
        }
    }
    if inner.height >= 4 {
        let hints = Line::styled("Enter show   Space draw with it   Esc back", theme.muted);
        buffer.set_line(inner.x, inner.bottom() - 1, &hints, inner.width);
    }
}

/// Rows that the list has for runs.
fn list_rows(inner: Rect) -> usize {
    let hints = if inner.height >= 4 { 2 } else { 0 };
    usize::from(inner.height.saturating_sub(1 + hints)).max(1)
}

fn cells(paint: Paint, run: &RunView, curve: Option<usize>, selected: bool) -> [(String, Style); 8] {
    let theme = paint.theme;
    let verdict = run.verdict();
    let steps = run.value("env_steps");
    let total = run.identity().total_steps;
    let done = match total {
        0 => String::new(),
        total => format::percent(steps / total as f64),
    };
    let trains = run.status.health == Health::Said(RunState::Running);
    let (mark, mark_style) = match curve {
        Some(number) => (if paint.symbols.unicode { "━━" } else { "**" }, theme.curve(number)),
        None => ("", theme.text),
    };
    let plain = if selected { theme.strong } else { theme.text };
    [
        (mark.to_string(), mark_style),
        (text::cut(run.name(), usize::from(COLUMNS[1].1), paint.symbols.ellipsis), plain),
        (verdict.word.to_string(), tone_style(theme, verdict.tone)),
        (run.identity().env.clone(), theme.muted),
        (done, theme.text),
        (format::steps(steps), theme.text),
        (if trains { format::short(run.value("sps")) } else { String::new() }, theme.text),
        (format::short(run.summary("episodic_return").map_or(f64::NAN, |summary| summary.last)), theme.text),
    ]
}

fn row(cells: &[(String, Style); 8], area: Rect, at: u16, buffer: &mut Buffer) {
    let mut x = area.x;
    for ((_, width, right, from), (text, style)) in COLUMNS.iter().zip(cells) {
        if area.width < *from || x >= area.right() || at >= area.height {
            continue;
        }
        let width = (*width).min(area.right() - x);
        let indent = if *right { width.saturating_sub(text.chars().count() as u16) } else { 0 };
        buffer.set_stringn(x + indent, area.y + at, text, usize::from(width - indent), *style);
        x += width + 2;
    }
}
