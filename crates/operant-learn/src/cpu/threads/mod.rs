//! Threads of the CPU backend: their number and CPUs, how they wait for small jobs and whether they share them, and phase timers.

pub(crate) mod balance;
pub(crate) mod pool;
pub(crate) mod team;
pub mod timers;
