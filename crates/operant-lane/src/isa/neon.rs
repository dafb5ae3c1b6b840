//! AArch64 with NEON. There is no gather, and 16 numbers take 4 of the 32 registers.

use super::InstructionSet;

/// Its minimum of a number and NaN is NaN, and -0 is less than 0.
pub const SET: InstructionSet =
    InstructionSet { name: "NEON", registers: 32, lanes: 4, fused: true, takes_second: false };

/// `a * b + c`, rounded once.
#[inline(always)]
pub fn fused(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// The same of each number.
#[inline(always)]
pub fn fused_all<const N: usize>(a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
    core::array::from_fn(|i| fused(a[i], b[i], c[i]))
}
