//! A Gaussian process with a Matérn 5/2 kernel and one length scale per input, as in Rasmussen and Williams, "Gaussian Processes for
//! Machine Learning" (2006), algorithm 2.1.

use crate::random::Random;

/// Bounds of a length scale, in units of the inputs' range.
const LENGTHS: (f64, f64) = (0.05, 10.0);
/// Bounds of the noise variance, relative to the signal variance.
const NOISES: (f64, f64) = (1e-4, 1.0);
/// Parameters tried at random, and then near the best.
const TRIES: (usize, usize) = (24, 48);

/// A posterior over functions of `[0, 1]^D`.
#[derive(Debug)]
pub struct GaussianProcess {
    points: Vec<Vec<f64>>,
    kernel: Kernel,
    /// `(N, N)`, row by row: the lower factor of the kernel's matrix.
    factor: Vec<f64>,
    /// The kernel's matrix, inverted, times the standardised values.
    weights: Vec<f64>,
    /// Variance of the signal.
    signal: f64,
    mean: f64,
    scale: f64,
}

/// Correlation of two points.
#[derive(Debug, Clone)]
struct Kernel {
    lengths: Vec<f64>,
    noise: f64,
}

impl Kernel {
    fn at(&self, a: &[f64], b: &[f64]) -> f64 {
        let square: f64 = a.iter().zip(b).zip(&self.lengths).map(|((a, b), l)| ((a - b) / l).powi(2)).sum();
        let r = (5.0 * square).sqrt();
        (1.0 + r + r * r / 3.0) * (-r).exp()
    }

    /// Parameters between bounds, by their position in `[0, 1]` on a logarithmic scale: the noise comes last.
    fn between(places: &[f64]) -> Self {
        let at = |place: f64, (low, high): (f64, f64)| low * f64::powf(high / low, place.clamp(0.0, 1.0));
        let (noise, lengths) = places.split_last().expect("the noise");
        let lengths = lengths.iter().map(|place| at(*place, LENGTHS)).collect();
        Self { lengths, noise: at(*noise, NOISES) }
    }
}

impl GaussianProcess {
    /// The process given values at points, with the parameters of largest marginal likelihood among those tried.
    pub fn fit(points: Vec<Vec<f64>>, values: &[f64], random: &mut Random) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let deviation = (values.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / count).sqrt();
        let scale = if deviation > 0.0 { deviation } else { 1.0 };
        let standard: Vec<f64> = values.iter().map(|y| (y - mean) / scale).collect();
        let parameters = points.first().map_or(0, Vec::len) + 1;
        let mut best = vec![0.5; parameters];
        let (mut fitted, mut most) = condition(&points, &standard, Kernel::between(&best));
        for attempt in 0..TRIES.0 + TRIES.1 {
            let place = |place: &f64| match attempt < TRIES.0 {
                true => random.uniform(),
                false => (place + 0.1 * random.normal()).clamp(0.0, 1.0),
            };
            let places: Vec<f64> = best.iter().map(place).collect();
            let (again, likelihood) = condition(&points, &standard, Kernel::between(&places));
            if likelihood > most {
                (best, fitted, most) = (places, again, likelihood);
            }
        }
        let Conditioned { kernel, factor, weights, signal } = fitted;
        Self { points, kernel, factor, weights, signal, mean, scale }
    }

    /// Mean and standard deviation at a point, of the function without noise.
    pub fn at(&self, point: &[f64]) -> (f64, f64) {
        let near: Vec<f64> = self.points.iter().map(|other| self.kernel.at(point, other)).collect();
        let mean: f64 = near.iter().zip(&self.weights).map(|(k, w)| k * w).sum();
        let explained: f64 = solve_lower(&self.factor, &near).iter().map(|v| v * v).sum();
        let variance = (self.signal * (1.0 - explained)).max(0.0);
        (self.mean + self.scale * mean, self.scale * variance.sqrt())
    }
}

struct Conditioned {
    kernel: Kernel,
    factor: Vec<f64>,
    weights: Vec<f64>,
    signal: f64,
}

/// Conditions on the values, with the logarithm of their likelihood; the variance of the signal is the most likely one.
fn condition(points: &[Vec<f64>], values: &[f64], kernel: Kernel) -> (Conditioned, f64) {
    let count = points.len();
    let mut matrix = vec![0.0; count * count];
    for i in 0..count {
        for j in 0..=i {
            matrix[i * count + j] = kernel.at(&points[i], &points[j]);
        }
        matrix[i * count + i] += kernel.noise;
    }
    let factor = cholesky(matrix, count);
    let half = solve_lower(&factor, values);
    let signal = (half.iter().map(|v| v * v).sum::<f64>() / count as f64).max(1e-12);
    let log_determinant: f64 = (0..count).map(|i| factor[i * count + i].ln()).sum();
    let likelihood = -0.5 * count as f64 * signal.ln() - log_determinant;
    let weights = solve_upper(&factor, &half);
    (Conditioned { kernel, factor, weights, signal }, likelihood)
}

/// The lower factor of a symmetric positive matrix, of which only the lower half is read.
fn cholesky(mut a: Vec<f64>, n: usize) -> Vec<f64> {
    for j in 0..n {
        for i in j..n {
            let dot: f64 = (0..j).map(|k| a[i * n + k] * a[j * n + k]).sum();
            let rest = a[i * n + j] - dot;
            // The noise keeps the diagonal positive, up to rounding.
            a[i * n + j] = if i == j { rest.max(1e-12).sqrt() } else { rest / a[j * n + j] };
        }
        a[j * n + j + 1..(j + 1) * n].fill(0.0);
    }
    a
}

/// `L x = b`.
fn solve_lower(factor: &[f64], b: &[f64]) -> Vec<f64> {
    let n = b.len();
    let mut x = b.to_vec();
    for i in 0..n {
        let dot: f64 = (0..i).map(|k| factor[i * n + k] * x[k]).sum();
        x[i] = (x[i] - dot) / factor[i * n + i];
    }
    x
}

/// `L^T x = b`.
fn solve_upper(factor: &[f64], b: &[f64]) -> Vec<f64> {
    let n = b.len();
    let mut x = b.to_vec();
    for i in (0..n).rev() {
        let dot: f64 = (i + 1..n).map(|k| factor[k * n + i] * x[k]).sum();
        x[i] = (x[i] - dot) / factor[i * n + i];
    }
    x
}

/// How much higher than `best` a normally distributed value is expected to be, counting lower ones as 0.
pub fn expected_improvement((mean, deviation): (f64, f64), best: f64) -> f64 {
    if deviation <= 0.0 {
        return (mean - best).max(0.0);
    }
    let z = (mean - best) / deviation;
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    deviation * (z * normal_below(z) + density)
}

/// The probability of less than `z` in the standard normal distribution, after Zelen and Severo (Abramowitz and Stegun 26.2.17); the
/// error is below 7.5e-8.
fn normal_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let polynomial = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() * polynomial;
    if z > 0.0 { 1.0 - tail } else { tail }
}
