//! The topology of the machines in tests/fixtures/machines, and of the one that the test runs on.

use crate::support::{mac, machine};
use operant_host::topology::Cache;
use operant_host::{CoreKind, Topology, Vendor};

/// The numbers of the cores of a kind.
fn cores(topology: &Topology, kind: CoreKind) -> usize {
    topology.cores.iter().filter(|core| core.kind == kind).count()
}

fn cache(level: u32, kib: u64, cpus: impl IntoIterator<Item = u32>) -> Cache {
    Cache { level, bytes: kib << 10, cpus: cpus.into_iter().collect() }
}

#[test]
fn apple_m2_has_two_kinds_with_an_l2_each() {
    let m2 = machine("apple-m2");
    assert_eq!(m2.vendor, Vendor::Apple);
    assert_eq!(m2.processor.as_deref(), Some("Apple MacBook Air (13-inch, M2, 2022)"));
    assert_eq!((cores(&m2, CoreKind::Efficiency), cores(&m2, CoreKind::Performance)), (4, 4));
    assert_eq!(m2.cores.iter().map(|core| core.capacity).collect::<Vec<_>>(), {
        let (small, large) = ([Some(571); 4], [Some(1024); 4]);
        [small, large].concat()
    });
    assert_eq!(m2.cache(1, 0), Some(&cache(1, 64, [0])));
    assert_eq!(m2.cache(1, 7), Some(&cache(1, 128, [7])));
    assert_eq!(m2.cache(2, 2), Some(&cache(2, 4096, 0..4)));
    assert_eq!(m2.cache(2, 5), Some(&cache(2, 16384, 4..8)));
    assert_eq!(m2.cache(3, 0), None);
    assert!(m2.is_whole() && m2.limits.cpu.is_none() && m2.limits.memory.is_none());
    assert_eq!(m2.memory_limit(), Some(16_154_624 << 10));
}

#[test]
fn arm_servers_have_one_kind_of_core() {
    let grace = machine("nvidia-grace");
    assert_eq!(
        (grace.vendor.clone(), grace.processor.as_deref()),
        (Vendor::Arm(0x41), Some("Arm Neoverse V2"))
    );
    assert_eq!((cores(&grace, CoreKind::Uniform), grace.usable.len(), grace.packages()), (72, 72, 1));
    // The memory of its GPU is a node without CPUs.
    assert_eq!(grace.nodes.iter().map(|node| node.number).collect::<Vec<_>>(), [0]);
    assert_eq!(grace.cache(3, 71), Some(&cache(3, 116_736, 0..72)));
    let graviton = machine("aws-graviton3");
    assert_eq!(graviton.processor.as_deref(), Some("Arm Neoverse V1"));
    assert_eq!((cores(&graviton, CoreKind::Uniform), graviton.parallelism), (64, 64));
    assert_eq!(graviton.cores[0].capacity, Some(1024));
}

#[test]
fn macs_are_known_by_what_sysctl_prints() {
    for (name, fast, slow) in [("apple-m1", 4, 4), ("apple-m2-pro", 6, 4), ("apple-m4", 4, 6)] {
        let topology = mac(name);
        assert_eq!(topology.vendor, Vendor::Apple);
        assert_eq!(cores(&topology, CoreKind::Performance), fast, "{name}");
        assert_eq!(cores(&topology, CoreKind::Efficiency), slow, "{name}");
        assert_eq!(topology.usable.len(), fast + slow);
        assert!(!topology.pinnable);
    }
    assert_eq!(mac("apple-m4").processor.as_deref(), Some("Apple M4"));
    assert_eq!(mac("apple-m4").cache(2, 9), Some(&cache(2, 4096, 4..10)));
    assert_eq!(mac("apple-m1").cache(2, 3), Some(&cache(2, 12288, 0..4)));
    assert_eq!(mac("apple-m1").memory_limit(), Some(8 << 30));
}

#[test]
fn intel_hybrid_has_siblings_on_fast_cores_alone() {
    let hybrid = machine("intel-i7-12700");
    assert_eq!(hybrid.vendor, Vendor::Intel);
    assert_eq!(hybrid.processor.as_deref(), Some("12th Gen Intel(R) Core(TM) i7-12700"));
    assert_eq!((cores(&hybrid, CoreKind::Performance), cores(&hybrid, CoreKind::Efficiency)), (8, 4));
    assert_eq!(hybrid.cores[3].threads, [6, 7]);
    assert_eq!(hybrid.cores[8].threads, [16]);
    assert_eq!(hybrid.cache(2, 7), Some(&cache(2, 1280, [6, 7])));
    assert_eq!(hybrid.cache(2, 17), Some(&cache(2, 2048, 16..20)));
    assert_eq!(hybrid.cache(3, 0), Some(&cache(3, 25600, 0..20)));
    assert_eq!((hybrid.nodes.len(), hybrid.packages(), hybrid.parallelism), (1, 1, 20));
}

#[test]
fn amd_with_two_sockets_has_an_l3_to_four_cores() {
    let amd = machine("amd-epyc-7543-2p");
    assert_eq!(amd.vendor, Vendor::Amd);
    assert_eq!((amd.cores.len(), amd.usable.len(), amd.packages(), amd.nodes.len()), (64, 128, 2, 2));
    assert_eq!(amd.cores[40].threads, [40, 104]);
    assert_eq!((amd.cores[40].package, amd.cores[40].node), (1, 1));
    assert_eq!(amd.cache(3, 104), Some(&cache(3, 32768, (40..44).chain(104..108))));
    let last: Vec<_> = amd.caches.iter().filter(|cache| cache.level == 3).collect();
    assert_eq!(last.len(), 16, "{last:?}");
    assert_eq!(amd.nodes[1].cpus, (32..64).chain(96..128).collect::<Vec<_>>());
}

#[test]
fn sockets_whose_cpus_are_numbered_in_turns() {
    let xeon = machine("intel-xeon-e5-2620v4-2s");
    // Node 2 has memory alone.
    assert_eq!(xeon.nodes.iter().map(|node| node.number).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(xeon.nodes[1].cpus, (1..32).step_by(2).collect::<Vec<_>>());
    assert_eq!((xeon.cores.len(), xeon.packages()), (16, 2));
    assert_eq!((xeon.cores[3].node, xeon.cores[3].package, &xeon.cores[3].threads[..]), (1, 1, &[3, 19][..]));
}

#[test]
fn a_mask_on_more_than_64_cores() {
    let altra = machine("ampere-altra-masked");
    assert_eq!(altra.vendor, Vendor::Arm(0x41));
    assert_eq!((altra.cores.len(), altra.usable.len()), (80, 76));
    assert_eq!(altra.processor.as_deref(), Some("Arm Neoverse N1"));
    assert!(!altra.is_whole());
    let numbers: Vec<u32> = altra.usable_cores().iter().map(|core| core.threads[0]).collect();
    assert_eq!(numbers, (0..70).chain([72]).chain(75..80).collect::<Vec<_>>());
}

#[test]
fn a_container_has_a_quota_and_less_memory_than_its_machine() {
    let container = machine("container-1.5");
    let cpu = container.limits.cpu.as_ref().expect("a quota");
    assert_eq!((cpu.value, cpu.file.to_str()), (1.5, Some("/sys/fs/cgroup/cpu.max")));
    assert_eq!((container.whole_quota(), container.parallelism), (Some(1), 1));
    assert_eq!(container.memory_limit(), Some(2 << 30));
    assert_eq!(container.memory_total, Some(7_935_464 << 10));
}

#[test]
fn a_recorded_guest_with_both_versions_of_cgroups_has_no_limit() {
    let guest = machine("amd-epyc-guest");
    assert_eq!((guest.limits.cpu.is_none(), guest.limits.memory.is_none()), (true, true));
    assert_eq!((guest.cores.len(), guest.parallelism), (2, 2));
    assert_eq!(
        guest.caches,
        [
            cache(1, 48, [0]),
            cache(1, 48, [1]),
            cache(2, 1024, [0]),
            cache(2, 1024, [1]),
            cache(3, 32768, [0, 1]),
        ]
    );
}

#[test]
fn siblings_that_are_switched_off_or_taken_away_are_no_threads() {
    let root = crate::support::unfold("intel-i7-12700");
    std::fs::write(root.path().join("sys/devices/system/cpu/online"), "0-14,16-19\n").expect("a file");
    std::fs::write(root.path().join("proc/self/status"), "Cpus_allowed_list:\t1-3,14-19\n").expect("a file");
    let topology = Topology::below(root.path());
    assert_eq!(topology.cores[7].threads, [14]);
    let usable: Vec<_> = topology.usable_cores().into_iter().map(|core| core.threads).collect();
    assert_eq!(usable, [vec![1], vec![2, 3], vec![14], vec![16], vec![17], vec![18], vec![19]]);
}

#[test]
fn an_empty_tree_is_a_machine_of_no_known_core() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    let topology = Topology::below(empty.path());
    assert_eq!((topology.cores.len(), topology.usable.len(), topology.parallelism), (0, 0, 1));
    assert_eq!((&topology.vendor, topology.memory_limit()), (&Vendor::Unknown, None));
}

#[test]
#[cfg(target_os = "linux")]
fn this_machine() {
    let topology = Topology::read();
    assert!(!topology.usable_cores().is_empty(), "{topology:?}");
    assert!(topology.usable_cores().len() <= topology.usable.len(), "{topology:?}");
    // The standard library reads mask and quota by itself.
    assert_eq!(Topology::below(std::path::Path::new("/")).parallelism, topology.parallelism, "{topology:?}");
    assert!(topology.memory_limit().is_some_and(|bytes| bytes > 1 << 20), "{topology:?}");
}
