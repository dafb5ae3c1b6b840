//! `pack.cu`: flat parameters into the form that kernels read.

use super::{blocks, exactly};
use crate::{Buffer, CudaError, Function, Grid, Module, Plain, Stream};

const THREADS: u32 = 256;

#[repr(C)]
#[derive(Clone, Copy)]
struct PackParams {
    parameters: u64,
    packed: u64,
}

// SAFETY: two addresses, without padding.
unsafe impl Plain for PackParams {}

/// The kernel `pack`.
#[derive(Debug)]
pub struct Pack {
    function: Function,
    parameters: usize,
    packed: usize,
}

impl Pack {
    /// From a module of `pack.cu` for a network of that many parameters, which take `packed` words.
    ///
    /// # Errors
    /// When the module has no such kernel.
    pub fn new(module: &Module, parameters: usize, packed: usize) -> Result<Self, CudaError> {
        Ok(Self { function: module.function("pack")?, parameters, packed })
    }

    /// Packs `parameters` (P) into `packed`.
    ///
    /// # Errors
    /// When a buffer has another length, or the launch fails.
    pub fn launch(
        &self,
        stream: &Stream,
        parameters: &Buffer<f32>,
        packed: &Buffer<f32>,
    ) -> Result<(), CudaError> {
        let params = PackParams {
            parameters: exactly("parameters", parameters, self.parameters)?,
            packed: exactly("packed weights", packed, self.packed)?,
        };
        let grid = Grid { blocks: blocks(self.packed, THREADS), threads: THREADS, shared: 0 };
        // SAFETY: the struct is the kernel's, a thread writes one of `packed` words and reads below P, both checked.
        unsafe { self.function.launch(stream, grid, &params) }
    }
}
