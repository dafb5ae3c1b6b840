//! Threads of the CPU backend: their number and CPUs, how they wait for small jobs, and phase timers.

pub(crate) mod pool;
pub(crate) mod team;
pub mod timers;
