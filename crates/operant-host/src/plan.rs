//! What to make of a machine: worker threads, where they run and how they wait, and which sizes suit its caches.
//!
//! A plan is a function of the [`Topology`], of what the user wishes and of what the [`Work`] is like: the same three give
//! the same plan. Nothing in it changes a result, only the time; sizes that would change what is learned are recommended
//! and never applied. Every value carries its reason.

mod sizes;

use std::fmt;

use crate::cores::CoreKind;
use crate::topology::{Core, Topology};

/// Most worker threads that a plan takes by itself: beyond, one run seldom has enough to hand out.
const MOST_THREADS: usize = 32;
/// How fast an efficiency core is beside a performance core of the same machine, about.
const EFFICIENCY_SPEED: f64 = 0.5;
/// Worker threads beside a GPU. They play evaluations: a hundred episodes, in tiles of 16, keep seven busy.
const THREADS_BESIDE_GPU: usize = 8;

/// How worker threads wait for the next small job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Look for some ten microseconds before offering the core to others: for threads that have a core each.
    Spin,
    /// Offer the core to others almost at once: for more threads than cores.
    Yield,
    /// Sleep, and be woken for every job: costs no CPU time, which a quota would count.
    Sleep,
}

impl Waiting {
    /// As configurations write it.
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

/// What the user wishes; None leaves it to the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wishes {
    /// Whether to suit the machine; without, plain defaults are taken.
    pub optimize: bool,
    /// Worker threads.
    pub threads: Option<usize>,
    /// Whether to bind them to CPUs.
    pub pin: Option<bool>,
    /// How they wait.
    pub waiting: Option<Waiting>,
    /// Environments of a rollout's tile.
    pub rollout_tile: Option<usize>,
    /// Environments of a lane.
    pub lane_width: Option<usize>,
    /// Whether a GPU trains.
    pub gpu: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Wishes {
            optimize: true,
            threads: None,
            pin: None,
            waiting: None,
            rollout_tile: None,
            lane_width: None,
            gpu: false,
        }
    }
}

/// What the work is like, as far as it matters to caches and threads. The learner's constants and its network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Samples that are worked on side by side.
    pub tile: usize,
    /// Environments, where that is settled.
    pub num_envs: Option<usize>,
    /// Environments of a rollout that can go to one worker together, the fewest first, and how long they take it, in any unit.
    pub rollout_tiles: &'static [(usize, f64)],
    /// Environments that can make a lane, the fewest first.
    pub lane_widths: &'static [usize],
    /// Hidden layers of a network.
    pub layers: usize,
    /// Networks: 1 where policy and value share their hidden layers, else 2.
    pub networks: usize,
    /// Bytes of a stored sample.
    pub sample_bytes: usize,
    /// Most parts that a minibatch is cut into.
    pub most_parts: usize,
    /// Parts up to which each is a single tile.
    pub parts_of_one_tile: usize,
    /// Least number of tiles in a part beyond.
    pub tiles_of_part: usize,
}

/// A value of the plan and why it has it, each in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name, in the words of the configuration where that has it.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Why.
    pub reason: String,
}

/// What to make of a machine.
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
    /// Environments of a rollout that go to one worker together; None where their number is not settled.
    pub rollout_tile: Option<usize>,
    /// Hidden units of a layer up to which a tile's inputs and outputs of it stay in a worker's first-level cache.
    pub hidden_l1: Option<usize>,
    /// Hidden units up to which all that the update of a tile touches stays in a worker's second-level cache.
    pub hidden_l2: Option<usize>,
    /// Environments to a worker from which a rollout is spread evenly.
    pub envs_per_worker: usize,
    /// Samples in a minibatch from which its update is spread evenly.
    pub minibatch: usize,
    /// Samples in a batch up to which it stays in the caches that the workers reach.
    pub batch: Option<usize>,
    /// All of it with reasons, for logs and people.
    pub settings: Vec<Setting>,
}

impl Plan {
    /// The plan for this machine, these wishes and this work.
    pub fn new(topology: &Topology, wishes: &Wishes, work: &Work) -> Self {
        let cores = topology.usable_cores();
        let mut settings = Vec::new();
        let mut set = |name, value: String, reason: String| settings.push(Setting { name, value, reason });

        let (threads, reason) = threads(topology, wishes, &cores);
        set("threads", threads.to_string(), reason);
        let order = order(&cores);
        let (pinned, reason) = pinning(topology, wishes, &cores, threads);
        let pin = if pinned { order[..threads].to_vec() } else { Vec::new() };
        set("pinning", if pinned { list(&pin) } else { "off".to_owned() }, reason);
        let (waiting, reason) = waiting(topology, wishes, hardware_threads(&cores), threads);
        set("waiting", waiting.to_string(), reason);

        let workers = &order[..threads.min(order.len())];
        let sizes = sizes::Sizes::new(topology, work, workers, threads, kinds(&cores));
        let (lane_width, lanes) = sizes::lane_width(wishes, work);
        let (rollout_tile, tiles) = sizes::rollout_tile(wishes, work, &speeds(&cores, &order, threads));
        // Where a GPU trains, these would only be noise.
        if !wishes.gpu {
            set("lane_width", lane_width.to_string(), lanes);
            let tile = rollout_tile.map_or_else(|| "by num_envs".to_owned(), |tile| tile.to_string());
            set("rollout_tile", tile, tiles);
            sizes.tell(work, threads, &mut set);
        }
        Plan {
            threads,
            pin,
            waiting,
            lane_width,
            rollout_tile,
            hidden_l1: sizes.hidden_l1,
            hidden_l2: sizes.hidden_l2,
            envs_per_worker: sizes.envs_per_worker,
            minibatch: sizes.minibatch,
            batch: sizes.batch,
            settings,
        }
    }
}

fn threads(topology: &Topology, wishes: &Wishes, cores: &[Core]) -> (usize, String) {
    if let Some(asked) = wishes.threads.filter(|&asked| asked > 0) {
        return (asked, "as asked for".to_owned());
    }
    if !wishes.optimize {
        let reason = "all that the process may run at once; nothing is suited to the machine";
        return (topology.parallelism.max(1), reason.to_owned());
    }
    let cpus = hardware_threads(cores).max(1);
    let quota = topology.whole_quota().unwrap_or(usize::MAX);
    if wishes.gpu {
        let threads = cpus.min(quota).min(THREADS_BESIDE_GPU);
        return (threads, "the GPU trains; these play evaluations".to_owned());
    }
    let threads = cpus.min(quota).min(MOST_THREADS);
    let siblings = cpus > cores.len().max(1);
    let mut reasons = Vec::new();
    if threads < cpus {
        reasons.push(match &topology.limits.cpu {
            Some(limit) if quota <= MOST_THREADS => {
                format!("{} grants {} CPUs, of {cpus} usable", limit.file.display(), limit.value)
            }
            _ => format!("of {cpus} usable CPUs; more seldom gain, and threads = N takes them"),
        });
    } else {
        let slow = cores.iter().filter(|core| core.kind == CoreKind::Efficiency).count();
        let of = format!("{} performance and {slow} efficiency cores", cores.len() - slow);
        reasons.push(match (kinds(cores), siblings) {
            (1, false) if cpus == 1 => "the one usable core".to_owned(),
            (1, false) => "one to a usable core".to_owned(),
            (1, true) => format!("all usable hardware threads of {} cores", cores.len()),
            (_, true) => format!("all usable hardware threads of {of}: who is done sooner takes more"),
            (_, false) => format!("all usable cores, {of}: who is done sooner takes more"),
        });
    }
    if threads > cores.len().max(1) {
        reasons.push("whether siblings pay is not measured here: `operant tune` does".to_owned());
    }
    (threads, reasons.join("; "))
}

/// CPUs of these cores.
fn hardware_threads(cores: &[Core]) -> usize {
    cores.iter().map(|core| core.threads.len()).sum()
}

/// Only for who asks: beside other load, a bound thread waits for its CPU while another is free, and all wait for it.
fn pinning(topology: &Topology, wishes: &Wishes, cores: &[Core], threads: usize) -> (bool, String) {
    let cpus = hardware_threads(cores);
    let no = |reason: &str| (false, reason.to_owned());
    match wishes.pin {
        Some(false) => no("as asked for"),
        Some(true) if wishes.gpu => no("the GPU trains"),
        Some(true) if !topology.pinnable => no("this system binds no thread to a CPU"),
        Some(true) if threads > cpus => {
            (false, format!("{threads} threads do not fit on {cpus} CPUs one to each"))
        }
        Some(true) => (true, "as asked for".to_owned()),
        None => no("beside other load, bound threads wait for a CPU while others are free; pin = true binds"),
    }
}

fn waiting(topology: &Topology, wishes: &Wishes, cpus: usize, threads: usize) -> (Waiting, String) {
    let quota = topology.limits.cpu.as_ref().filter(|limit| limit.value < threads as f64);
    match (wishes.waiting, quota) {
        (Some(asked), _) => (asked, "as asked for".to_owned()),
        (None, _) if wishes.gpu => (Waiting::Sleep, "the GPU trains".to_owned()),
        (None, _) if !wishes.optimize => (Waiting::Spin, "nothing is suited to the machine".to_owned()),
        (None, _) if threads == 1 => (Waiting::Spin, "one thread waits for nobody".to_owned()),
        (None, Some(limit)) => {
            (Waiting::Sleep, format!("waiting awake would use up a quota of {} CPUs", limit.value))
        }
        (None, None) if threads > cpus => (Waiting::Yield, format!("{threads} threads share {cpus} CPUs")),
        (None, None) => (Waiting::Spin, "every thread has a CPU".to_owned()),
    }
}

/// CPUs in the order in which workers take them: the fastest cores first, then node by node; further hardware threads of
/// all cores come last.
fn order(cores: &[Core]) -> Vec<u32> {
    let mut cores: Vec<&Core> = cores.iter().collect();
    cores.sort_by_key(|core| {
        let slow = core.kind == CoreKind::Efficiency;
        (slow, std::cmp::Reverse(core.capacity), core.node, core.package, core.threads[0])
    });
    let most = cores.iter().map(|core| core.threads.len()).max().unwrap_or(0);
    (0..most).flat_map(|k| cores.iter().filter_map(move |core| core.threads.get(k).copied())).collect()
}

/// How fast each worker is beside the fastest, the workers in the order in which they take CPUs; further ones share those.
fn speeds(cores: &[Core], order: &[u32], threads: usize) -> Vec<f64> {
    let of = |cpu: u32| {
        let core = cores.iter().find(|core| core.threads.contains(&cpu));
        if core.is_some_and(|core| core.kind == CoreKind::Efficiency) { EFFICIENCY_SPEED } else { 1.0 }
    };
    let speeds: Vec<f64> = order.iter().map(|&cpu| of(cpu)).collect();
    let fastest = speeds.iter().copied().fold(EFFICIENCY_SPEED, f64::max);
    (0..threads)
        .map(|worker| speeds.get(worker % speeds.len().max(1)).unwrap_or(&fastest) / fastest)
        .collect()
}

/// Kinds of cores among these, at least 1.
fn kinds(cores: &[Core]) -> usize {
    let has = |kind| usize::from(cores.iter().any(|core| core.kind == kind));
    (has(CoreKind::Performance) + has(CoreKind::Efficiency) + has(CoreKind::Uniform)).max(1)
}

/// CPUs in the kernel's way of writing them, in their order: `4-7,0-3`.
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
