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
