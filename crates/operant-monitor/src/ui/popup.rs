//! Windows above the panels: a centred frame on a cleared area.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::chart::Paint;

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
