//! Scales: map values to a share of the chart's height or width, and choose the round numbers of the axis labels.

use crate::format;
use crate::view::Axis;

/// Relative differences below this may come from rounding to single precision.
pub const SINGLE_PRECISION: f64 = 3e-7;

/// A range of values, linear or logarithmic. Always finite and never empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// A scale that shows `low ..= high` with a little room on both sides. A single value gets a range around it; on a
    /// logarithmic scale both must be positive.
    pub fn around(low: f64, high: f64, log: bool) -> Self {
        let (mut a, mut b) = if log { (low.log10(), high.log10()) } else { (low, high) };
        // The archives hold single precision: differences below its resolution are not a range.
        let size = a.abs().max(b.abs());
        let room = if !log && size == 0.0 {
            // Zeros lie at the bottom, where their label is in a row of its own even on a low chart.
            b = 1.0;
            0.08
        } else if b - a <= size * SINGLE_PRECISION {
            if log { 0.5 } else { size * 0.1 }
        } else {
            (b / 2.0 - a / 2.0) * 0.08
        };
        (a, b) = (a - room, b + room);
        Scale { low: a.max(f64::MIN / 2.0), high: b.min(f64::MAX / 2.0), log }
    }

    /// A linear scale over exactly `low ..= high`.
    pub fn exact(low: f64, high: f64) -> Self {
        match high > low {
            true => Scale { low, high, log: false },
            false => Scale { low, high: low + low.abs().max(1.0) * 1e-9, log: false },
        }
    }

    /// A copy whose lower end is `low`.
    pub fn from(self, low: f64) -> Self {
        match self.log || low >= self.high {
            true => self,
            false => Scale { low, ..self },
        }
    }

    /// A copy extended upwards until `threshold` and `value` are in different rows of cells, on a chart of `dots` dots
    /// height with `down` dots per row, so that a curve above a threshold is visibly above it.
    pub fn apart(self, threshold: f64, value: f64, dots: usize, down: usize) -> Self {
        let (range, steps) = (self.high - self.low, dots as f64 - 1.0);
        let row = |share: f64| (((1.0 - share) * steps + 0.5) / down as f64).floor();
        let [a, b] = [threshold, value].map(|value| self.share(value));
        let inside = |share: f64| (0.0..=1.0).contains(&share);
        if !(inside(a) && inside(b)) || row(a) != row(b) || (a - b).abs() < 1e-4 || dots < 4 * down {
            return self;
        }
        // The edge of a row is half way between the two: the first row for which the scale has to grow.
        let between = self.low + (a + b) / 2.0 * range;
        let highs = (1..dots / down).map(|k| {
            let above = (k as f64 * down as f64 - 0.5) / steps;
            self.low + (between - self.low) / (1.0 - above)
        });
        let high = highs.into_iter().find(|high| *high >= self.high);
        high.filter(|high| *high < self.high + range).map_or(self, |high| Scale { high, ..self })
    }

    /// The position of a value: 0 at the lower end, 1 at the upper end, outside this range for values beyond them. NaN for
    /// values that are not finite, or not positive on a logarithmic scale.
    pub fn share(&self, value: f64) -> f64 {
        let value = if self.log && value <= 0.0 { f64::NAN } else { self.forward(value) };
        let range = self.high - self.low;
        // Divided first: the difference of two large values may be infinite.
        if value.is_finite() && range > f64::MAX / 8.0 {
            value / range - self.low / range
        } else if value.is_finite() {
            (value - self.low) / range
        } else {
            f64::NAN
        }
    }

    /// The value at a share of the scale.
    pub fn at(&self, share: f64) -> f64 {
        let value = self.low + share * (self.high - self.low);
        if self.log { 10f64.powf(value) } else { value }
    }

    fn forward(&self, value: f64) -> f64 {
        if self.log { value.log10() } else { value }
    }

    /// At most about `most` round values inside, with their labels.
    pub fn ticks(&self, most: usize, label: Label) -> Vec<(f64, String)> {
        if most == 0 {
            return Vec::new();
        }
        if self.log {
            let decades = self.log_ticks(most);
            if decades.len() >= 2 {
                return decades.into_iter().map(|value| (value, label.text(value, value))).collect();
            }
        }
        let (low, high) = (self.at(0.0), self.at(1.0));
        let step = match label {
            Label::Axis(Axis::Time) => time_step((high - low) / most as f64),
            _ => round_step((high - low) / most as f64),
        };
        if !(step > 0.0 && step.is_finite()) {
            return Vec::new();
        }
        let first = (low / step).ceil();
        let count = ((high / step).floor() - first).clamp(-1.0, 64.0) as i64;
        // Adding 0 turns -0 into 0.
        let values = (0..=count).map(|i| (first + i as f64) * step + 0.0);
        values.map(|value| (value, label.text(value, step))).collect()
    }

    /// Powers of ten inside, thinned out to `most`, or with their twos and fives where they are few.
    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let (first, last) = (self.low.ceil() as i64, self.high.floor() as i64);
        let decades = (last - first + 1).max(0) as usize;
        let every = decades.div_ceil(most).max(1);
        // Counted from the first one, so that at least two of few decades have labels on a low chart.
        let powers = (first..=last).step_by(every);
        if decades * 3 <= most || decades < 2 {
            let all =
                (first - 1..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(power as i32)));
            return all.filter(|value| (0.0..=1.0).contains(&self.share(*value))).collect();
        }
        powers.map(|power| 10f64.powi(power as i32)).collect()
    }
}

/// The format of axis labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label<'a> {
    /// Values of this unit, as the table of metrics names it.
    Value(&'a str),
    /// What lies along the bottom.
    Axis(Axis),
}

impl Label<'_> {
    fn text(self, value: f64, step: f64) -> String {
        match self {
            Label::Value("B") if value != 0.0 => format::bytes(value).replace(' ', "").replace("iB", ""),
            Label::Axis(Axis::Time) => {
                format::clock(std::time::Duration::from_secs_f64(value.clamp(0.0, 1e15)))
            }
            _ => tick(value, step),
        }
    }
}

/// A round value with no more digits than its step needs: `0`, `0.5M`, `1M`, `-0.02`.
fn tick(value: f64, step: f64) -> String {
    let size = value.abs();
    let (unit, suffix) = match size {
        s if s >= 999.5e15 => return format::short(value),
        s if s >= 1e12 => (1e12, "T"),
        s if s >= 1e9 => (1e9, "G"),
        s if s >= 1e6 => (1e6, "M"),
        s if s >= 1e4 || (s >= 1e3 && step >= 100.0) => (1e3, "k"),
        _ => (1.0, ""),
    };
    let decimals = (-(step.abs() / unit).log10() + 1e-9).ceil().max(0.0);
    if !decimals.is_finite() || decimals > 5.0 {
        return format::short(value);
    }
    let text = format!("{:.*}", decimals as usize, value / unit);
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    match text {
        "0" | "-0" => "0".to_string(),
        text => format!("{text}{suffix}"),
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|step| *step >= least * 0.999)
        .unwrap_or(10.0 * power)
}

/// Like `round_step`, in steps of clock time: 1 s to 6 h, then multiples of 12 h.
fn time_step(least: f64) -> f64 {
    const STEPS: [f64; 15] = [
        1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 21_600.0,
    ];
    let step = STEPS.into_iter().find(|step| *step >= least);
    step.unwrap_or_else(|| (least / 43_200.0).ceil() * 43_200.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, most: usize) -> Vec<String> {
        scale.ticks(most, Label::Value("1")).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_threshold_and_what_is_above_it_lie_in_rows_of_their_own() {
        for down in [1, 2, 4] {
            for rows in 5..40 {
                for value in [476.0_f64, 480.0, 500.0, 470.0, 474.0] {
                    for log in [false, true] {
                        let scale =
                            Scale::around(9.0, value.max(475.0), log).apart(475.0, value, rows * down, down);
                        let steps = (rows * down) as f64 - 1.0;
                        let row =
                            |value: f64| (((1.0 - scale.share(value)) * steps + 0.5) / down as f64).floor();
                        assert!(row(475.0) != row(value), "{value} with {rows} rows of {down}, log {log}");
                        assert!(scale.share(9.0) >= 0.0 && scale.share(value) <= 1.0);
                    }
                }
            }
        }
        let scale = Scale::around(0.0, 500.0, false);
        assert_eq!(scale.apart(475.0, 475.0, 32, 4), scale);
        assert_eq!(scale.apart(475.0, f64::NAN, 32, 4), scale);
        assert_eq!(scale.apart(475.0, 100.0, 32, 4), scale);
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(Scale::exact(0.0, 500.0), 5), ["0", "100", "200", "300", "400", "500"]);
        assert_eq!(labels(Scale::exact(0.0, 2.1e6), 4), ["0", "1M", "2M"]);
        assert_eq!(
            labels(Scale::exact(0.0, 2.1e6), 5),
            ["0", "0.5M", "1M", "1.5M", "2M"].map(|s| match s {
                "0.5M" => "500k".to_string(),
                s => s.to_string(),
            })
        );
        assert_eq!(labels(Scale::exact(-0.05, 0.01), 3), ["-0.04", "-0.02", "0"]);
        assert_eq!(labels(Scale::exact(-200.0, -80.0), 3), ["-200", "-150", "-100"]);
    }

    #[test]
    fn logarithmic_ticks_are_decades() {
        assert_eq!(labels(Scale::around(1e-4, 10.0, true), 6), ["0.0001", "0.001", "0.01", "0.1", "1", "10"]);
        assert_eq!(labels(Scale::around(1.0, 8.0, true), 6), ["1", "2", "5"]);
        assert_eq!(labels(Scale::around(8.0, 2e9, true), 2), ["10", "1M"]);
        let scale = Scale::around(1e-4, 10.0, true);
        assert!(scale.share(0.0).is_nan() && scale.share(-1.0).is_nan());
        assert!(scale.share(1e-4) > 0.0 && scale.share(10.0) < 1.0);
    }

    #[test]
    fn zeros_are_at_the_bottom() {
        let scale = Scale::around(0.0, 0.0, false);
        assert_eq!(labels(scale, 2), ["0", "1"]);
        assert!((0.0..0.1).contains(&scale.share(0.0)));
    }

    #[test]
    fn no_range_is_empty_or_infinite() {
        for (low, high) in
            [(0.0, 0.0), (5.0, 5.0), (-3.0, -3.0), (1e300, 1e300), (f64::MIN, f64::MAX), (1e-320, 2e-320)]
        {
            let scale = Scale::around(low, high, false);
            for value in [low, high] {
                let share = scale.share(value);
                assert!((-0.6..=1.6).contains(&share), "{low} {high} {share}");
            }
            assert!(scale.ticks(5, Label::Value("1")).len() < 70);
        }
        for (low, high) in [(1e-320, 1e-320), (1e-300, 1e300), (7.0, 7.0)] {
            let scale = Scale::around(low, high, true);
            assert!((0.0..=1.0).contains(&scale.share(low)), "{low}");
            assert!(scale.ticks(5, Label::Value("1")).len() < 70);
        }
    }

    #[test]
    fn time_runs_in_clock_steps() {
        let ticks = Scale::exact(0.0, 3700.0).ticks(4, Label::Axis(Axis::Time));
        let texts: Vec<_> = ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["0:00", "20:00", "40:00", "1:00:00"]);
    }
}
