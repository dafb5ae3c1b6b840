//! The processor's vendor.

use std::fmt;
use std::path::Path;

use crate::machine;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vendor {
    Intel,
    Amd,
    Apple,
    /// Another ARM processor, by the implementer code of its main identification register (MIDR_EL1).
    Arm(u8),
    /// Another vendor, as it names itself.
    Other(String),
    /// The system does not report it.
    Unknown,
}

/// Implementer codes, as the Arm Architecture Reference Manual and the kernel's `cputype.h` list them.
const IMPLEMENTERS: [(u8, &str); 12] = [
    (0x41, "Arm"),
    (0x42, "Broadcom"),
    (0x43, "Cavium"),
    (0x46, "Fujitsu"),
    (0x48, "HiSilicon"),
    (0x4e, "NVIDIA"),
    (0x50, "Applied Micro"),
    (0x51, "Qualcomm"),
    (0x53, "Samsung"),
    (0x6d, "Microsoft"),
    (0x70, "Phytium"),
    (0xc0, "Ampere"),
];

/// Apple's implementer code.
const APPLE: u8 = 0x61;

impl Vendor {
    /// From the vendor string of an x86 processor's `cpuid`.
    pub(crate) fn of_id(id: &str) -> Self {
        match id {
            "" => Vendor::Unknown,
            "GenuineIntel" => Vendor::Intel,
            "AuthenticAMD" => Vendor::Amd,
            other => Vendor::Other(other.to_owned()),
        }
    }

    /// From the implementer code of an ARM processor.
    pub(crate) fn of_implementer(code: u8) -> Self {
        if code == APPLE { Vendor::Apple } else { Vendor::Arm(code) }
    }

    /// From `proc/cpuinfo` below `root`: `vendor_id` on x86, `CPU implementer` on ARM.
    pub(crate) fn below(root: &Path) -> Self {
        let text = machine::cpuinfo(root);
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match (key.trim(), value.trim()) {
                ("vendor_id", id) => return Vendor::of_id(id),
                ("CPU implementer", code) => {
                    let code = code.strip_prefix("0x").and_then(|code| u8::from_str_radix(code, 16).ok());
                    return code.map_or(Vendor::Unknown, Vendor::of_implementer);
                }
                _ => {}
            }
        }
        Vendor::Unknown
    }
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vendor::Intel => f.write_str("Intel"),
            Vendor::Amd => f.write_str("AMD"),
            Vendor::Apple => f.write_str("Apple"),
            Vendor::Arm(code) => match IMPLEMENTERS.iter().find(|(known, _)| known == code) {
                Some((_, name)) => write!(f, "{name} (ARM)"),
                None => write!(f, "ARM implementer {code:#04x}"),
            },
            Vendor::Other(name) => f.write_str(name),
            Vendor::Unknown => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makers_by_what_their_processors_say() {
        let of = |text: &str| {
            let root = tempfile::tempdir().expect("a temporary directory");
            std::fs::create_dir(root.path().join("proc")).expect("a directory");
            std::fs::write(root.path().join("proc/cpuinfo"), text).expect("a file");
            Vendor::below(root.path())
        };
        assert_eq!(of("processor\t: 0\nvendor_id\t: GenuineIntel\n"), Vendor::Intel);
        assert_eq!(of("processor\t: 0\nvendor_id\t: AuthenticAMD\n"), Vendor::Amd);
        assert_eq!(of("vendor_id\t: HygonGenuine\n").to_string(), "HygonGenuine");
        assert_eq!(of("processor\t: 0\nBogoMIPS\t: 48.00\nCPU implementer\t: 0x61\n"), Vendor::Apple);
        assert_eq!(of("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n").to_string(), "Arm (ARM)");
        assert_eq!(of("CPU implementer\t: 0xc0\n").to_string(), "Ampere (ARM)");
        assert_eq!(of("CPU implementer\t: 0x77\n").to_string(), "ARM implementer 0x77");
        for unknown in ["", "processor\t: 0\n", "CPU implementer\t: 0x161\n", "vendor_id\t:\n"] {
            assert_eq!(of(unknown), Vendor::Unknown, "{unknown}");
        }
        let empty = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(Vendor::below(empty.path()), Vendor::Unknown);
    }
}
