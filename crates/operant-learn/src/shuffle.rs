//! The order of samples in an epoch: a keyed bijection of 0 .. B, computed on demand and never stored.
//!
//! An alternating Feistel network permutes the smallest power of two that holds B, and a number that lands outside is
//! sent through again until it lands inside (cycle walking, Black and Rogaway 2002): fewer than two passes on average,
//! exactly one when B is a power of two.

use core::num::Wrapping;

use operant_lane::{Draws, Purpose};

/// Rounds of the network; Luby and Rackoff need four for a strong permutation, two more for a weaker round function.
const ROUNDS: usize = 6;

/// A permutation of `0 .. len`.
#[derive(Debug, Clone)]
pub struct Shuffle {
    len: u32,
    /// Bits of the lower half; the upper one has as many or one more.
    low_bits: u32,
    /// Masks of the halves, lower first.
    masks: [u32; 2],
    keys: [u32; ROUNDS],
}

impl Shuffle {
    /// The order of epoch `epoch` of update `update`. At most 2^31 samples.
    pub fn new(seed: u64, update: u64, epoch: u32, len: u32) -> Self {
        Self::of_block(seed, update, epoch, 0, len)
    }

    /// The order of the samples of a block of environments; block 0 has the order of [`Shuffle::new`].
    pub fn of_block(seed: u64, update: u64, epoch: u32, block: u32, len: u32) -> Self {
        assert!((1..=1 << 31).contains(&len), "a shuffle is of 1 to 2^31 samples, not {len}");
        // There are at most 10,000 epochs.
        let mut draws = Draws::<f32>::at(seed, Wrapping(epoch | block << 16), update, Purpose::Shuffle);
        let bits = u32::BITS - (len - 1).leading_zeros();
        let low_bits = bits / 2;
        let masks = [(1 << low_bits) - 1, (1 << (bits - low_bits)) - 1];
        Self { len, low_bits, masks, keys: core::array::from_fn(|_| draws.bits().0) }
    }

    /// A number in [0, 1) of the same epoch and block, independent of the order.
    pub fn fraction(seed: u64, update: u64, epoch: u32, block: u32) -> f64 {
        let mut draws = Draws::<f32>::at(seed, Wrapping(epoch | block << 16), update, Purpose::Shuffle);
        (0..ROUNDS).for_each(|_| _ = draws.bits());
        f64::from(draws.bits().0) / 2.0f64.powi(32)
    }

    /// The sample at `position`.
    #[inline]
    pub fn index(&self, position: u32) -> u32 {
        self.indices([position])[0]
    }

    /// The samples at N positions, all below B.
    #[inline]
    pub fn indices<const N: usize>(&self, positions: [u32; N]) -> [u32; N] {
        let mut indices = self.permute(positions);
        // Numbers outside are sent through again together; a whole array is cheaper than one number at a time.
        while indices.iter().fold(false, |outside, &index| outside | (index >= self.len)) {
            let next = self.permute(indices);
            indices = core::array::from_fn(|i| if indices[i] >= self.len { next[i] } else { indices[i] });
        }
        indices
    }

    /// One pass through the network, of the padded range.
    #[inline(always)]
    fn permute<const N: usize>(&self, values: [u32; N]) -> [u32; N] {
        let [low_mask, high_mask] = self.masks;
        let mut low = values.map(|value| value & low_mask);
        let mut high = values.map(|value| value >> self.low_bits);
        for keys in self.keys.chunks_exact(2) {
            for (low, high) in low.iter_mut().zip(&mut high) {
                *high ^= mix(*low, keys[0]) & high_mask;
                *low ^= mix(*high, keys[1]) & low_mask;
            }
        }
        core::array::from_fn(|i| (high[i] << self.low_bits) | low[i])
    }
}

/// A 32-bit hash: two multiplications with shifts between, constants by Wellons ("lowbias32", 2018).
#[inline(always)]
fn mix(value: u32, key: u32) -> u32 {
    let mut x = value.wrapping_add(key);
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_comes_once() {
        for len in (1..=600).chain([1_000, 4_095, 4_096, 4_097, 65_537, 100_003]) {
            for (seed, update, epoch) in [(0, 0, 0), (1, 2, 3)] {
                let shuffle = Shuffle::new(seed, update, epoch, len);
                let mut seen = vec![false; len as usize];
                for position in 0..len {
                    let index = shuffle.index(position) as usize;
                    assert!(!std::mem::replace(&mut seen[index], true), "{index} twice in {len}");
                }
            }
        }
    }

    #[test]
    fn many_at_once_are_the_same() {
        let shuffle = Shuffle::new(9, 1, 0, 777);
        for first in (0..768).step_by(16) {
            let positions: [u32; 16] = core::array::from_fn(|i| first + i as u32);
            assert_eq!(shuffle.indices(positions), positions.map(|p| shuffle.index(p)));
        }
    }

    #[test]
    fn orders_differ_and_look_random() {
        let len = 4_096;
        let order = |seed, update, epoch| -> Vec<u32> {
            let shuffle = Shuffle::new(seed, update, epoch, len);
            (0..len).map(|p| shuffle.index(p)).collect()
        };
        let a = order(1, 0, 0);
        for b in [order(2, 0, 0), order(1, 1, 0), order(1, 0, 1)] {
            let same = a.iter().zip(&b).filter(|(a, b)| a == b).count();
            assert!(same < 10, "{same} of {len} in place");
        }
        // Correlation of position and index, and of neighbours.
        let mean = f64::from(len - 1) / 2.0;
        let variance = (f64::from(len).powi(2) - 1.0) / 12.0;
        let correlation = |pairs: Vec<(f64, f64)>| {
            pairs.iter().map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>() / variance / pairs.len() as f64
        };
        let with_position =
            correlation(a.iter().enumerate().map(|(p, &i)| (p as f64, f64::from(i))).collect());
        let with_next = correlation(a.windows(2).map(|w| (f64::from(w[0]), f64::from(w[1]))).collect());
        assert!(with_position.abs() < 0.06 && with_next.abs() < 0.06, "{with_position} {with_next}");
    }
}
