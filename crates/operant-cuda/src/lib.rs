//! NVIDIA GPUs with every call checked: finds the driver and the run-time compiler, compiles kernels and caches them on
//! disk, and provides memory, streams, events, graphs and launches whose failures are errors and never panics.
//!
//! It does not bind all of CUDA, and it has no code for environments, networks or learners. Nothing is linked:
//! [`Cuda::find`] opens the libraries and looks up every function before any is called. On a machine without them it returns
//! an error that names the package to install. Drivers of CUDA 12 and 13 both work.
//!
//! The layers: `driver`, `nvrtc` and `blas/library` are tables of raw functions whose types are checked against cudarc's
//! at compile time, `context` turns a failed call into a [`CudaError`], and the rest is safe. A kernel's parameters are
//! declared once ([`params!`]), and [`Function::run`] launches it with every buffer's length checked. Only a launch without
//! such a declaration is unsafe, since no type describes what a kernel does with its pointers.
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

#![allow(unsafe_code)] // Foreign functions and device pointers; every block has a SAFETY comment.
#![allow(missing_docs)] // an internal crate: documented only where the name is not enough

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
mod nccl;
mod nvrtc;
mod params;
mod peak;
mod pinned;
mod plain;
mod program;
mod properties;
mod resources;
mod search_paths;
mod stream;
mod table;
mod transfers;

pub use blas::{Blas, Element, Epilogue, Gemm, GemmShape, InputPrecision, Operand, SYMBOLS as BLAS_SYMBOLS};
pub use cache::default_directory as cache_directory;
pub use compiler::{CompiledProgram, Compiler};
pub use device::{Device, MINIMUM_CAPABILITY, Memory};
pub use driver::SYMBOLS as DRIVER_SYMBOLS;
pub use error::{CudaError, Failure};
pub use find::{Cuda, Inspection, LibraryStatus, MINIMUM_DRIVER, inspect, inspect_at};
pub use graph::Graph;
pub use library::{Library, Version};
pub use memory::{Arena, Buffer};
pub use module::{Function, LaunchConfig, Module};
pub use nccl::{Communicator, CommunicatorId, SYMBOLS as NCCL_SYMBOLS, Summable};
pub use nvrtc::SYMBOLS as COMPILER_SYMBOLS;
pub use params::{CudaType, Declarations, Params, line};
pub use peak::{Multiplier, Peak};
pub use pinned::Pinned;
pub use plain::Plain;
pub use program::Program;
pub use properties::DeviceProperties;
pub use resources::{FunctionUse, Resources};
pub use search_paths::SearchPaths;
pub use stream::{Event, Stream};
pub use transfers::Transfers;

/// Items used by macro expansions.
#[doc(hidden)]
pub mod macros {
    pub use crate::params::{CudaType, Declarations, Params, exactly, exactly_if};
    pub use crate::{CudaError, Plain, Stream};
}
