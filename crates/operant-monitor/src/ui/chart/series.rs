//! The points of a curve before they are drawn: at most one per column of dots, and smoothed.

use super::{ChartPoint, Scale};

/// At most one point per column of dots: the mean of its points, with a band from their minimum to their maximum.
/// Where a column has several points of which some are gaps, the others count.
pub(super) fn binned(points: &[ChartPoint], x: &Scale, columns: usize) -> Vec<ChartPoint> {
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

/// Exponential smoothing with a memory of `memory` along x, without a bias toward the first value. Gaps remain gaps.
pub(super) fn smoothed(
    points: impl Iterator<Item = (f64, f64)>,
    memory: f64,
) -> impl Iterator<Item = (f64, f64)> {
    let (mut sum, mut weight, mut before) = (0.0, 0.0, f64::NAN);
    points.map(move |(x, value)| {
        if !value.is_finite() {
            return (x, f64::NAN);
        }
        let keep = match x - before {
            step if step >= 0.0 && memory > 0.0 => (-step / memory).exp(),
            _ => 0.0,
        };
        // Two points at the same position have equal weight, and the very first point has weight 1.
        let fresh = (1.0 - keep).max(1e-6);
        (sum, weight, before) = (sum * keep + value * fresh, weight * keep + fresh, x);
        (x, sum / weight)
    })
}
