//! The vector code around products, with AVX-512: 16 samples at a time, no shuffles but those of the transpose.

#![allow(unsafe_code)] // Loads and stores of whole vectors; every block has a SAFETY comment.

use std::arch::x86_64::*;

use crate::activation::{Activation, LIMIT, ROUNDER, SCALE, TANH};
use crate::gradient::DeltaBlock;
use crate::{Floats, LANES, Tile, VECTORS, Words};

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load(from: &Floats) -> __m512 {
    // SAFETY: the reference is to 64 readable bytes.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_words(from: &Words) -> __m512i {
    // SAFETY: the reference is to 64 readable bytes.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_words(to: &mut Words, words: __m512i) {
    // SAFETY: the reference is to 64 writable bytes.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store(to: &mut Floats, numbers: __m512) {
    // SAFETY: the reference is to 64 writable bytes.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), numbers) }
}

/// A quarter of a vector: four words from `first` on.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_quarter(from: &Words, first: usize) -> __m128i {
    let quarter = &from.as_chunks::<4>().0[first / 4];
    // SAFETY: the reference is to 16 readable bytes.
    unsafe { _mm_loadu_si128(quarter.as_ptr().cast()) }
}

/// Combines the upper halves of `high` and `low` (`high`'s in the upper half), for numbers from [`crate::rounded`].
#[inline]
#[target_feature(enable = "avx512f")]
fn pair(low: __m512i, high: __m512i) -> __m512i {
    // Where the mask is set `high`, elsewhere what was shifted.
    let mask = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    _mm512_ternarylogic_epi32::<0xac>(mask, _mm512_srli_epi32::<16>(low), high)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rounded(x: __m512) -> __m512i {
    _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000))
}

/// The two numbers of pairs.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(pairs: __m512i) -> [__m512; 2] {
    let high = _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32 as i32));
    [_mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)), _mm512_castsi512_ps(high)]
}

/// The coefficients in registers.
#[derive(Clone, Copy)]
struct Tanh([[__m512; 2]; 3]);

impl Tanh {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load() -> Self {
        let half = |table: usize, half: usize| -> &'static Floats { &TANH[table].as_chunks().0[half] };
        Self([
            [load(half(0, 0)), load(half(0, 1))],
            [load(half(1, 0)), load(half(1, 1))],
            [load(half(2, 0)), load(half(2, 1))],
        ])
    }

    /// Each lane takes its piece's coefficients from two registers by the lowest five bits of an index.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn value(&self, x: __m512) -> __m512 {
        let sign = _mm512_set1_epi32(i32::MIN);
        let a = _mm512_castsi512_ps(_mm512_andnot_si512(sign, _mm512_castps_si512(x)));
        // The second operand where one is NaN.
        let a = _mm512_min_ps(_mm512_set1_ps(LIMIT), a);
        let piece = _mm512_castps_si512(_mm512_fmadd_ps(a, _mm512_set1_ps(SCALE), _mm512_set1_ps(ROUNDER)));
        let of = |[low, high]: [__m512; 2]| _mm512_permutex2var_ps(low, piece, high);
        let y = _mm512_fmadd_ps(_mm512_fmadd_ps(of(self.0[2]), a, of(self.0[1])), a, of(self.0[0]));
        // y | x & sign: y is not negative.
        let signed = _mm512_ternarylogic_epi32::<0xf8>(_mm512_castps_si512(y), _mm512_castps_si512(x), sign);
        _mm512_castsi512_ps(signed)
    }
}

/// Pairs of the nonlinearity of `sums + bias`, of 16 outputs and the vectors H part .. H (part + 1).
#[target_feature(enable = "avx512f")]
pub(crate) fn activate<const V: usize, const H: usize>(
    activation: Activation,
    sums: &[[Floats; H]; LANES],
    bias: &[f32; LANES],
    y: &mut [[Words; V]; LANES / 2],
    part: usize,
) {
    match activation {
        Activation::Tanh => {
            let tanh = Tanh::load();
            activate_by(sums, bias, y, part, |x| tanh.value(x));
        }
        // `max` returns the second operand if either is NaN.
        Activation::Relu => activate_by(sums, bias, y, part, |x| _mm512_max_ps(_mm512_setzero_ps(), x)),
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn activate_by<const V: usize, const H: usize>(
    sums: &[[Floats; H]; LANES],
    bias: &[f32; LANES],
    y: &mut [[Words; V]; LANES / 2],
    part: usize,
    value: impl Fn(__m512) -> __m512,
) {
    for r in 0..LANES / 2 {
        let [low, high] = [_mm512_set1_ps(bias[2 * r]), _mm512_set1_ps(bias[2 * r + 1])];
        for h in 0..H {
            let a = value(_mm512_add_ps(load(&sums[2 * r][h]), low));
            let b = value(_mm512_add_ps(load(&sums[2 * r + 1][h]), high));
            store_words(&mut y[r][H * part + h], pair(rounded(a), rounded(b)));
        }
    }
}

/// The gradient of the inputs of a nonlinearity with outputs `x`, from the gradient of its outputs, in the forms of [`crate::Deltas`]: the vectors
/// H part .. H (part + 1), H = 2 or 4. Call it for the parts in order: each adds to the totals of the parts before.
#[target_feature(enable = "avx512f")]
pub(crate) fn deltas<const H: usize>(
    activation: Activation,
    sums: &[[Floats; H]; LANES],
    x: &[[Words; VECTORS]; LANES / 2],
    block: DeltaBlock<'_>,
    part: usize,
) {
    let one = _mm512_set1_ps(1.0);
    match activation {
        Activation::Tanh => {
            each(sums, x, block, part, |y, dy| _mm512_mul_ps(dy, _mm512_fnmadd_ps(y, y, one)))
        }
        Activation::Relu => each(sums, x, block, part, |y, dy| {
            let positive = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(y, _mm512_setzero_ps());
            _mm512_maskz_mov_ps(positive, dy)
        }),
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn each<const H: usize>(
    sums: &[[Floats; H]; LANES],
    x: &[[Words; VECTORS]; LANES / 2],
    (pairs, samples, totals): DeltaBlock<'_>,
    part: usize,
    slope: impl Fn(__m512, __m512) -> __m512,
) {
    for r in 0..LANES / 2 {
        let mut total = [0, 1].map(|half| _mm512_castsi512_ps(load_words(&totals[2 * r + half])));
        for k in 0..H / 2 {
            let mut words = [[_mm512_setzero_si512(); 2]; 2];
            for i in 0..2 {
                let (h, v) = (2 * k + i, H * part + 2 * k + i);
                let y = halves(load_words(&x[r][v]));
                for half in 0..2 {
                    let d = slope(y[half], load(&sums[2 * r + half][h]));
                    total[half] = if v == 0 { d } else { _mm512_add_ps(total[half], d) };
                    words[half][i] = rounded(d);
                }
                store_words(&mut pairs[r][v], pair(words[0][i], words[1][i]));
            }
            for half in 0..2 {
                store_words(
                    &mut samples[2 * r + half][H / 2 * part + k],
                    pair(words[half][0], words[half][1]),
                );
            }
        }
        for half in 0..2 {
            store_words(&mut totals[2 * r + half], _mm512_castps_si512(total[half]));
        }
    }
}

/// Pairs of 32 features over 64 samples, as pairs of samples: `out[k][h]` has in row n and word p the numbers of feature 2p + h of the
/// samples n of vectors 2k and 2k + 1.
#[target_feature(enable = "avx512f")]
pub(crate) fn transpose(x: &[[Words; VECTORS]; LANES], out: &mut [[Tile<u32>; 2]; 2]) {
    let low = _mm512_set1_epi32(0xffff);
    for (k, [even, odd]) in out.iter_mut().enumerate() {
        for first in (0..LANES).step_by(4) {
            let [a, b] = [columns(x, 2 * k, first), columns(x, 2 * k + 1, first)];
            for n in 0..4 {
                // Where the mask is set `a`, elsewhere what was shifted.
                let lows = _mm512_ternarylogic_epi32::<0xac>(low, _mm512_slli_epi32::<16>(b[n]), a[n]);
                store_words(&mut even.0[first + n], lows);
                store_words(&mut odd.0[first + n], pair(a[n], b[n]));
            }
        }
    }
}

/// Columns `first .. first + 4` of vector `v` of 16 rows. Quarters of rows p, p + 4, p + 8 and p + 12 make a vector; four such vectors are
/// transposed by shuffles within their quarters.
#[inline]
#[target_feature(enable = "avx512f")]
fn columns(x: &[[Words; VECTORS]; LANES], v: usize, first: usize) -> [__m512i; 4] {
    let gathered = |p: usize| {
        let quarter = |row: usize| load_quarter(&x[row][v], first);
        let all = _mm512_castsi128_si512(quarter(p));
        let all = _mm512_inserti32x4::<1>(all, quarter(p + 4));
        let all = _mm512_inserti32x4::<2>(all, quarter(p + 8));
        _mm512_inserti32x4::<3>(all, quarter(p + 12))
    };
    let [a, b, c, d] = [gathered(0), gathered(1), gathered(2), gathered(3)];
    let [ab, cd] = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
    let [ab_high, cd_high] = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
    [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}
