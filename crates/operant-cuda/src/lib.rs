//! NVIDIA GPUs, with every call checked: finds the driver and the run-time compiler, compiles kernels and caches them on
//! disk, and gives memory, streams, events, graphs and launches whose failures are errors and never panics.
//!
//! It is not a binding of all of CUDA, and it knows no environment, no network and no learner. Nothing is linked: the
//! libraries are opened when [`Cuda::find`] is called, every function is looked up before any is called, and a machine
//! without them gets an error that says what to install. Drivers of CUDA 12 and 13 both work.
//!
//! The layers: `driver`, `nvrtc` and `blas/library` are tables of raw functions whose types are checked against cudarc's
//! when this is compiled, `context` turns a failed call into a [`CudaError`], and the rest is safe. What a kernel takes is declared
//! once ([`params!`]), and [`Function::run`] launches it with every buffer's length checked; only a launch without such a
//! declaration is unsafe, since no type tells what a kernel does with its pointers.
//!
//! ```no_run
//! # fn main() -> Result<(), operant_cuda::CudaError> {
//! let device = operant_cuda::Cuda::find()?.open(0)?;
//! let stream = device.stream()?;
//! let rewards = device.alloc::<f32>(8_192)?;
//! rewards.fill(&stream, 0)?;
//! assert_eq!(rewards.read(&stream)?, vec![0.0; 8_192]);
//! # Ok(())
//! # }
//! ```

#![allow(unsafe_code)] // The room for it: foreign functions and device pointers. Every block is argued.

mod blas;
mod cache;
mod compiler;
mod context;
mod device;
mod driver;
mod error;
mod find;
mod graph;
mod library;
mod memory;
mod module;
mod nvrtc;
mod params;
mod peak;
mod pinned;
mod places;
mod plain;
mod program;
mod properties;
mod resources;
mod stream;
mod table;
mod transfers;

pub use blas::{Blas, Element, Epilogue, Gemm, GemmShape, Operand, Products, SYMBOLS as BLAS_SYMBOLS};
pub use compiler::{Compiler, Image};
pub use device::{Device, MINIMUM_CAPABILITY, Memory};
pub use driver::SYMBOLS as DRIVER_SYMBOLS;
pub use error::{CudaError, Failure};
pub use find::{Cuda, Inspection, MINIMUM_DRIVER, Part, inspect, inspect_at};
pub use graph::Graph;
pub use library::{Library, Version};
pub use memory::{Arena, Buffer};
pub use module::{Function, Grid, Module};
pub use nvrtc::SYMBOLS as COMPILER_SYMBOLS;
pub use params::{CudaType, Declarations, Params, line};
pub use peak::{Multiplier, Peak};
pub use pinned::Pinned;
pub use places::Places;
pub use plain::Plain;
pub use program::Program;
pub use properties::DeviceProperties;
pub use resources::{FunctionUse, Resources};
pub use stream::{Event, Stream};
pub use transfers::Transfers;

/// What the macros' expansions name.
#[doc(hidden)]
pub mod macros {
    pub use crate::params::{CudaType, Declarations, Params, exactly, exactly_if};
    pub use crate::{CudaError, Plain, Stream};
}
