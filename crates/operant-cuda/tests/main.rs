//! operant-cuda on the simulated GPU, with the real NVRTC, and without libraries: one test program, a module for each topic.

#[path = "support/stand_in.rs"]
mod stand_in;

mod blas;
mod driver;
mod nccl;
mod no_library;
mod nvrtc;
mod peak;
mod simulation;
