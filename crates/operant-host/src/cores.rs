//! The CPUs that this process may use, and the kind of each.
//!
//! Sources, below a root that is `/` outside tests: `proc/self/status` (the affinity mask, which cgroup cpusets have
//! narrowed already), `sys/devices/system/cpu/online`, `sys/devices/cpu_{core,atom,lowpower}/cpus` (the performance
//! counters of Intel's hybrid processors, one device per kind of core) and `sys/devices/system/cpu/cpu*/cpu_capacity`
//! (ARM and RISC-V: speed relative to the machine's fastest core, which has 1024).

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::os;

/// What kind of core a CPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CoreKind {
    /// The machine has one kind, or does not report kinds.
    Uniform,
    /// A fast core of a machine with several kinds.
    Performance,
    /// An energy-saving core of a machine with several kinds.
    Efficiency,
}

/// A CPU as the operating system counts it: a core with two hardware threads is two CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuCore {
    /// Its number in the system.
    pub number: u32,
    pub kind: CoreKind,
}

/// The CPUs that this process may use now, by number; empty where the system does not report them.
///
/// Reads the affinity mask of the process's main thread, so call it before threads are pinned.
pub fn usable() -> Vec<CpuCore> {
    os::usable()
}

/// [`usable`] over another root, such as a recorded tree.
pub fn usable_below(root: &Path) -> Vec<CpuCore> {
    let online = list(&root.join("sys/devices/system/cpu/online"));
    let allowed = allowed(root).or_else(|| online.clone()).unwrap_or_default();
    let kinds = Kinds::below(root);
    let mut numbers = ascending(allowed.into_iter().flatten().collect());
    // The mask also names CPUs that are offline.
    numbers.retain(|&number| online.as_ref().is_none_or(|online| contains(online, number)));
    numbers.into_iter().map(|number| CpuCore { number, kind: kinds.of(number) }).collect()
}

/// Where this machine describes its kinds of cores.
pub(crate) enum Kinds {
    One,
    Intel { performance: CpuList, efficiency: CpuList },
    Capacity { of_cpu: Vec<(u32, u64)>, largest: u64 },
}

impl Kinds {
    pub fn below(root: &Path) -> Self {
        let devices = root.join("sys/devices");
        let cpus = |device: &str| list(&devices.join(device).join("cpus")).unwrap_or_default();
        let performance = cpus("cpu_core");
        let efficiency = [cpus("cpu_atom"), cpus("cpu_lowpower")].concat();
        // If the firmware switches one kind off, only the other is left: uniform.
        if !performance.is_empty() && !efficiency.is_empty() {
            return Kinds::Intel { performance, efficiency };
        }
        // All CPUs, not only the usable ones: a process confined to the small cores still runs on small cores.
        let of_cpu = capacities(&devices.join("system/cpu"));
        let largest = of_cpu.iter().map(|&(_, capacity)| capacity).max().unwrap_or(0);
        if of_cpu.iter().any(|&(_, capacity)| capacity < largest) {
            return Kinds::Capacity { of_cpu, largest };
        }
        Kinds::One
    }

    pub fn of(&self, number: u32) -> CoreKind {
        match self {
            Kinds::One => CoreKind::Uniform,
            Kinds::Intel { performance, .. } if contains(performance, number) => CoreKind::Performance,
            Kinds::Intel { efficiency, .. } if contains(efficiency, number) => CoreKind::Efficiency,
            Kinds::Intel { .. } => CoreKind::Uniform,
            Kinds::Capacity { of_cpu, largest } => match of_cpu.iter().find(|&&(cpu, _)| cpu == number) {
                Some((_, capacity)) if capacity == largest => CoreKind::Performance,
                Some(_) => CoreKind::Efficiency,
                None => CoreKind::Uniform,
            },
        }
    }
}

/// `cpu_capacity` of every `cpuN` below `directory` that has one.
pub(crate) fn capacities(directory: &Path) -> Vec<(u32, u64)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
            let capacity = fs::read_to_string(entry.path().join("cpu_capacity")).ok()?.trim().parse().ok()?;
            Some((number, capacity))
        })
        .collect()
}

/// The affinity mask. It is read from one line of the file, because procfs fails on a container whose `status` lacks another
/// line, and because the default mask of `sched_getaffinity` ends at 1,024 CPUs.
fn allowed(root: &Path) -> Option<CpuList> {
    let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
    parse_list(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

/// CPU numbers as the kernel prints them: `0-3,8`.
pub(crate) type CpuList = Vec<RangeInclusive<u32>>;

/// More CPUs than Linux supports (8,192): a longer list is invalid and must not become a huge vector.
const MAX_CPUS: u32 = 1 << 16;

fn contains(list: &[RangeInclusive<u32>], number: u32) -> bool {
    list.iter().any(|range| range.contains(&number))
}

pub(crate) fn list(path: &Path) -> Option<CpuList> {
    parse_list(&fs::read_to_string(path).ok()?)
}

/// The numbers of a list in a file, ascending, each once.
pub(crate) fn numbers(path: &Path) -> Option<Vec<u32>> {
    Some(ascending(list(path)?.into_iter().flatten().collect()))
}

pub(crate) fn ascending(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn parse_list(text: &str) -> Option<CpuList> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',')
        .map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last && last < MAX_CPUS).then_some(first..=last)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::CoreKind::{Efficiency, Performance, Uniform};
    use super::*;

    /// The trees below tests/fixtures, described in its README.
    fn fixture(name: &str) -> Vec<(u32, CoreKind)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        assert!(root.is_dir(), "no fixture at {}", root.display());
        pairs(&usable_below(&root))
    }

    fn pairs(cores: &[CpuCore]) -> Vec<(u32, CoreKind)> {
        cores.iter().map(|core| (core.number, core.kind)).collect()
    }

    fn of_kinds(kinds: &[(RangeInclusive<u32>, CoreKind)]) -> Vec<(u32, CoreKind)> {
        kinds.iter().flat_map(|(range, kind)| range.clone().map(|number| (number, *kind))).collect()
    }

    #[test]
    fn intel_with_a_third_low_power_kind_and_a_narrow_mask() {
        assert_eq!(
            fixture("intel-lowpower"),
            of_kinds(&[(4..=5, Performance), (6..=13, Efficiency), (14..=15, Efficiency)])
        );
    }

    #[test]
    fn uniform_amd_counts_only_cpus_that_are_on() {
        // The mask of this machine is 0-31; 16 of them exist.
        assert_eq!(fixture("amd-uniform"), of_kinds(&[(0..=15, Uniform)]));
    }

    #[test]
    fn without_sysfs_the_mask_remains() {
        assert_eq!(fixture("bare"), of_kinds(&[(0..=1, Uniform), (5..=5, Uniform)]));
    }

    #[test]
    fn without_any_file_there_are_no_cores() {
        let empty = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(usable_below(empty.path()), []);
    }

    #[test]
    fn without_a_mask_all_that_are_on_are_usable() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let cpu = tree.path().join("sys/devices/system/cpu");
        fs::create_dir_all(&cpu).expect("a directory");
        fs::write(cpu.join("online"), "0,2-3\n").expect("a file");
        assert_eq!(pairs(&usable_below(tree.path())), [(0, Uniform), (2, Uniform), (3, Uniform)]);
    }

    #[test]
    fn confined_to_small_cores_they_are_still_small() {
        let kinds = Kinds::Capacity { of_cpu: vec![(0, 462), (1, 462), (4, 1024)], largest: 1024 };
        assert_eq!(
            [0, 1, 4, 9].map(|number| kinds.of(number)),
            [Efficiency, Efficiency, Performance, Uniform]
        );
    }

    #[test]
    fn lists_as_the_kernel_prints_them() {
        assert_eq!(parse_list("\t0-3,8,10-11\n"), Some(vec![0..=3, 8..=8, 10..=11]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        for bad in ["3-0", "0-", "a", "0-4294967295", "0-99999999999", "0,,1", "-1"] {
            assert_eq!(parse_list(bad), None, "{bad}");
        }
    }
}
