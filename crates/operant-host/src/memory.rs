//! Resident memory of this process.

/// Bytes of this process that are in memory now, code and shared pages included; NaN where the system does not report it.
///
/// The kernel sums per-CPU counters loosely, so this can be some hundred kibibytes off on a machine of many CPUs.
pub fn resident_memory() -> f64 {
    crate::os::resident_memory()
}

#[cfg(test)]
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
