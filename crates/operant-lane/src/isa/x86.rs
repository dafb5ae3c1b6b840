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
