//! Converts tones and dots to terminal cells, with the glyphs and colours that the terminal supports.

use operant_metrics::tone::parts;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::board::Mark;
use super::raster::Raster;
use crate::symbols::{BRAILLE, Marker, Symbols};
use crate::theme::{TONES, Theme, ThemeName};

/// Characters that distinguish the tones without colour: ground, body, accent, target and faint, then the initials of
/// the named colours (N for brown). Grey has a pattern instead, since walls are often grey.
const LETTERS: [char; TONES] = ['=', '#', 'o', '*', ':', 'R', 'G', 'B', 'P', 'Y', '%', 'D', 'N', 'W'];
/// A shade that fills a cell, for each tone.
const SHADES: [char; TONES] = ['▒', '█', '▓', '▒', '░', 'R', 'G', 'B', 'P', 'Y', '▓', 'D', 'N', 'W'];
/// Whether a tone is a named colour: without colour a mark shows its letter.
fn is_named(tone: u8) -> bool {
    matches!(parts(tone).0, 5..=9 | 11..TONES)
}

/// Theme, glyphs and marker for painting a picture.
pub struct Brush<'a> {
    theme: &'a Theme,
    symbols: &'static Symbols,
    marker: Marker,
}

impl<'a> Brush<'a> {
    /// A brush; without Unicode, `marker` is ASCII.
    pub fn new(theme: &'a Theme, symbols: &'static Symbols, marker: Marker) -> Self {
        // Locales without Unicode have neither braille nor block characters.
        let marker = if symbols.unicode { marker } else { Marker::Ascii };
        Brush { theme, symbols, marker }
    }

    /// The same brush with a different marker.
    pub(super) fn with(&self, marker: Marker) -> Self {
        Brush { marker, ..*self }
    }

    pub(super) fn marker(&self) -> Marker {
        self.marker
    }

    /// Whether tones can be distinguished by colour alone.
    pub(super) fn has_colours(&self) -> bool {
        self.marker != Marker::Ascii && self.theme.name != ThemeName::None
    }

    fn glyph(&self, glyphs: [char; TONES], tone: u8) -> char {
        *glyphs.get(parts(tone).0).unwrap_or(&glyphs[4])
    }

    /// Draws a mark in two cells, on a square of the tone `below`.
    pub(super) fn mark(&self, mark: Mark, tone: u8, below: Option<u8>, at: (u16, u16), buffer: &mut Buffer) {
        let pairs = match (mark, self.marker) {
            (Mark::Up, Marker::Ascii) => "/\\",
            (Mark::Up, _) => "◢◣",
            (Mark::Down, Marker::Ascii) => "\\/",
            (Mark::Down, _) => "◥◤",
            (Mark::Left, Marker::Ascii) => "<-",
            (Mark::Left, _) => "◀━",
            (Mark::Right, Marker::Ascii) => "->",
            (Mark::Right, _) => "━▶",
            (Mark::Circle, Marker::Ascii) => "()",
            (Mark::Circle, _) => "◖◗",
            (Mark::Rectangle, Marker::Ascii) => "[]",
            (Mark::Rectangle, _) => "▐▌",
            (Mark::Line, Marker::Ascii) => "--",
            (Mark::Line, _) => "──",
            (Mark::Polygon, Marker::Ascii) => "<>",
            (Mark::Polygon, _) => "◆◆",
        };
        let mut pair: Vec<char> = pairs.chars().collect();
        let turns = matches!(mark, Mark::Up | Mark::Down | Mark::Left | Mark::Right);
        if !self.has_colours() && is_named(tone) && !turns {
            pair[1] = self.glyph(LETTERS, tone);
        }
        for (x, glyph) in (at.0..).zip(pair) {
            buffer[(x, at.1)].set_char(glyph).set_style(self.on(tone, below));
        }
    }

    /// The style of one tone on a background of another.
    fn on(&self, tone: u8, below: Option<u8>) -> Style {
        let style = self.theme.tone(tone);
        match below.and_then(|below| self.theme.tone(below).fg) {
            Some(ground) if self.has_colours() && Some(ground) != style.fg => style.bg(ground),
            Some(ground) if self.has_colours() => self.theme.strong.bg(ground),
            _ => style,
        }
    }

    /// Draws text over the existing content: centred on a cell, or as near to it as `area` allows, and clipped to `area`.
    pub(super) fn text(
        &self,
        text: &str,
        tone: u8,
        [column, row]: [i32; 2],
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let text = if text.chars().count() > usize::from(area.width) { text.trim() } else { text };
        let shown: Vec<char> =
            text.chars().map(|c| if self.symbols.unicode || c.is_ascii() { c } else { '?' }).collect();
        let length = shown.len() as i32;
        let last_first = i32::from(area.right()) - length;
        let first = (column - (length - 1) / 2).min(last_first).max(i32::from(area.x));
        for (x, glyph) in (first..).zip(shown) {
            let (Ok(x), Ok(y)) = (u16::try_from(x), u16::try_from(row)) else { continue };
            if !area.contains((x, y).into()) {
                continue;
            }
            let cell = &mut buffer[(x, y)];
            let ground = match cell.symbol() {
                "█" | "▊" | "▇" => Some(cell.fg),
                "▀" | "▄" if cell.bg != ratatui::style::Color::Reset => Some(cell.bg),
                _ => None,
            };
            let on_ground = ground
                .filter(|_| self.has_colours())
                .map(|ground| self.theme.on_tone(ground).unwrap_or_else(|| self.theme.strong.bg(ground)));
            let style = on_ground.unwrap_or_else(|| self.theme.tone(tone));
            cell.reset();
            cell.set_char(glyph).set_style(style);
        }
    }

    /// Fills one cell of a board, except for a gap at its right or its upper edge. A cell has one gap at most: where there are
    /// two it is the right one.
    pub(super) fn fill(&self, tone: u8, [right, top]: [bool; 2], at: (u16, u16), buffer: &mut Buffer) {
        let glyph = match (self.marker, self.theme.name) {
            (Marker::Ascii, _) => self.glyph(LETTERS, tone),
            (_, ThemeName::None) => self.glyph(SHADES, tone),
            _ => '█',
        };
        let glyph = match glyph {
            '█' if right => '▊',
            '█' if top => '▇',
            // Other characters do not touch the ones above and below.
            _ if right => ' ',
            glyph => glyph,
        };
        buffer[at].reset();
        buffer[at].set_char(glyph).set_style(self.theme.tone(tone));
    }

    /// Draws the centre of an empty square.
    pub(super) fn empty(&self, at: (u16, u16), buffer: &mut Buffer) {
        let glyph = if self.marker == Marker::Ascii { '.' } else { '·' };
        buffer[at].set_char(glyph).set_style(self.theme.faint);
    }

    /// Draws the border of a board around `inner`.
    pub(super) fn border(&self, inner: Rect, buffer: &mut Buffer) {
        let around = Rect::new(inner.x - 1, inner.y - 1, inner.width + 2, inner.height + 2);
        self.symbols.border(self.theme.faint, around, buffer);
    }

    /// Draws the dots of a canvas that covers `area`.
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
        let tone = raster.cell(column, row)?;
        let mut pattern = 0x2800;
        for (y, bits) in BRAILLE.iter().enumerate() {
            for (x, bit) in bits.iter().enumerate() {
                if raster.dot(2 * column + x, 4 * row + y).is_some() {
                    pattern |= u32::from(*bit);
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
