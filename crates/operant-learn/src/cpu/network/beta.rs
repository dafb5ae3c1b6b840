//! Beta distributions in lanes, on (0, 1), with alpha and beta above 1 (docs/ppo.md, 2). Twin of `kernels/common/beta.cuh`.

use operant_lane::isa::f32x16;
use operant_lane::{Float, Mask};

use crate::cpu::network::reals::box_muller;
use crate::cpu::network::tile::fma;
use crate::network::BETA_ROUNDS;

/// Draws stay this far from 0 and 1, whose logarithms are infinite.
pub(crate) const MARGIN: f32 = 1e-6;

/// Half the logarithm of 2 pi.
const HALF_LOG_TAU: f32 = 0.918_938_5;

/// What Stirling's formula lacks of ln gamma(z), (z - 1/2) ln z - z + 1/2 ln(2 pi), and its first two derivatives, for z from 1 on: a polynomial in
/// 1/z, times 1/z, 1/z^2 and 1/z^3. Fits with an error below 1e-8.
const REST: [f32; 7] = [
    0.083_333_336,
    -1.822_395_5e-7,
    -2.772_524_5e-3,
    -5.343_459_3e-5,
    1.049_638_1e-3,
    -6.336_787_5e-4,
    1.383_177_4e-4,
];
const REST_SLOPE: [f32; 8] = [
    -0.083_333_34,
    1.917_667e-6,
    8.287_648e-3,
    4.237_475_5e-4,
    -5.935_221e-3,
    4.937_323_7e-3,
    -1.886_666_4e-3,
    2.889_277_2e-4,
];
const REST_CURVATURE: [f32; 8] = [
    0.166_666_73,
    -1.011_315_4e-5,
    -0.033_072_107,
    -2.641_956e-3,
    0.037_255_727,
    -0.037_192_307,
    0.017_166_274,
    -3.238_177_6e-3,
];

/// The distribution of 16 samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beta {
    alpha: f32x16,
    beta: f32x16,
}

fn one(x: f32) -> f32x16 {
    f32x16::splat(x)
}

fn polynomial(coefficients: &[f32], x: f32x16) -> f32x16 {
    coefficients.iter().rev().fold(f32x16::ZERO, |sum, &c| fma(sum, x, one(c)))
}

/// ln gamma(z) + z
fn log_gamma(z: f32x16) -> f32x16 {
    let t = f32x16::ONE / z;
    fma(z - one(0.5), Float::ln(z), fma(polynomial(&REST, t), t, one(HALF_LOG_TAU)))
}

/// The derivative of ln gamma.
fn digamma(z: f32x16) -> f32x16 {
    let t = f32x16::ONE / z;
    fma(fma(polynomial(&REST_SLOPE, t), t, one(-0.5)), t, Float::ln(z))
}

/// The derivative of [`digamma`].
fn trigamma(z: f32x16) -> f32x16 {
    let t = f32x16::ONE / z;
    fma(fma(polynomial(&REST_CURVATURE, t), t, one(0.5)), t, f32x16::ONE) * t
}

/// ln(1 + exp(x))
fn softplus(x: f32x16) -> f32x16 {
    Float::max(x, f32x16::ZERO) + Float::ln(f32x16::ONE + Float::exp(-Float::abs(x)))
}

fn sigmoid(x: f32x16) -> f32x16 {
    fma(Float::tanh(x * one(0.5)), one(0.5), one(0.5))
}

impl Beta {
    /// With alpha and beta of 1 + softplus of the network's outputs.
    pub fn of(outputs: [f32x16; 2]) -> Self {
        let [alpha, beta] = outputs.map(|x| f32x16::ONE + softplus(x));
        Self { alpha, beta }
    }

    pub fn mean(self) -> f32x16 {
        self.alpha / (self.alpha + self.beta)
    }

    /// A draw from [`BETA_ROUNDS`] x 4 uniform numbers: two gamma variates, each the first accepted one of as many rounds (Marsaglia and Tsang
    /// 2000) or the last. A round accepts at least 95%.
    pub fn sample(self, uniform: impl Fn(usize) -> f32x16) -> f32x16 {
        let shapes = [self.alpha, self.beta].map(|shape| {
            let d = shape - one(1.0 / 3.0);
            (d, f32x16::ONE / Float::sqrt(d * one(9.0)))
        });
        let mut gammas = [f32x16::ONE; 2];
        let mut open = [Float::eq(f32x16::ZERO, f32x16::ZERO); 2];
        for round in 0..BETA_ROUNDS {
            let normals = box_muller(&[uniform(4 * round)], &[uniform(4 * round + 1)]);
            for side in 0..2 {
                let ((d, c), [normal]) = (shapes[side], normals[side]);
                let root = fma(c, normal, f32x16::ONE);
                // Where the root is not positive, its logarithm is so small that nothing is accepted.
                let positive = Float::max(root, one(1e-10));
                let (v, log_v) = (positive * positive * positive, Float::ln(positive) * one(3.0));
                let bound = fma(normal * one(0.5), normal, d * (f32x16::ONE - v + log_v));
                let accepted = Float::lt(Float::ln(f32x16::ONE - uniform(4 * round + 2 + side)), bound);
                gammas[side] = open[side].select(d * v, gammas[side]);
                open[side] = open[side] & !accepted;
            }
        }
        let [a, b] = gammas;
        Float::clamp(a / (a + b), one(MARGIN), one(1.0 - MARGIN))
    }

    /// ln of the Beta function.
    fn log_norm(self) -> f32x16 {
        log_gamma(self.alpha) + log_gamma(self.beta) - log_gamma(self.alpha + self.beta)
    }

    pub fn logprob(self, x: f32x16) -> f32x16 {
        let of_one = (self.beta - f32x16::ONE) * Float::ln(f32x16::ONE - x);
        fma(self.alpha - f32x16::ONE, Float::ln(x), of_one) - self.log_norm()
    }

    pub fn entropy(self) -> f32x16 {
        let Self { alpha, beta } = self;
        let sum = alpha + beta;
        let of_both = fma(alpha - f32x16::ONE, digamma(alpha), (beta - f32x16::ONE) * digamma(beta));
        self.log_norm() + fma(sum - one(2.0), digamma(sum), -of_both)
    }

    /// The gradient of `by_logprob * logprob + by_entropy * entropy` with respect to the outputs that it was made of.
    pub fn gradient(
        self,
        outputs: [f32x16; 2],
        x: f32x16,
        [by_logprob, by_entropy]: [f32x16; 2],
    ) -> [f32x16; 2] {
        let sum = self.alpha + self.beta;
        let of_sum = [digamma(sum), (sum - one(2.0)) * trigamma(sum)];
        let sides = [(self.alpha, x), (self.beta, f32x16::ONE - x)];
        core::array::from_fn(|side| {
            let (shape, x) = sides[side];
            let d_logprob = Float::ln(x) - digamma(shape) + of_sum[0];
            let d_entropy = fma(f32x16::ONE - shape, trigamma(shape), of_sum[1]);
            fma(by_logprob, d_logprob, by_entropy * d_entropy) * sigmoid(outputs[side])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distribution with these parameters in all lanes.
    fn beta(alpha: f64, beta: f64) -> Beta {
        Beta { alpha: one(alpha as f32), beta: one(beta as f32) }
    }

    #[test]
    fn draws_have_the_mean_and_the_variance_of_the_distribution() {
        for (a, b) in [(1.0, 1.0), (1.2, 3.0), (8.0, 2.5), (60.0, 90.0)] {
            let (mut sum, mut squares, mut state) = (0.0, 0.0, 1u64);
            const DRAWS: usize = 2_000;
            for _ in 0..DRAWS {
                let uniforms: [f32x16; 4 * BETA_ROUNDS] = core::array::from_fn(|_| {
                    f32x16::new(core::array::from_fn(|_| {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        (state >> 40) as f32 / (1 << 24) as f32
                    }))
                });
                for x in beta(a, b).sample(|k| uniforms[k]).to_array() {
                    assert!((MARGIN..=1.0 - MARGIN).contains(&x));
                    sum += f64::from(x);
                    squares += f64::from(x) * f64::from(x);
                }
            }
            let n = (16 * DRAWS) as f64;
            let (mean, variance) = (sum / n, squares / n - (sum / n).powi(2));
            let expected = a * b / ((a + b).powi(2) * (a + b + 1.0));
            assert!((mean - a / (a + b)).abs() < 4.0 * (expected / n).sqrt(), "{a} {b}: mean {mean}");
            assert!((variance / expected - 1.0).abs() < 0.04, "{a} {b}: variance {variance}");
        }
    }

    /// Gamma and its derivatives at whole and half numbers, by their recurrences.
    #[test]
    fn gamma_s_logarithm_and_derivatives_are_exact_to_single_precision() {
        const EULER: f64 = 0.577_215_664_901_532_9;
        let squared_pi = core::f64::consts::PI.powi(2);
        let (mut ln, mut psi, mut psi1) = (0.0f64, -EULER, squared_pi / 6.0);
        for n in 1..=300 {
            let z = f64::from(n);
            let near = |what: &str, ours: f32x16, exact: f64| {
                let ours = f64::from(ours.to_array()[0]);
                assert!((ours - exact).abs() < 3e-7 * exact.abs().max(1.0), "{what}({z}): {ours}, {exact}");
            };
            near("ln gamma", log_gamma(one(n as f32)), ln + z);
            near("digamma", digamma(one(n as f32)), psi);
            near("trigamma", trigamma(one(n as f32)), psi1);
            (ln, psi, psi1) = (ln + z.ln(), psi + 1.0 / z, psi1 - 1.0 / (z * z));
        }
    }
}
