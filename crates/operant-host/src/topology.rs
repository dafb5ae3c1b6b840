//! The machine's topology: cores and hardware threads, caches, NUMA nodes, and what this process may use of them.
//!
//! On Linux all of it is read from `/proc` and `/sys`, below a root that is `/` outside tests; on macOS from the output of `sysctl`.

mod caches;
mod cgroup;
mod sysctl;
mod vendor;

use std::path::Path;

pub use caches::Cache;
pub use cgroup::{Limit, Limits};
pub use sysctl::of_sysctl;
pub use vendor::Vendor;

use crate::cores::{self, CoreKind, CpuCore, Kinds};
use crate::{machine, os};

/// A core and its hardware threads (several with simultaneous multithreading).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// The package (socket) that it is in.
    pub package: u32,
    /// Its NUMA node; 0 if there is only one or the system does not report it.
    pub node: u32,
    pub kind: CoreKind,
    /// Its speed relative to the machine's fastest core, which has 1024.
    pub capacity: Option<u64>,
    /// The numbers of its CPUs, ascending.
    pub threads: Vec<u32>,
}

/// A NUMA node that has CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaNode {
    /// Its number in the system.
    pub number: u32,
    /// Its online CPUs, ascending.
    pub cpus: Vec<u32>,
}

/// The machine, and the part of it that this process may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    pub vendor: Vendor,
    /// The processor's name, where the system reports it.
    pub processor: Option<String>,
    /// All online cores, by their first hardware thread.
    pub cores: Vec<Core>,
    /// The CPUs that this process may use, ascending: its affinity mask, which cpusets also restrict.
    pub usable: Vec<u32>,
    /// Data caches, the nearest to the cores first, then by their CPUs.
    pub caches: Vec<Cache>,
    /// NUMA nodes; empty where the system does not report them.
    pub nodes: Vec<NumaNode>,
    /// Limits set by control groups.
    pub limits: Limits,
    /// Memory of the machine, in bytes.
    pub memory_total: Option<u64>,
    /// Memory that new work could take without swapping, in bytes.
    pub memory_available: Option<u64>,
    /// Parallel threads as the standard library counts them: by mask and quota, not by kinds or siblings.
    pub parallelism: usize,
    /// Whether this system binds threads to CPUs.
    pub pinnable: bool,
}

impl Topology {
    /// This machine.
    pub fn read() -> Self {
        os::topology(parallelism())
    }

    /// The Linux machine described below `root`, such as a recorded tree.
    pub fn below(root: &Path) -> Self {
        let usable: Vec<u32> =
            cores::usable_below(root).into_iter().map(|core: CpuCore| core.number).collect();
        let online = cores::numbers(&root.join("sys/devices/system/cpu/online"));
        let online = online.filter(|online| !online.is_empty()).unwrap_or_else(|| usable.clone());
        let nodes = nodes(root, &online);
        let cores = all_cores(root, &online, &nodes);
        let limits = Limits::below(root);
        let memory = machine::memory_below(root);
        Topology {
            vendor: Vendor::below(root),
            processor: machine::processor_below(root),
            caches: all_caches(root, &cores),
            parallelism: whole_cpus(&limits).map_or(usable.len(), |quota| usable.len().min(quota)).max(1),
            cores,
            usable,
            nodes,
            limits,
            memory_total: memory.map(|memory| memory.total),
            memory_available: memory.map(|memory| memory.available),
            pinnable: true,
        }
    }

    /// A machine of which only the number of parallel threads is known.
    pub fn of_parallelism(parallelism: usize) -> Self {
        let count = u32::try_from(parallelism.max(1)).unwrap_or(u32::MAX);
        let core =
            |cpu| Core { package: 0, node: 0, kind: CoreKind::Uniform, capacity: None, threads: vec![cpu] };
        Topology {
            vendor: Vendor::Unknown,
            processor: None,
            cores: (0..count).map(core).collect(),
            usable: (0..count).collect(),
            caches: Vec::new(),
            nodes: Vec::new(),
            limits: Limits::default(),
            memory_total: None,
            memory_available: None,
            parallelism: count as usize,
            pinnable: false,
        }
    }

    /// The cores with a hardware thread that this process may use, each with those threads only.
    pub fn usable_cores(&self) -> Vec<Core> {
        let usable = |core: &Core| Core {
            threads: core
                .threads
                .iter()
                .copied()
                .filter(|cpu| self.usable.binary_search(cpu).is_ok())
                .collect(),
            ..core.clone()
        };
        self.cores.iter().map(usable).filter(|core| !core.threads.is_empty()).collect()
    }

    /// Whether this process may use every online CPU.
    pub fn is_whole(&self) -> bool {
        self.usable.len() >= self.cores.iter().map(|core| core.threads.len()).sum()
    }

    /// Packages (sockets) that have a core.
    pub fn packages(&self) -> usize {
        cores::ascending(self.cores.iter().map(|core| core.package).collect()).len()
    }

    /// The cache of this level that a CPU uses.
    pub fn cache(&self, level: u32, cpu: u32) -> Option<&Cache> {
        self.caches.iter().find(|cache| cache.level == level && cache.cpus.binary_search(&cpu).is_ok())
    }

    /// The memory that this process may take, in bytes: the machine's, or less under control groups with a limit.
    pub fn memory_limit(&self) -> Option<u64> {
        let limit = self.limits.memory.as_ref().map(|limit| limit.value);
        self.memory_total.into_iter().chain(limit).min()
    }

    /// The whole CPUs in a control group's quota, at least 1; None without one.
    pub fn whole_quota(&self) -> Option<usize> {
        whole_cpus(&self.limits)
    }
}

fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

// A quota is far below the 2^53 that a double counts exactly, and never negative.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole_cpus(limits: &Limits) -> Option<usize> {
    limits.cpu.as_ref().map(|limit| (limit.value.floor() as usize).max(1))
}

/// The cores whose hardware threads are `online`.
fn all_cores(root: &Path, online: &[u32], nodes: &[NumaNode]) -> Vec<Core> {
    let directory = root.join("sys/devices/system/cpu");
    let kinds = Kinds::below(root);
    let capacities = cores::capacities(&directory);
    let mut cores: Vec<Core> = Vec::new();
    for &cpu in online {
        let topology = directory.join(format!("cpu{cpu}/topology"));
        let listed = ["core_cpus_list", "thread_siblings_list"];
        let listed = listed.into_iter().find_map(|name| cores::numbers(&topology.join(name)));
        let mut threads = listed.filter(|threads| threads.contains(&cpu)).unwrap_or_else(|| vec![cpu]);
        threads.retain(|thread| online.binary_search(thread).is_ok());
        if threads[0] != cpu && cores.iter().any(|core| core.threads.contains(&cpu)) {
            continue;
        }
        let package = std::fs::read_to_string(topology.join("physical_package_id")).ok();
        cores.push(Core {
            // ARM firmware that does not report it has -1.
            package: package.and_then(|text| text.trim().parse().ok()).unwrap_or(0),
            node: nodes.iter().find(|node| node.cpus.contains(&cpu)).map_or(0, |node| node.number),
            kind: kinds.of(cpu),
            capacity: capacities.iter().find(|(number, _)| *number == cpu).map(|&(_, capacity)| capacity),
            threads,
        });
    }
    cores
}

/// Siblings share all caches of their core, so one of them is read.
fn all_caches(root: &Path, cores: &[Core]) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for core in cores {
        for cache in caches::of_cpu(root, core.threads[0]) {
            if !caches.contains(&cache) {
                caches.push(cache);
            }
        }
    }
    caches.sort_by(|a, b| (a.level, &a.cpus).cmp(&(b.level, &b.cpus)));
    caches
}

/// Nodes that have memory only are omitted.
fn nodes(root: &Path, online: &[u32]) -> Vec<NumaNode> {
    let Ok(entries) = std::fs::read_dir(root.join("sys/devices/system/node")) else { return Vec::new() };
    let mut nodes: Vec<NumaNode> = entries
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let mut cpus = cores::numbers(&entry.path().join("cpulist"))?;
            cpus.retain(|cpu| online.binary_search(cpu).is_ok());
            (!cpus.is_empty()).then_some(NumaNode { number, cpus })
        })
        .collect();
    nodes.sort_by_key(|node| node.number);
    nodes
}
