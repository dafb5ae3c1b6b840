//! Elementary functions in lane arithmetic, so that they give the same bits on every lane and device.
//!
//! Largest errors, in units in the last place of the exact result; `tests/accuracy.rs` measures them and fails above:
//!
//! | function | range | f32 lanes | f64 |
//! | --- | --- | --- | --- |
//! | sin, cos | abs(x) <= 8192 | 2 | 1.5 |
//! | exp | results that are normal numbers | 1.5 | 1.5 |
//! | ln | positive normal numbers | 1.5 | 1.5 |
//! | tanh | all | 5 | 4 |
//!
//! Beyond abs(x) = 8192 sine and cosine lose a bit of relative accuracy per doubling near their zeros; their absolute error stays below 1.2e-7
//! up to abs(x) = 2^20 (f64: 1e-15 up to 2^31), beyond which they are NaN. exp of a subnormal result rounds twice.

pub mod exp;
pub mod tanh;
pub mod trig;

use crate::lane::Float;

/// The polynomial with coefficients `c`, constant term first, by Horner's rule.
#[inline(always)]
pub(crate) fn polynomial<F: Float, const N: usize>(x: F, c: [f64; N]) -> F {
    let mut sum = F::splat(c[N - 1]);
    for i in (0..N - 1).rev() {
        sum = sum.mul_add(x, F::splat(c[i]));
    }
    sum
}
