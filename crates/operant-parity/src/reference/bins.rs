//! Distributions of values.

use super::*;

impl OnTape<'_> {
    /// Log-probabilities of the distribution of a choice's value that a path computes from these inputs, and its values.
    pub fn distribution(&mut self, path: usize, x: Vec<Var>, choice: usize) -> (Vec<Var>, Vec<f64>) {
        let Self { network, paths, tape, state, .. } = self;
        let [path @ .., Step::Expected(bins)] = &paths[path][..] else { panic!("distributions have values") };
        let logits = along(network, tape, path, x, state);
        (distribution(tape, &logits[choice * bins.len()..][..bins.len()]), bins.clone())
    }
}

/// The distribution of the reward and the discounted value, each value divided between its neighbours.
pub fn moved(bins: &[f64], shares: &[f64], [reward, discount]: [f64; 2]) -> Vec<f64> {
    let (last, step) = (bins.len() - 1, bins[1] - bins[0]);
    let mut moved = vec![0.0; bins.len()];
    for (bin, share) in bins.iter().zip(shares) {
        let value = reward + discount * bin;
        let place = ((value.clamp(bins[0], bins[last]) - bins[0]) / step).min(last as f64);
        let below = place.floor();
        moved[below as usize] += share * (1.0 - (place - below));
        moved[last.min(below as usize + 1)] += share * (place - below);
    }
    moved
}

/// The cross-entropy of log-probabilities from a target.
pub fn cross_entropy(tape: &mut Tape, own: Vec<Var>, target: Vec<f64>) -> Var {
    let terms: Vec<(Var, f64)> = own.into_iter().zip(target).map(|(ln_p, share)| (ln_p, -share)).collect();
    tape.sum(&terms)
}
