//! Philox4x32-10, the counter-based random generator of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as
//! easy as 1, 2, 3", SC 2011), in lane arithmetic. The same counter and key give the same four words on every lane.

use crate::lane::{Lane, Uint};

/// Multipliers of the two halves of the counter.
const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Weyl increments of the key: the golden ratio and the square root of three less one, scaled to 32 bits.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
/// Rounds; ten is the published safety margin.
const ROUNDS: u32 = 10;

/// Four random words, a bijection of `counter` for each `key`.
#[inline(always)]
pub fn philox<L: Lane>(counter: [L::Uint; 4], key: [L::Uint; 2]) -> [L::Uint; 4] {
    L::philox(counter, key)
}

/// The rounds of [`philox`].
#[inline(always)]
pub(crate) fn rounds<L: Lane>(counter: [L::Uint; 4], key: [L::Uint; 2]) -> [L::Uint; 4] {
    let [m0, m1] = MULTIPLIER.map(L::Uint::splat);
    let [w0, w1] = WEYL.map(L::Uint::splat);
    let (counter, _) = L::repeat(ROUNDS, (counter, key), |_, ([c0, c1, c2, c3], [k0, k1])| {
        let (high0, low0) = m0.mul_wide(c0);
        let (high1, low1) = m1.mul_wide(c2);
        ([high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0], [k0 + w0, k1 + w1])
    });
    counter
}
