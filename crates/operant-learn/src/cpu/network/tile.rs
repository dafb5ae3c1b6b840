//! Tiles: 64 samples, the unit of all arithmetic of the learner.
//!
//! A tile is stored feature-major: one [`Row`] per feature, whose lanes are samples. Weights are broadcast, so no
//! horizontal sum is ever needed on the way forward, and networks of any width fill the vectors. A row is V vectors of
//! 16 lanes whatever the instruction set (where one does not fit a register, it takes several, with equal bits).

use operant_lane::Float;
use operant_lane::isa::{f32x8, f32x16, u32x16};
use wide::bytemuck::{cast, cast_mut, cast_ref};

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

/// The samples among V x 16 that must be computed, one bit each. The outputs of the others are unspecified: computed or unchanged.
pub type Lanes<const V: usize> = [u16; V];
/// All samples.
pub const fn all_lanes<const V: usize>() -> Lanes<V> {
    [u16::MAX; V]
}

/// The first `count` samples.
pub fn first_lanes<const V: usize>(count: usize) -> Lanes<V> {
    core::array::from_fn(|v| {
        let lanes = count.saturating_sub(v * LANES).min(LANES);
        ((1u32 << lanes) - 1) as u16
    })
}

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

/// Transposes the 16 x 16 block of vector `v` of 16 rows into column `c` of 16 rows of `out`; missing rows are zero.
#[inline(always)]
pub(crate) fn turn<const V: usize, const C: usize>(
    rows: &[Row<V>],
    v: usize,
    out: &mut [Row<C>; LANES],
    c: usize,
) {
    match rows.first_chunk() {
        Some(rows) => turn_block(rows, v, out, c),
        None => {
            let mut padded = [[f32x16::ZERO]; LANES];
            for (padded, row) in padded.iter_mut().zip(rows) {
                padded[0] = row[v];
            }
            turn_block(&padded, 0, out, c);
        }
    }
}

/// Four blocks of 8 x 8, for which `wide` has shuffles. Written out, because iterators compile to memory traffic here.
#[inline(always)]
fn turn_block<const V: usize, const C: usize>(
    rows: &[Row<V>; LANES],
    v: usize,
    out: &mut [Row<C>; LANES],
    c: usize,
) {
    let half = |row: usize, side: usize| cast_ref::<f32x16, [f32x8; 2]>(&rows[row][v])[side];
    for side in 0..2 {
        for part in 0..2 {
            let row = |i: usize| half(8 * part + i, side);
            let turned = f32x8::transpose([row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)]);
            for i in 0..8 {
                cast_mut::<f32x16, [f32x8; 2]>(&mut out[8 * side + i][c])[part] = turned[i];
            }
        }
    }
}

/// Sums the lanes of up to 16 vectors, lane 0 first: element k of the result is the sum of vector k.
#[inline]
pub(crate) fn lane_sums(vectors: &[f32x16]) -> [f32; LANES] {
    match vectors.first_chunk() {
        Some(vectors) => block_sums(vectors),
        None => {
            let mut padded = [f32x16::ZERO; LANES];
            padded[..vectors.len()].copy_from_slice(vectors);
            block_sums(&padded)
        }
    }
}

/// Eight vectors at a time, for which `wide` has shuffles.
#[inline(always)]
fn block_sums(vectors: &[f32x16; LANES]) -> [f32; LANES] {
    let sums: [f32x8; 2] = core::array::from_fn(|part| {
        let half = |row: usize, side: usize| cast_ref::<f32x16, [f32x8; 2]>(&vectors[8 * part + row])[side];
        let columns = |side: usize| f32x8::transpose(core::array::from_fn(|row| half(row, side)));
        let ([first, low @ ..], high) = (columns(0), columns(1));
        low.into_iter().chain(high).fold(first, |sum, column| sum + column)
    });
    cast(sums)
}

/// The sum of a row's lanes: its vectors in single precision, then the lanes in double, four sums side by side because
/// one would be a chain of 16 additions.
#[inline]
pub(crate) fn row_sum<const V: usize>(row: &Row<V>) -> f64 {
    let lanes = row[1..].iter().fold(row[0], |sum, &vector| sum + vector).to_array().map(f64::from);
    let mut sums = [0.0; 4];
    for lanes in lanes.chunks_exact(4) {
        sums.iter_mut().zip(lanes).for_each(|(sum, lane)| *sum += lane);
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transpose_swaps_rows_and_columns() {
        let block: [Row<2>; LANES] = core::array::from_fn(|i| {
            core::array::from_fn(|v| f32x16::new(core::array::from_fn(|j| (1_000 * v + 100 * i + j) as f32)))
        });
        for rows in [16, 5] {
            let mut turned = [[f32x16::ONE; 3]; LANES];
            turn(&block[..rows], 1, &mut turned, 2);
            for (i, row) in turned.iter().enumerate() {
                for (j, &value) in row[2].as_array().iter().enumerate() {
                    assert_eq!(value, if j < rows { (1_000 + 100 * j + i) as f32 } else { 0.0 });
                }
            }
        }
        let block = block.map(|row| row[0]);
        assert_eq!(lane_sums(&block[..3]), {
            let mut sums = [0.0; LANES];
            sums[..3].copy_from_slice(&[120.0, 1720.0, 3320.0]);
            sums
        });
    }
}
