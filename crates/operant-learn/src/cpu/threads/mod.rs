//! Threads of the CPU backend: how many and where, how they wait for small jobs, and where their time goes.

pub(crate) mod crew;
pub(crate) mod pool;
pub mod timers;
