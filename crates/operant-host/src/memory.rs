//! Resident memory of this process.

/// Bytes of this process that are in memory now, code and shared pages included; NaN where the system does not report it.
///
/// The kernel sums per-CPU counters loosely, so this can be some hundred kibibytes off on a machine of many CPUs.
#[cfg(target_os = "linux")]
pub fn resident_memory() -> f64 {
    use procfs::FromRead;
    let pages = procfs::process::StatM::from_file("/proc/self/statm").map(|statm| statm.resident);
    pages.map_or(f64::NAN, |pages| pages as f64 * procfs::page_size() as f64)
}

/// Bytes of this process that are in memory now: NaN, as this system is not supported.
#[cfg(not(target_os = "linux"))]
pub fn resident_memory() -> f64 {
    f64::NAN
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::resident_memory;

    #[test]
    fn memory_that_is_touched_counts() {
        const SIZE: usize = 64 << 20;
        let before = resident_memory();
        let touched = std::hint::black_box(vec![1u8; SIZE]);
        let with = resident_memory();
        drop(touched);
        assert!(before > 100e3, "{before} bytes");
        // Other tests of this process allocate far less meanwhile.
        assert!(with - before > 0.9 * SIZE as f64, "{before} bytes, then {with}");
    }
}
