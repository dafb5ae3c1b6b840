//! The chart that all panels share: curves with a band around them, a threshold, scales with round numbers.
//!
//! It is drawn straight into the buffer. Ratatui's own chart puts a NaN at its top row, has no bands, and takes tens of
//! milliseconds for a long series.

mod axes;
mod extent;
mod fill;
mod legend;
mod lines;
mod marks;
mod plot;
mod raster;
mod scale;
mod series;

use std::cell::Cell;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::view::Axis;
use extent::Extent;
use operant_draw::symbols::{Marker, Symbols};
use operant_draw::theme::Theme;
use plot::Plot;
pub use scale::{Label, SINGLE_PRECISION, Scale};

/// One moment of a curve. A value that is NaN or infinite is a gap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChartPoint {
    /// Where along the bottom.
    pub x: f64,
    /// The value of the line.
    pub value: f64,
    /// Lower end of the band; NaN for none.
    pub low: f64,
    /// Upper end of the band; NaN for none.
    pub high: f64,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Its points, by growing x.
    pub points: Vec<ChartPoint>,
    /// The index of its style among the theme's curves.
    pub number: usize,
    /// Its name in the legend, which is drawn when there are several.
    pub name: String,
}

/// What fills the area at the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Nothing.
    None,
    /// From the lower end of the band to the upper one.
    Band,
    /// The same at every line.
    Bands,
    /// From the bottom of the chart to the line.
    Below,
}

#[derive(Debug, Clone)]
pub struct Chart<'a> {
    /// Its lines; the first is drawn on top, and is the only one with a fill other than [`Fill::Bands`].
    pub curves: Vec<Curve>,
    /// A line across. The scale reaches to it, but where it lies so far away that the curves would be squeezed flat:
    /// there an arrow next to the scale points to it.
    pub threshold: Option<f64>,
    /// The left and right ends; by default those of the points.
    pub x: Option<(f64, f64)>,
    /// The horizontal axis.
    pub axis: Axis,
    /// Unit of the values, as the table of metrics names it.
    pub unit: &'a str,
    /// Logarithmic values.
    pub log: bool,
    /// Time constant of the smoothing as a share of the width; 0 for none.
    pub smoothing: f64,
    /// What fills the area at a line.
    pub fill: Fill,
    /// Whether the scale begins at 0, where all values are positive.
    pub from_zero: bool,
    /// Whether a single line takes its colour from its height.
    pub ramp: bool,
    /// Whether the last point of each line is marked, as for a live run.
    pub tip: bool,
    /// Whether a legend above the chart names several lines, if there is room.
    pub legend: bool,
    /// Whether the legend shows each line's newest value next to its name, on as many rows as needed.
    pub values: bool,
    /// Whether the scale leaves out a few values that lie far from all others; a mark says how far they reach.
    pub robust: bool,
    /// The cursor, in columns from the right edge: its values are then the ones in the legend.
    pub cursor: Option<&'a Cell<Option<u16>>>,
}

impl Default for Chart<'_> {
    fn default() -> Self {
        Chart {
            curves: Vec::new(),
            threshold: None,
            x: None,
            axis: Axis::Steps,
            unit: "1",
            log: false,
            smoothing: 0.0,
            fill: Fill::Band,
            from_zero: false,
            ramp: false,
            tip: false,
            legend: true,
            values: false,
            robust: false,
            cursor: None,
        }
    }
}

/// The theme and symbols of a chart.
#[derive(Clone, Copy)]
pub struct Paint<'a> {
    /// Styles.
    pub theme: &'a Theme,
    /// Glyphs.
    pub symbols: &'static Symbols,
    /// Dots.
    pub marker: Marker,
}

impl Chart<'_> {
    /// Draws it into `area`.
    pub fn draw(&self, paint: Paint, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if area.is_empty() {
            return;
        }
        let Some((x, y, values)) = self.scales() else {
            return self.say_why_empty(paint, area, buffer);
        };
        // The legend has its own rows, because over the curves it would hide the highest ones.
        let legend = Rect { height: self.legend_rows(area), ..area };
        let area = Rect { y: legend.bottom(), height: area.height - legend.height, ..area };
        let labels = if area.height >= 4 && area.width >= 16 { 1 } else { 0 };
        let dots = usize::from(area.height - labels) * paint.marker.dots().1;
        let y = match self.threshold {
            Some(threshold) => y.apart(threshold, values.peak, dots, paint.marker.dots().1),
            None => y,
        };
        let most = usize::from((area.height - labels) / 3).clamp(2, 7);
        let mut ticks = match area.width >= 12 && area.height >= 2 {
            true => y.ticks(most, Label::Value(self.unit)),
            false => Vec::new(),
        };
        ticks.truncate(usize::from(area.height));
        let threshold = self.threshold.filter(|value| (0.0..=1.0).contains(&y.share(*value)));
        let named = self.threshold.filter(|value| y.share(*value).is_finite() && !ticks.is_empty());
        let named = named.map(|value| {
            let [above, below] = paint.symbols.beyond;
            let arrow = match y.share(value) {
                share if share > 1.0 => above,
                share if share < 0.0 => below,
                _ => "",
            };
            (value, crate::format::short(value) + arrow)
        });
        let gutter = ticks
            .iter()
            .chain(&named)
            .map(|(_, text)| text.chars().count())
            .max()
            .map_or(0, |widest| widest as u16 + 1);
        let plot = Rect {
            x: area.x + gutter,
            width: area.width.saturating_sub(gutter),
            height: area.height - labels,
            ..area
        };
        if plot.is_empty() {
            return;
        }
        let plot = Plot { area: plot, x, y, marker: paint.marker };
        self.draw_value_axis(paint, &plot, &ticks, named.as_ref(), gutter, buffer);
        if labels > 0 {
            self.draw_bottom_axis(paint, &plot, area, buffer);
        }
        self.draw_curves(paint, &plot, threshold, buffer);
        self.mark_clipped(paint, &plot, &values, buffer);
        let cursor = plot.cursor(self);
        if let Some((column, at)) = cursor {
            self.draw_cursor(paint, &plot, (column, at), labels > 0, buffer);
        }
        if legend.height > 0 {
            self.draw_legend(paint, cursor.map(|(_, at)| at), legend, buffer);
        }
    }

    /// The scales, and what of the values in view they hold; `None` when there is none.
    fn scales(&self) -> Option<(Scale, Scale, Extent)> {
        let finite = |value: &f64| value.is_finite();
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let (left, right) = match self.x {
            Some(ends) => ends,
            None => extent(points().map(|point| point.x).filter(finite))?,
        };
        let shown = |value: &f64| value.is_finite() && (!self.log || *value > 0.0);
        let seen = points().filter(|point| (left..=right).contains(&point.x));
        let values = Extent::of(
            seen,
            (left, right),
            matches!(self.fill, Fill::Band | Fill::Bands),
            self.robust,
            self.log,
        )?;
        let (low, high) = (values.low, values.high);
        let near = |threshold: &f64| is_near(*threshold, low, high, self.log);
        let (low, high) = match self.threshold.filter(shown).filter(near) {
            Some(threshold) => (low.min(threshold), high.max(threshold)),
            None => (low, high),
        };
        let mut y = Scale::around(low, high, self.log);
        if self.from_zero && low >= 0.0 {
            y = y.from(0.0);
        }
        Some((Scale::exact(left, right), y, values))
    }

    fn say_why_empty(&self, paint: Paint, area: Rect, buffer: &mut Buffer) {
        let any = self.curves.iter().flat_map(|curve| &curve.points).any(|point| point.value.is_finite());
        let text = match any && self.log {
            true => "nothing above 0 to show on a log scale",
            false => "no data yet",
        };
        let width = (text.len() as u16).min(area.width);
        let (x, y) = (area.x + (area.width - width) / 2, area.y + area.height / 2);
        buffer.set_stringn(x, y, text, usize::from(width), paint.theme.muted);
    }
}

/// Whether a threshold is close enough to values of `low ..= high` to share a scale with them. The return before learning
/// is often far below the threshold and nearly constant, and the distance is worth showing. But a threshold many times
/// larger than the values would flatten the curve.
fn is_near(threshold: f64, low: f64, high: f64, log: bool) -> bool {
    let away = |forward: fn(f64) -> f64| {
        let (threshold, low, high) = (forward(threshold), forward(low), forward(high));
        ((low - threshold).max(threshold - high), high - low)
    };
    match log {
        true => {
            let (distance, range) = away(f64::log10);
            distance <= 7.0 * range.max(0.5)
        }
        false => {
            let (distance, range) = away(|value| value);
            distance <= 30.0 * range.max(low.abs()).max(high.abs())
        }
    }
}

/// Minimum and maximum, if there is any.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

#[cfg(test)]
mod tests;
