//! The chart that all panels share: curves with a band around them, a threshold, scales with round numbers.
//!
//! It is drawn straight into the buffer. Ratatui's own chart puts a NaN at its top row, has no bands, and takes tens of
//! milliseconds for a long series.

mod extent;
mod legend;
mod raster;
mod scale;

use std::cell::Cell;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::symbols::{Marker, Symbols};
use crate::theme::{Theme, ThemeName};
use crate::view::Axis;
use extent::Extent;
use legend::digit;
use raster::Raster;
pub use scale::{Label, SINGLE_PRECISION, Scale};

const LAYER_RAW: u8 = 1;
const LAYER_THRESHOLD: u8 = 2;
const LAYER_LINE: u8 = 3;

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
    /// Which of the theme's curves it looks like.
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
    /// From the bottom of the chart to the line.
    Below,
}

/// A chart.
#[derive(Debug, Clone)]
pub struct Chart<'a> {
    /// Its lines; the first is drawn on top and is the only one with a fill.
    pub curves: Vec<Curve>,
    /// A line across. The scale reaches to it, but where it lies so far away that the curves would be squeezed flat:
    /// there an arrow beside the scale says where it is.
    pub threshold: Option<f64>,
    /// The left and right ends; by default those of the points.
    pub x: Option<(f64, f64)>,
    /// What lies along the bottom.
    pub axis: Axis,
    /// Unit of the values, as the table of metrics names it.
    pub unit: &'a str,
    /// Logarithmic values.
    pub log: bool,
    /// Time constant of the smoothing as a share of the width; 0 for none.
    pub smoothing: f64,
    /// What fills the area at the first line.
    pub fill: Fill,
    /// Whether the scale begins at 0, where all values are positive.
    pub from_zero: bool,
    /// Whether a single line takes its colour from its height.
    pub ramp: bool,
    /// Whether the last point of each line is marked, as on a run that lives.
    pub tip: bool,
    /// Whether several lines are named above the chart, where it has the room.
    pub legend: bool,
    /// Whether each line's newest value stands beside its name, on as many rows as that takes.
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

/// What a chart is painted with.
#[derive(Clone, Copy)]
pub struct Paint<'a> {
    /// Styles.
    pub theme: &'a Theme,
    /// Glyphs.
    pub symbols: &'static Symbols,
    /// Dots.
    pub marker: Marker,
}

/// Where the dots go.
struct Plot {
    area: Rect,
    x: Scale,
    y: Scale,
    marker: Marker,
}

impl Plot {
    /// The row of cells in which a value is drawn.
    fn row(&self, value: f64) -> u16 {
        let down = self.marker.dots().1;
        let dots = f64::from(self.area.height) * down as f64;
        let row = ((1.0 - self.y.share(value)) * (dots - 1.0) + 0.5) / down as f64;
        self.area.y + (row.max(0.0) as u16).min(self.area.height.saturating_sub(1))
    }

    /// The cursor's column of cells and its place along the bottom; it is brought back into the chart if it lies beyond.
    fn cursor(&self, chart: &Chart) -> Option<(u16, f64)> {
        let (cell, last) = (chart.cursor?, self.area.width.checked_sub(1)?);
        let back = cell.get()?.min(last);
        cell.set(Some(back));
        let column = last - back;
        let share = if last == 0 { 1.0 } else { f64::from(column) / f64::from(last) };
        Some((self.area.x + column, self.x.at(share)))
    }

    /// Position in dots from the upper left; `None` for a gap.
    fn place(&self, raster: &Raster, x: f64, value: f64) -> Option<(f64, f64)> {
        let (across, up) = (self.x.share(x), self.y.share(value));
        let width = (raster.width() as f64 - 1.0).max(0.0);
        let height = (raster.height() as f64 - 1.0).max(0.0);
        (across.is_finite() && up.is_finite()).then_some((across * width + 0.5, (1.0 - up) * height + 0.5))
    }
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
        // The legend has rows of its own: over the curves it would hide the best of them.
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

    /// Says how far the values reach that the scale leaves out, at the upper and the lower edge, near where they are.
    fn mark_clipped(&self, paint: Paint, plot: &Plot, values: &Extent, buffer: &mut Buffer) {
        let rows = [plot.area.y, plot.area.bottom() - 1];
        let ends = [values.above, values.below];
        for ((end, arrow), row) in ends.into_iter().zip(paint.symbols.beyond).zip(rows) {
            let Some((x, value)) = end else { continue };
            let text = format!("{arrow}{}", crate::format::short(value));
            let width = text.chars().count() as u16;
            if plot.area.width >= width + 4 && plot.area.height >= 3 {
                let column = (plot.x.share(x).clamp(0.0, 1.0) * f64::from(plot.area.width)) as u16;
                let at = (plot.area.x + column + 1).min(plot.area.right() - width);
                buffer.set_string(at, row, text, paint.theme.warning);
            }
        }
    }

    /// A line down at the cursor, and where it is under it.
    fn draw_cursor(
        &self,
        paint: Paint,
        plot: &Plot,
        (column, at): (u16, f64),
        labelled: bool,
        buffer: &mut Buffer,
    ) {
        for row in plot.area.top()..plot.area.bottom() {
            let cell = &mut buffer[(column, row)];
            if [" ", paint.symbols.grid].contains(&cell.symbol()) {
                cell.set_symbol(paint.symbols.edges[1]);
            }
            (cell.fg, cell.modifier) = (Color::Reset, Modifier::empty());
            cell.set_style(paint.theme.accent);
        }
        if labelled {
            let text = format!(" {} ", self.axis.text(at));
            let width = (text.chars().count() as u16).min(plot.area.width);
            let x = column.saturating_sub(width / 2).clamp(plot.area.x, plot.area.right() - width);
            let row = plot.area.bottom();
            // A number of the axis that it would hide in part goes whole.
            let is_blank = |buffer: &Buffer, x: u16| buffer[(x, row)].symbol() == " ";
            let (mut left, mut right) = (x, x + width);
            while left > plot.area.x && !is_blank(buffer, left - 1) {
                left -= 1;
            }
            while right < plot.area.right() && !is_blank(buffer, right) {
                right += 1;
            }
            for x in left..right {
                buffer[(x, row)].set_symbol(" ");
            }
            buffer.set_stringn(x, row, text, usize::from(width), paint.theme.accent);
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
        let values = Extent::of(seen, (left, right), self.fill == Fill::Band, self.robust, self.log)?;
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

    fn draw_value_axis(
        &self,
        paint: Paint,
        plot: &Plot,
        ticks: &[(f64, String)],
        named: Option<&(f64, String)>,
        gutter: u16,
        buffer: &mut Buffer,
    ) {
        let row_of = |value: f64| plot.row(value);
        let reserved = named.map(|(value, _)| row_of(*value));
        let mut write = |row: u16, text: &str, style: Style| {
            let width = text.chars().count() as u16;
            let x = plot.area.x.saturating_sub(1 + width).max(plot.area.x - gutter);
            buffer.set_string(x, row, text, style);
        };
        let mut taken = reserved;
        for (value, text) in ticks {
            let row = row_of(*value);
            if Some(row) == taken || Some(row) == reserved {
                continue;
            }
            taken = Some(row);
            write(row, text, paint.theme.muted);
        }
        if let Some((value, text)) = named {
            write(row_of(*value), text, paint.theme.good);
        }
        if plot.area.height >= 8 && plot.area.width >= 24 {
            for (value, _) in ticks {
                let row = row_of(*value);
                for x in plot.area.left()..plot.area.right() {
                    buffer[(x, row)].set_symbol(paint.symbols.grid).set_style(paint.theme.faint);
                }
            }
        }
    }

    fn draw_bottom_axis(&self, paint: Paint, plot: &Plot, area: Rect, buffer: &mut Buffer) {
        let row = area.bottom() - 1;
        let style = paint.theme.muted;
        let most = usize::from(plot.area.width / 10).clamp(2, 10);
        let unit = match self.axis {
            Axis::Time => "",
            axis => axis.label(),
        };
        // The unit stands at the right end, where no number reaches.
        let unit_width = if usize::from(plot.area.width) > unit.len() + 20 { unit.len() as u16 } else { 0 };
        let mut free = area.x;
        let last = plot.area.right() - unit_width.min(plot.area.width);
        for (value, text) in plot.x.ticks(most, Label::Axis(self.axis)) {
            let share = plot.x.share(value);
            let width = text.len() as u16;
            let center = f64::from(plot.area.x) + share * f64::from(plot.area.width.saturating_sub(1));
            let limit = last.saturating_sub(width + u16::from(unit_width > 0));
            let x = ((center - f64::from(width) / 2.0 + 0.5).max(0.0) as u16).max(plot.area.x).min(limit);
            if x < free || x + width > last || (0.0..=1.0).contains(&share).eq(&false) {
                continue;
            }
            buffer.set_string(x, row, &text, style);
            free = x + width + 2;
        }
        if unit_width > 0 {
            buffer.set_string(last, row, unit, style);
        }
    }

    fn draw_curves(&self, paint: Paint, plot: &Plot, threshold: Option<f64>, buffer: &mut Buffer) {
        let (columns, rows) = (usize::from(plot.area.width), usize::from(plot.area.height));
        let mut raster = Raster::new(paint.marker, columns, rows);
        if let Some(value) = threshold {
            draw_threshold(&mut raster, plot, value, paint);
        }
        let mut tips = Vec::new();
        let curves: Vec<Curve> = self
            .curves
            .iter()
            .map(|curve| Curve {
                points: binned(&curve.points, &plot.x, raster.width()),
                number: curve.number,
                name: String::new(),
            })
            .collect();
        for (i, curve) in curves.iter().enumerate().rev() {
            let height = raster.height() as f64;
            let style = |row: i64| match self.ramp && self.curves.len() == 1 {
                true => paint.theme.ramp(1.0 - row as f64 / (height - 1.0).max(1.0)),
                false => paint.theme.curve(curve.number),
            };
            let raw = curve.points.iter().map(|point| (point.x, point.value));
            let last = if self.smoothing > 0.0 {
                // The raw line would only hide the smoothed ones of other runs.
                if i == 0 {
                    let faint = match paint.theme.name {
                        ThemeName::None => paint.theme.faint,
                        _ => paint.theme.curve(curve.number).add_modifier(Modifier::DIM),
                    };
                    draw_line(&mut raster, plot, raw.clone(), LAYER_RAW, |_| faint);
                }
                let memory = self.smoothing * (plot.x.at(1.0) - plot.x.at(0.0));
                draw_line(&mut raster, plot, smoothed(raw, memory), LAYER_LINE, style)
            } else {
                draw_line(&mut raster, plot, raw, LAYER_LINE, style)
            };
            tips.extend(last.map(|at| (at, curve.number)));
        }
        let cover = match (self.fill, curves.first()) {
            (Fill::None, _) | (_, None) => Vec::new(),
            (fill, Some(curve)) => cover(plot, curve, fill, columns),
        };
        let tint = self.curves.first().and_then(|curve| paint.theme.tint(curve.number));
        for row in 0..rows {
            for column in 0..columns {
                let cell = &mut buffer[(plot.area.x + column as u16, plot.area.y + row as u16)];
                let dots = raster.symbol(column, row);
                let span = cover.get(column).copied().unwrap_or((f64::NAN, f64::NAN));
                fill_cell(cell, span, row, rows, dots.is_none(), tint, self.fill, paint);
                if let Some((symbol, layer, style)) = dots {
                    let symbol = match (paint.marker, layer) {
                        (Marker::Ascii, LAYER_THRESHOLD) => '-',
                        (Marker::Ascii, LAYER_RAW) => '.',
                        _ => symbol,
                    };
                    // Over a grid line or a band only the background stays.
                    (cell.fg, cell.modifier) = (Color::Reset, Modifier::empty());
                    cell.set_char(symbol).set_style(style);
                }
            }
        }
        let numbered = self.is_numbered(paint);
        if numbered || (self.tip && paint.symbols.unicode && paint.marker != Marker::Ascii) {
            let (across, down) = paint.marker.dots();
            for ((x, y), number) in tips {
                let (column, row) = (x.max(0.0) as usize / across, y.max(0.0) as usize / down);
                if column < columns && row < rows {
                    let cell = &mut buffer[(plot.area.x + column as u16, plot.area.y + row as u16)];
                    let style = match self.curves.len() {
                        1 => paint.theme.strong,
                        _ => paint.theme.curve(number).add_modifier(Modifier::BOLD),
                    };
                    (cell.fg, cell.modifier) = (Color::Reset, Modifier::empty());
                    match numbered {
                        true => cell.set_char(digit(number)),
                        false => cell.set_symbol("●"),
                    };
                    cell.set_style(style);
                }
            }
        }
    }
}

/// Whether a threshold lies near enough to values of `low ..= high` to share a scale with them. What an environment pays
/// before anything is learned often lies far below the threshold and hardly moves; that is worth seeing. But a threshold
/// many times the size of the values themselves would leave nothing of them.
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

/// Least and greatest, if there is any.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

/// At most one point for each column of dots: the mean of what falls into it, in a band from its least to its greatest.
/// Where a column has several points of which some are gaps, the others count.
fn binned(points: &[ChartPoint], x: &Scale, columns: usize) -> Vec<ChartPoint> {
    let column = |point: &ChartPoint| (x.share(point.x) * columns as f64).floor();
    let mut bins: Vec<ChartPoint> = Vec::with_capacity(points.len().min(columns + 2));
    for group in points.chunk_by(|a, b| column(a) == column(b)) {
        let last = group[group.len() - 1];
        if group.len() == 1 {
            bins.push(last);
            continue;
        }
        let mut bin = ChartPoint { x: last.x, value: f64::NAN, low: f64::NAN, high: f64::NAN };
        let (mut sum, mut count) = (0.0, 0u32);
        for point in group.iter().filter(|point| point.value.is_finite()) {
            sum += point.value;
            count += 1;
            // `min` and `max` of numbers pass over a NaN.
            bin.low = bin.low.min(point.low).min(point.value);
            bin.high = bin.high.max(point.high).max(point.value);
        }
        if count > 0 {
            bin.value = sum / f64::from(count);
        }
        bins.push(bin);
    }
    bins
}

/// Draws a line through points, broken at gaps, and gives where its last point lies, in dots.
fn draw_line(
    raster: &mut Raster,
    plot: &Plot,
    points: impl Iterator<Item = (f64, f64)>,
    layer: u8,
    style: impl Fn(i64) -> Style,
) -> Option<(f64, f64)> {
    let mut previous = None;
    let mut last = None;
    for (x, value) in points {
        let here = plot.place(raster, x, value);
        if let Some(here) = here {
            raster.line(previous.unwrap_or(here), here, layer, &style);
            last = Some(here);
        }
        previous = here;
    }
    last
}

fn draw_threshold(raster: &mut Raster, plot: &Plot, value: f64, paint: Paint) {
    let Some((_, y)) = plot.place(raster, plot.x.at(0.0), value) else { return };
    // Dashes of a cell and a half at any marker.
    let period = 3 * paint.marker.dots().0.max(1) as i64;
    for x in 0..raster.width() as i64 {
        if x % period < (period + 1) / 2 {
            raster.dot(x, y as i64, LAYER_THRESHOLD, paint.theme.good);
        }
    }
}

/// Exponential smoothing with a memory of `memory` along x, without a bias toward the first value. Gaps stay gaps.
fn smoothed(points: impl Iterator<Item = (f64, f64)>, memory: f64) -> impl Iterator<Item = (f64, f64)> {
    let (mut sum, mut weight, mut before) = (0.0, 0.0, f64::NAN);
    points.map(move |(x, value)| {
        if !value.is_finite() {
            return (x, f64::NAN);
        }
        let keep = match x - before {
            step if step >= 0.0 && memory > 0.0 => (-step / memory).exp(),
            _ => 0.0,
        };
        // Two points at the same place count alike, and the first of all counts whole.
        let fresh = (1.0 - keep).max(1e-6);
        (sum, weight, before) = (sum * keep + value * fresh, weight * keep + fresh, x);
        (x, sum / weight)
    })
}

/// For each column of cells the lower and upper end of what is filled, as shares of the height; NaN for nothing.
fn cover(plot: &Plot, curve: &Curve, fill: Fill, columns: usize) -> Vec<(f64, f64)> {
    let mut cover = vec![(f64::NAN, f64::NAN); columns];
    let mut previous: Option<(f64, f64, f64)> = None;
    for point in &curve.points {
        let value = plot.y.share(point.value);
        let (low, high) = match fill {
            Fill::Below => (0.0, value),
            _ => (plot.y.share(point.low), plot.y.share(point.high)),
        };
        // On a logarithmic scale a band may begin below all that is shown.
        let low = if low.is_nan() && high.is_finite() { 0.0 } else { low };
        let x = plot.x.share(point.x) * columns as f64;
        if !(value.is_finite() && low.is_finite() && high.is_finite() && x.is_finite()) {
            previous = None;
            continue;
        }
        let (from_x, from_low, from_high) = previous.unwrap_or((x, low, high));
        let (first, last) = (from_x.floor().max(0.0), x.floor().min(columns as f64 - 1.0));
        let mut column = first;
        while column <= last {
            let share =
                if x > from_x { ((column + 0.5 - from_x) / (x - from_x)).clamp(0.0, 1.0) } else { 1.0 };
            let (a, b) = (from_low + (low - from_low) * share, from_high + (high - from_high) * share);
            let entry = &mut cover[column as usize];
            // `min` and `max` of numbers pass over a NaN.
            *entry = match fill {
                // Below a line, the mean of what a column holds is smoother than its peak.
                Fill::Below if !entry.1.is_nan() => (0.0, (entry.1 + b) / 2.0),
                _ => (entry.0.min(a), entry.1.max(b)),
            };
            column += 1.0;
        }
        previous = Some((x, low, high));
    }
    cover
}

/// Fills the part of a cell that lies in `span`, to an eighth of its height where it has no dots of its own.
#[expect(clippy::too_many_arguments, reason = "one cell of the loop above, apart for its length")]
fn fill_cell(
    cell: &mut ratatui::buffer::Cell,
    (low, high): (f64, f64),
    row: usize,
    rows: usize,
    free: bool,
    tint: Option<Color>,
    fill: Fill,
    paint: Paint,
) {
    if low.is_nan() || high.is_nan() {
        return;
    }
    // Heights above the lower edge of this cell, in cells.
    let floor = (rows - 1 - row) as f64;
    let bottom = (low * rows as f64 - floor).clamp(0.0, 1.0);
    let top = (high * rows as f64 - floor).clamp(0.0, 1.0);
    let covered = top - bottom;
    let Some(tint) = tint.filter(|_| paint.symbols.unicode && paint.marker != Marker::Ascii) else {
        // Without tints a fill below a line would only be noise.
        if free && covered >= 0.5 && fill == Fill::Band {
            let symbol = match paint.marker {
                Marker::Ascii => ":",
                Marker::Block => "░",
                Marker::Braille => "⠡",
            };
            cell.set_symbol(symbol).set_style(paint.theme.faint);
        }
        return;
    };
    if covered >= 0.94 || (!free && covered >= 0.5) {
        cell.set_bg(tint);
    } else if free && covered > 0.06 {
        let eighths = |share: f64| ((share * 8.0).round() as usize).clamp(1, 7);
        match (bottom <= 0.03, top >= 0.97) {
            (true, _) => {
                cell.set_symbol(paint.symbols.spark[eighths(top)]).set_fg(tint);
            }
            // The upper part is the lower one, reversed.
            (false, true) => {
                cell.set_symbol(paint.symbols.spark[eighths(bottom)]).set_fg(tint);
                cell.modifier.insert(Modifier::REVERSED);
            }
            (false, false) => {
                cell.set_symbol("━").set_fg(tint);
            }
        }
    }
}

#[cfg(test)]
mod tests;
