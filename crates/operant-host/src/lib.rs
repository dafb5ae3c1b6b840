//! What machine this is: the cores that the process may use and their kinds, and a sampler of CPU, memory and GPU use.
//!
//! It is *not* a scheduler: it reads, and changes nothing. It knows nothing of training, of rings or of files that a run
//! writes; whoever calls [`Sampler::sample`] decides how often and where the values go.
//!
//! Rooms: [`cores`] has the kinds of cores (caches, NUMA nodes and cgroup limits belong beside it, and a plan of threads
//! above it), [`machine`] the processor's name and the memory; `cpu`, `memory` and `gpu` each measure one thing;
//! `sampler` puts them together.
//!
//! Everything is read from Linux's `/proc` and `/sys` and from NVIDIA's NVML. Elsewhere it compiles, and the values are
//! NaN or empty.

#![forbid(unsafe_code)]

pub mod cores;
mod cpu;
mod gpu;
pub mod machine;
mod memory;
mod sampler;

pub use cores::{CoreKind, CpuCore};
pub use cpu::CoreSample;
pub use gpu::GpuSample;
pub use memory::resident_memory;
pub use sampler::{HostSample, Sampler};
