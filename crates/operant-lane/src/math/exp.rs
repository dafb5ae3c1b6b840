//! Exponential and natural logarithm.

use super::polynomial;
use crate::lane::{Float, Int, Mask};

/// ln 2 in two parts; the first has zeros enough that any exponent times it is exact.
const LN2: ([f64; 2], [f64; 2]) =
    ([0.693_359_375, -2.121_944_400_546_905_8e-4], [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10]);

/// e to the `x`: infinity above the largest finite result, zero below the smallest, NaN for NaN.
#[inline(always)]
pub fn exp<F: Float>(x: F) -> F {
    let (low, high) = if F::DOUBLE { (-746.0, 710.0) } else { (-104.0, 89.0) };
    let x = x.clamp(F::splat(low), F::splat(high));
    let n = (x * F::splat(core::f64::consts::LOG2_E)).round();
    let [ln2_high, ln2_low] = if F::DOUBLE { LN2.1 } else { LN2.0 };
    let r = n.mul_add(F::splat(-ln2_low), n.mul_add(F::splat(-ln2_high), x));
    // (e^r - 1 - r) / r^2 on abs(r) <= ln(2)/2: Taylor's series, its last terms economised.
    let p = if F::DOUBLE {
        polynomial(
            r,
            [
                0.5,
                1.0 / 6.0,
                1.0 / 24.0,
                1.0 / 120.0,
                1.0 / 720.0,
                1.0 / 5040.0,
                1.0 / 40_320.0,
                1.0 / 362_880.0,
                1.0 / 3_628_800.0,
                1.0 / 39_916_800.0,
                1.0 / 479_001_600.0,
            ],
        )
    } else {
        polynomial(
            r,
            [0.5, 1.666_666_55e-1, 4.166_579_59e-2, 8.333_452_1e-3, 1.398_199_95e-3, 1.987_569_15e-4],
        )
    };
    let mantissa = (r * r).mul_add(p, r) + F::splat(1.0);
    // Two factors, because 2^n itself may be subnormal or infinite when the product is not.
    let n = n.to_int();
    let half = n.shr(1);
    mantissa * F::exp2i(half) * F::exp2i(n - half)
}

/// Natural logarithm: -infinity at zero, NaN below, infinity at infinity.
#[inline(always)]
pub fn ln<F: Float>(x: F) -> F {
    let one = F::splat(1.0);
    // Subnormal numbers are scaled into the normal range first.
    let smallest = F::splat(if F::DOUBLE { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) });
    let shift = if F::DOUBLE { 54.0 } else { 25.0 };
    let subnormal = x.lt(smallest);
    let (m, e) = subnormal.select(x * F::splat(2f64.powf(shift)), x).mantissa_exponent();
    let e = F::from_int(e) - subnormal.select(F::splat(shift), F::splat(0.0));
    let above = m.gt(F::splat(core::f64::consts::SQRT_2));
    let m = above.select(m * F::splat(0.5), m);
    let e = above.select(e + one, e);

    // ln(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2))) with s = f / (2 + f).
    let f = m - one;
    let s = f / (f + F::splat(2.0));
    let z = s * s;
    let remainder = if F::DOUBLE {
        polynomial(
            z,
            [
                6.666_666_666_666_735e-1,
                3.999_999_999_940_942e-1,
                2.857_142_874_366_239e-1,
                2.222_219_843_214_978_4e-1,
                1.818_357_216_161_805e-1,
                1.531_383_769_920_937_3e-1,
                1.479_819_860_511_658_6e-1,
            ],
        )
    } else {
        polynomial(z, [6.666_666_269e-1, 4.000_097_215e-1, 2.849_878_67e-1, 2.427_907_884e-1])
    };
    let half = f * f * F::splat(0.5);
    let [ln2_high, ln2_low] = if F::DOUBLE { LN2.1 } else { LN2.0 };
    let tail = s.mul_add(z.mul_add(remainder, half), e * F::splat(ln2_low));
    let value = e.mul_add(F::splat(ln2_high), f - (half - tail));

    let zero = F::splat(0.0);
    let infinity = F::splat(f64::INFINITY);
    let value = x.eq(infinity).select(infinity, value);
    let value = x.eq(zero).select(-infinity, value);
    // Negative numbers and NaN are the ones that are not at least zero.
    zero.le(x).select(value, F::splat(f64::NAN))
}
