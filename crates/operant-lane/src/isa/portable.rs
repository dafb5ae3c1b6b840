//! The portable set, for any other processor: nothing is taken for granted.

use super::InstructionSet;

/// The compiler chooses the instructions.
pub const SET: InstructionSet = InstructionSet {
    name: "no vector instructions",
    registers: 16,
    lanes: 1,
    fused: false,
    takes_second: false,
};

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
