//! From tones and dots to terminal cells, in the glyphs and colours that the terminal has.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::raster::Raster;
use crate::symbols::{Marker, Symbols};
use crate::theme::{Theme, ThemeName};
use crate::ui::panel::{self, Context};

/// Characters that tell the tones apart without colour: ground, body, accent, target, faint.
const LETTERS: [char; 5] = ['=', '#', 'o', '*', ':'];
/// The same as shades of a whole cell.
const SHADES: [char; 5] = ['▒', '█', '▓', '▒', '░'];

/// How the scene is painted.
pub(super) struct Brush<'a> {
    theme: &'a Theme,
    symbols: &'static Symbols,
    marker: Marker,
}

impl<'a> Brush<'a> {
    pub(super) fn of(context: &Context<'a>) -> Self {
        // A locale without braille has no blocks either.
        let marker = if context.symbols.unicode { context.marker } else { Marker::Ascii };
        Brush { theme: context.theme, symbols: context.symbols, marker }
    }

    /// The same with another marker.
    pub(super) fn with(&self, marker: Marker) -> Self {
        Brush { marker, ..*self }
    }

    pub(super) fn marker(&self) -> Marker {
        self.marker
    }

    fn glyph(&self, glyphs: [char; 5], tone: u8) -> char {
        glyphs[usize::from(tone).min(4)]
    }

    /// A cell of a board with something on it.
    pub(super) fn fill(&self, tone: u8, at: (u16, u16), buffer: &mut Buffer) {
        let glyph = match (self.marker, self.theme.name) {
            (Marker::Ascii, _) => self.glyph(LETTERS, tone),
            (_, ThemeName::None) => self.glyph(SHADES, tone),
            _ => '█',
        };
        buffer[at].set_char(glyph).set_style(self.theme.tone(tone));
    }

    /// The middle of a square with nothing on it.
    pub(super) fn empty(&self, at: (u16, u16), buffer: &mut Buffer) {
        let glyph = if self.marker == Marker::Ascii { '.' } else { '·' };
        buffer[at].set_char(glyph).set_style(self.theme.faint);
    }

    /// The border of a board, around `inner`.
    pub(super) fn border(&self, inner: Rect, buffer: &mut Buffer) {
        let around = Rect::new(inner.x - 1, inner.y - 1, inner.width + 2, inner.height + 2);
        panel::border(self.symbols, self.theme.faint, around, buffer);
    }

    /// The dots of a canvas that covers `area`.
    pub(super) fn dots(&self, raster: &Raster, area: Rect, buffer: &mut Buffer) {
        for row in 0..usize::from(area.height) {
            for column in 0..usize::from(area.width) {
                let painted = match self.marker {
                    Marker::Braille => self.braille(raster, column, row),
                    Marker::Block => self.halves(raster, column, row),
                    Marker::Ascii => {
                        raster.dot(column, row).map(|tone| (self.glyph(LETTERS, tone), self.theme.tone(tone)))
                    }
                };
                if let Some((glyph, style)) = painted {
                    let at = (area.x + column as u16, area.y + row as u16);
                    buffer[at].set_char(glyph).set_style(style);
                }
            }
        }
    }

    fn braille(&self, raster: &Raster, column: usize, row: usize) -> Option<(char, Style)> {
        // Unicode numbers a cell's dots down the left column, then down the right, but for the lowest two.
        const BITS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let tone = raster.cell(column, row)?;
        let mut pattern = 0x2800;
        for (y, bits) in BITS.iter().enumerate() {
            for (x, bit) in bits.iter().enumerate() {
                if raster.dot(2 * column + x, 4 * row + y).is_some() {
                    pattern |= bit;
                }
            }
        }
        Some((char::from_u32(pattern)?, self.theme.tone(tone)))
    }

    fn halves(&self, raster: &Raster, column: usize, row: usize) -> Option<(char, Style)> {
        let [upper, lower] = [raster.dot(column, 2 * row), raster.dot(column, 2 * row + 1)];
        let (glyph, style) = match (upper, lower) {
            (None, None) => return None,
            (Some(tone), None) => ('▀', self.theme.tone(tone)),
            (None, Some(tone)) => ('▄', self.theme.tone(tone)),
            (Some(upper), Some(lower)) => {
                let style = self.theme.tone(upper);
                match self.theme.tone(lower).fg {
                    Some(below) if upper != lower => ('▀', style.bg(below)),
                    _ => ('█', style),
                }
            }
        };
        Some((glyph, style))
    }
}
