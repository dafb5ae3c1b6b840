//! Distributions of real actions in lanes (docs/ppo.md, 2): sampling, log-probability, entropy and their gradients.

use core::f32::consts::{LN_2, PI, TAU};

use operant_env::ActionSpace;
use operant_lane::Float;
use operant_lane::isa::f32x16;

use crate::config::{ActionDistribution, LogStd};
use crate::cpu::network::beta::{Beta, MARGIN};
use crate::cpu::network::tile::{Row, fma, map, splat};
use crate::network::{BETA_ROUNDS, Continuous, Head};

/// What an evaluation leaves for the gradient.
#[derive(Debug, Clone)]
pub(crate) struct RealHead<const V: usize> {
    /// `[action]`: distances from the mean in standard deviations.
    distances: Vec<Row<V>>,
    /// `[action]`: log standard deviations that the network computes.
    log_std: Vec<Row<V>>,
    /// `[output]`: those of a Beta distribution.
    outputs: Vec<Row<V>>,
}

/// The log standard deviation of an action: of all samples, or of each.
#[derive(Clone, Copy)]
enum Spread<const V: usize> {
    Same(f32),
    Each(Row<V>),
}

impl<const V: usize> Spread<V> {
    fn std(self) -> Row<V> {
        match self {
            Self::Same(log_std) => splat(Float::exp(log_std)),
            Self::Each(log_std) => map(log_std, Float::exp),
        }
    }

    /// 1 / std
    fn precision(self) -> Row<V> {
        match self {
            Self::Same(log_std) => Self::Same(-log_std).std(),
            Self::Each(log_std) => Self::Each(map(log_std, |x| -x)).std(),
        }
    }

    fn row(self) -> Row<V> {
        match self {
            Self::Same(log_std) => splat(log_std),
            Self::Each(log_std) => log_std,
        }
    }
}

/// Why there is no density.
const DETERMINISTIC: &str = "a deterministic policy has no density";

impl<const V: usize> RealHead<V> {
    pub fn new(head: &Head) -> Self {
        let rows = |count| vec![splat(0.0); count];
        let (actions, computed, outputs) = match head {
            Head::MultiDiscrete(_) => (0, 0, 0),
            Head::Continuous(of) if of.distribution == ActionDistribution::Beta => (0, 0, 2 * of.actions),
            Head::Continuous(of) => (of.actions, if of.computes_log_std() { of.actions } else { 0 }, 0),
        };
        Self { distances: rows(actions), log_std: rows(computed), outputs: rows(outputs) }
    }

    /// The log standard deviation of action `k`, from the outputs or from the parameters.
    fn spread(of: &Continuous, outputs: &[Row<V>], log_std: &[f32], k: usize) -> Spread<V> {
        match of.log_std {
            Some(LogStd::Parameter) => Spread::Same(log_std[k]),
            Some(LogStd::Network) => Spread::Each(map(outputs[of.actions + k], bounded)),
            None => unreachable!("{DETERMINISTIC}"),
        }
    }

    pub fn sample(
        &mut self,
        of: &Continuous,
        outputs: &[Row<V>],
        log_std: &[f32],
        uniforms: &[Row<V>],
        actions: &mut [Row<V>],
    ) -> Row<V> {
        if of.distribution == ActionDistribution::Beta {
            let uniforms = uniforms.chunks(4 * BETA_ROUNDS);
            for ((k, action), uniforms) in actions.iter_mut().enumerate().zip(uniforms) {
                *action = core::array::from_fn(|v| beta(of, outputs, k, v).sample(|draw| uniforms[draw][v]));
            }
            return self.evaluate(of, outputs, log_std, actions).0;
        }
        for (pair, uniforms) in uniforms.chunks(2).enumerate() {
            let normals = box_muller(&uniforms[0], &uniforms[1]);
            for (k, normal) in (2 * pair..of.actions).zip(normals) {
                let std = Self::spread(of, outputs, log_std, k).std();
                actions[k] = core::array::from_fn(|v| fma(std[v], normal[v], outputs[k][v]));
            }
        }
        self.evaluate(of, outputs, log_std, actions).0
    }

    pub fn evaluate(
        &mut self,
        of: &Continuous,
        outputs: &[Row<V>],
        log_std: &[f32],
        actions: &[Row<V>],
    ) -> (Row<V>, Row<V>) {
        let half_log_tau = 0.5 * Float::ln(TAU);
        let (mut logprob, mut entropy): (Row<V>, Row<V>) = (splat(0.0), splat(0.0));
        if of.distribution == ActionDistribution::Beta {
            self.outputs.copy_from_slice(outputs);
            for (k, action) in actions.iter().enumerate() {
                for v in 0..V {
                    let beta = beta(of, outputs, k, v);
                    logprob[v] += beta.logprob(action[v]);
                    entropy[v] += beta.entropy();
                }
            }
            return (logprob, entropy);
        }
        for (k, (mean, action)) in outputs.iter().zip(actions).enumerate() {
            let spread = Self::spread(of, outputs, log_std, k);
            let (precision, log_std) = (spread.precision(), spread.row());
            let (half, constant) = (f32x16::splat(-0.5), f32x16::splat(half_log_tau));
            let distance: Row<V> = core::array::from_fn(|v| (action[v] - mean[v]) * precision[v]);
            for v in 0..V {
                logprob[v] += fma(distance[v] * half, distance[v], -(log_std[v] + constant));
                entropy[v] += f32x16::splat(0.5 + half_log_tau) + log_std[v];
                if of.distribution == ActionDistribution::Tanh {
                    let log_slope = log_slope(action[v]);
                    logprob[v] -= log_slope;
                    entropy[v] += log_slope;
                }
            }
            self.distances[k] = distance;
            if let Spread::Each(log_std) = spread {
                self.log_std[k] = log_std;
            }
        }
        (logprob, entropy)
    }

    pub fn gradient(
        &self,
        of: &Continuous,
        log_std: &[f32],
        actions: &[Row<V>],
        [by_logprob, by_entropy]: [&Row<V>; 2],
        d_outputs: &mut [Row<V>],
        d_log_std: &mut [f32x16],
    ) {
        let (d_means, d_computed) = d_outputs.split_at_mut(of.actions);
        if of.distribution == ActionDistribution::Beta {
            for k in 0..of.actions {
                for v in 0..V {
                    let own = [self.outputs[k][v], self.outputs[of.actions + k][v]];
                    let by = [by_logprob[v], by_entropy[v]];
                    [d_means[k][v], d_computed[k][v]] = Beta::of(own).gradient(own, actions[k][v], by);
                }
            }
            return;
        }
        for (k, (d_mean, distance)) in d_means.iter_mut().zip(&self.distances).enumerate() {
            let spread = match of.log_std {
                Some(LogStd::Parameter) => Spread::Same(log_std[k]),
                Some(LogStd::Network) => Spread::Each(self.log_std[k]),
                None => unreachable!("{DETERMINISTIC}"),
            };
            let precision = spread.precision();
            *d_mean = core::array::from_fn(|v| by_logprob[v] * distance[v] * precision[v]);
            let mut d_spread: Row<V> = core::array::from_fn(|v| {
                let squared = fma(distance[v], distance[v], -f32x16::ONE);
                fma(by_logprob[v], squared, by_entropy[v])
            });
            if of.distribution == ActionDistribution::Tanh {
                // The sample's action moves with its mean and deviation, at its distance.
                let std = spread.std();
                for v in 0..V {
                    let by_action = by_entropy[v] * (Float::tanh(actions[k][v]) * f32x16::splat(-2.0));
                    d_mean[v] += by_action;
                    d_spread[v] = fma(by_action, distance[v] * std[v], d_spread[v]);
                }
            }
            match spread {
                Spread::Same(_) => d_spread.iter().for_each(|d| d_log_std[k] += *d),
                Spread::Each(log_std) => {
                    d_computed[k] = core::array::from_fn(|v| d_spread[v] * slope_of_bounded(log_std[v]));
                }
            }
        }
    }
}

/// The Beta distribution of action `k` for the samples of vector `v`.
fn beta<const V: usize>(of: &Continuous, outputs: &[Row<V>], k: usize, v: usize) -> Beta {
    Beta::of([outputs[k][v], outputs[of.actions + k][v]])
}

/// Actions that are uniform within the box once they are squashed.
pub(crate) fn random<const V: usize>(uniforms: &[Row<V>], actions: &mut [Row<V>]) {
    for (action, uniform) in actions.iter_mut().zip(uniforms) {
        *action = map(*uniform, |x| before_tanh(fma(x, f32x16::splat(2.0), -f32x16::ONE)));
    }
}

/// Actions that, once they are squashed, have normal noise of this deviation, and are clipped to the box.
pub(crate) fn noisy<const V: usize>(
    outputs: &[Row<V>],
    noise: f32,
    uniforms: &[Row<V>],
    actions: &mut [Row<V>],
) {
    let noise = f32x16::splat(noise);
    let pairs = actions.chunks_mut(2).zip(outputs.chunks(2)).zip(uniforms.chunks(2));
    for ((actions, outputs), uniforms) in pairs {
        let normals = box_muller(&uniforms[0], &uniforms[1]);
        for ((action, output), normal) in actions.iter_mut().zip(outputs).zip(normals) {
            *action = core::array::from_fn(|v| before_tanh(fma(normal[v], noise, Float::tanh(output[v]))));
        }
    }
}

/// The number that tanh makes this one, clipped to what single precision has just within -1 and 1.
fn before_tanh(x: f32x16) -> f32x16 {
    let most = f32x16::splat(1.0 - 1e-6);
    let squashed = Float::clamp(x, -most, most);
    Float::ln((f32x16::ONE + squashed) / (f32x16::ONE - squashed)) * f32x16::splat(0.5)
}

/// The mean, before it is squashed.
pub(crate) fn greedy<const V: usize>(of: &Continuous, outputs: &[Row<V>], actions: &mut [Row<V>]) {
    if of.distribution == ActionDistribution::Beta {
        for (k, action) in actions.iter_mut().enumerate() {
            *action = core::array::from_fn(|v| beta(of, outputs, k, v).mean());
        }
    } else {
        actions.copy_from_slice(&outputs[..of.actions]);
    }
}

/// Actions as environments take them: of those that were drawn, real ones are clipped to the box or squashed into it.
pub(crate) fn taken<const V: usize>(
    head: &Head,
    space: &ActionSpace,
    drawn: &[Row<V>],
    taken: &mut [Row<V>],
) {
    let (Head::Continuous(of), ActionSpace::Box { low, high }) = (head, space) else {
        return taken.copy_from_slice(drawn);
    };
    for (component, (to, from)) in taken.iter_mut().zip(drawn).enumerate() {
        let (low, high) = (low[component] as f32, high[component] as f32);
        let [least, most] = [low, high].map(f32x16::splat);
        *to = match of.distribution {
            ActionDistribution::Normal => map(*from, |x| Float::clamp(x, least, most)),
            ActionDistribution::Tanh => {
                let [centre, radius] = centre_and_radius(low, high).map(f32x16::splat);
                map(*from, |x| Float::clamp(fma(Float::tanh(x), radius, centre), least, most))
            }
            ActionDistribution::Beta => {
                map(*from, |x| Float::clamp(fma(x, most - least, least), least, most))
            }
        };
    }
}

/// What a sample holds for an action within the box: the inverse of [`taken`], with finite numbers at the bounds.
pub(crate) fn drawn(head: &Head, space: &ActionSpace, component: usize, action: f32) -> f32 {
    let (Head::Continuous(of), ActionSpace::Box { low, high }) = (head, space) else { return action };
    match of.distribution {
        ActionDistribution::Normal => action,
        ActionDistribution::Tanh => {
            let [centre, radius] = centre_and_radius(low[component] as f32, high[component] as f32);
            let x = ((action - centre) / radius).clamp(-1.0 + 1e-6, 1.0 - 1e-6);
            0.5 * Float::ln((1.0 + x) / (1.0 - x))
        }
        ActionDistribution::Beta => {
            let (low, high) = (low[component] as f32, high[component] as f32);
            ((action - low) / (high - low)).clamp(MARGIN, 1.0 - MARGIN)
        }
    }
}

fn centre_and_radius(low: f32, high: f32) -> [f32; 2] {
    [0.5 * (low + high), 0.5 * (high - low)]
}

/// A log standard deviation between the bounds of [`LogStd`], with a slope of 1 in their middle.
#[inline(always)]
pub(crate) fn bounded(x: f32x16) -> f32x16 {
    let [centre, radius] = LogStd::CENTRE_AND_RADIUS.map(f32x16::splat);
    fma(Float::tanh((x - centre) * f32x16::splat(1.0 / LogStd::CENTRE_AND_RADIUS[1])), radius, centre)
}

/// The slope of [`bounded`] by its value.
#[inline(always)]
pub(crate) fn slope_of_bounded(log_std: f32x16) -> f32x16 {
    let [centre, radius] = LogStd::CENTRE_AND_RADIUS;
    let share = (log_std - f32x16::splat(centre)) * f32x16::splat(1.0 / radius);
    fma(-share, share, f32x16::ONE)
}

/// ln(1 - tanh(x)^2) = 2 (ln 2 - |x| - ln(1 + exp(-2 |x|)))
#[inline(always)]
pub(crate) fn log_slope(x: f32x16) -> f32x16 {
    let size = Float::abs(x);
    let rest = Float::ln(f32x16::ONE + Float::exp(size * f32x16::splat(-2.0)));
    (f32x16::splat(LN_2) - size - rest) * f32x16::splat(2.0)
}

/// Two independent standard normals from two uniform numbers in [0, 1).
#[inline]
pub(crate) fn box_muller<const V: usize>(radius: &Row<V>, angle: &Row<V>) -> [Row<V>; 2] {
    let mut normals = [splat(0.0); 2];
    for v in 0..V {
        // 1 - u is in (0, 1], whose logarithm is finite.
        let radius = Float::sqrt(Float::ln(f32x16::ONE - radius[v]) * f32x16::splat(-2.0));
        let (sin, cos) = Float::sin_cos(angle[v] * f32x16::splat(2.0 * PI));
        normals[0][v] = radius * cos;
        normals[1][v] = radius * sin;
    }
    normals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::cpu::network::heads::PolicyHead;

    fn uniforms(step: usize) -> Row<4> {
        core::array::from_fn(|v| {
            f32x16::new(core::array::from_fn(|l| ((step * 64 + v * 16 + l) as f32 + 0.5) / 6_400.0))
        })
    }

    #[test]
    fn actions_within_the_box_come_back_from_their_draws() {
        let space = ActionSpace::Box { low: vec![-1.0, 0.5], high: vec![3.0, 0.75] };
        for action_distribution in ActionDistribution::ALL {
            let head = Head::continuous(2, &Config { action_distribution, ..Config::default() });
            for (component, action) in [(0, -0.5), (0, 2.9), (1, 0.6)] {
                let mut actions = [splat::<1>(0.0); 2];
                actions[component] = splat(drawn(&head, &space, component, action));
                taken(&head, &space, &actions.clone(), &mut actions);
                let got = actions[component][0].to_array()[0];
                assert!((got - action).abs() < 1e-5, "{action_distribution}: {got} and not {action}");
            }
            assert!(drawn(&head, &space, 0, 3.0).is_finite());
        }
    }

    #[test]
    fn deviations_of_a_network_begin_where_the_setting_says() {
        for log_std in [-4.9, -1.5, 0.0, 1.9] {
            let output = LogStd::output(log_std).expect("between the bounds");
            let got = bounded(f32x16::splat(output as f32)).to_array()[0];
            assert!((f64::from(got) - log_std).abs() < 1e-5, "{got} and not {log_std}");
        }
        assert_eq!([-5.0, 2.0].map(LogStd::output), [None; 2]);
    }

    #[test]
    fn gaussian_samples_have_their_mean_and_deviation() {
        let mut policy = PolicyHead::<4>::new(&Head::gaussian(3));
        let means: Vec<Row<4>> = [1.0, -2.0, 0.5].into_iter().map(splat).collect();
        let log_std = [0.5f32, -1.0, 0.0];
        let (mut sum, mut squares, mut n) = ([0.0; 3], [0.0; 3], 0.0);
        for a in 0..100 {
            let rows = [
                uniforms(a),
                uniforms((a * 37 + 11) % 100),
                uniforms((a * 7 + 3) % 100),
                uniforms((a * 61 + 5) % 100),
            ];
            // Lanes of the second row are rotated so that pairs are not the same number twice.
            let turned = |row: Row<4>| {
                row.map(|v| {
                    let mut a = v.to_array();
                    a.reverse();
                    f32x16::new(a)
                })
            };
            let mut actions = vec![splat(0.0); 3];
            policy.sample(
                &means,
                &log_std,
                &[rows[0], turned(rows[1]), rows[2], turned(rows[3])],
                &mut actions,
            );
            for (k, row) in actions.iter().enumerate() {
                for value in row.iter().flat_map(|v| v.to_array()) {
                    sum[k] += f64::from(value);
                    squares[k] += f64::from(value).powi(2);
                }
            }
            n += 64.0;
        }
        for k in 0..3 {
            let mean = sum[k] / n;
            let std = (squares[k] / n - mean * mean).sqrt();
            let expected = f64::from(log_std[k]).exp();
            assert!((mean - [1.0, -2.0, 0.5][k]).abs() < 0.05 * expected, "{k}: mean {mean}");
            assert!((std / expected - 1.0).abs() < 0.05, "{k}: std {std}");
        }
    }
}
