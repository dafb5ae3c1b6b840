//! The values that a chart shows: between which ends they lie, and which few lie so far from all others that they would flatten
//! everything else.

use super::ChartPoint;

/// Share of the values that may be omitted at either end.
const TAIL: f64 = 0.01;
/// How many times the range of all others a value must lie beyond them to be omitted.
const FAR: f64 = 3.0;
/// Fewer values than these are all shown.
const LEAST: usize = 60;
/// The last part of the width, whose values are always shown, because they are the newest.
const RECENT: f64 = 0.03;

/// The ends of the values in view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Extent {
    /// The minimum and maximum value that the scale must hold.
    pub low: f64,
    pub high: f64,
    /// The largest value of a line among them.
    pub peak: f64,
    /// What lies beyond them: where along the bottom, and the value.
    pub above: Option<(f64, f64)>,
    pub below: Option<(f64, f64)>,
}

impl Extent {
    /// The extent of the points within `left ..= right`, with their bands if `banded`. On a log scale values that are not positive do
    /// not count. None where no value is left.
    pub fn of<'a>(
        points: impl Iterator<Item = &'a ChartPoint>,
        (left, right): (f64, f64),
        banded: bool,
        robust: bool,
        log: bool,
    ) -> Option<Self> {
        let shown = |value: &f64| value.is_finite() && (!log || *value > 0.0);
        let mut values: Vec<(f64, f64)> = Vec::new();
        let (mut peak, recent) = (f64::NAN, right - (right - left) * RECENT);
        // Ends of the recent values, which the scale holds in any case.
        let mut kept = (f64::NAN, f64::NAN);
        for point in points.filter(|point| point.value.is_finite()) {
            let band = if banded { [point.low, point.high] } else { [f64::NAN; 2] };
            for value in [point.value].into_iter().chain(band).filter(shown) {
                values.push((value, point.x));
                if point.x >= recent {
                    kept = (value.min(kept.0), value.max(kept.1));
                }
            }
            // `min` and `max` of numbers pass over a NaN.
            peak = point.value.max(peak);
        }
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (least, most) = (*values.first()?, *values.last()?);
        let all = Extent { low: least.0, high: most.0, peak, above: None, below: None };
        if !robust || values.len() < LEAST {
            return Some(all);
        }
        let out = (values.len() as f64 * TAIL) as usize;
        let forward = |value: f64| if log { value.log10() } else { value };
        let (p, q) = (values[out].0, values[values.len() - 1 - out].0);
        let (range, mut robust) = (forward(q) - forward(p), all);
        // If values hardly change, a rounding difference is not a spike.
        let range = range.max(forward(q).abs().max(forward(p).abs()) * super::SINGLE_PRECISION);
        if forward(most.0) - forward(q) > FAR * range && range > 0.0 {
            (robust.high, robust.above) = (q.max(kept.1), Some((most.1, most.0)));
        }
        if forward(p) - forward(least.0) > FAR * range && range > 0.0 {
            (robust.low, robust.below) = (p.min(kept.0), Some((least.1, least.0)));
        }
        robust.above = robust.above.filter(|(_, value)| *value > robust.high);
        robust.below = robust.below.filter(|(_, value)| *value < robust.low);
        robust.peak = peak.min(robust.high);
        Some(robust)
    }
}
