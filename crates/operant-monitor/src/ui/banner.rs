//! The banner: what happened to a run that is not running normally, and the remedy.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::header::tone_style;
use super::text;
use crate::data::RunView;
use crate::verdict::Tone;
use operant_draw::theme::Theme;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BannerLine {
    /// How it should be taken; none for advice.
    pub tone: Option<Tone>,
    pub text: String,
}

/// The banner of a run on a screen of this width; none while the run is healthy.
pub fn lines(run: &RunView, width: u16) -> Vec<BannerLine> {
    let verdict = run.verdict();
    let mut lines = Vec::new();
    // A space at both ends.
    let wrap = |words: &str| text::wrap(words, usize::from(width.saturating_sub(2).max(1)));
    let mut add = |tone: Option<Tone>, words: &str| {
        let running_on = wrap(words);
        // One line per clause if that takes no more lines, so that a command to copy is on one line.
        let clauses: Vec<String> = words.split("; ").flat_map(wrap).collect();
        let wrapped = if clauses.len() <= running_on.len() { clauses } else { running_on };
        lines.extend(wrapped.into_iter().map(|text| BannerLine { tone, text }));
    };
    if verdict.needs_banner() {
        let whole = verdict.line();
        if whole.chars().count() + 2 <= usize::from(width) {
            add(Some(verdict.tone), &whole);
        } else {
            add(Some(verdict.tone), &verdict.headline);
            add(None, &verdict.advice);
        }
    }
    if !run.note.is_empty() {
        add(Some(Tone::Warning), &run.note);
    }
    lines
}

/// Draws as many of the lines as have room.
pub fn draw(lines: &[BannerLine], theme: &Theme, area: Rect, buffer: &mut Buffer) {
    for (row, line) in area.rows().zip(lines) {
        let style = match line.tone {
            Some(tone) => tone_style(theme, tone).add_modifier(Modifier::REVERSED | Modifier::BOLD),
            None => theme.text,
        };
        buffer.set_style(row, style);
        buffer.set_stringn(
            row.x + u16::from(row.width > 2),
            row.y,
            &line.text,
            usize::from(row.width),
            style,
        );
        // A command to copy is highlighted.
        if line.tone.is_none()
            && let Some(at) = line.text.find(": operant ")
        {
            let start = row.x + 1 + line.text[..at + 2].chars().count() as u16;
            let command = Rect { x: start, width: row.right().saturating_sub(start), ..row };
            buffer.set_style(command, Style::new().patch(theme.accent));
        }
    }
}
