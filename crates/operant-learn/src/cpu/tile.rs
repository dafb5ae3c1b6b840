//! Tiles: 64 samples side by side, the unit of all arithmetic of the learner.
//!
//! A tile is stored feature-major: one [`Row`] per feature, whose lanes are samples. Weights are broadcast, so no
//! horizontal sum is ever needed on the way forward, and networks of any width fill the vectors. A row is V vectors of
//! 16 lanes whatever the instruction set (on AVX2 one is emulated by two of 8, with equal bits).

use operant_lane::Float;
use wide::bytemuck::cast;
use wide::{f32x8, f32x16, u32x16};

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

/// Transposes a 16 x 16 block as four of 8 x 8, which `wide` has shuffles for.
#[inline(always)]
pub(crate) fn transpose(block: [f32x16; LANES]) -> [f32x16; LANES] {
    let halves = block.map(cast::<f32x16, [f32x8; 2]>);
    let quarter =
        |row: usize, column: usize| f32x8::transpose(core::array::from_fn(|i| halves[8 * row + i][column]));
    let [a, b, c, d] = [quarter(0, 0), quarter(1, 0), quarter(0, 1), quarter(1, 1)];
    core::array::from_fn(|i| cast(if i < 8 { [a[i], b[i]] } else { [c[i - 8], d[i - 8]] }))
}

/// The 16 x 16 block of vector `v` of up to 16 rows, transposed: one vector per sample. Missing rows are zero.
#[inline(always)]
pub(crate) fn turn<const V: usize>(rows: &[Row<V>], v: usize) -> [f32x16; LANES] {
    match rows.first_chunk::<LANES>() {
        Some(rows) => transpose(core::array::from_fn(|i| rows[i][v])),
        None => transpose(core::array::from_fn(|i| rows.get(i).map_or(f32x16::ZERO, |row| row[v]))),
    }
}

/// Sums the lanes of up to 16 vectors, lane 0 first: element k of the result is the sum of vector k.
#[inline]
pub(crate) fn lane_sums(vectors: &[f32x16]) -> [f32; LANES] {
    let columns = match vectors.first_chunk::<LANES>() {
        Some(vectors) => transpose(*vectors),
        None => transpose(core::array::from_fn(|i| vectors.get(i).copied().unwrap_or(f32x16::ZERO))),
    };
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
        let block: [f32x16; LANES] =
            core::array::from_fn(|i| f32x16::new(core::array::from_fn(|j| (100 * i + j) as f32)));
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
