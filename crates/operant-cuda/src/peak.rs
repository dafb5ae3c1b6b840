//! `peak.cu`: measures the device's peak throughput.

use crate::{Buffer, CudaError, Declarations, Function, LaunchConfig, Module, Params, Program, Stream};

const THREADS: u32 = 256;
/// Multiply-adds per thread and round in f32.
const CHAINS: u32 = 16;
/// Matrix products per warp and round on the tensor cores.
const TILES: u32 = 8;

crate::params! {
    struct PeakParams<'a>(blocks: u32) for ["peak_f32", "peak_tf32", "peak_bf16"], blocks *blocks as usize, {
        /// (threads).
        out: writes [f32; Peak::threads(*blocks)],
        rounds: value [u32],
        factor: value [f32],
        addend: value [f32],
    }
}

crate::params! {
    /// Any number of blocks: they share the pairs.
    struct CopyParams<'a>(pairs: usize) for ["peak_copy"], blocks usize::MAX, {
        from: reads [u64 as ulonglong2; 2 * pairs],
        to: writes [u64 as ulonglong2; 2 * pairs],
        count: value [u64],
    }
}

/// The units that multiply and add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multiplier {
    /// The cores in single precision.
    F32,
    /// The tensor cores in tf32, by `mma.sync`.
    Tf32,
    /// The tensor cores in bf16, by `mma.sync`.
    Bf16,
}

impl Multiplier {
    /// Floating-point operations per block and round; a multiply-add counts as two.
    fn block_flops(self) -> u64 {
        let warps = u64::from(THREADS / 32);
        let tiles = 2 * 16 * 8 * u64::from(TILES);
        match self {
            Self::F32 => 2 * u64::from(CHAINS) * u64::from(THREADS),
            Self::Tf32 => tiles * 8 * warps,
            Self::Bf16 => tiles * 16 * warps,
        }
    }
}

/// The kernels of `peak.cu`.
#[derive(Debug)]
pub struct Peak {
    f32: Function,
    tf32: Function,
    bf16: Function,
    copy: Function,
}

impl Peak {
    /// The program, the same for all devices.
    pub fn program() -> Program {
        let mut declarations = Declarations::default();
        PeakParams::declare(&mut declarations);
        CopyParams::declare(&mut declarations);
        let header = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        Program {
            name: "peak".to_owned(),
            source: include_str!("../../../kernels/peak.cu").to_owned(),
            headers: vec![
                header("common/common.cuh", include_str!("../../../kernels/common/common.cuh")),
                header("common/mma.cuh", include_str!("../../../kernels/common/mma.cuh")),
                header("params.cuh", &declarations.header()),
            ],
            defines: Vec::new(),
        }
    }

    /// Takes the kernels from a module of [`Peak::program`].
    ///
    /// # Errors
    /// When the module lacks a kernel.
    pub fn new(module: &Module) -> Result<Self, CudaError> {
        let function = |name| module.function(name);
        Ok(Self {
            f32: function("peak_f32")?,
            tf32: function("peak_tf32")?,
            bf16: function("peak_bf16")?,
            copy: function("peak_copy")?,
        })
    }

    /// Numbers that [`Peak::multiply`] writes with this many blocks: one per thread.
    pub fn threads(blocks: u32) -> usize {
        blocks as usize * THREADS as usize
    }

    /// Multiplies and adds for `rounds` rounds, in as many blocks as `out` holds, and returns the number of operations.
    ///
    /// # Errors
    /// When `out` is not a whole number of blocks, or the launch fails.
    pub fn multiply(
        &self,
        stream: &Stream,
        multiplier: Multiplier,
        out: &Buffer<f32>,
        rounds: u32,
        [factor, addend]: [f32; 2],
    ) -> Result<f64, CudaError> {
        let blocks = (out.len() / THREADS as usize) as u32;
        let params = PeakParams { out, rounds, factor, addend };
        let function = match multiplier {
            Multiplier::F32 => &self.f32,
            Multiplier::Tf32 => &self.tf32,
            Multiplier::Bf16 => &self.bf16,
        };
        let grid = LaunchConfig { blocks, threads: THREADS, shared: 0 };
        function.run(stream, grid, &params, &blocks)?;
        Ok(multiplier.block_flops() as f64 * f64::from(blocks) * f64::from(rounds))
    }

    /// Copies `from` to `to` with this many blocks: all bytes are read once and written once.
    ///
    /// # Errors
    /// When the buffers differ in length, are not multiples of 16 bytes in length and address, or the launch fails.
    pub fn copy(
        &self,
        stream: &Stream,
        from: &Buffer<u64>,
        to: &Buffer<u64>,
        blocks: u32,
    ) -> Result<(), CudaError> {
        let count = from.len() / 2;
        if !from.pointer().is_multiple_of(16) || !to.pointer().is_multiple_of(16) {
            return Err(CudaError::refused(
                "a copy of 16 bytes per thread is not aligned to 16 bytes",
                "copy whole buffers",
            ));
        }
        let params = CopyParams { from, to, count: count as u64 };
        self.copy.run(stream, LaunchConfig { blocks, threads: THREADS, shared: 0 }, &params, &count)
    }
}
