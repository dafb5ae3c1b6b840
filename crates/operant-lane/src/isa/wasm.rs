//! WebAssembly with SIMD128, in browsers since 2023. It has no fused multiply-add, so that one is computed in double precision.
//!
//! The product of two singles is exact there. The sum is rounded twice, and that matters only where the first rounding ends in a half of the
//! last bit of a single, or where the result is not zero and at most the least normal number; then [`rounded_to_odd`] decides. A sum that
//! becomes zero is exact in double precision: it has at most 50 bits.

use core::arch::wasm32::*;

use super::InstructionSet;

/// What minimum and maximum do with NaN and signed zeros differs from the lanes.
pub const SET: InstructionSet =
    InstructionSet { name: "SIMD128", registers: 16, lanes: 4, fused: false, takes_second: false };

/// The bits of a double below the last one of a single, and half of that one. All are in the lower word.
const BELOW: u32 = (1 << 29) - 1;
const HALF: u32 = 1 << 28;
/// The bits of the least normal number in single precision.
const LEAST: u32 = f32::MIN_POSITIVE.to_bits();

/// `a * b + c`, rounded once. A call: inlined into every environment it would be most of their code.
#[inline(never)]
pub fn fused(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let rounded = sum as f32;
    let is_small = rounded.abs().to_bits().wrapping_sub(1) < LEAST;
    if sum.to_bits() as u32 & BELOW == HALF || is_small { rounded_to_odd(product, c) as f32 } else { rounded }
}

/// The same of each number; N is a multiple of 4.
#[inline(always)]
pub fn fused_all<const N: usize>(a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
    const { assert!(N.is_multiple_of(4)) };
    let mut all = [0.0; N];
    for i in (0..N).step_by(4) {
        let four = |x: &[f32; N]| f32x4(x[i], x[i + 1], x[i + 2], x[i + 3]);
        let (a, b, c) = (four(&a), four(&b), four(&c));
        // Of zeros the product is exact: of lanes that nobody reads, or inputs that ReLU made zero.
        let sums = if v128_any_true(b) { fused_four(a, b, c) } else { f32x4_add(f32x4_mul(a, b), c) };
        all[i] = f32x4_extract_lane::<0>(sums);
        all[i + 1] = f32x4_extract_lane::<1>(sums);
        all[i + 2] = f32x4_extract_lane::<2>(sums);
        all[i + 3] = f32x4_extract_lane::<3>(sums);
    }
    all
}

#[inline(always)]
fn fused_four(a: v128, b: v128, c: v128) -> v128 {
    let upper = |x: v128| i64x2_shuffle::<1, 1>(x, x);
    let low = sum_of_two(a, b, c);
    let high = sum_of_two(upper(a), upper(b), upper(c));
    let rounded = i64x2_shuffle::<0, 2>(f32x4_demote_f64x2_zero(low), f32x4_demote_f64x2_zero(high));
    let below = v128_and(i32x4_shuffle::<0, 2, 4, 6>(low, high), u32x4_splat(BELOW));
    let is_half = i32x4_eq(below, u32x4_splat(HALF));
    let is_small = u32x4_lt(i32x4_sub(f32x4_abs(rounded), u32x4_splat(1)), u32x4_splat(LEAST));
    if v128_any_true(v128_or(is_half, is_small)) { one_by_one(a, b, c) } else { rounded }
}

/// The sums of the lower two numbers, in double precision.
#[inline(always)]
fn sum_of_two(a: v128, b: v128, c: v128) -> v128 {
    let product = f64x2_mul(f64x2_promote_low_f32x4(a), f64x2_promote_low_f32x4(b));
    f64x2_add(product, f64x2_promote_low_f32x4(c))
}

#[cold]
#[inline(never)]
fn one_by_one(a: v128, b: v128, c: v128) -> v128 {
    let lanes = |x: v128| {
        [
            f32x4_extract_lane::<0>(x),
            f32x4_extract_lane::<1>(x),
            f32x4_extract_lane::<2>(x),
            f32x4_extract_lane::<3>(x),
        ]
    };
    let (a, b, c) = (lanes(a), lanes(b), lanes(c));
    let [x, y, z, w] = core::array::from_fn(|i| fused(a[i], b[i], c[i]));
    f32x4(x, y, z, w)
}

/// The sum of two numbers or, where it is not exact, its neighbour whose last bit is set (Boldo and Melquiond 2008). It rounds to a shorter
/// number as the exact sum does.
#[cold]
#[inline(never)]
fn rounded_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // Knuth's TwoSum: what the sum lacks.
    let of_b = sum - a;
    let error = (a - (sum - of_b)) + (b - of_b);
    let bits = sum.to_bits();
    // False where it is NaN.
    let is_inexact = error < 0.0 || error > 0.0;
    let is_above = (error > 0.0) == (sum > 0.0);
    match is_inexact && bits & 1 == 0 {
        true => f64::from_bits(if is_above { bits + 1 } else { bits - 1 }),
        false => sum,
    }
}
