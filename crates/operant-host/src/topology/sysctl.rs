//! macOS: parses the output of `sysctl hw machdep.cpu`.
//!
//! Apple silicon has `hw.perflevel0` for its fastest kind of core, `hw.perflevel1` for the next; Intel Macs have `hw.` alone.
//! CPUs have no numbers that a process could use: they are numbered here kind by kind, and threads are not bound to them.

use super::{Cache, Core, Topology, Vendor};
use crate::cores::CoreKind;

/// One kind of core.
struct Level {
    kind: CoreKind,
    /// Beginning of its keys, as `hw.perflevel0.`.
    keys: String,
}

/// The machine that the output of `sysctl hw machdep.cpu` describes; `parallelism` threads where it does not.
pub fn of_sysctl(text: &str, parallelism: usize) -> Topology {
    let value =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim);
    let number = |key: &str| value(key)?.parse::<u64>().ok();
    let count =
        |key: &str| number(key).and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=1 << 16).contains(n));

    let mut topology = Topology::of_parallelism(parallelism);
    topology.processor = value("machdep.cpu.brand_string").filter(|name| !name.is_empty()).map(str::to_owned);
    let apple = topology.processor.as_ref().is_some_and(|name| name.starts_with("Apple"));
    topology.vendor =
        if apple { Vendor::Apple } else { Vendor::of_id(value("machdep.cpu.vendor").unwrap_or_default()) };
    topology.memory_total = number("hw.memsize");

    let levels = count("hw.nperflevels").unwrap_or(1);
    let levels: Vec<Level> = match levels {
        1 => vec![Level { kind: CoreKind::Uniform, keys: "hw.".to_owned() }],
        _ => (0..levels)
            .map(|level| Level {
                kind: if level == 0 { CoreKind::Performance } else { CoreKind::Efficiency },
                keys: format!("hw.perflevel{level}."),
            })
            .collect(),
    };
    let (mut cores, mut caches, mut next) = (Vec::new(), Vec::new(), 0);
    for Level { kind, keys } in levels {
        let of = |name: &str| count(&format!("{keys}{name}"));
        let Some(physical) = of("physicalcpu") else { continue };
        let logical = of("logicalcpu").unwrap_or(physical).max(physical);
        let (first, threads) = (next, logical / physical);
        for core in 0..physical {
            let start = first + core * threads;
            let threads = (start..start + threads).collect();
            cores.push(Core { package: 0, node: 0, kind, capacity: None, threads });
        }
        next = first + physical * threads;
        // Sizes, and how many CPUs share each; by default all cores of a kind share the last level.
        let shared = [("l1d", threads), ("l2", of("cpusperl2").unwrap_or(threads)), ("l3", next - first)];
        for (level, (name, sharers)) in (1..).zip(shared) {
            let Some(bytes) = number(&format!("{keys}{name}cachesize")).filter(|&bytes| bytes > 0) else {
                continue;
            };
            for start in (first..next).step_by(sharers.max(1) as usize) {
                caches.push(Cache { level, bytes, cpus: (start..next.min(start + sharers)).collect() });
            }
        }
    }
    if !cores.is_empty() {
        caches.sort_by(|a, b| (a.level, &a.cpus).cmp(&(b.level, &b.cpus)));
        topology.usable = (0..next).collect();
        (topology.cores, topology.caches) = (cores, caches);
    }
    topology
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relevant lines of an M2 Pro with six performance and four efficiency cores.
    const M2_PRO: &str = "hw.ncpu: 10\nhw.packages: 1\nhw.memsize: 17179869184\nhw.nperflevels: 2\n\
        hw.physicalcpu: 10\nhw.logicalcpu: 10\nhw.l1dcachesize: 65536\nhw.l2cachesize: 4194304\n\
        hw.perflevel0.physicalcpu: 6\nhw.perflevel0.logicalcpu: 6\nhw.perflevel0.l1dcachesize: 131072\n\
        hw.perflevel0.l2cachesize: 16777216\nhw.perflevel0.cpusperl2: 3\nhw.perflevel0.name: Performance\n\
        hw.perflevel1.physicalcpu: 4\nhw.perflevel1.logicalcpu: 4\nhw.perflevel1.l1dcachesize: 65536\n\
        hw.perflevel1.l2cachesize: 4194304\nhw.perflevel1.cpusperl2: 4\nhw.perflevel1.name: Efficiency\n\
        machdep.cpu.brand_string: Apple M2 Pro\n";

    #[test]
    fn apple_silicon() {
        let topology = of_sysctl(M2_PRO, 10);
        assert_eq!((&topology.vendor, topology.processor.as_deref()), (&Vendor::Apple, Some("Apple M2 Pro")));
        let count = |kind| topology.cores.iter().filter(|core| core.kind == kind).count();
        assert_eq!((count(CoreKind::Performance), count(CoreKind::Efficiency)), (6, 4));
        assert_eq!(topology.usable, (0..10).collect::<Vec<_>>());
        assert_eq!(topology.cache(1, 0).map(|cache| cache.bytes), Some(128 << 10));
        assert_eq!(topology.cache(2, 4), Some(&Cache { level: 2, bytes: 16 << 20, cpus: vec![3, 4, 5] }));
        assert_eq!(topology.cache(2, 9), Some(&Cache { level: 2, bytes: 4 << 20, cpus: vec![6, 7, 8, 9] }));
        assert_eq!(topology.cache(3, 0), None);
        assert_eq!((topology.memory_total, topology.pinnable), (Some(16 << 30), false));
    }

    #[test]
    fn an_intel_mac_has_one_kind_and_siblings() {
        let topology = of_sysctl(
            "hw.physicalcpu: 4\nhw.logicalcpu: 8\nhw.l1dcachesize: 32768\nhw.l2cachesize: 262144\n\
             hw.l3cachesize: 6291456\nmachdep.cpu.vendor: GenuineIntel\n\
             machdep.cpu.brand_string: Intel(R) Core(TM) i5-8257U CPU @ 1.40GHz\n",
            8,
        );
        assert_eq!(topology.vendor, Vendor::Intel);
        assert_eq!(topology.cores.len(), 4);
        assert_eq!(topology.cores[1].threads, [2, 3]);
        assert_eq!(topology.cache(2, 3).map(|cache| cache.cpus.clone()), Some(vec![2, 3]));
        assert_eq!(topology.cache(3, 3).map(|cache| cache.cpus.len()), Some(8));
    }

    #[test]
    fn nonsense_leaves_the_number_of_threads() {
        for text in
            ["", "hw.physicalcpu: 0\n", "hw.physicalcpu: 99999999999\n", "hw.nperflevels: 2\n", "garbage"]
        {
            assert_eq!(of_sysctl(text, 6), Topology::of_parallelism(6), "{text}");
        }
    }
}
