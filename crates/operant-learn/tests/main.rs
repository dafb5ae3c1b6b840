//! The tests of the learner on the CPU and, on the simulated GPU, of its kernels. `footprint.rs` is a program of its own.

mod cases;
mod support;

mod any_env;
mod backend;
mod bf16;
mod cpu_options;
mod cuda;
mod gradients;
mod group;
mod memory;
mod update;
