//! On which cores this thread runs, and what it starts from then on; what a process took of them.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this thread may use.
pub fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot ask for the cores of this process")?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Keeps this thread, and the threads and processes that it starts, to some cores.
pub fn pin(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).with_context(|| format!("cannot keep to cores {cores:?}"))
}

/// The first core for who is measured, and the others, or the same where there is one.
pub fn apart(all: &[usize]) -> (&[usize], &[usize]) {
    let (first, others) = all.split_at(1);
    (first, if others.is_empty() { first } else { others })
}

/// Seconds of processor time that a process has taken, all threads, user and system.
pub fn processor_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in parentheses that may hold anything; the times are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Most bytes that a process has had resident.
pub fn peak_memory(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().trim_end_matches("kB").trim_end().parse::<f64>().ok()? * 1024.0)
}
