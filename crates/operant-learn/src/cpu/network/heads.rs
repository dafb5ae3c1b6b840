//! The policy's distributions in lanes: sampling, the greedy action, log-probability, entropy and their gradients. Those of real numbers are
//! in `reals`.
//!
//! Actions are rows of floats: the index of the choice, exact, or the real number itself.

use operant_lane::isa::{f32x16, u32x16};
use operant_lane::{Float, Mask};

use crate::cpu::network::policy::Activations;
use crate::cpu::network::reals::{self, RealHead};
use crate::cpu::network::tile::{BitRow, LANES, Row, fma, splat};
use crate::network::{Architecture, Continuous, Head, Outputs};

/// Logit given to an illegal action; its probability is exactly zero.
const ILLEGAL: f32 = -1e8;

/// A policy head, or one of action values, over V x 16 environments or samples, and its scratch space.
#[derive(Debug, Clone)]
pub struct PolicyHead<const V: usize> {
    head: Head,
    outputs: Outputs,
    /// Share of random actions of a head of action values; deviation of the noise of a deterministic policy; infinity where all actions
    /// are random.
    epsilon: f32,
    /// `[logit]`: 1 where the action is legal, 0 elsewhere.
    legal: Vec<Row<V>>,
    masked: bool,
    /// `[logit]`.
    probs: Vec<Row<V>>,
    /// `[logit]`.
    logprobs: Vec<Row<V>>,
    /// `[component]`.
    entropies: Vec<Row<V>>,
    reals: RealHead<V>,
}

impl<const V: usize> PolicyHead<V> {
    /// The head of a network; all actions are legal.
    pub fn of(architecture: &Architecture) -> Self {
        let Architecture { head, outputs, exploration, .. } = architecture;
        Self { outputs: *outputs, epsilon: *exploration as f32, ..Self::new(head) }
    }

    /// A policy head; all actions are legal.
    pub fn new(head: &Head) -> Self {
        let (outputs, components) = (head.outputs(), head.components());
        Self {
            head: head.clone(),
            outputs: Outputs::PolicyAndValue,
            epsilon: 0.0,
            legal: vec![splat(1.0); outputs],
            masked: false,
            probs: vec![splat(0.0); outputs],
            logprobs: vec![splat(0.0); outputs],
            entropies: vec![splat(0.0); components],
            reals: RealHead::new(head),
        }
    }

    /// Sets the share of random actions of a head of action values, or the noise of a deterministic policy. At infinity all actions are
    /// random.
    pub fn explore(&mut self, epsilon: f32) {
        self.epsilon = epsilon;
    }

    /// Choices of each component; none of real actions.
    pub fn choices(&self) -> &[usize] {
        match &self.head {
            Head::MultiDiscrete(counts) => counts,
            Head::Continuous(_) => &[],
        }
    }

    /// The value of the observation: what the network computed, or the value of the best legal action, the mean over its components. NaN
    /// where the network has values of actions that are real numbers.
    pub fn value(&self, activations: &Activations<V>) -> Row<V> {
        match self.outputs {
            Outputs::PolicyAndValue => return activations.value(),
            Outputs::PolicyAndCritics | Outputs::ActionAndCritics => return splat(f32::NAN),
            Outputs::ActionValues => {}
        }
        let (values, counts) = (activations.policy(), self.choices());
        let share = f32x16::splat(1.0 / counts.len() as f32);
        let (mut mean, mut first) = (splat(0.0), 0);
        for &count in counts {
            for v in 0..V {
                let value = |k: usize| self.masked_logit(values, first + k, v);
                let best = (1..count).fold(value(0), |best, k| Float::max(best, value(k)));
                mean[v] = fma(best, share, mean[v]);
            }
            first += count;
        }
        mean
    }

    /// The value of `actions` by the values of choices, the mean over their components.
    pub fn value_of(&self, outputs: &[Row<V>], actions: &[Row<V>]) -> Row<V> {
        let counts = self.choices();
        let share = f32x16::splat(1.0 / counts.len() as f32);
        let (mut value, mut first) = (splat(0.0), 0);
        for (&count, action) in counts.iter().zip(actions) {
            for (k, q) in outputs[first..first + count].iter().enumerate() {
                for v in 0..V {
                    let taken = Float::eq(action[v], f32x16::splat(k as f32));
                    value[v] = taken.select(fma(q[v], share, value[v]), value[v]);
                }
            }
            first += count;
        }
        value
    }

    /// The gradient of `error weight scale` times [`PolicyHead::value_of`], where the first factors are constants.
    pub fn gradient_of_value(
        &self,
        error: &Row<V>,
        weight: &Row<V>,
        scale: f32,
        actions: &[Row<V>],
        d_outputs: &mut [Row<V>],
    ) {
        let counts = self.choices();
        let scale = f32x16::splat(1.0 / counts.len() as f32) * f32x16::splat(scale);
        let by_value: Row<V> = core::array::from_fn(|v| error[v] * (weight[v] * scale));
        let mut d_outputs = d_outputs.iter_mut();
        for (&count, action) in counts.iter().zip(actions) {
            for (k, to) in d_outputs.by_ref().take(count).enumerate() {
                *to = core::array::from_fn(|v| {
                    Float::eq(action[v], f32x16::splat(k as f32)).select(by_value[v], f32x16::ZERO)
                });
            }
        }
    }

    /// Sets the legal actions for the following calls, `[word]`: bit k % 32 of word k / 32 is logit k's. Every component needs
    /// at least one legal action. Real actions are all legal.
    pub fn set_mask(&mut self, words: &[BitRow<V>]) {
        self.masked = !words.is_empty();
        if !self.masked {
            return;
        }
        for (k, legal) in self.legal.iter_mut().enumerate() {
            let shift = (k % 32) as u32;
            *legal = core::array::from_fn(|v| {
                let bit = (words[k / 32][v] >> shift) & u32x16::splat(1);
                let bits = bit.to_array();
                f32x16::new(core::array::from_fn(|l| bits[l] as f32))
            });
        }
    }

    /// The first of `count` rows in which a component has no legal action.
    pub fn stuck(&self, count: usize) -> Option<usize> {
        let Head::MultiDiscrete(counts) = &self.head else { return None };
        let (mut rest, mut first) = (&self.legal[..], None);
        let count = count.min(V * LANES);
        for &choices in counts.iter().filter(|_| self.masked) {
            let (of_component, after) = rest.split_at(choices);
            rest = after;
            let legal = of_component
                .iter()
                .fold(splat::<V>(0.0), |sum, row| core::array::from_fn(|v| sum[v] + row[v]));
            // All lanes at once, since nearly always there is none.
            let has_none = |row: &f32x16| row.as_array().iter().fold(false, |any, &sum| any | (sum == 0.0));
            if !legal.iter().any(has_none) {
                continue;
            }
            let is_stuck = |&row: &usize| legal[row / LANES].as_array()[row % LANES] == 0.0;
            first = (0..count.min(first.unwrap_or(count))).find(is_stuck).or(first);
        }
        first
    }

    /// Draws actions, `[component]`, from the distribution whose parameters are `outputs` and
    /// `log_std`; `uniforms` are [`Head::uniforms`] rows of numbers in [0, 1). Returns their log-probability. Of action values it takes the
    /// greatest, or with probability epsilon any legal action, and returns zeros.
    pub fn sample(
        &mut self,
        outputs: &[Row<V>],
        log_std: &[f32],
        uniforms: &[Row<V>],
        actions: &mut [Row<V>],
    ) -> Row<V> {
        match &self.head {
            Head::MultiDiscrete(counts) if self.outputs == Outputs::ActionValues => {
                self.greedy(outputs, actions);
                let (mut first, epsilon) = (0, f32x16::splat(self.epsilon.min(1.0)));
                for ((&count, uniform), action) in counts.iter().zip(uniforms).zip(actions.iter_mut()) {
                    // Where the number is below epsilon, its fraction of epsilon is a number in [0, 1) too.
                    let fraction = core::array::from_fn(|v| uniform[v] / epsilon);
                    let random = inverse_cdf(&self.legal[first..first + count], &fraction);
                    for v in 0..V {
                        action[v] = Float::lt(uniform[v], epsilon).select(random[v], action[v]);
                    }
                    first += count;
                }
                splat(0.0)
            }
            Head::MultiDiscrete(counts) => {
                let mut first = 0;
                for ((&count, uniform), action) in counts.iter().zip(uniforms).zip(actions.iter_mut()) {
                    let range = first..first + count;
                    first += count;
                    let legal = self.masked.then(|| &self.legal[range.clone()]);
                    let probs = &mut self.probs[range.clone()];
                    softmax(&outputs[range.clone()], legal, probs, &mut self.logprobs[range]);
                    *action = inverse_cdf(probs, uniform);
                }
                chosen_logprob(counts, &self.logprobs, actions)
            }
            Head::Continuous(_) if self.epsilon == f32::INFINITY => {
                reals::random(uniforms, actions);
                splat(0.0)
            }
            Head::Continuous(Continuous { log_std: None, .. }) => {
                reals::noisy(outputs, self.epsilon, uniforms, actions);
                splat(0.0)
            }
            Head::Continuous(of) => self.reals.sample(of, outputs, log_std, uniforms, actions),
        }
    }

    /// The most likely action of each component (the first of equal ones); for real actions, the mean before it is squashed.
    pub fn greedy(&self, outputs: &[Row<V>], actions: &mut [Row<V>]) {
        match &self.head {
            Head::MultiDiscrete(counts) => {
                let mut first = 0;
                for (&count, action) in counts.iter().zip(actions) {
                    *action = core::array::from_fn(|v| {
                        let logit = |k: usize| self.masked_logit(outputs, k, v);
                        let (mut best, mut index) = (logit(first), f32x16::ZERO);
                        for k in 1..count {
                            let better = Float::gt(logit(first + k), best);
                            best = better.select(logit(first + k), best);
                            index = better.select(f32x16::splat(k as f32), index);
                        }
                        index
                    });
                    first += count;
                }
            }
            Head::Continuous(of) => reals::greedy(of, outputs, actions),
        }
    }

    /// Log-probability and entropy of `actions`, both summed over components; [`PolicyHead::gradient`] requires this call first.
    pub fn evaluate(&mut self, outputs: &[Row<V>], log_std: &[f32], actions: &[Row<V>]) -> (Row<V>, Row<V>) {
        match &self.head {
            Head::MultiDiscrete(counts) => {
                let (mut first, mut total) = (0, splat(0.0));
                for (&count, entropy) in counts.iter().zip(&mut self.entropies) {
                    let range = first..first + count;
                    first += count;
                    let legal = self.masked.then(|| &self.legal[range.clone()]);
                    let (probs, logprobs) =
                        (&mut self.probs[range.clone()], &mut self.logprobs[range.clone()]);
                    softmax(&outputs[range], legal, probs, logprobs);
                    *entropy = splat(0.0);
                    for (p, l) in probs.iter().zip(logprobs.iter()) {
                        *entropy = core::array::from_fn(|v| fma(-p[v], l[v], entropy[v]));
                    }
                    total = core::array::from_fn(|v| total[v] + entropy[v]);
                }
                (chosen_logprob(counts, &self.logprobs, actions), total)
            }
            Head::Continuous(of) => self.reals.evaluate(of, outputs, log_std, actions),
        }
    }

    /// After [`PolicyHead::evaluate`]: the gradient of `by_logprob * logprob + by_entropy * entropy` with respect to the
    /// outputs into `d_outputs`; the gradient of `log_std`, `[action]`, is added to `d_log_std`, lane by lane.
    pub fn gradient(
        &self,
        log_std: &[f32],
        actions: &[Row<V>],
        by_logprob: &Row<V>,
        by_entropy: &Row<V>,
        d_outputs: &mut [Row<V>],
        d_log_std: &mut [f32x16],
    ) {
        match &self.head {
            Head::MultiDiscrete(counts) => {
                let mut first = 0;
                for ((&count, action), entropy) in counts.iter().zip(actions).zip(&self.entropies) {
                    for k in 0..count {
                        let (p, l) = (&self.probs[first + k], &self.logprobs[first + k]);
                        let index = f32x16::splat(k as f32);
                        d_outputs[first + k] = core::array::from_fn(|v| {
                            let taken = Float::eq(action[v], index).select(f32x16::ONE, f32x16::ZERO);
                            let d_entropy = p[v] * (l[v] + entropy[v]);
                            fma(by_logprob[v], taken - p[v], -(by_entropy[v] * d_entropy))
                        });
                    }
                    first += count;
                }
            }
            Head::Continuous(of) => {
                self.reals.gradient(of, log_std, actions, [by_logprob, by_entropy], d_outputs, d_log_std);
            }
        }
    }

    #[inline(always)]
    fn masked_logit(&self, logits: &[Row<V>], k: usize, v: usize) -> f32x16 {
        if self.masked { mask_logit(logits[k][v], self.legal[k][v]) } else { logits[k][v] }
    }
}

/// `logit` where `legal` is 1, [`ILLEGAL`] where it is 0.
#[inline(always)]
fn mask_logit(logit: f32x16, legal: f32x16) -> f32x16 {
    Float::gt(legal, f32x16::ZERO).select(logit, f32x16::splat(ILLEGAL))
}

/// Probabilities and log-probabilities of one component, the largest logit subtracted first.
#[inline]
fn softmax<const V: usize>(
    logits: &[Row<V>],
    legal: Option<&[Row<V>]>,
    probs: &mut [Row<V>],
    logprobs: &mut [Row<V>],
) {
    match legal {
        None => logprobs.copy_from_slice(logits),
        Some(legal) => {
            for ((masked, logit), legal) in logprobs.iter_mut().zip(logits).zip(legal) {
                *masked = core::array::from_fn(|v| mask_logit(logit[v], legal[v]));
            }
        }
    }
    let mut greatest = logprobs[0];
    for logit in &logprobs[1..] {
        greatest = core::array::from_fn(|v| Float::max(greatest[v], logit[v]));
    }
    let mut total: Row<V> = splat(0.0);
    for (p, l) in probs.iter_mut().zip(logprobs.iter_mut()) {
        *l = core::array::from_fn(|v| l[v] - greatest[v]);
        *p = core::array::from_fn(|v| Float::exp(l[v]));
        total = core::array::from_fn(|v| total[v] + p[v]);
    }
    let log_total: Row<V> = core::array::from_fn(|v| Float::ln(total[v]));
    let scale: Row<V> = core::array::from_fn(|v| f32x16::ONE / total[v]);
    for (p, l) in probs.iter_mut().zip(logprobs) {
        *p = core::array::from_fn(|v| p[v] * scale[v]);
        *l = core::array::from_fn(|v| l[v] - log_total[v]);
    }
}

/// The first choice whose cumulative probability exceeds `uniform`; where rounding leaves none, the last possible one.
#[inline]
fn inverse_cdf<const V: usize>(probs: &[Row<V>], uniform: &Row<V>) -> Row<V> {
    core::array::from_fn(|v| {
        let total = probs.iter().fold(f32x16::ZERO, |sum, p| sum + p[v]);
        let threshold = uniform[v] * total;
        let (mut sum, mut index, mut last) = (f32x16::ZERO, f32x16::ZERO, f32x16::ZERO);
        for (k, p) in probs.iter().enumerate() {
            sum += p[v];
            index += Float::le(sum, threshold).select(f32x16::ONE, f32x16::ZERO);
            last = Float::gt(p[v], f32x16::ZERO).select(f32x16::splat(k as f32), last);
        }
        Float::min(index, last)
    })
}

/// The log-probabilities of the actions taken, summed over components.
#[inline]
fn chosen_logprob<const V: usize>(counts: &[usize], logprobs: &[Row<V>], actions: &[Row<V>]) -> Row<V> {
    let (mut first, mut total) = (0, splat(0.0));
    for (&count, action) in counts.iter().zip(actions) {
        for v in 0..V {
            let mut chosen = logprobs[first][v];
            for k in 1..count {
                chosen = Float::eq(action[v], f32x16::splat(k as f32)).select(logprobs[first + k][v], chosen);
            }
            total[v] += chosen;
        }
        first += count;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uniforms(step: usize) -> Row<4> {
        core::array::from_fn(|v| {
            f32x16::new(core::array::from_fn(|l| ((step * 64 + v * 16 + l) as f32 + 0.5) / 6_400.0))
        })
    }

    #[test]
    fn rows_without_a_legal_action_are_found() {
        let mut policy = PolicyHead::<4>::new(&Head::MultiDiscrete(vec![4, 2]));
        assert_eq!(policy.stuck(64), None, "without masks all actions are legal");
        let mut mask = [[u32x16::splat(0b10_0001); 4]];
        policy.set_mask(&mask);
        assert_eq!(policy.stuck(64), None);
        mask[0][2].as_mut_array()[5] = 0b00_1111;
        policy.set_mask(&mask);
        assert_eq!((policy.stuck(64), policy.stuck(37)), (Some(37), None));
        mask[0][1].as_mut_array()[15] = 0b11_0000;
        policy.set_mask(&mask);
        assert_eq!(policy.stuck(64), Some(31));
    }

    #[test]
    fn samples_follow_the_probabilities_and_the_mask() {
        let head = Head::MultiDiscrete(vec![4, 2]);
        let mut policy = PolicyHead::<4>::new(&head);
        // Action 2 of the first component is illegal everywhere.
        policy.set_mask(&[[u32x16::splat(0b11_1011); 4]]);
        let logits: Vec<Row<4>> = [0.0, 1.0, 5.0, 2.0, -1.0, 1.0].into_iter().map(splat).collect();
        let mut counts = [0; 4];
        let mut actions = vec![splat(0.0); 2];
        for step in 0..100 {
            let logprob = policy.sample(&logits, &[], &[uniforms(step), uniforms(99 - step)], &mut actions);
            let (again, _) = policy.evaluate(&logits, &[], &actions);
            assert_eq!(logprob.map(f32x16::to_array), again.map(f32x16::to_array));
            for vector in actions[0] {
                vector.to_array().iter().for_each(|&a| counts[a as usize] += 1);
            }
        }
        let total = 1.0 + 1f64.exp() + 2f64.exp();
        assert_eq!(counts[2], 0);
        for (count, weight) in counts.into_iter().zip([1.0, 1f64.exp(), 0.0, 2f64.exp()]) {
            assert!((f64::from(count) / 6_400.0 - weight / total).abs() < 1e-3, "{counts:?}");
        }
        policy.greedy(&logits, &mut actions);
        assert!(actions[0].iter().all(|v| v.to_array() == [3.0; 16]));
        assert!(actions[1].iter().all(|v| v.to_array() == [1.0; 16]));
    }

    #[test]
    fn greatest_and_least_uniforms_stay_legal() {
        let mut policy = PolicyHead::<1>::new(&Head::MultiDiscrete(vec![5]));
        policy.set_mask(&[[u32x16::splat(0b01110)]]);
        let logits = vec![splat(0.3); 5];
        let mut actions = [splat(0.0)];
        let most = 1.0 - f32::EPSILON / 2.0;
        policy.sample(&logits, &[], &[splat(most)], &mut actions);
        assert_eq!(actions[0][0].to_array(), [3.0; 16]);
        policy.sample(&logits, &[], &[splat(0.0)], &mut actions);
        assert_eq!(actions[0][0].to_array(), [1.0; 16]);
    }

    #[test]
    fn equal_logits_choose_the_first() {
        let policy = PolicyHead::<1>::new(&Head::MultiDiscrete(vec![3]));
        let mut actions = [splat(9.0)];
        policy.greedy(&[splat(1.0), splat(2.0), splat(2.0)], &mut actions);
        assert_eq!(actions[0][0].to_array(), [1.0; 16]);
    }
}
