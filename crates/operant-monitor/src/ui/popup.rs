//! Windows above the panels: a centred frame on a cleared area.

use std::cell::Cell;

use crossterm::event::KeyCode;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::chart::Paint;

/// The first line shown of a text that may be longer than its window.
#[derive(Debug, Default)]
pub struct Scroll(Cell<usize>);

impl Scroll {
    /// Scrolls by a key; false for any other key.
    pub fn key(&self, code: KeyCode) -> bool {
        let first = self.0.get();
        self.0.set(match code {
            KeyCode::Down | KeyCode::Char('j') => first + 1,
            KeyCode::Up | KeyCode::Char('k') => first.saturating_sub(1),
            KeyCode::PageDown => first + 10,
            KeyCode::PageUp => first.saturating_sub(10),
            _ => return false,
        });
        true
    }

    /// The first line of a text of `lines` lines in a window of `height`, which is never scrolled past the last one.
    pub fn first(&self, lines: usize, height: u16) -> usize {
        self.0.set(self.0.get().min(lines.saturating_sub(usize::from(height))));
        self.0.get()
    }
}

/// Clears an area of at most `width x height` in the middle of `screen`, frames it, and returns the inner area.
pub fn draw(
    paint: Paint,
    title: &str,
    (width, height): (u16, u16),
    screen: Rect,
    buffer: &mut Buffer,
) -> Rect {
    let (width, height) = (width.min(screen.width), height.min(screen.height));
    let area = Rect {
        x: screen.x + (screen.width - width) / 2,
        y: screen.y + (screen.height - height) / 2,
        width,
        height,
    };
    for position in area.positions() {
        buffer[position].reset();
    }
    if width < 8 || height < 3 {
        return area;
    }
    paint.symbols.border(paint.theme.border_focused, area, buffer);
    let title = Line::styled(format!(" {title} "), paint.theme.accent);
    buffer.set_line(area.x + 2, area.y, &title, width - 4);
    // A blank column at both sides, if there is room.
    let air = u16::from(width >= 30);
    Rect::new(area.x + 1 + air, area.y + 1, width - 2 - 2 * air, height - 2)
}
