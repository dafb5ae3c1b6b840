//! Tiles: 64 samples side by side, the unit of all arithmetic of the learner.
//!
//! A tile is stored feature-major: one [`Row`] per feature, whose lanes are samples. Weights are broadcast, so no
//! horizontal sum is ever needed on the way forward, and networks of any width fill the vectors. A row is V vectors of
//! 16 lanes whatever the instruction set (on AVX2 one is emulated by two of 8, with equal bits).

use operant_lane::Float;
use wide::{f32x16, u32x16};

/// Lanes of a vector.
pub const LANES: usize = 16;
/// Samples of a tile.
pub const TILE: usize = 64;
/// Vectors in a row of a tile.
pub const TILE_VECTORS: usize = TILE / LANES;

/// One feature of V x 16 samples. The update uses V = 4; rollouts of few environments 1 or 2.
pub type Row<const V: usize> = [f32x16; V];
/// One word of packed bits of V x 16 samples.
pub type BitRow<const V: usize> = [u32x16; V];

/// The same value in every lane.
#[inline(always)]
pub fn splat<const V: usize>(value: f32) -> Row<V> {
    [f32x16::splat(value); V]
}

/// `a * b + c`, rounded once.
#[inline(always)]
pub(crate) fn fma(a: f32x16, b: f32x16, c: f32x16) -> f32x16 {
    Float::mul_add(a, b, c)
}

/// Applies `f` to every vector of a row.
#[inline(always)]
pub(crate) fn map<const V: usize>(row: Row<V>, f: impl Fn(f32x16) -> f32x16) -> Row<V> {
    core::array::from_fn(|v| f(row[v]))
}

/// `[a0 b0 a1 b1 ..]`: the low halves interleaved, then the high halves.
#[inline(always)]
fn interleave(a: f32x16, b: f32x16) -> (f32x16, f32x16) {
    let (a, b) = (a.as_array(), b.as_array());
    let low = f32x16::new([
        a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3], a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7],
    ]);
    let high = f32x16::new([
        a[8], b[8], a[9], b[9], a[10], b[10], a[11], b[11], a[12], b[12], a[13], b[13], a[14], b[14], a[15], b[15],
    ]);
    (low, high)
}

/// One perfect shuffle of sixteen vectors. Spelled out, because a loop over the array would live in memory.
#[inline(always)]
fn shuffle(x: [f32x16; LANES]) -> [f32x16; LANES] {
    let (a0, a1) = interleave(x[0], x[8]);
    let (b0, b1) = interleave(x[1], x[9]);
    let (c0, c1) = interleave(x[2], x[10]);
    let (d0, d1) = interleave(x[3], x[11]);
    let (e0, e1) = interleave(x[4], x[12]);
    let (f0, f1) = interleave(x[5], x[13]);
    let (g0, g1) = interleave(x[6], x[14]);
    let (h0, h1) = interleave(x[7], x[15]);
    [a0, a1, b0, b1, c0, c1, d0, d1, e0, e1, f0, f1, g0, g1, h0, h1]
}

/// Transposes a 16 x 16 block: four perfect shuffles of its sixteen vectors.
#[inline(always)]
pub(crate) fn transpose(block: [f32x16; LANES]) -> [f32x16; LANES] {
    shuffle(shuffle(shuffle(shuffle(block))))
}

/// Sums the lanes of up to 16 vectors, lane 0 first: element k of the result is the sum of vector k.
#[inline]
pub(crate) fn lane_sums(vectors: &[f32x16]) -> [f32; LANES] {
    let mut block = [f32x16::ZERO; LANES];
    block[..vectors.len()].copy_from_slice(vectors);
    let columns = transpose(block);
    let mut sum = columns[0];
    for &column in &columns[1..] {
        sum += column;
    }
    sum.to_array()
}

/// The sum of a row's lanes in double precision, in order.
#[inline]
pub(crate) fn row_sum<const V: usize>(row: &Row<V>) -> f64 {
    let mut sum = 0.0;
    for vector in row {
        for &value in vector.as_array() {
            sum += f64::from(value);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transpose_swaps_rows_and_columns() {
        let block: [f32x16; LANES] = core::array::from_fn(|i| {
            f32x16::new(core::array::from_fn(|j| (100 * i + j) as f32))
        });
        let transposed = transpose(block);
        for (i, row) in transposed.iter().enumerate() {
            for (j, &value) in row.as_array().iter().enumerate() {
                assert_eq!(value, (100 * j + i) as f32);
            }
        }
        assert_eq!(lane_sums(&block[..3]), {
            let mut sums = [0.0; LANES];
            sums[..3].copy_from_slice(&[120.0, 1720.0, 3320.0]);
            sums
        });
    }
}
