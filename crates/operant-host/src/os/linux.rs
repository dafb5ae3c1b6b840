//! Linux: everything is in `/proc` and `/sys`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use procfs::FromRead;

use crate::cores::{self, CpuCore};
use crate::machine::{self, Memory};
use crate::topology::Topology;

/// This machine. The mask is the affinity mask of the process's main thread.
pub fn topology(parallelism: usize) -> Topology {
    let found = Topology::below(Path::new("/"));
    // Without /proc and /sys, as in some sandboxes, only the count is known.
    if found.usable.is_empty() {
        return Topology { pinnable: false, ..Topology::of_parallelism(parallelism) };
    }
    Topology { parallelism, ..found }
}

/// The CPUs that this process may use now.
pub fn usable() -> Vec<CpuCore> {
    cores::usable_below(Path::new("/"))
}

/// The CPUs that [`read_cpu_times`] lists and this process may use.
pub fn sampled_cores() -> Vec<CpuCore> {
    usable()
}

pub fn processor() -> Option<String> {
    machine::processor_below(Path::new("/"))
}

pub fn memory() -> Option<Memory> {
    machine::memory_below(Path::new("/"))
}

/// Bytes of this process that are in memory now; NaN where the system does not report it.
pub fn resident_memory() -> f64 {
    let pages = procfs::process::StatM::from_file("/proc/self/statm").map(|statm| statm.resident);
    pages.map_or(f64::NAN, |pages| pages as f64 * procfs::page_size() as f64)
}

/// Reads the times of CPUs, as the file `stat` (`/proc/stat`) has them.
pub fn read_cpu_times(stat: &Path, text: &mut Vec<u8>) -> io::Result<()> {
    File::open(stat)?.read_to_end(text).map(drop)
}
