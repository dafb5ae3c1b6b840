//! The words that an observation space allows. Rules recorded by Python respect it; a file can contain anything.

use crate::spec::{ObsSpace, indices_per_word};

/// The values that a word may have, where not all are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Only these bits may be set.
    Bits(u32),
    /// Items of this many bits, the first in the lowest, each below a bound; 0 bounds the bits after the last item.
    Items { bits: u32, below: Vec<u32> },
}

impl Limit {
    fn allows(&self, word: u32) -> bool {
        match self {
            Limit::Bits(bits) => word & !bits == 0,
            Limit::Items { bits, below } => {
                let item = |k: usize| word >> (k as u32 * bits) & (u32::MAX >> (32 - bits));
                // Without a branch for each item.
                below.iter().enumerate().fold(true, |allowed, (k, below)| allowed & (item(k) < *below))
            }
        }
    }
}

/// The limited words of an observation, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Limits(Vec<(usize, Limit)>);

impl Limits {
    pub(crate) fn of(space: &ObsSpace) -> Self {
        let (mut limits, mut first) = (Vec::new(), 0);
        for (_, part) in space.parts() {
            match part {
                ObsSpace::Binary { .. } | ObsSpace::Bytes { .. } => {
                    let bits =
                        if matches!(part, ObsSpace::Binary { .. }) { part.size() } else { 8 * part.size() };
                    if bits % 32 != 0 {
                        limits.push((first + bits / 32, Limit::Bits((1 << (bits % 32)) - 1)));
                    }
                }
                ObsSpace::Index { below, .. } => {
                    let per_word = indices_per_word(below);
                    let bounds: Vec<u32> = part.bounds().collect();
                    for (word, below) in bounds.chunks(per_word).enumerate() {
                        let mut below = below.to_vec();
                        below.resize(per_word, 1);
                        limits.push((first + word, Limit::Items { bits: 32 / per_word as u32, below }));
                    }
                }
                ObsSpace::Box { .. } | ObsSpace::Parts(_) => (),
            }
            first += part.words();
        }
        Limits(limits)
    }

    /// The row and the word of an observation that its space does not allow, in `(words, rows)`.
    pub(crate) fn violation(&self, obs: &[u32], rows: usize) -> Option<(usize, usize)> {
        self.0.iter().find_map(|(word, limit)| {
            let words = &obs[word * rows..][..rows];
            // The whole row first, without a branch.
            if words.iter().fold(true, |allowed, word| allowed & limit.allows(*word)) {
                return None;
            }
            words.iter().position(|word| !limit.allows(*word)).map(|row| (row, *word))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_outside_the_space_are_found() {
        let parts = vec![
            ("cells".to_owned(), ObsSpace::Index { shape: vec![5], below: vec![3] }),
            ("seen".to_owned(), ObsSpace::Binary { shape: vec![33] }),
            ("speed".to_owned(), ObsSpace::symmetric(&[1.0])),
        ];
        let limits = Limits::of(&ObsSpace::Parts(parts));
        let allowed = [0x0202_0202, 2, u32::MAX, 1, u32::MAX];
        let violation = |word: usize, value: u32| {
            let mut obs: Vec<u32> = allowed.iter().flat_map(|word| [*word; 16]).collect();
            obs[word * 16 + 5] = value;
            limits.violation(&obs, 16)
        };
        assert_eq!(violation(0, 0), None);
        assert_eq!(violation(4, 7), None, "real numbers are not limited");
        for (word, value) in [(0, 0x0203_0202), (0, 0x0300_0000), (1, 3), (1, 0x0100), (3, 2)] {
            assert_eq!(violation(word, value), Some((5, word)), "{value:#x}");
        }
    }
}
