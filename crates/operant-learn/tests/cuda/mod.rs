//! The GPU backend without a GPU: the real kernels, compiled for the host and run thread by thread by a stand-in for the driver,
//! against the CPU backend.
//!
//! The devices of the stand-in (kernels/host/driver.h) differ in the order in which threads run: 0 in order, 1 in reverse, 2 shuffled. A
//! result that depends on it misses a barrier.

mod backend;
mod corners;
mod gemm;
mod group;
mod nvrtc;
mod rollout;
mod step;
mod training;
mod training_loop;
mod update;

/// Threads in order, in reverse and shuffled.
const ORDERS: [usize; 3] = [0, 1, 2];
