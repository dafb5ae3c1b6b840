//! The filled area of a line: a band around it, or everything below it.

use ratatui::style::{Color, Modifier};

use super::plot::Plot;
use super::{Curve, Fill, Paint};
use operant_draw::symbols::Marker;

/// For each column of cells the lower and upper end of what is filled, as shares of the height; NaN for nothing.
pub(super) fn cover(plot: &Plot, curve: &Curve, fill: Fill, columns: usize) -> Vec<(f64, f64)> {
    let mut cover = vec![(f64::NAN, f64::NAN); columns];
    let mut previous: Option<(f64, f64, f64)> = None;
    for point in &curve.points {
        let value = plot.y.share(point.value);
        let (low, high) = match fill {
            Fill::Below => (0.0, value),
            _ => (plot.y.share(point.low), plot.y.share(point.high)),
        };
        // On a logarithmic scale a band may begin below the visible range.
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
                // Below a line, the mean of a column is smoother than its maximum.
                Fill::Below if !entry.1.is_nan() => (0.0, (entry.1 + b) / 2.0),
                _ => (entry.0.min(a), entry.1.max(b)),
            };
            column += 1.0;
        }
        previous = Some((x, low, high));
    }
    cover
}

/// Fills the part of a cell within `span`, in steps of an eighth of its height if the cell has no dots.
#[expect(clippy::too_many_arguments, reason = "one cell of the loop over them, apart for its length")]
pub(super) fn fill_cell(
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
        // Without tints, a fill below a line would be distracting.
        if free && covered >= 0.5 && fill != Fill::Below {
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
