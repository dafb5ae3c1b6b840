//! Which line is which: the names of several curves above a chart, and the numbers at their ends where colour does not tell
//! them apart.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Chart, Paint};
use crate::symbols::Marker;
use crate::theme::ThemeName;
use crate::ui::text;

impl Chart<'_> {
    /// Whether lines end in a number, since neither colour nor dots tell them apart.
    pub(super) fn is_numbered(&self, paint: Paint) -> bool {
        let alike = paint.theme.name == ThemeName::None || paint.marker == Marker::Ascii;
        self.curves.len() > 1 && alike
    }

    /// Names the curves in the first row of `area`. Where they do not all fit the longest names are cut, and where even
    /// that is not enough the last ones are counted.
    pub(super) fn draw_legend(&self, paint: Paint, area: Rect, buffer: &mut Buffer) {
        /// Of a name that was cut, as much as still tells it from another.
        const LEAST: usize = 8;
        let light = |number: usize| match (self.is_numbered(paint), paint.symbols.unicode) {
            (true, _) => format!("{}:", digit(number)),
            (false, true) => "━━".to_string(),
            (false, false) => "**".to_string(),
        };
        // The sample before a name, and the air around both.
        let beside = 2 + 3;
        let room = usize::from(area.width);
        let width = |most: usize| -> usize {
            self.curves.iter().map(|curve| curve.name.chars().count().min(most) + beside).sum()
        };
        let longest = self.curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or(0);
        let most = (LEAST..=longest).rev().find(|most| width(*most) <= room).unwrap_or(LEAST);
        let mut x = area.x;
        for (i, curve) in self.curves.iter().enumerate() {
            let name = text::cut_name(&curve.name, most, paint.symbols.ellipsis);
            let left = usize::from(area.right() - x);
            let more = format!("+{}", self.curves.len() - i);
            let last = i + 1 == self.curves.len();
            if beside - 2 + name.chars().count() + if last { 0 } else { 2 + more.len() } > left {
                buffer.set_stringn(x, area.y, more, left, paint.theme.muted);
                break;
            }
            let (end, _) =
                buffer.set_stringn(x, area.y, light(curve.number), left, paint.theme.curve(curve.number));
            let left = usize::from(area.right() - end);
            (x, _) = buffer.set_stringn(end, area.y, format!(" {name}  "), left, paint.theme.text);
        }
    }
}

/// The digit at the end of a line that has a number; from the tenth on they repeat.
pub(super) fn digit(number: usize) -> char {
    char::from(b'1' + (number % 9) as u8)
}
