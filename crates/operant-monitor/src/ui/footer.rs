//! The last line: the options that differ from their defaults, and the keys of this view.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::{curves, help};
use crate::app::{App, Overlay};
use crate::data::RunView;
use crate::view::Axis;

/// Draws it into `area`.
pub fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let theme = &app.theme;
    let typed = [(app.typing, &app.view.filter), (app.list.typing, &app.list.filter)];
    if let Some((_, filter)) = typed.iter().find(|(is_typed, _)| *is_typed) {
        let line = Line::from(vec![
            Span::styled("/", theme.accent),
            Span::styled(filter.as_str(), theme.strong),
            Span::styled(if app.symbols.unicode { "▏" } else { "_" }, theme.accent),
            Span::styled("  Enter keep   Esc clear", theme.muted),
        ]);
        buffer.set_line(area.x, area.y, &line, area.width);
        return;
    }
    if app.overlay == Overlay::Runs
        && let Some(text) = app
            .list
            .asked
            .as_ref()
            .map(|asked| (asked.question(), theme.warning))
            .or_else(|| Some((app.list.message.clone(), theme.text)).filter(|(text, _)| !text.is_empty()))
    {
        let style = if app.list.asked.is_some() { text.1.add_modifier(Modifier::BOLD) } else { text.1 };
        buffer.set_stringn(area.x, area.y, &text.0, usize::from(area.width), style);
        return;
    }
    let mut spans: Vec<Span> = Vec::new();
    if app.runs.is_frozen() {
        spans.push(Span::styled(" FROZEN ", theme.warning.add_modifier(Modifier::REVERSED | Modifier::BOLD)));
        spans.push(Span::raw(" "));
    }
    let mut say = |text: String| {
        if !text.is_empty() {
            spans.push(Span::styled(text, theme.warning));
            spans.push(Span::raw("  "));
        }
    };
    if app.overlay == Overlay::Runs && !app.list.filter.is_empty() {
        say(format!("/{}", app.list.filter));
    }
    say(curves::window_text(app.view.window, app.runs.shown().map_or(0, |run| run.last_update)));
    say(if app.view.log { "log".to_string() } else { String::new() });
    say(if app.view.all_values { "all values".to_string() } else { String::new() });
    say(if app.view.grouped { "seeds grouped".to_string() } else { String::new() });
    match app.view.smoothing.share() {
        0.0 => {}
        share => say(format!("smooth {:.0}%", share * 100.0)),
    }
    if app.view.axis != Axis::Steps {
        say(format!("by {}", app.view.axis.label()));
    }
    let mut width = Line::from(spans.clone()).width();
    let has_cursor = app.overlay != Overlay::None || app.shows_one_chart();
    let has_own = app.runs.shown().is_some_and(|run| !run.own().is_empty());
    let applies = |key: &str| match key {
        "c" => has_cursor,
        "e" => has_own,
        _ => true,
    };
    for (key, what) in hints(app).iter().filter(|hint| applies(hint.0)) {
        let more = key.len() + what.len() + 3;
        if width + more > usize::from(area.width) + 2 {
            break;
        }
        width += more;
        spans.push(Span::styled(*key, theme.accent));
        spans.push(Span::styled(format!(" {what}  "), theme.muted));
    }
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
}

fn hints(app: &App) -> &'static [(&'static str, &'static str)] {
    match (app.overlay, app.expanded.is_some() || app.metric.is_some()) {
        (Overlay::Help | Overlay::Comparison, _) => &help::HINTS,
        (Overlay::Runs, _) if app.list.selected(&app.runs).is_some_and(RunView::is_sweep) => &[
            ("Esc", "back"),
            ("Enter", "open"),
            ("/", "filter"),
            ("s", "sort"),
            ("X", "stop"),
            ("p", "pause"),
        ],
        (Overlay::Runs, _) => &[
            ("Esc", "back"),
            ("Enter", "show"),
            ("Space", "draw with it"),
            ("/", "filter"),
            ("s", "sort"),
            ("c", "mark"),
            ("d", "compare"),
            ("X", "stop"),
            ("p", "pause"),
        ],
        (Overlay::None, true) => &[
            ("q", "quit"),
            ("Esc", "back"),
            ("?", "help"),
            ("+/-", "zoom"),
            ("c", "cursor"),
            ("y", "log"),
            ("s", "smooth"),
            ("/", "filter"),
            ("Space", "freeze"),
        ],
        (Overlay::None, false) if app.is_of_sweep => &[
            ("q", "quit"),
            ("Esc", "sweep"),
            ("?", "help"),
            ("Tab", "panel"),
            ("Enter", "expand"),
            ("e", "env"),
            ("+/-", "zoom"),
            ("Space", "freeze"),
            ("r", "runs"),
            ("8", "all metrics"),
        ],
        (Overlay::None, false) => &[
            ("q", "quit"),
            ("?", "help"),
            ("Tab", "panel"),
            ("Enter", "expand"),
            ("e", "env"),
            ("+/-", "zoom"),
            ("Space", "freeze"),
            ("r", "runs"),
            ("8", "all metrics"),
            ("y", "log"),
            ("s", "smooth"),
            ("x", "axis"),
            ("m", "marker"),
            ("t", "theme"),
        ],
    }
}
