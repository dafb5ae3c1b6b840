//! What `operant selftest` runs: checks that pass or fail, and speeds, on this machine and without a toolchain.

mod child;
mod cpu;
mod gpu;
mod report;
mod watch;

pub use cpu::check_cpu;
pub use gpu::check_gpu;
pub use report::Report;

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Seconds instead of minutes: fewer sizes, short measurements.
    pub quick: bool,
}
