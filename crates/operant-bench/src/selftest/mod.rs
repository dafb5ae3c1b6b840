//! `operant selftest`: checks that pass or fail, on this machine and without a toolchain.

mod child;
mod cpu;
mod gpu;
mod report;

pub use cpu::check_cpu;
pub use gpu::check_gpu;
pub use report::Report;

/// The extent of a self-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelftestOptions {
    /// Seconds instead of minutes: fewer and smaller sizes.
    pub quick: bool,
    /// For a GPU: only compile share K of N of the kernels that the test compiles first.
    pub compile: Option<[usize; 2]>,
}
