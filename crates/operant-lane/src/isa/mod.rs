//! The instruction set that this build is compiled for. It decides speed, never results.
//!
//! A set is a file here; kernels take their shape from [`SET`] and [`HOLDS_BLOCKS`] and name no set. `xtask/tests/files.rs` checks this.

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
#[path = "neon.rs"]
mod built;
#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
)))]
#[path = "portable.rs"]
mod built;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[path = "wasm.rs"]
mod built;
#[cfg(target_arch = "x86_64")]
#[path = "x86.rs"]
mod built;

pub use built::{SET, fused, fused_all};

/// The vectors that kernels are written with, whatever the set: those of the `wide` crate, 16 lanes in as many registers as it takes.
pub use wide::{f32x8, f32x16, i32x8, i32x16, u32x8, u32x16};

/// What depends on the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionSet {
    /// Its name.
    pub name: &'static str,
    /// Vector registers.
    pub registers: usize,
    /// Numbers of 32 bits in a register.
    pub lanes: usize,
    /// Whether there is a fused multiply-add of vectors. Without one every number's may be a function call.
    pub fused: bool,
    /// Whether the instructions for minimum and maximum take the second operand where one is NaN or both are zero, as lanes define them.
    pub takes_second: bool,
}

/// Whether the registers hold 16 sums of 16 numbers each, and 5 operands. Elsewhere kernels have blocks of 4 sums.
pub const HOLDS_BLOCKS: bool = SET.registers * SET.lanes >= (16 + 5) * 16;

// A wrong shape does not compile.
const _: () = assert!(SET.lanes.is_power_of_two() && SET.lanes <= 16 && HOLDS_BLOCKS == (SET.lanes == 16));
