//! What machine this is, what to make of it, and a sampler of CPU, memory and GPU use.
//!
//! It is *not* a scheduler: it reads, and changes nothing. It knows nothing of training, of rings or of files that a run
//! writes; whoever calls [`Sampler::sample`] decides how often and where the values go, and whoever makes a [`plan::Plan`]
//! says what the work is like and carries it out.
//!
//! Rooms: [`cores`] has the kinds of cores, [`machine`] the processor's name and the memory, [`topology`] the whole machine
//! and what control groups leave of it, [`plan`] what follows for worker threads; `cpu`, `memory` and `gpu` each measure one
//! thing; `sampler` puts them together.
//!
//! Everything is read from Linux's `/proc` and `/sys` and from NVIDIA's NVML, the topology on macOS from `sysctl`. Elsewhere
//! it compiles, and the values are NaN or empty.

#![forbid(unsafe_code)]

pub mod cores;
mod cpu;
mod gpu;
pub mod machine;
mod memory;
pub mod plan;
mod sampler;
pub mod topology;

pub use cores::{CoreKind, CpuCore};
pub use cpu::CoreSample;
pub use gpu::GpuSample;
pub use memory::resident_memory;
pub use plan::{Plan, Setting, Waiting, Wishes, Work};
pub use sampler::{HostSample, Sampler};
pub use topology::{Topology, Vendor};
