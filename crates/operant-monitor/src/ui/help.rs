//! The help: every key, in one window.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::chart::Paint;
use super::popup::{self, Scroll};

/// Keys and what they do, in groups.
pub type Keys = [(&'static str, &'static [(&'static str, &'static str)])];

/// The keys of the screen of runs.
pub const KEYS: &Keys = &[
    (
        "panels",
        &[
            ("Tab  Shift-Tab", "next, previous panel"),
            ("1 .. 8", "that panel; the same number again: expand it"),
            ("e", "metrics of the environment's own"),
            ("Enter", "expand; in lists and losses, the selected one"),
            ("Esc", "back"),
            ("arrows", "select, scroll; in charts, earlier and later"),
            ("mouse", "click: focus; again: expand; wheel: zoom, scroll"),
            ("Shift-drag", "selects text, in most terminals"),
        ],
    ),
    (
        "charts",
        &[
            ("+  -", "zoom in and out in time"),
            ("<  >", "earlier, later"),
            ("0  End", "the whole run; follow the newest update"),
            ("x", "along the bottom: steps, time, updates"),
            ("y", "log scale"),
            ("a", "all values, or without a few far from the others"),
            ("g", "runs that differ in their seed: mean and range"),
            ("c", "cursor of an expanded chart, moved by arrows"),
            ("s", "smoothing: off, 1%, 3%, 10% of the width"),
        ],
    ),
    (
        "runs",
        &[
            ("r  9", "list of runs"),
            ("Enter", "in the list: show the run, or open the sweep"),
            ("Space  o", "in the list: draw with the one shown"),
            ("/", "in the list: filter by name, environment or state"),
            ("s  S", "in the list: sort by the next column; reverse"),
            ("c  d", "in the list: mark two; compare their settings"),
            ("X  p", "in the list: stop; pause or continue (asks first)"),
        ],
    ),
    (
        "screen",
        &[
            ("Space", "freeze, and continue"),
            ("/", "filter the metrics by name or meaning"),
            ("m", "marker: braille, block, ascii"),
            ("t", "theme: dark, light, ansi, none"),
            ("?", "this help"),
            ("q  Ctrl-C", "quit; the run continues"),
        ],
    ),
];

/// What the footer says of a text that scrolls.
pub const HINTS: [(&str, &str); 2] = [("Esc", "back"), ("arrows", "scroll")];

/// Draws the help over `screen`, scrolled if it does not fit.
pub fn draw(paint: Paint, keys: &Keys, scroll: &Scroll, screen: Rect, buffer: &mut Buffer) {
    let lines = lines(paint, keys);
    let inner = popup::draw(paint, "help", (70, lines.len() as u16 + 2), screen, buffer);
    let first = scroll.first(lines.len(), inner.height);
    for (row, line) in inner.rows().zip(&lines[first..]) {
        buffer.set_line(row.x, row.y, line, row.width);
    }
}

fn lines(paint: Paint, keys: &Keys) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (group, keys) in keys {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::styled(*group, paint.theme.title));
        for (key, what) in *keys {
            lines.push(Line::from(vec![
                Span::styled(format!(" {key:<16}"), paint.theme.accent),
                Span::styled(*what, paint.theme.text),
            ]));
        }
    }
    lines
}
