//! Describes this machine, plans threads and sizes for it, and samples CPU, memory and GPU utilization.
//!
//! This crate only reads; it is not a scheduler. It does not depend on training, rings or run directories. The caller of
//! [`Sampler::sample`] chooses the interval and where the values go. The caller of [`plan::Plan::new`] describes the
//! workload and applies the plan.
//!
//! Modules: [`cores`] has the kinds of cores, [`machine`] the processor's name and the memory, [`topology`] the whole machine
//! and the limits of control groups, [`plan`] the plan for worker threads. `cpu`, `memory` and `gpu` each measure one
//! quantity; `sampler` combines them.
//!
//! Everything is read from Linux's `/proc` and `/sys` and from NVIDIA's NVML; on macOS from `sysctl`, `vm_stat` and the kernel's tables.
//! What a system does not report is NaN or empty.

#![cfg_attr(not(target_os = "macos"), forbid(unsafe_code))] // os/macos.rs calls the system
#![allow(missing_docs)] // an internal crate: documented only where the name is not enough

pub mod cores;
mod cpu;
mod gpu;
pub mod machine;
mod memory;
mod os;
pub mod plan;
mod sampler;
pub mod topology;

pub use cores::{CoreKind, CpuCore};
pub use cpu::CoreSample;
pub use gpu::GpuSample;
pub use memory::resident_memory;
pub use plan::{Plan, PlanRequest, PlannedSetting, Waiting, Workload};
pub use sampler::{HostSample, Sampler};
pub use topology::{Topology, Vendor};
