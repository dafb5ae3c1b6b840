//! The screen while there is no run to show: the runs it waits for, and the existing ones.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::chart::Paint;
use super::text;
use crate::data::Runs;

/// Draws it into `area`.
pub fn draw(paint: Paint, runs: &Runs, now: Duration, area: Rect, buffer: &mut Buffer) {
    let theme = paint.theme;
    let turns: &[&str] = match paint.symbols.unicode {
        true => &["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"],
        false => &["|", "/", "-", "\\"],
    };
    let turn = turns[(now.as_millis() / 100) as usize % turns.len()];
    let mut lines: Vec<(String, Style)> = Vec::new();
    let there: Vec<String> =
        runs.all().iter().map(|run| format!("{} ({})", run.name(), run.verdict().word)).collect();
    match runs.wanted() {
        // Without a name the newest run is shown, so these are sweeps.
        [] if !there.is_empty() => {
            lines.push((format!("{turn} waiting for a run"), theme.strong));
            lines.push((String::new(), theme.text));
            lines.push((format!("there are sweeps: {}", there.join(", ")), theme.text));
            lines.push(("r lists them, q quits".to_string(), theme.muted));
        }
        [] => {
            lines.push((format!("{turn} waiting for a run"), theme.strong));
            lines.push((String::new(), theme.text));
            lines.push(("start one with: operant train cartpole --detach".to_string(), theme.muted));
        }
        [first, ..] => {
            lines.push((format!("{turn} waiting for run {first}"), theme.strong));
            lines.push((String::new(), theme.text));
            if !runs.why.is_empty() {
                lines.push((runs.why.clone(), theme.muted));
            }
            lines.push(match there.is_empty() {
                true => ("there is no run now".to_string(), theme.muted),
                false => (format!("there is: {}", there.join(", ")), theme.text),
            });
            lines.push(("r lists the runs, q quits".to_string(), theme.muted));
        }
    }
    for (name, why) in &runs.broken {
        lines.push((format!("{name}: {why}"), theme.bad));
    }
    let width = area.width.saturating_sub(2).min(76);
    let wrapped: Vec<(String, Style)> = lines
        .into_iter()
        .flat_map(|(line, style)| match text::wrap(&line, usize::from(width)) {
            empty if empty.is_empty() => vec![(String::new(), style)],
            wrapped => wrapped.into_iter().map(|line| (line, style)).collect(),
        })
        .collect();
    let top = area.y + area.height.saturating_sub(wrapped.len() as u16) / 2;
    let x = area.x + (area.width.saturating_sub(width)) / 2;
    for (i, (line, style)) in wrapped.iter().enumerate() {
        let y = top + i as u16;
        if y < area.bottom() {
            let indent = (width as usize).saturating_sub(line.chars().count()) / 2;
            buffer.set_stringn(x + indent as u16, y, line, usize::from(width) - indent, *style);
        }
    }
}
