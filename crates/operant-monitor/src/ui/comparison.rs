//! The settings in which two runs differ.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::chart::Paint;
use super::popup::{self, Scroll};
use super::table::{self, CellLayout, GAP};
use super::text;
use crate::list::Comparison;

/// Widest column of a value, and of the settings' names.
const VALUE: usize = 40;
const KEY: usize = 28;

/// Draws it over `screen`, scrolled if it does not fit.
pub fn draw(paint: Paint, comparison: &Comparison, scroll: &Scroll, screen: Rect, buffer: &mut Buffer) {
    let theme = paint.theme;
    let rows = comparison.rows.len().max(1) as u16;
    let inner = popup::draw(paint, "settings that differ", (120, rows + 4), screen, buffer);
    let missing = paint.symbols.missing;
    let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| missing.to_string());
    let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let key = longest(&mut comparison.rows.iter().map(|(key, _)| key.chars().count())).clamp(7, KEY);
    let value = longest(
        &mut comparison.rows.iter().flat_map(|(_, values)| values).map(|value| cell(value).chars().count()),
    );
    let names = longest(&mut comparison.names.iter().map(|name| name.chars().count()));
    let room = usize::from(inner.width).saturating_sub(key + 2 * usize::from(GAP)) / 2;
    let value = value.max(names).min(VALUE).min(room.max(4));
    let layouts = [key, value, value].map(|width| CellLayout { width: Some(width as u16), right: false });
    let heads =
        text::distinct(&comparison.names.each_ref().map(String::as_str), value, paint.symbols.ellipsis);
    let mut head = vec![("setting".to_string(), theme.muted)];
    head.extend(heads.into_iter().enumerate().map(|(i, name)| (name, theme.curve(i))));
    table::row(&head, &layouts, inner, 0, buffer);
    let lines = inner.height.saturating_sub(2);
    let first = scroll.first(comparison.rows.len(), lines);
    for ((key, values), at) in comparison.rows.iter().skip(first).zip(1..=lines) {
        let [a, b] = values.each_ref().map(|text| text::cut(&cell(text), value, paint.symbols.ellipsis));
        let key = text::cut(key, usize::from(layouts[0].width.unwrap_or(0)), paint.symbols.ellipsis);
        let cells: [(String, Style); 3] = [(key, theme.text), (a, theme.strong), (b, theme.strong)];
        table::row(&cells, &layouts, inner, at, buffer);
    }
    if inner.height >= 2 {
        let note = match (comparison.rows.len(), comparison.same) {
            (0, 0) => "neither run has a config.toml that can be read".to_string(),
            (0, same) => format!("all {same} settings are the same"),
            (_, same) => format!("{same} settings are the same"),
        };
        buffer.set_stringn(inner.x, inner.bottom() - 1, note, usize::from(inner.width), theme.muted);
    }
}
