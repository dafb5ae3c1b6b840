//! Fully connected layers with bf16 operands and f32 sums on the CPU.
//!
//! Samples are in the lanes, 16 to a vector. An operand is *pairs*: a vector of 32-bit words, each the bf16 numbers of features 2p (low)
//! and 2p + 1 (high) of one sample. 16 rows of pairs have the memory layout of the B operand of AMX's `tdpbf16ps`, and the product's rows
//! are vectors of samples again, one per output: two of them make a row of pairs of the next layer.
//!
//! | buffer | shape |
//! | --- | --- |
//! | pairs of n features, V x 16 samples | `(16 ceil(n / 32), V)` vectors; features past n are zero |
//! | deltas of n features, 64 samples | see [`Deltas`] |
//! | packed weights | tiles of 16 outputs x 32 inputs |
//!
//! A [`Unit`] names the implementation: AMX, AVX512_BF16, or a portable twin with the same bits. Operands are rounded to the nearest bf16, ties away
//! from zero. Each instruction set has a file with all of its instructions and most of the unsafe code: `amx.rs` and `avx512_bf16.rs` products,
//! `avx512.rs` whole vectors; `twin.rs` is portable. `layer.rs` calls them where the CPU has them.

// Elsewhere there are only the twins.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports, unused_mut))]

mod activation;
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
mod check;
mod gradient;
mod layer;
mod twin;
mod unit;

pub use activation::Activation;
pub use gradient::{Deltas, DeltasView, Sums};
pub use layer::{Weights, pack_pairs};
pub use unit::Unit;

/// Samples in a vector, rows of a tile, and 32-bit words in a row of a tile.
pub const LANES: usize = 16;
/// Features of a tile's row: two to a word.
pub const TILE_FEATURES: usize = 2 * LANES;
/// Vectors of samples in a tile of the learner; gradients are computed per tile.
pub const VECTORS: usize = 4;

/// A vector of f32.
pub type Floats = [f32; LANES];
/// A vector of 32-bit words: pairs of bf16.
pub type Words = [u32; LANES];

/// Sixteen rows of sixteen numbers, on cache lines of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
struct Tile<T>([[T; LANES]; LANES]);

/// Rows of pairs of this many features.
pub const fn pair_rows(features: usize) -> usize {
    LANES * features.div_ceil(TILE_FEATURES)
}

/// The bf16 number nearest to `x`, ties away from zero, as the upper half of a word whose lower half is not used. Infinities stay, and NaNs
/// whose payload begins with a 0, as those that arithmetic makes.
const fn rounded(x: f32) -> u32 {
    x.to_bits().wrapping_add(0x8000)
}

/// Two bf16 numbers from [`rounded`] ones.
const fn pair(low: u32, high: u32) -> u32 {
    low >> 16 | high & 0xffff_0000
}

/// Rounds numbers that may be any NaN.
fn pair_of(low: f32, high: f32) -> u32 {
    let clean = |x: f32| rounded(if x.is_nan() { f32::NAN } else { x });
    pair(clean(low), clean(high))
}

/// The two numbers of a pair.
const fn halves(pair: u32) -> [f32; 2] {
    [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)]
}
