//! The arithmetic of the networks. Environments are always single precision.

use crate::choice;

choice! {
    /// The precision of matrix products; sums are always f32. The most exact comes first.
    #[derive(Default)]
    pub enum Precision {
        /// Single precision: the reference.
        #[default]
        F32 = "f32",
        /// Operands rounded to 10 bits of mantissa, on tensor cores.
        Tf32 = "tf32",
        /// Operands rounded to 7 bits of mantissa, on tensor cores, or in fully connected layers on CPUs with AMX or AVX512_BF16.
        Bf16 = "bf16",
    }
}
