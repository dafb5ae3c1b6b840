//! One metric alone on the screen: its chart, its statistics over the whole run, and its meaning.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::losses::summary_line;
use super::panel::{self, Context};
use super::{curves, text};
use crate::format;

/// Draws the metric called `name` into `area`.
pub fn draw(context: &Context, name: &str, area: Rect, buffer: &mut Buffer) {
    let theme = context.theme;
    let metrics = context.run.schema().metrics();
    let Some((position, info)) = context.run.position(name).and_then(|i| Some((i, metrics.get(i)?))) else {
        let inner = panel::frame(context, name, area, buffer);
        return panel::empty(context, "this run has no such metric", inner, buffer);
    };
    let value = format::with_unit(context.run.value(name), &info.unit);
    let inner = panel::frame_with(context, name, Line::styled(value, theme.strong), area, buffer);
    let help = text::wrap(&info.help, usize::from(inner.width));
    let lines = if inner.height >= 10 { help.len().min(3) as u16 + 1 } else { 0 };
    let above = Rect { height: inner.height - lines, ..inner };
    let mut chart = curves::chart(context, name, None, above.width);
    chart.ramp = context.others.is_empty();
    chart.draw(context.paint(), above, buffer);
    if lines > 0 {
        let below = Rect { y: above.bottom(), height: lines, ..inner };
        let summary = summary_line(context, &context.run.summary_of(position), &info.unit, below.width);
        panel::line(&summary, below, 0, buffer);
        for (i, line) in help.into_iter().take(3).enumerate() {
            panel::line(&Line::styled(line, theme.muted), below, i as u16 + 1, buffer);
        }
    }
}
