//! The layout of a sample, on every device.
//!
//! ```text
//! sample: obs (O floats, bit words or packed words) | actions | logprob | value | advantage | intrinsic | keep | side | mask words | padding
//! ```
//!
//! It has those fields that the network and the environment have: a log-probability of a policy, `intrinsic` of a network
//! with two values, `keep` of a network with memory, `side` if each side of a game has a memory, a mask where actions can be illegal.

use crate::network::{Architecture, Outputs};

/// Words of a cache line.
const LINE: usize = 16;

/// The offset of each field of a sample, in 32-bit words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleLayout {
    /// First word of the observation: O floats, O / 32 words of bits, or packed indices and bytes.
    pub obs: usize,
    /// Words of the observation.
    pub obs_words: usize,
    /// First action; actions are floats (the index of a discrete one).
    pub actions: usize,
    /// Numbers per action.
    pub components: usize,
    /// Log-probability of the action under the rollout's policy; None without a policy.
    pub logprob: Option<usize>,
    /// Value of the observation under the rollout's weights.
    pub value: usize,
    /// Advantage; the return is advantage + value. With two values it is the sum of both advantages.
    pub advantage: usize,
    /// Value of rewards for exploring, and after it their advantage, if they have a value of their own.
    pub intrinsic: Option<usize>,
    /// 1, or 0 if the step begins an episode, so that the previous state is ignored. Only for networks with memory.
    pub keep: Option<usize>,
    /// The side that moves, if each has a memory of its own.
    pub side: Option<usize>,
    /// Memories of an environment: one, or one for each side.
    pub memories: usize,
    /// First word of the action mask.
    pub mask: usize,
    /// Words of the action mask; 0 if every action is always legal.
    pub mask_words: usize,
    /// Words from one sample to the next: half a cache line, a whole one, then whole half-lines.
    pub stride: usize,
}

impl SampleLayout {
    /// The layout of `architecture`'s samples; `masked` if the environment forbids actions.
    pub fn new(architecture: &Architecture, masked: bool) -> Self {
        Self::of_sides(architecture, masked, 1)
    }

    /// The same where one policy makes the moves of all sides of a game.
    pub fn of_sides(architecture: &Architecture, masked: bool, sides: usize) -> Self {
        let obs_words = architecture.obs_words();
        let components = architecture.head.components();
        let logprob = (architecture.outputs == Outputs::PolicyAndValue).then_some(obs_words + components);
        let value = obs_words + components + usize::from(logprob.is_some());
        let mask_words = if masked { architecture.head.mask_words() } else { 0 };
        let intrinsic = architecture.intrinsic_value.then_some(value + 2);
        let end = value + if intrinsic.is_some() { 4 } else { 2 };
        let keep = architecture.core.map(|_| end);
        let side = keep.filter(|_| sides > 1).map(|keep| keep + 1);
        let memories = if side.is_some() { sides } else { 1 };
        let mask = end + usize::from(keep.is_some()) + usize::from(side.is_some());
        let words = mask + mask_words;
        let stride = match words {
            ..=LINE => words.next_power_of_two().max(LINE / 2),
            _ => words.next_multiple_of(LINE / 2),
        };
        Self {
            obs: 0,
            obs_words,
            actions: obs_words,
            components,
            logprob,
            value,
            advantage: value + 1,
            intrinsic,
            keep,
            side,
            memories,
            mask,
            mask_words,
            stride,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Algorithm;
    use crate::config::Config;
    use crate::network::{Head, Input};

    #[test]
    fn cartpole_takes_half_a_cache_line() {
        let head = Head::MultiDiscrete(vec![2]);
        let architecture = Architecture::new(&Config::default(), Input::Dense(4), head);
        let layout = SampleLayout::new(&architecture, false);
        assert_eq!((layout.advantage, layout.stride), (7, 8));
    }

    #[test]
    fn the_smallest_sample_takes_half_a_cache_line_too() {
        let config = Config { algorithm: Algorithm::Pqn, ..Config::default() };
        let architecture = Architecture::new(&config, Input::Dense(1), Head::MultiDiscrete(vec![2]));
        let layout = SampleLayout::new(&architecture, false);
        assert_eq!((layout.logprob, layout.advantage, layout.stride), (None, 3, 8));
    }
}
