//! The geometry of a chart: its cells, its scales, and the mapping from values to positions.

use ratatui::layout::Rect;

use super::raster::Raster;
use super::{Chart, Scale};
use operant_draw::symbols::Marker;

/// Where the dots go.
pub(super) struct Plot {
    pub(super) area: Rect,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) marker: Marker,
}

impl Plot {
    /// The row of cells in which a value is drawn.
    pub(super) fn row(&self, value: f64) -> u16 {
        let down = self.marker.dots().1;
        let dots = f64::from(self.area.height) * down as f64;
        let row = ((1.0 - self.y.share(value)) * (dots - 1.0) + 0.5) / down as f64;
        self.area.y + (row.max(0.0) as u16).min(self.area.height.saturating_sub(1))
    }

    /// The cursor's column of cells and its position on the horizontal axis, clamped to the chart.
    pub(super) fn cursor(&self, chart: &Chart) -> Option<(u16, f64)> {
        let (cell, last) = (chart.cursor?, self.area.width.checked_sub(1)?);
        let back = cell.get()?.min(last);
        cell.set(Some(back));
        let column = last - back;
        let share = if last == 0 { 1.0 } else { f64::from(column) / f64::from(last) };
        Some((self.area.x + column, self.x.at(share)))
    }

    /// Position in dots from the upper left; `None` for a gap.
    pub(super) fn place(&self, raster: &Raster, x: f64, value: f64) -> Option<(f64, f64)> {
        let (across, up) = (self.x.share(x), self.y.share(value));
        let width = (raster.width() as f64 - 1.0).max(0.0);
        let height = (raster.height() as f64 - 1.0).max(0.0);
        (across.is_finite() && up.is_finite()).then_some((across * width + 0.5, (1.0 - up) * height + 0.5))
    }
}
