//! Sine and cosine: reduction to abs(r) <= pi/4 by a multiple of pi/2 held in three parts, then the series. NaN where the reduction does not
//! hold.

use super::polynomial;
use crate::lane::{Float, Int, Mask};

/// Sine and cosine of `x` in radians: NaN beyond abs(x) = 2^20 in single precision and 2^31 in double precision.
#[inline(always)]
pub fn sin_cos<F: Float>(x: F) -> (F, F) {
    // Beyond it rounding moves the multiple of pi/2 by more than a tenth, or it does not fit an Int.
    let most = if F::DOUBLE { 2_147_483_648.0 } else { 1_048_576.0 };
    let x = x.abs().le(F::splat(most)).select(x, F::splat(f64::NAN));
    let turns = (x * F::splat(core::f64::consts::FRAC_2_PI)).round();
    // pi/2 as a sum of three numbers of the lane's precision: a fused product with each loses nothing.
    let [high, middle, low] = if F::DOUBLE {
        [
            f64::from_bits(0x3FF9_21FB_5444_2D18),
            f64::from_bits(0x3C91_A626_3314_5C07),
            -1.497_384_904_859_196_9e-33,
        ]
    } else {
        [1.570_796_370_506_286_6, -4.371_138_828_673_793e-8, -1.715_124_510_005_819e-15]
    };
    let r = turns.mul_add(F::splat(-high), x);
    let r = turns.mul_add(F::splat(-middle), r);
    let r = turns.mul_add(F::splat(-low), r);

    let r2 = r * r;
    // Minimax on abs(r) <= pi/4: (sin r - r) / r^3 and (cos r - 1 + r^2 / 2) / r^4 in powers of r^2.
    let (s, c) = if F::DOUBLE {
        (
            polynomial(
                r2,
                [
                    -1.666_666_666_666_663_2e-1,
                    8.333_333_333_322_49e-3,
                    -1.984_126_982_985_795e-4,
                    2.755_731_370_707_007e-6,
                    -2.505_076_025_340_686_4e-8,
                    1.589_690_995_211_55e-10,
                ],
            ),
            polynomial(
                r2,
                [
                    4.166_666_666_666_66e-2,
                    -1.388_888_888_887_411e-3,
                    2.480_158_728_947_673e-5,
                    -2.755_731_435_139_066_4e-7,
                    2.087_572_321_298_175e-9,
                    -1.135_964_755_778_819_5e-11,
                ],
            ),
        )
    } else {
        (
            polynomial(r2, [-1.666_665_461_1e-1, 8.332_160_873_6e-3, -1.951_529_589_1e-4]),
            polynomial(r2, [4.166_664_568_3e-2, -1.388_731_625_5e-3, 2.443_315_711_8e-5]),
        )
    };
    let sin = (r * r2).mul_add(s, r);
    let cos = (r2 * r2).mul_add(c, r2.mul_add(F::splat(-0.5), F::splat(1.0)));

    let quadrant = turns.to_int();
    let zero = F::Int::splat(0);
    let odd = (quadrant & F::Int::splat(1)).ne(zero);
    let sin_negative = (quadrant & F::Int::splat(2)).ne(zero);
    let cos_negative = ((quadrant + F::Int::splat(1)) & F::Int::splat(2)).ne(zero);
    let (sin, cos) = (odd.select(cos, sin), odd.select(sin, cos));
    (sin_negative.select(-sin, sin), cos_negative.select(-cos, cos))
}
