//! The instruction sets of x86-64.

use super::InstructionSet;

/// What was compiled for: AVX-512, AVX2, AVX, or SSE2, which every x86-64 has.
pub const SET: InstructionSet = if cfg!(target_feature = "avx512f") {
    InstructionSet { name: "AVX-512", registers: 32, lanes: 16, ..AVX }
} else if cfg!(target_feature = "avx2") {
    InstructionSet { name: "AVX2", ..AVX }
} else if cfg!(target_feature = "avx") {
    AVX
} else {
    InstructionSet { name: "SSE2", lanes: 4, ..AVX }
};

const AVX: InstructionSet = InstructionSet {
    name: "AVX",
    registers: 16,
    lanes: 8,
    fused: cfg!(target_feature = "fma"),
    takes_second: true,
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
