//! Running statistics for the normalisation of observations and rewards.
//!
//! They are frozen during a rollout and merged at its end in a fixed order, so neither threads nor the order in which
//! environments finish can change a bit.

/// Mean and variance of a stream, per feature, in f64. Initialised with a small pseudo-count, as in Gymnasium.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningNorm {
    /// `(features)`.
    pub mean: Vec<f64>,
    /// `(features)`, population variance.
    pub var: Vec<f64>,
    /// Samples seen.
    pub count: f64,
}

/// Sums of a part of a rollout, to be merged into a [`RunningNorm`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NormSums {
    /// Samples.
    pub count: f64,
    /// `(features)`.
    mean: Vec<f64>,
    /// Sums of squared distances from the mean, `(features)`.
    squares: Vec<f64>,
}

/// Added to the variance before its root is taken.
const EPSILON: f64 = 1e-8;

impl RunningNorm {
    /// Mean 0 and variance 1 with almost no weight.
    pub fn new(features: usize) -> Self {
        Self { mean: vec![0.0; features], var: vec![1.0; features], count: 1e-4 }
    }

    /// Merges parts in the order given (Chan, Golub and LeVeque 1979). Empty parts change nothing.
    pub fn merge<'a>(&mut self, parts: impl IntoIterator<Item = &'a NormSums>) {
        for part in parts {
            if part.count == 0.0 {
                continue;
            }
            let total = self.count + part.count;
            for (k, (mean, var)) in self.mean.iter_mut().zip(&mut self.var).enumerate() {
                let delta = part.mean[k] - *mean;
                let squares =
                    *var * self.count + part.squares[k] + delta * delta * (self.count * part.count / total);
                *mean += delta * (part.count / total);
                *var = squares / total;
            }
            self.count = total;
        }
    }

    /// `(shift, scale)` per feature: the normalised value is `(x - shift) scale`.
    pub fn shift_scale(&self) -> Vec<(f32, f32)> {
        self.mean.iter().zip(&self.var).map(|(&mean, &var)| (mean as f32, reciprocal_root(var))).collect()
    }

    /// Statistics of this weight with these values of [`RunningNorm::shift_scale`].
    pub fn of_shift_scale(shift: &[f32], scale: &[f32], count: f64) -> Self {
        let var = scale.iter().map(|&scale| (f64::from(scale).powi(-2) - EPSILON).max(0.0));
        Self { mean: shift.iter().map(|&x| f64::from(x)).collect(), var: var.collect(), count }
    }

    /// `1 / std` of feature 0, for rewards, which keep their mean.
    pub fn scale(&self) -> f32 {
        reciprocal_root(self.var[0])
    }
}

impl RunningNorm {
    /// The deviation of feature 0; None without features.
    pub fn deviation(&self) -> Option<f64> {
        self.var.first().map(|var| (var + EPSILON).sqrt())
    }
}

fn reciprocal_root(var: f64) -> f32 {
    (1.0 / (var + EPSILON).sqrt()) as f32
}

impl NormSums {
    /// Empty sums of `features` features.
    pub fn new(features: usize) -> Self {
        Self { count: 0.0, mean: vec![0.0; features], squares: vec![0.0; features] }
    }

    /// As numbers, to be sent.
    pub fn numbers(&self) -> impl Iterator<Item = f64> {
        std::iter::once(self.count).chain(self.mean.iter().chain(&self.squares).copied())
    }

    /// The inverse of [`NormSums::numbers`].
    pub fn of(numbers: &[f64]) -> Self {
        let (mean, squares) = numbers[1..].split_at((numbers.len() - 1) / 2);
        Self { count: numbers[0], mean: mean.to_vec(), squares: squares.to_vec() }
    }

    /// Resets the sums.
    pub fn clear(&mut self) {
        self.count = 0.0;
        self.mean.fill(0.0);
        self.squares.fill(0.0);
    }

    /// Adds one step of a tile: `values(feature)` gives the samples' values in order, all features equally many. Within
    /// the step mean and squares are taken in two passes; steps are merged as they come.
    pub fn add<'a>(&mut self, samples: usize, values: impl Fn(usize) -> &'a [f32]) {
        if samples == 0 {
            return;
        }
        let count = samples as f64;
        let total = self.count + count;
        for (k, (mean, squares)) in self.mean.iter_mut().zip(&mut self.squares).enumerate() {
            let values = &values(k)[..samples];
            let here = values.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
            let spread = values.iter().map(|&x| (f64::from(x) - here).powi(2)).sum::<f64>();
            let delta = here - *mean;
            *squares += spread + delta * delta * (self.count * count / total);
            *mean += delta * (count / total);
        }
        self.count = total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_follow_from_shift_and_scale() {
        let norm = RunningNorm { mean: vec![-3.5, 0.25], var: vec![4.0, 0.0], count: 7.0 };
        let (shift, scale): (Vec<f32>, Vec<f32>) = norm.shift_scale().into_iter().unzip();
        let back = RunningNorm::of_shift_scale(&shift, &scale, 7.0);
        assert_eq!((&back.mean, back.count), (&norm.mean, norm.count));
        assert!(back.var.iter().zip(&norm.var).all(|(a, b)| (a - b).abs() < 1e-6), "{back:?}");
        assert_eq!(back.shift_scale(), norm.shift_scale());
    }

    #[test]
    fn merged_parts_equal_the_whole() {
        let data: Vec<[f32; 2]> =
            (0..1_000).map(|i| [(i * 37 % 101) as f32 + 1e4, (i % 7) as f32 * 1e-3]).collect();
        let mut parts = vec![NormSums::new(2); 4];
        for (p, part) in parts.iter_mut().enumerate().take(3) {
            for step in data[p * 300..data.len().min(p * 300 + 300 + 100 * (p / 2))].chunks(17) {
                let columns: [Vec<f32>; 2] = std::array::from_fn(|k| step.iter().map(|x| x[k]).collect());
                part.add(step.len(), |k| &columns[k]);
            }
        }
        let mut norm = RunningNorm::new(2);
        norm.count = 0.0;
        norm.merge(&parts);
        assert_eq!(norm.count, 1_000.0);
        for k in 0..2 {
            let mean = data.iter().map(|x| f64::from(x[k])).sum::<f64>() / 1e3;
            let var = data.iter().map(|x| (f64::from(x[k]) - mean).powi(2)).sum::<f64>() / 1e3;
            assert!((norm.mean[k] / mean - 1.0).abs() < 1e-12);
            assert!((norm.var[k] / var - 1.0).abs() < 1e-9);
        }
    }
}
