//! The processor's name and the machine's memory.

use std::io::Read;
use std::path::Path;

use crate::os;
use crate::topology::Limits;

/// Memory of the machine, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Memory that the kernel manages.
    pub total: u64,
    /// Bytes that new work can use: without swapping, within the limits of control groups and of the process's address space.
    pub available: u64,
}

/// The processor's name as its vendor gives it. On ARM, where cores have no name, their design or the machine's name. None where the system
/// reports neither.
pub fn processor() -> Option<String> {
    os::processor()
}

/// The machine's memory; None where the system does not report it.
pub fn memory() -> Option<Memory> {
    os::memory()
}

pub(crate) fn processor_below(root: &Path) -> Option<String> {
    let text = cpuinfo(root);
    let value = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let mut values = lines.filter(|(key, _)| key.trim() == name).map(|(_, value)| value);
        let words: Vec<&str> = values.next()?.split_whitespace().collect();
        (!words.is_empty()).then(|| words.join(" "))
    };
    // x86, LoongArch; MIPS; POWER; small ARM boards.
    let named = ["model name", "Model Name", "cpu model", "cpu", "Model"].into_iter().find_map(value);
    named.or_else(|| design(&value("CPU implementer")?, &value("CPU part")?)).or_else(|| {
        // The device tree's texts end in a zero.
        let model = std::fs::read_to_string(root.join("proc/device-tree/model")).ok()?;
        let model = model.trim_end_matches('\0').trim();
        (!model.is_empty()).then(|| model.to_owned())
    })
}

/// The design of an ARM server's cores, by the codes of its main identification register (MIDR_EL1): who made it, and the part.
fn design(implementer: &str, part: &str) -> Option<String> {
    const DESIGNS: [(&str, &str, &str); 7] = [
        ("0x41", "0xd0c", "Arm Neoverse N1"),
        ("0x41", "0xd40", "Arm Neoverse V1"),
        ("0x41", "0xd49", "Arm Neoverse N2"),
        ("0x41", "0xd4f", "Arm Neoverse V2"),
        ("0x41", "0xd84", "Arm Neoverse V3"),
        ("0x41", "0xd8e", "Arm Neoverse N3"),
        ("0xc0", "0xac3", "Ampere-1"),
    ];
    let known = DESIGNS.iter().find(|design| (design.0, design.1) == (implementer, part));
    known.map(|(_, _, name)| (*name).to_owned())
}

/// The beginning of `proc/cpuinfo`, which holds the first CPU. Reading all of it takes milliseconds per hundred CPUs.
pub(crate) fn cpuinfo(root: &Path) -> String {
    const BEGINNING: u64 = 8 << 10;
    let mut text = Vec::new();
    let file = std::fs::File::open(root.join("proc/cpuinfo"));
    // A file that cannot be read counts as empty.
    let _ = file.and_then(|file| file.take(BEGINNING).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

pub(crate) fn memory_below(root: &Path) -> Option<Memory> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    // `MemTotal:       24574372 kB`, where kB are KiB.
    let bytes = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    let limits = [Limits::below(root).memory_left, address_space_left(root)];
    let available = bytes("MemAvailable")?;
    let available = limits.into_iter().flatten().fold(available, u64::min);
    Some(Memory { total: bytes("MemTotal")?, available })
}

/// Memory as macOS's `vm_stat` describes it: pages that are free or hold what can be read again are available.
#[cfg(any(test, target_os = "macos"))]
pub(crate) fn of_vm_stat(total: u64, text: &str) -> Option<Memory> {
    let page = text.lines().next()?.split_once("page size of ")?.1.split_whitespace().next()?;
    let page: u64 = page.parse().ok()?;
    let pages = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches('.').parse().ok()
    };
    let free = pages("Pages free")?.checked_add(pages("Pages inactive")?)?;
    let free = free.checked_add(pages("Pages speculative").unwrap_or(0))?;
    Some(Memory { total, available: free.checked_mul(page)?.min(total) })
}

/// Bytes left within the limit of the process's address space (`ulimit -v`); None without one.
fn address_space_left(root: &Path) -> Option<u64> {
    let limits = std::fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let status = std::fs::read_to_string(root.join("proc/self/status")).ok()?;
    let used = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let used: u64 = used.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(limit.saturating_sub(used * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(file: &str, text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(root.path().join("proc")).expect("a directory");
        std::fs::write(root.path().join("proc").join(file), text).expect("a file");
        root
    }

    #[test]
    fn a_processor_has_its_vendors_name() {
        let of = |text: &str| processor_below(with("cpuinfo", text).path());
        let x86 = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC   9V74 80-Core\n\nprocessor\t: 1\n";
        assert_eq!(of(x86).as_deref(), Some("AMD EPYC 9V74 80-Core"));
        assert_eq!(of("processor\t: 0\nCPU part\t: 0xd40\n"), None);
        assert_eq!(of("model name\t:\n"), None);
        let tree = with("cpuinfo", "processor\t: 0\nCPU implementer\t: 0x61\n");
        std::fs::create_dir(tree.path().join("proc/device-tree")).expect("a directory");
        std::fs::write(tree.path().join("proc/device-tree/model"), "Apple MacBook Air (13-inch, M2, 2022)\0")
            .expect("a file");
        assert_eq!(processor_below(tree.path()).as_deref(), Some("Apple MacBook Air (13-inch, M2, 2022)"));
        assert_eq!(processor_below(&tree.path().join("missing")), None);
    }

    #[test]
    fn memory_of_a_mac() {
        let text = "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n\
                    Pages free:                               10000.\n\
                    Pages active:                            300000.\n\
                    Pages inactive:                           20000.\n\
                    Pages speculative:                          500.\n\
                    \"Translation faults\":                  2011412.\n";
        assert_eq!(of_vm_stat(1 << 33, text), Some(Memory { total: 1 << 33, available: 30_500 << 14 }));
        assert_eq!(of_vm_stat(1 << 20, text), Some(Memory { total: 1 << 20, available: 1 << 20 }));
        for bad in ["", "Pages free: 1.\n", "x (page size of 4096 bytes)\nPages free: y.\n"] {
            assert_eq!(of_vm_stat(1 << 33, bad), None, "{bad}");
        }
    }

    #[test]
    fn memory_is_in_bytes() {
        let of = |text: &str| memory_below(with("meminfo", text).path());
        let text = "MemTotal:       24574372 kB\nMemFree:         1 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(of(text), Some(Memory { total: 24_574_372 * 1024, available: 20_000_000 * 1024 }));
        let root = with("meminfo", text);
        std::fs::create_dir(root.path().join("proc/self")).expect("a directory");
        std::fs::write(root.path().join("proc/self/status"), "VmPeak:\t9 kB\nVmSize:\t1000 kB\n")
            .expect("a file");
        let limit = "Max data size             unlimited            unlimited            bytes     \n\
                     Max address space         2048000              unlimited            bytes     \n";
        std::fs::write(root.path().join("proc/self/limits"), limit).expect("a file");
        assert_eq!(memory_below(root.path()).map(|memory| memory.available), Some(1_024_000));
        for bad in
            ["", "MemTotal: 5 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB\n", "MemTotal: 1\nMemAvailable: 1\n"]
        {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(memory_below(&root.path().join("missing")), None);
    }
}
