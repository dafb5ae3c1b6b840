//! The exact twins of `tdpbf16ps` and `vdpbf16ps`, and of the vector code around them, in portable arithmetic.
//!
//! Intel's manual defines the first: over the 16 words of a row, the products of the low numbers and those of the high numbers are added up
//! by two chains of fused multiply-adds that begin at zero; the two sums are added, and the result is added to C. The second adds to C the
//! product of the high numbers of a word, then the product of the low ones, each by a fused multiply-add. Rounding is to nearest even; denormal
//! operands count as zero and denormal results become zero.

use crate::activation::Activation;
use crate::gradient::DeltaBlock;
use crate::unit::Order;
use crate::{Floats, LANES, Tile, VECTORS, Words, halves, pair, rounded};

/// A denormal number becomes zero of its sign.
#[inline(always)]
fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(x) } else { x }
}

/// `c += a b` as AVX512_BF16 computes it.
fn add_dots(a: &[Words; LANES], b: &[Words], c: &mut [Floats; LANES]) {
    for (a, c) in a.iter().zip(c) {
        for (&a, b) in a.iter().zip(b) {
            let [low, high] = halves(a).map(flush);
            for (c, &b) in c.iter_mut().zip(b) {
                let b = halves(b).map(flush);
                *c = flush(low.mul_add(b[0], flush(high.mul_add(b[1], flush(*c)))));
            }
        }
    }
}

/// `c += a b` as AMX computes it.
fn add_tile(a: &[Words; LANES], b: &[Words; LANES], c: &mut [Floats; LANES]) {
    let b: [[Floats; 2]; LANES] = b.map(|row| [0, 1].map(|half| row.map(|word| flush(halves(word)[half]))));
    for (a, c) in a.iter().zip(c) {
        let mut sums = [[0.0f32; LANES]; 2];
        for (&a, b) in a.iter().zip(&b) {
            let a = halves(a).map(flush);
            for half in 0..2 {
                for (sum, &b) in sums[half].iter_mut().zip(&b[half]) {
                    *sum = flush(a[half].mul_add(b, *sum));
                }
            }
        }
        for (n, c) in c.iter_mut().enumerate() {
            *c = flush(flush(*c) + flush(sums[0][n] + sums[1][n]));
        }
    }
}

/// See [`crate::amx::begin`].
pub(crate) fn product<const V: usize, const H: usize>(
    order: Order,
    [_, words]: [usize; 2],
    a: &[Tile<u32>],
    b: &[[Words; V]],
    part: usize,
    c: &mut [[Floats; H]; LANES],
) {
    for h in 0..H {
        let mut tile = [[0.0; LANES]; LANES];
        for (k, (a, b)) in a.iter().zip(b.as_chunks::<LANES>().0).enumerate() {
            let b = b.map(|row| row[H * part + h]);
            match order {
                Order::Amx => add_tile(&a.0, &b, &mut tile),
                // Padding might change the sign of a zero.
                Order::Dot => add_dots(&a.0, &b[..LANES.min(words - LANES * k)], &mut tile),
            }
        }
        for (c, row) in c.iter_mut().zip(tile) {
            c[h] = row;
        }
    }
}

/// See [`crate::amx::outer`].
pub(crate) fn outer(
    order: Order,
    deltas: &[[[Words; 2]; LANES]],
    inputs: &[[Tile<u32>; 2]; 2],
    sums: &mut [[Tile<f32>; 2]],
) {
    for (deltas, sums) in deltas.iter().zip(sums) {
        for (half, sums) in sums.iter_mut().enumerate() {
            for (k, inputs) in inputs.iter().enumerate() {
                let (deltas, inputs) = (deltas.map(|row| row[k]), &inputs[half].0);
                match order {
                    Order::Amx => add_tile(&deltas, inputs, &mut sums.0),
                    Order::Dot => add_dots(&deltas, inputs, &mut sums.0),
                }
            }
        }
    }
}

/// See [`crate::avx512::activate`].
pub(crate) fn activate<const V: usize, const H: usize>(
    activation: Activation,
    sums: &[[Floats; H]; LANES],
    bias: &[f32; LANES],
    y: &mut [[Words; V]; LANES / 2],
    part: usize,
) {
    for (r, y) in y.iter_mut().enumerate() {
        for h in 0..H {
            let value = |row: usize, lane: usize| rounded(activation.value(sums[row][h][lane] + bias[row]));
            y[H * part + h] = core::array::from_fn(|lane| pair(value(2 * r, lane), value(2 * r + 1, lane)));
        }
    }
}

/// See [`crate::avx512::deltas`].
pub(crate) fn deltas<const H: usize>(
    activation: Activation,
    sums: &[[Floats; H]; LANES],
    x: &[[Words; VECTORS]; LANES / 2],
    (pairs, samples, totals): DeltaBlock<'_>,
    part: usize,
) {
    for r in 0..LANES / 2 {
        let of = |half: usize| -> [Floats; H] {
            core::array::from_fn(|h| {
                core::array::from_fn(|lane| {
                    activation.slope(halves(x[r][H * part + h][lane])[half], sums[2 * r + half][h][lane])
                })
            })
        };
        place(
            [of(0), of(1)],
            &mut pairs[r],
            &mut samples.as_chunks_mut::<2>().0[r],
            &mut totals.as_chunks_mut().0[r],
            part,
        );
    }
}

/// Writes H x 16 samples' deltas of two features in the forms of [`crate::Deltas`].
pub(crate) fn place<const H: usize>(
    rows: [[Floats; H]; 2],
    pairs: &mut [Words; VECTORS],
    samples: &mut [[Words; 2]; 2],
    totals: &mut [Words; 2],
    part: usize,
) {
    let words = rows.map(|row| row.map(|vector| vector.map(rounded)));
    for h in 0..H {
        pairs[H * part + h] = core::array::from_fn(|lane| pair(words[0][h][lane], words[1][h][lane]));
    }
    for half in 0..2 {
        for k in 0..H / 2 {
            let [low, high] = [words[half][2 * k], words[half][2 * k + 1]];
            samples[half][H / 2 * part + k] = core::array::from_fn(|lane| pair(low[lane], high[lane]));
        }
        for (h, row) in rows[half].iter().enumerate() {
            let before = totals[half];
            totals[half] = core::array::from_fn(|lane| match (part, h) {
                (0, 0) => row[lane].to_bits(),
                _ => (f32::from_bits(before[lane]) + row[lane]).to_bits(),
            });
        }
    }
}

/// See [`crate::avx512::transpose`].
pub(crate) fn transpose(x: &[[Words; VECTORS]; LANES], out: &mut [[Tile<u32>; 2]; 2]) {
    for (k, [even, odd]) in out.iter_mut().enumerate() {
        for n in 0..LANES {
            for p in 0..LANES {
                let [low, high] = [x[p][2 * k][n], x[p][2 * k + 1][n]];
                even.0[n][p] = low & 0xffff | high << 16;
                odd.0[n][p] = pair(low, high);
            }
        }
    }
}
