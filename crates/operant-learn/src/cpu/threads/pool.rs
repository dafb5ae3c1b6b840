//! How the CPU backend uses the machine: how many threads, on which CPUs, how they wait, and how many environments each plays
//! side by side. All of it changes the time, never a bit.

use operant_env::LaneWidth;

use crate::backend::LearnError;
use crate::cpu::network::tile::{LANES, TILE};

/// How threads wait for the next small job of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Look for some ten microseconds, then offer the core to others between looks: best when every thread has a core.
    #[default]
    Spin,
    /// Offer the core to others almost at once: for more threads than cores.
    Yield,
    /// Sleep until there is a job, which takes tens of microseconds to wake from: for a quota of CPU time, which waiting
    /// awake would use up.
    Sleep,
}

impl WaitStrategy {
    /// Looks before the core is offered to others; None to sleep.
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
    /// How many, at least 1; 0 is as many as the process may run at once.
    pub threads: usize,
    /// The CPU, as the system numbers them, that each thread is bound to; threads beyond the list are left to the scheduler.
    pub pin: Vec<u32>,
    /// How they wait.
    pub waiting: WaitStrategy,
    /// Environments of a tile, which a thread plays side by side: one of [`ROLLOUT_TILES`], or 0 for what their number suggests.
    pub rollout_tile: usize,
    /// Environments of a lane, which one instruction steps: one of [`LANE_WIDTHS`], or 0 for the widest that the processor has.
    pub lane_width: usize,
}

/// What [`CpuOptions::rollout_tile`] may be.
pub const ROLLOUT_TILES: [usize; 3] = [LANES, 2 * LANES, TILE];

/// What [`CpuOptions::lane_width`] may be; where the processor has no such vectors, several make one.
pub const LANE_WIDTHS: [usize; 2] = [8, 16];

impl CpuOptions {
    /// So many threads, left to the scheduler, and the rest as it comes.
    pub fn new(threads: usize) -> Self {
        let waiting = WaitStrategy::default();
        Self { threads, pin: Vec::new(), waiting, rollout_tile: 0, lane_width: 0 }
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

/// So many threads, left to the scheduler; 0 is as many as the process may run at once.
///
/// # Errors
/// When the system gives none.
pub(crate) fn threads(count: usize) -> Result<rayon::ThreadPool, LearnError> {
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(|index| format!("operant-{index}"));
    pool.build().map_err(|error| LearnError::Config {
        key: "threads",
        problem: format!("{count} threads cannot be started: {error}"),
        remedy: "ask for fewer".to_owned(),
    })
}

/// The pool, and why threads of it run unbound though they were to be bound, in one line.
///
/// # Errors
/// When the system gives no threads.
pub(crate) fn pool(options: &CpuOptions) -> Result<(rayon::ThreadPool, Option<String>), LearnError> {
    let pool = threads(options.threads)?;
    if options.pin.is_empty() {
        return Ok((pool, None));
    }
    // Not in a handler of the thread's start: what goes wrong there cannot be told here.
    let bound = pool.broadcast(|thread| options.pin.get(thread.index()).map_or(Ok(()), |&cpu| bind(cpu)));
    let failures: Vec<String> = bound.into_iter().filter_map(Result::err).collect();
    let problem = failures.first().map(|first| match failures.len() {
        1 => first.clone(),
        count => format!("{first}; {count} threads in all run unbound"),
    });
    Ok((pool, problem))
}

/// Does `work` on threads as training would have them.
///
/// # Errors
/// When the system gives no threads.
pub fn on_threads<R: Send>(options: &CpuOptions, work: impl FnOnce() -> R + Send) -> Result<R, LearnError> {
    Ok(pool(options)?.0.install(work))
}

/// Binds the calling thread to a CPU.
#[cfg(target_os = "linux")]
fn bind(cpu: u32) -> Result<(), String> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let number = cpu as usize;
    if number >= CpuSet::MAX_CPU {
        return Err(format!(
            "CPU {cpu} is beyond {}, the last that a thread can be bound to",
            CpuSet::MAX_CPU - 1
        ));
    }
    let mut set = CpuSet::new();
    set.set(number);
    sched_setaffinity(None, &set).map_err(|error| format!("no thread can be bound to CPU {cpu}: {error}"))
}

/// Binds the calling thread to a CPU: nothing that this system offers.
#[cfg(not(target_os = "linux"))]
fn bind(cpu: u32) -> Result<(), String> {
    Err(format!("no thread can be bound to CPU {cpu} on this system"))
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
    fn what_cannot_be_bound_is_told_once_and_works_all_the_same() {
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
        // No system has its last possible CPU switched on, if it lets this process use it.
        let missing = CpuSet::MAX_CPU as u32 - 1;
        if mask().contains(&missing) {
            return;
        }
        let options = CpuOptions { pin: vec![missing], ..CpuOptions::new(1) };
        let (_, problem) = pool(&options).expect("a pool");
        assert!(problem.is_some_and(|problem| problem.contains(&format!("CPU {missing}:"))));
    }
}
