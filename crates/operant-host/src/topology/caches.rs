//! The caches of the processor: how large each is and which CPUs share it.
//!
//! Source: `sys/devices/system/cpu/cpuN/cache/indexK/{level,type,size,shared_cpu_list}`, which the kernel fills from
//! `cpuid` on x86 and from the firmware's tables on ARM, where some tables leave sizes out: such a cache is not listed.

use std::fs;
use std::path::Path;

use crate::cores;

/// A cache that holds data; instruction caches are omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// The CPUs that share it, ascending.
    pub cpus: Vec<u32>,
}

/// The caches of one CPU below `root`.
pub(crate) fn of_cpu(root: &Path, cpu: u32) -> Vec<Cache> {
    let directory = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cache"));
    // The kernel numbers them without gaps; there are four or five.
    (0..16).map_while(|index| one(&directory.join(format!("index{index}")), cpu)).flatten().collect()
}

/// None where there is no such directory, `Some(None)` where it is no cache of known size for data.
fn one(directory: &Path, cpu: u32) -> Option<Option<Cache>> {
    let text = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let level = text("level")?.trim().parse().ok()?;
    let cache = || {
        if !matches!(text("type")?.trim(), "Data" | "Unified") {
            return None;
        }
        let bytes = size(&text("size")?)?;
        let cpus = cores::numbers(&directory.join("shared_cpu_list"));
        Some(Cache { level, bytes, cpus: cpus.filter(|cpus| cpus.contains(&cpu)).unwrap_or(vec![cpu]) })
    };
    Some(cache())
}

/// `48K`, as the kernel prints it; also `1M`, and plain bytes. None for nothing at all and for 0.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.char_indices().last()? {
        (end, 'K') => (&text[..end], 1 << 10),
        (end, 'M') => (&text[..end], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_the_kernel_prints_them() {
        let sizes = ["48K\n", "1280K", "32768K\n", "2M", "65536"].map(size);
        assert_eq!(sizes, [48 << 10, 1280 << 10, 32 << 20, 2 << 20, 65536].map(Some));
        for bad in ["", "\n", "K", "0K", "x", "99999999999999999999K", "18446744073709551615M"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_a_table_leaves_out_is_left_out() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let cache = |index: usize, files: &[(&str, &str)]| {
            let directory = root.path().join(format!("sys/devices/system/cpu/cpu3/cache/index{index}"));
            fs::create_dir_all(&directory).expect("directories");
            for (name, text) in files {
                fs::write(directory.join(name), text).expect("a file");
            }
        };
        cache(0, &[("level", "1"), ("type", "Data"), ("size", "64K"), ("shared_cpu_list", "3")]);
        cache(1, &[("level", "1"), ("type", "Instruction"), ("size", "64K"), ("shared_cpu_list", "3")]);
        cache(2, &[("level", "2"), ("type", "Unified"), ("shared_cpu_list", "2-3")]);
        // A list that does not name the CPU itself is rejected.
        cache(3, &[("level", "3"), ("type", "Unified"), ("size", "4096K"), ("shared_cpu_list", "\n")]);
        cache(5, &[("level", "4"), ("type", "Unified"), ("size", "1M"), ("shared_cpu_list", "3")]);
        let of = |level, bytes| Cache { level, bytes, cpus: vec![3] };
        assert_eq!(of_cpu(root.path(), 3), [of(1, 64 << 10), of(3, 4 << 20)]);
        assert_eq!(of_cpu(root.path(), 0), []);
    }
}
