//! The plan for a machine: number of worker threads, their CPUs, how they wait, and the sizes of their work.
//!
//! A plan is a function of the [`Topology`], the user's requested values ([`PlanRequest`]) and the [`Workload`]. It changes
//! the time that a run takes and never a result; sizes that would change what is learned are recommended and never applied.
//! Every value carries its reason.

mod sizes;

use std::fmt;

use crate::cores::CoreKind;
use crate::topology::{Core, Topology};

/// Maximum worker threads that a plan chooses: one run rarely has work for more.
const MAX_THREADS: usize = 32;
/// Approximate speed of an efficiency core relative to a performance core of the same machine, where the system does not report it.
const EFFICIENCY_SPEED: f64 = 0.5;
/// The capacity of the machine's fastest core, as Linux counts it.
const FULL_CAPACITY: f64 = 1024.0;
/// Worker threads when a GPU trains. They play evaluations: a hundred episodes, in tiles of 16, keep seven busy.
const THREADS_WITH_GPU: usize = 8;

/// How worker threads wait for the next small job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Poll for about ten microseconds before yielding the core: for threads that have a core each.
    Spin,
    /// Yield the core almost at once: for more threads than cores.
    Yield,
    /// Sleep until woken for a job: takes no CPU time from a quota.
    Sleep,
}

impl Waiting {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::Spin => "spin",
            Waiting::Yield => "yield",
            Waiting::Sleep => "sleep",
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The values that the user requested; None leaves a value to the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanRequest {
    /// Whether to adapt to the machine; otherwise fixed defaults are used.
    pub optimize: bool,
    pub threads: Option<usize>,
    /// Whether to bind worker threads to CPUs.
    pub pin: Option<bool>,
    /// How worker threads wait.
    pub waiting: Option<Waiting>,
    /// Environments of a rollout's tile.
    pub rollout_tile: Option<usize>,
    /// Whether a GPU trains.
    pub gpu: bool,
    /// Processes of the run that use these CPUs, this one included.
    pub processes: usize,
}

impl Default for PlanRequest {
    fn default() -> Self {
        PlanRequest {
            optimize: true,
            threads: None,
            pin: None,
            waiting: None,
            rollout_tile: None,
            gpu: false,
            processes: 1,
        }
    }
}

/// The workload as far as it matters to threads: the learner's constants and the number of environments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Samples of a tile, which are processed together.
    pub tile: usize,
    /// Number of environments, if it is fixed already.
    pub num_envs: Option<usize>,
    /// Number of equal parts of a minibatch, if it is fixed already; a thread takes one whenever it is free.
    pub chunks: Option<usize>,
    /// Possible numbers of environments in a rollout's tile, ascending, and the time a worker takes for each, in any unit.
    pub rollout_tiles: &'static [(usize, f64)],
    /// Possible numbers of environments in a lane, ascending.
    pub lane_widths: &'static [usize],
    /// Number of f32 in a vector of the instruction set that this program was built for, and its name.
    pub vector: (usize, &'static str),
}

/// A value of the plan and its reason, each in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSetting {
    /// Its name, the configuration's key where there is one.
    pub name: &'static str,
    pub value: String,
    /// Why.
    pub reason: String,
}

/// The plan for a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Worker threads, at least 1.
    pub threads: usize,
    /// The CPU of each worker; empty where the scheduler chooses.
    pub pin: Vec<u32>,
    /// How workers wait.
    pub waiting: Waiting,
    /// Environments that one instruction steps, or the few that make a lane.
    pub lane_width: usize,
    /// Environments of a rollout's tile; None while their number is not fixed.
    pub rollout_tile: Option<usize>,
    /// All values with reasons, for logs and messages.
    pub settings: Vec<PlannedSetting>,
}

impl Plan {
    /// The plan for this machine, the requested values and this workload.
    pub fn new(topology: &Topology, request: &PlanRequest, work: &Workload) -> Self {
        let cores = topology.usable_cores();
        let mut settings = Vec::new();
        let mut set =
            |name, value: String, reason: String| settings.push(PlannedSetting { name, value, reason });

        let order = order(&cores);
        let (threads, reason) = match fast_alone(request, work, &cores, &order) {
            Some(fast) if topology.whole_quota().is_none_or(|quota| quota >= fast.0) => fast,
            _ => threads(topology, request, &cores),
        };
        set("threads", threads.to_string(), reason);
        let (pinned, reason) = pinning(topology, request, &cores, threads);
        let pin = if pinned { order[..threads].to_vec() } else { Vec::new() };
        set("pinning", if pinned { list(&pin) } else { "off".to_owned() }, reason);
        let (waiting, reason) = waiting(topology, request, hardware_threads(&cores), threads);
        set("waiting", waiting.to_string(), reason);

        let (lane_width, lanes) = sizes::lane_width(work);
        let (rollout_tile, tiles) = sizes::rollout_tile(request, work, &speeds(&cores, &order, threads));
        // They do not apply where a GPU trains.
        if !request.gpu {
            set("lane_width", lane_width.to_string(), lanes);
            let tile = rollout_tile.map_or_else(|| "by num_envs".to_owned(), |tile| tile.to_string());
            set("rollout_tile", tile, tiles);
            let reason = "a constant of the program, because it decides results".to_owned();
            set("tile", format!("{} samples", work.tile), reason);
        }
        Plan { threads, pin, waiting, lane_width, rollout_tile, settings }
    }
}

fn threads(topology: &Topology, request: &PlanRequest, cores: &[Core]) -> (usize, String) {
    if let Some(asked) = request.threads.filter(|&asked| asked > 0) {
        return (asked, "requested".to_owned());
    }
    if !request.optimize && request.processes == 1 {
        let reason =
            "all that the process may run at once; not adapted to the machine (optimize_perf = false)";
        return (topology.parallelism.max(1), reason.to_owned());
    }
    let cpus = hardware_threads(cores).max(1);
    let quota = topology.whole_quota().unwrap_or(usize::MAX);
    if request.processes > 1 {
        let threads = (cpus.min(quota) / request.processes).clamp(1, MAX_THREADS);
        return (threads, format!("{} processes share {} CPUs", request.processes, cpus.min(quota)));
    }
    if request.gpu {
        let threads = cpus.min(quota).min(THREADS_WITH_GPU);
        return (threads, "the GPU trains; these play evaluations".to_owned());
    }
    let threads = cpus.min(quota).min(MAX_THREADS);
    let siblings = cpus > cores.len().max(1);
    let mut reasons = Vec::new();
    if threads < cpus {
        reasons.push(match &topology.limits.cpu {
            Some(limit) if quota <= MAX_THREADS => {
                format!("{} grants {} CPUs, of {cpus} usable", limit.file.display(), limit.value)
            }
            _ => format!("of {cpus} usable CPUs; more rarely help; threads = N uses more"),
        });
    } else {
        let slow = cores.iter().filter(|core| core.kind == CoreKind::Efficiency).count();
        let of = format!("{} performance and {slow} efficiency cores", cores.len() - slow);
        reasons.push(match (kinds(cores), siblings) {
            (1, false) if cpus == 1 => "the one usable core".to_owned(),
            (1, false) => "one per usable core".to_owned(),
            (1, true) => format!("all usable hardware threads of {} cores", cores.len()),
            (_, true) => format!("all usable hardware threads of {of}: faster ones take more work"),
            (_, false) => format!(
                "all usable cores, {of}: the fast ones first, which take more work; alone where a minibatch has few parts"
            ),
        });
    }
    if threads > cores.len().max(1) {
        reasons.push("whether siblings help is not measured here; `operant tune` measures it".to_owned());
    }
    (threads, reasons.join("; "))
}

/// The number of performance cores and the reason, where the efficiency cores would only delay them: a minibatch has so few parts that
/// the last one would be an efficiency core's. None where all cores are worth their threads, or anything else decides.
fn fast_alone(
    request: &PlanRequest,
    work: &Workload,
    cores: &[Core],
    order: &[u32],
) -> Option<(usize, String)> {
    let fast = cores.iter().filter(|core| core.kind == CoreKind::Performance).count();
    let has_siblings = hardware_threads(cores) > cores.len();
    let is_free = request.optimize && request.threads.is_none() && !request.gpu && request.processes == 1;
    if !is_free || has_siblings || fast == 0 || fast == cores.len() || cores.len() > MAX_THREADS {
        return None;
    }
    let chunks = work.chunks?;
    let speeds = speeds(cores, order, cores.len());
    let all = sizes::makespan(chunks, 1.0, &speeds);
    (all > sizes::makespan(chunks, 1.0, &speeds[..fast])).then(|| {
        let slow = cores.len() - fast;
        let reason = format!(
            "the performance cores; a minibatch has {chunks} parts, and {slow} efficiency cores would finish last"
        );
        (fast, reason)
    })
}

/// Number of hardware threads of these cores.
fn hardware_threads(cores: &[Core]) -> usize {
    cores.iter().map(|core| core.threads.len()).sum()
}

/// Threads are bound only on request: under other load, a bound thread waits for its CPU while another is free, and all wait
/// for it.
fn pinning(topology: &Topology, request: &PlanRequest, cores: &[Core], threads: usize) -> (bool, String) {
    let cpus = hardware_threads(cores);
    let no = |reason: &str| (false, reason.to_owned());
    match request.pin {
        Some(false) => no("requested"),
        Some(true) if request.gpu => no("the GPU trains"),
        Some(true) if request.processes > 1 => no("the launcher binds processes that share CPUs"),
        Some(true) if !topology.pinnable => no("this system binds no thread to a CPU"),
        Some(true) if threads > cpus => {
            (false, format!("{threads} threads do not fit on {cpus} CPUs one each"))
        }
        Some(true) => (true, "requested".to_owned()),
        None => no("under other load, bound threads wait for a CPU while others are free; pin = true binds"),
    }
}

fn waiting(topology: &Topology, request: &PlanRequest, cpus: usize, threads: usize) -> (Waiting, String) {
    let quota = topology.limits.cpu.as_ref().filter(|limit| limit.value < threads as f64);
    match (request.waiting, quota) {
        (Some(asked), _) => (asked, "requested".to_owned()),
        (None, _) if request.gpu => (Waiting::Sleep, "the GPU trains".to_owned()),
        (None, _) if !request.optimize => {
            (Waiting::Spin, "not adapted to the machine (optimize_perf = false)".to_owned())
        }
        (None, _) if threads == 1 => (Waiting::Spin, "a single thread never waits".to_owned()),
        (None, Some(limit)) => {
            (Waiting::Sleep, format!("polling would use up a quota of {} CPUs", limit.value))
        }
        (None, None) if threads * request.processes > cpus => {
            (Waiting::Yield, format!("{} threads share {cpus} CPUs", threads * request.processes))
        }
        (None, None) => (Waiting::Spin, "every thread has a CPU".to_owned()),
    }
}

/// CPUs in the order in which workers take them: the fastest cores first, then node by node; second hardware threads of
/// cores come last.
fn order(cores: &[Core]) -> Vec<u32> {
    let mut cores: Vec<&Core> = cores.iter().collect();
    cores.sort_by_key(|core| {
        let slow = core.kind == CoreKind::Efficiency;
        (slow, std::cmp::Reverse(core.capacity), core.node, core.package, core.threads[0])
    });
    let most = cores.iter().map(|core| core.threads.len()).max().unwrap_or(0);
    (0..most).flat_map(|k| cores.iter().filter_map(move |core| core.threads.get(k).copied())).collect()
}

/// Speed of each worker relative to the fastest, in the order in which workers take CPUs; workers beyond those share CPUs.
fn speeds(cores: &[Core], order: &[u32], threads: usize) -> Vec<f64> {
    let of = |cpu: u32| {
        let core = cores.iter().find(|core| core.threads.contains(&cpu));
        match core.map(|core| (core.capacity, core.kind)) {
            Some((Some(capacity), _)) => capacity.max(1) as f64 / FULL_CAPACITY,
            Some((None, CoreKind::Efficiency)) => EFFICIENCY_SPEED,
            _ => 1.0,
        }
    };
    let speeds: Vec<f64> = order.iter().map(|&cpu| of(cpu)).collect();
    let fastest = speeds.iter().copied().reduce(f64::max).unwrap_or(1.0);
    (0..threads)
        .map(|worker| speeds.get(worker % speeds.len().max(1)).unwrap_or(&fastest) / fastest)
        .collect()
}

/// Number of kinds of cores among these, at least 1.
fn kinds(cores: &[Core]) -> usize {
    let has = |kind| usize::from(cores.iter().any(|core| core.kind == kind));
    (has(CoreKind::Performance) + has(CoreKind::Efficiency) + has(CoreKind::Uniform)).max(1)
}

/// CPUs in the kernel's list format, in their order: `4-7,0-3`.
fn list(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let run = |run: &[u32]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_in_few_words() {
        assert_eq!(list(&[4, 5, 6, 7, 0, 1, 9]), "4-7,0-1,9");
        assert_eq!(list(&[0, 2, 4]), "0,2,4");
        assert_eq!(list(&[]), "");
    }
}
