//! Whether two measurements differ by more than their spreads.

use serde_json::{Value, json};

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Each median lies outside the other's extremes, the new one above.
    Faster,
    /// Each median lies outside the other's extremes, the new one below.
    Slower,
    /// The difference is within the spreads.
    Same,
    /// The earlier run has no such row, or one with different work.
    New,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::New => "new",
        }
    }

    /// Compares an earlier row with a new one, each given by median, minimum and maximum. A difference counts when neither median
    /// lies within the extremes of the other, so a single good or bad repetition does not.
    pub fn of(before: [f64; 3], after: [f64; 3]) -> Self {
        if after[0] > before[2] && before[0] < after[1] {
            Self::Faster
        } else if after[0] < before[1] && before[0] > after[2] {
            Self::Slower
        } else {
            Self::Same
        }
    }
}

/// The comparison of a row with an earlier one.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub verdict: Verdict,
    /// The earlier one's median, minimum and maximum.
    pub before: Option<[f64; 3]>,
    /// The new median divided by the earlier one.
    pub ratio: f64,
}

impl Comparison {
    /// Its JSON in a row.
    pub fn to_json(&self) -> Value {
        let [median, min, max] = self.before.unwrap_or([f64::NAN; 3]);
        json!({
            "verdict": self.verdict.name(),
            "ratio": self.ratio,
            "sps_median": median,
            "sps_min": min,
            "sps_max": max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_respects_both_spreads() {
        let before = [100.0, 95.0, 104.0];
        for (after, verdict) in [
            ([100.0, 99.0, 101.0], Verdict::Same),
            ([110.0, 106.0, 112.0], Verdict::Faster),
            ([90.0, 88.0, 93.0], Verdict::Slower),
            // Within the earlier spread, however narrow the new one.
            ([103.9, 103.8, 104.0], Verdict::Same),
            ([95.1, 95.0, 95.2], Verdict::Same),
            // Beyond the earlier spread, and so wide that the earlier median is within it.
            ([120.0, 99.0, 140.0], Verdict::Same),
            ([80.0, 60.0, 101.0], Verdict::Same),
            // One bad repetition of the new run reaches down, but not to the earlier median.
            ([120.0, 101.0, 140.0], Verdict::Faster),
        ] {
            assert_eq!(Verdict::of(before, after), verdict, "{after:?}");
            let reversed = match verdict {
                Verdict::Faster => Verdict::Slower,
                Verdict::Slower => Verdict::Faster,
                same => same,
            };
            assert_eq!(Verdict::of(after, before), reversed, "{after:?}, reversed");
        }
    }
}
