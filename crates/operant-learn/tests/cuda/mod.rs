//! The GPU backend without a GPU: the real kernels, compiled for the host and run thread by thread by a stand-in for the driver,
//! against the CPU backend.
//!
//! The devices of the stand-in (kernels/host/driver.h) differ in the order in which threads run: 0 in order, 1 in reverse, 2 shuffled. A
//! result that depends on it misses a barrier.

mod ahead;
mod backend;
mod corners;
mod gemm;
mod group;
mod muon;
mod nvrtc;
mod off_policy;
mod options;
mod pqn;
mod rnd;
mod rollout;
mod step;
mod training;
mod training_loop;
mod two_players;
mod update;

use operant_learn::Precision;

use crate::support::gpu::ORDERS;

/// Which of the settings that a case has: the default tier takes one of them in turn, and `--all` the others.
#[derive(Clone, Copy, PartialEq)]
enum Share {
    One,
    Others,
}

impl Share {
    fn of<T, const N: usize>(self, settings: [T; N], case: usize) -> impl Iterator<Item = T> {
        let is_mine = move |k: usize| (k == case % N) == (self == Share::One);
        settings.into_iter().enumerate().filter(move |(k, _)| is_mine(*k)).map(|(_, setting)| setting)
    }
}

/// An order of threads for each precision.
fn precisions() -> [(usize, Precision); 3] {
    std::array::from_fn(|k| (ORDERS[k], Precision::ALL[k]))
}
