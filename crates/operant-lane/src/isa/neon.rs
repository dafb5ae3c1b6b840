//! AArch64 with NEON. There is no gather, and 16 numbers take 4 of the 32 registers.

use super::InstructionSet;

/// Its minimum of a number and NaN is NaN, and -0 is less than 0.
pub const SET: InstructionSet =
    InstructionSet { name: "NEON", registers: 32, lanes: 4, fused: true, takes_second: false };
