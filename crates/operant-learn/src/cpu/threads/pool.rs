//! How the CPU backend uses the machine: number of threads, their CPUs, how they wait, environments per tile, and the precision of
//! products. All but the precision change the time, never a result.

use operant_bf16::Unit;
use operant_env::LaneWidth;

use crate::backend::LearnError;
use crate::cpu::network::tile::{LANES, TILE};
use crate::os::bind;
use crate::precision::Precision;

/// How threads wait for the next small job of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Poll for about ten microseconds, then yield between polls: best when every thread has a core.
    #[default]
    Spin,
    /// Yield the core almost at once: for more threads than cores.
    Yield,
    /// Sleep until there is a job, which takes tens of microseconds to wake from: for a quota of CPU time, which polling
    /// would use up.
    Sleep,
}

impl WaitStrategy {
    /// Polls before the core is yielded; None to sleep.
    pub(crate) fn spins(self) -> Option<u32> {
        match self {
            WaitStrategy::Spin => Some(256),
            WaitStrategy::Yield => Some(8),
            WaitStrategy::Sleep => None,
        }
    }
}

/// How a CPU backend uses the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuOptions {
    /// Number of threads; 0 is as many as the process may run at once.
    pub threads: usize,
    /// The CPU, as the system numbers them, that each thread is bound to; threads beyond the list are left to the scheduler.
    pub pin: Vec<u32>,
    /// How threads wait.
    pub waiting: WaitStrategy,
    /// Environments of a rollout tile: one of [`ROLLOUT_TILES`], or 0 for a default that depends on their number.
    pub rollout_tile: usize,
    /// Environments per SIMD lane: one of [`LANE_WIDTHS`], or 0 for the widest that the processor supports.
    pub lane_width: usize,
    /// The unit that multiplies fully connected layers in bf16; None for products in f32. See [`unit_for`].
    pub bf16: Option<Unit>,
}

/// The unit for a precision on this CPU: None for f32, which needs no unit.
///
/// # Errors
/// Why this CPU does not compute in that precision, in one line.
pub fn unit_for(precision: Precision) -> Result<Option<Unit>, &'static str> {
    match precision {
        Precision::F32 => Ok(None),
        Precision::Bf16 => Unit::fastest().map(Some),
        Precision::Tf32 => Err("no CPU has tf32"),
    }
}

/// Valid values of [`CpuOptions::rollout_tile`].
pub const ROLLOUT_TILES: [usize; 3] = [LANES, 2 * LANES, TILE];

/// Valid values of [`CpuOptions::lane_width`]; a lane takes several vectors if the processor's are narrower.
pub const LANE_WIDTHS: [usize; 2] = [8, 16];

impl CpuOptions {
    /// Options for `threads` unbound threads, with defaults for everything else.
    pub fn new(threads: usize) -> Self {
        let waiting = WaitStrategy::default();
        Self { threads, pin: Vec::new(), waiting, rollout_tile: 0, lane_width: 0, bf16: None }
    }

    /// Environments that one instruction steps.
    pub fn lanes(&self) -> LaneWidth {
        match self.lane_width {
            0 => LaneWidth::WIDEST,
            8 => LaneWidth::Eight,
            _ => LaneWidth::Sixteen,
        }
    }
}

/// A pool of `count` unbound threads; 0 means as many as the process may run at once.
///
/// # Errors
/// When the system gives none.
pub(crate) fn threads(count: usize) -> Result<rayon::ThreadPool, LearnError> {
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(|index| format!("operant-{index}"));
    pool.build().map_err(|error| LearnError::Config {
        key: "threads",
        problem: format!("{count} threads cannot be started: {error}"),
        remedy: "use fewer threads".to_owned(),
    })
}

/// The pool, and why requested bindings of its threads failed, in one line.
///
/// # Errors
/// When the system gives no threads.
pub(crate) fn pool(options: &CpuOptions) -> Result<(rayon::ThreadPool, Option<String>), LearnError> {
    let pool = threads(options.threads)?;
    if options.pin.is_empty() {
        return Ok((pool, None));
    }
    // Not in the start handler of the threads, because its errors cannot be returned here.
    let bound = pool.broadcast(|thread| options.pin.get(thread.index()).map_or(Ok(()), |&cpu| bind(cpu)));
    let failures: Vec<String> = bound.into_iter().filter_map(Result::err).collect();
    let problem = failures.first().map(|first| match failures.len() {
        1 => first.clone(),
        count => format!("{first}; {count} threads in all run unbound"),
    });
    Ok((pool, problem))
}

/// Runs `work` on threads like those of training.
///
/// # Errors
/// When the system gives no threads.
pub fn on_threads<R: Send>(options: &CpuOptions, work: impl FnOnce() -> R + Send) -> Result<R, LearnError> {
    Ok(pool(options)?.0.install(work))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity};

    /// The CPUs that the calling thread may run on.
    fn mask() -> Vec<u32> {
        let set = sched_getaffinity(None).expect("a mask");
        (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect()
    }

    #[test]
    fn threads_run_where_they_are_bound_and_the_rest_anywhere() {
        let free = mask();
        let (first, last) = (free[0], free[free.len() - 1]);
        let options = CpuOptions { pin: vec![last, first], ..CpuOptions::new(3) };
        let (pool, problem) = pool(&options).expect("a pool");
        assert_eq!(problem, None);
        assert_eq!(pool.broadcast(|_| mask()), [vec![last], vec![first], free.clone()]);
        assert_eq!(mask(), free, "the caller stays as it was");
    }

    #[test]
    fn a_failed_binding_is_reported_once_and_the_threads_still_work() {
        let beyond = CpuSet::MAX_CPU as u32;
        let options = CpuOptions { pin: vec![beyond, u32::MAX, mask()[0]], ..CpuOptions::new(3) };
        let (pool, problem) = pool(&options).expect("a pool");
        let problem = problem.expect("a problem");
        assert!(
            problem.contains(&format!("CPU {beyond}")) && problem.contains("2 threads in all"),
            "{problem}"
        );
        assert_eq!(pool.broadcast(|thread| thread.index()), [0, 1, 2]);
        assert_eq!(pool.broadcast(|_| mask().len())[2], 1, "the third is bound");
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error_of_the_system() {
        // The last possible CPU is practically never online.
        let missing = CpuSet::MAX_CPU as u32 - 1;
        if mask().contains(&missing) {
            return;
        }
        let options = CpuOptions { pin: vec![missing], ..CpuOptions::new(1) };
        let (_, problem) = pool(&options).expect("a pool");
        assert!(problem.is_some_and(|problem| problem.contains(&format!("CPU {missing}:"))));
    }
}
