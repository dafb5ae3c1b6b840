//! Statistics over seeds after Agarwal et al., "Deep reinforcement learning at the edge of the statistical precipice" (NeurIPS 2021):
//! interquartile means, stratified bootstrap intervals, and probabilities of improvement. `rliable` is their package.

use crate::random::Random;

/// Resamples of a bootstrap.
pub const RESAMPLES: usize = 20_000;

/// Fewer seeds make an interval unreliable.
pub const RELIABLE: usize = 5;

/// An estimate with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimate {
    pub value: f64,
    /// Lower end of the interval; equal to the estimate if there is one seed only.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Mean of the middle half: a quarter of the numbers, rounded down, is omitted at either end. NaN of none.
pub fn interquartile_mean(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = sorted.len() / 4;
    mean(&sorted[cut..sorted.len() - cut])
}

/// Mean; NaN of none.
pub fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// The interquartile mean over all tasks and seeds, `scores[task][seed]`. Seeds are resampled within each task.
pub fn aggregate(scores: &[Vec<f64>]) -> Estimate {
    aggregate_with(scores, RESAMPLES)
}

/// Like [`aggregate`], with another number of resamples.
pub fn aggregate_with(scores: &[Vec<f64>], resamples: usize) -> Estimate {
    bootstrap(scores, &[], resamples, |scores, _| interquartile_mean(&scores.concat()))
}

/// The probability that a run of `a` scores higher than one of `b` in the same task, averaged over tasks; a tie counts as half.
pub fn improvement(a: &[Vec<f64>], b: &[Vec<f64>]) -> Estimate {
    bootstrap(a, b, RESAMPLES, |a, b| mean(&a.iter().zip(b).map(|(a, b)| higher(a, b)).collect::<Vec<_>>()))
}

/// The share of pairs in which the first is higher; a tie counts as half.
fn higher(a: &[f64], b: &[f64]) -> f64 {
    let mut sorted = b.to_vec();
    sorted.sort_by(f64::total_cmp);
    let below = |x: f64| sorted.partition_point(|y| *y < x) + sorted.partition_point(|y| *y <= x);
    let count: usize = a.iter().map(|x| below(*x)).sum();
    count as f64 / (2 * a.len() * b.len()) as f64
}

/// A statistic of the samples, with the percentiles 2.5 and 97.5 of the statistic of resamples.
fn bootstrap(
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    resamples: usize,
    statistic: impl Fn(&[Vec<f64>], &[Vec<f64>]) -> f64,
) -> Estimate {
    let value = statistic(a, b);
    let mut random = Random::new(0, 0);
    let mut again = (a.to_vec(), b.to_vec());
    let mut resample = |from: &[Vec<f64>], to: &mut [Vec<f64>]| {
        for (from, to) in from.iter().zip(to) {
            to.fill_with(|| from[random.below(from.len())]);
        }
    };
    let mut values: Vec<f64> = (0..resamples)
        .map(|_| {
            resample(a, &mut again.0);
            resample(b, &mut again.1);
            statistic(&again.0, &again.1)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    Estimate { value, low: quantile(&values, 0.025), high: quantile(&values, 0.975) }
}

/// The quantile of ascending numbers, interpolated linearly; NaN of none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share * last as f64;
    let (low, part) = (place as usize, place.fract());
    let (a, b) = (sorted[low], sorted[(low + 1).min(last)]);
    a + part * (b - a)
}
