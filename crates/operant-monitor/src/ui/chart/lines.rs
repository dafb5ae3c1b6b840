//! The curves of a chart and its threshold, in layers of dots.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

use super::fill::{cover, fill_cell};
use super::legend::digit;
use super::plot::Plot;
use super::raster::Raster;
use super::series::{binned, smoothed};
use super::{Chart, Curve, Fill, Paint};
use operant_draw::symbols::Marker;
use operant_draw::theme::ThemeName;

const LAYER_RAW: u8 = 1;
const LAYER_THRESHOLD: u8 = 2;
const LAYER_LINE: u8 = 3;

impl Chart<'_> {
    pub(super) fn draw_curves(&self, paint: Paint, plot: &Plot, threshold: Option<f64>, buffer: &mut Buffer) {
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
                // The raw line would hide the smoothed lines of other runs.
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
        let filled = match self.fill {
            Fill::None => 0,
            Fill::Bands => curves.len(),
            Fill::Band | Fill::Below => 1,
        };
        let of_curve =
            |curve: &Curve| (cover(plot, curve, self.fill, columns), paint.theme.tint(curve.number));
        // The first is drawn last, on top.
        let covers: Vec<_> = curves.iter().take(filled).map(of_curve).rev().collect();
        for row in 0..rows {
            for column in 0..columns {
                let cell = &mut buffer[(plot.area.x + column as u16, plot.area.y + row as u16)];
                let dots = raster.symbol(column, row);
                for (cover, tint) in &covers {
                    fill_cell(cell, cover[column], row, rows, dots.is_none(), *tint, self.fill, paint);
                }
                if let Some((symbol, layer, style)) = dots {
                    let symbol = match (paint.marker, layer) {
                        (Marker::Ascii, LAYER_THRESHOLD) => '-',
                        (Marker::Ascii, LAYER_RAW) => '.',
                        _ => symbol,
                    };
                    // Over a grid line or a band, only the background is kept.
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

/// Draws a line through points, broken at gaps, and returns the position of its last point, in dots.
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
