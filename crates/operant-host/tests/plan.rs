//! Plans for the machines in tests/fixtures/machines.

use crate::support::{mac, machine};
use operant_host::{Plan, PlanRequest, Topology, Waiting, Workload};

/// A learner of two hidden layers, 64-byte samples and tiles of 64.
const WORK: Workload = Workload {
    tile: 64,
    num_envs: None,
    chunks: None,
    rollout_tiles: &[(16, 1.0), (32, 1.5), (64, 2.5)],
    lane_widths: &[8, 16],
    vector: (8, "vectors of 256 bits"),
};

fn plan(name: &str) -> Plan {
    plan_with(name, PlanRequest::default())
}

fn plan_with(name: &str, request: PlanRequest) -> Plan {
    Plan::new(&machine(name), &request, &WORK)
}

/// With bound threads, as many as requested.
fn pinned(name: &str, threads: Option<usize>) -> Plan {
    plan_with(name, PlanRequest { threads, pin: Some(true), ..PlanRequest::default() })
}

/// Value and reason of a setting.
fn setting<'a>(plan: &'a Plan, name: &str) -> (&'a str, &'a str) {
    let setting = plan.settings.iter().find(|setting| setting.name == name);
    let setting = setting.unwrap_or_else(|| panic!("no {name} in {:?}", plan.settings));
    (&setting.value, &setting.reason)
}

/// Checks that a reason names what it must.
fn because(plan: &Plan, name: &str, words: &[&str]) {
    let (_, reason) = setting(plan, name);
    for word in words {
        assert!(reason.contains(word), "{name}: {reason} lacks {word}");
    }
}

#[test]
fn big_little_uses_every_core() {
    let plan = plan("apple-m2");
    assert_eq!((plan.threads, plan.waiting), (8, Waiting::Spin));
    // All of them, and bound to none.
    assert_eq!((plan.pin.len(), setting(&plan, "pinning").0), (0, "off"));
    because(&plan, "pinning", &["under other load", "pin = true"]);
    because(&plan, "threads", &["all usable cores", "4 performance and 4 efficiency"]);
    // On request, the performance cores come first, then the efficiency cores.
    let pinned = pinned("apple-m2", None);
    assert_eq!(pinned.pin, [4, 5, 6, 7, 0, 1, 2, 3]);
    assert_eq!(setting(&pinned, "pinning"), ("4-7,0-3", "requested"));
}

#[test]
fn slow_cores_take_part_where_a_minibatch_has_enough_parts() {
    let with = |machine: &Topology, chunks| {
        Plan::new(machine, &PlanRequest::default(), &Workload { chunks: Some(chunks), ..WORK })
    };
    // 459 of 1024: of eight parts, a slow core would take one for 2.2 times the time of a part; the fast ones take two each.
    let m1 = machine("apple-m1");
    for (chunks, threads) in [(1, 4), (4, 4), (8, 4), (16, 8), (64, 8)] {
        let plan = with(&m1, chunks);
        assert_eq!(plan.threads, threads, "{chunks} parts");
        assert_eq!(
            plan.settings[0].reason.contains("would finish last"),
            threads == 4,
            "{:?}",
            plan.settings[0]
        );
    }
    because(&with(&m1, 8), "threads", &["performance cores", "8 parts", "4 efficiency cores"]);
    // 571 of 1024: a slow core takes less than two parts' time.
    assert_eq!((with(&machine("apple-m2"), 8).threads, with(&machine("apple-m2"), 4).threads), (8, 4));
    // Other requests decide by themselves.
    let of = |request| Plan::new(&m1, &request, &Workload { chunks: Some(4), ..WORK }).threads;
    assert_eq!(of(PlanRequest { threads: Some(6), ..PlanRequest::default() }), 6);
    assert_eq!(of(PlanRequest { optimize: false, ..PlanRequest::default() }), 8);
    assert_eq!(of(PlanRequest { gpu: true, ..PlanRequest::default() }), 8);
    // Machines of one kind, and those with siblings, are as before.
    for (name, threads) in [("nvidia-grace", 32), ("aws-graviton3", 32), ("intel-i7-12700", 20)] {
        assert_eq!(with(&machine(name), 4).threads, threads, "{name}");
    }
}

#[test]
fn macs_have_plans_by_what_sysctl_prints() {
    let plan = |name, request| Plan::new(&mac(name), &request, &WORK);
    for (name, threads, reason) in [
        ("apple-m1", 8, "4 performance and 4 efficiency"),
        ("apple-m2-pro", 10, "6 performance and 4 efficiency"),
        ("apple-m4", 10, "4 performance and 6 efficiency"),
    ] {
        let free = plan(name, PlanRequest::default());
        assert_eq!((free.threads, free.pin.len(), free.waiting), (threads, 0, Waiting::Spin), "{name}");
        because(&free, "threads", &["all usable cores", reason, "fast ones first"]);
        let pinned = plan(name, PlanRequest { pin: Some(true), ..PlanRequest::default() });
        assert!(pinned.pin.is_empty());
        because(&pinned, "pinning", &["this system binds no thread"]);
        let fixed = plan(name, PlanRequest { optimize: false, ..PlanRequest::default() });
        assert_eq!(fixed.threads, threads);
        because(&fixed, "threads", &["optimize_perf = false"]);
    }
}

#[test]
fn intel_hybrid_uses_every_hardware_thread_and_says_that_siblings_are_not_measured() {
    let plan = plan("intel-i7-12700");
    assert_eq!((plan.threads, plan.pin.len(), plan.waiting), (20, 0, Waiting::Spin));
    because(&plan, "threads", &["8 performance and 4 efficiency", "hardware threads", "not measured"]);
    // Bound threads take siblings last.
    let all = pinned("intel-i7-12700", None);
    assert_eq!(all.pin, [0, 2, 4, 6, 8, 10, 12, 14, 16, 17, 18, 19, 1, 3, 5, 7, 9, 11, 13, 15]);
    assert_eq!(pinned("intel-i7-12700", Some(2)).pin, [0, 2]);
    let one_each = plan_with("intel-i7-12700", PlanRequest { threads: Some(12), ..PlanRequest::default() });
    assert_eq!(setting(&one_each, "threads").1, "requested");
    let more = plan_with("intel-i7-12700", PlanRequest { threads: Some(21), ..PlanRequest::default() });
    assert_eq!(more.waiting, Waiting::Yield, "{:?}", setting(&more, "waiting"));
}

#[test]
fn many_cores_are_taken_up_to_32() {
    let plan = plan("amd-epyc-7543-2p");
    assert_eq!((plan.threads, plan.pin.len(), plan.waiting), (32, 0, Waiting::Spin));
    because(&plan, "threads", &["of 128 usable CPUs"]);
    assert!(!setting(&plan, "threads").1.contains("siblings"), "32 threads have a core each of 64");
    assert_eq!(pinned("amd-epyc-7543-2p", None).pin, (0..32).collect::<Vec<_>>(), "the cores of one node");
    let all = pinned("amd-epyc-7543-2p", Some(128));
    assert_eq!((all.pin, all.waiting), ((0..128).collect::<Vec<_>>(), Waiting::Spin));
    let more = pinned("amd-epyc-7543-2p", Some(129));
    assert!(more.pin.is_empty() && more.threads == 129);
    because(&more, "pinning", &["129 threads do not fit on 128 CPUs"]);
}

#[test]
fn nodes_are_filled_one_after_the_other_however_they_are_numbered() {
    assert_eq!(plan("intel-xeon-e5-2620v4-2s").threads, 32);
    let plan = pinned("intel-xeon-e5-2620v4-2s", Some(16));
    assert_eq!(plan.pin, (0..16).step_by(2).chain((1..16).step_by(2)).collect::<Vec<_>>());
}

#[test]
fn a_mask_is_kept_to() {
    let plan = plan("ampere-altra-masked");
    assert_eq!((plan.threads, plan.pin.len()), (32, 0));
    because(&plan, "threads", &["of 76 usable CPUs"]);
    let pinned = pinned("ampere-altra-masked", Some(72));
    assert_eq!(pinned.pin[69..], [69, 72, 75], "only CPUs that the process may use");
}

#[test]
fn a_quota_limits_threads_and_keeps_them_from_spinning() {
    let plan = plan("container-1.5");
    assert_eq!((plan.threads, plan.pin.len(), plan.waiting), (1, 0, Waiting::Spin));
    because(&plan, "threads", &["/sys/fs/cgroup/cpu.max", "1.5", "of 2 usable"]);
    // Two threads on a quota of 1.5 would spend it waiting.
    let two = plan_with("container-1.5", PlanRequest { threads: Some(2), ..PlanRequest::default() });
    assert_eq!((two.threads, two.waiting), (2, Waiting::Sleep));
    because(&two, "waiting", &["1.5"]);
}

#[test]
fn a_uniform_machine_is_left_to_its_scheduler() {
    let plan = plan("amd-epyc-guest");
    assert_eq!((plan.threads, plan.pin.len(), plan.waiting), (2, 0, Waiting::Spin));
    because(&plan, "threads", &["one per usable core"]);
}

#[test]
fn without_optimisation_there_are_plain_defaults() {
    let off = PlanRequest { optimize: false, ..PlanRequest::default() };
    for (name, threads) in [("intel-i7-12700", 20), ("amd-epyc-7543-2p", 128), ("container-1.5", 1)] {
        let plan = plan_with(name, off);
        assert_eq!((plan.threads, plan.pin.len(), plan.waiting), (threads, 0, Waiting::Spin), "{name}");
    }
    // Explicitly requested values still apply.
    let asked = PlanRequest { threads: Some(3), pin: Some(true), waiting: Some(Waiting::Yield), ..off };
    let plan = plan_with("apple-m2", asked);
    assert_eq!((plan.threads, &plan.pin[..], plan.waiting), (3, &[4, 5, 6][..], Waiting::Yield));
}

#[test]
fn beside_a_gpu_the_plan_stays_out_of_the_way() {
    let gpu = PlanRequest { gpu: true, ..PlanRequest::default() };
    for (name, threads) in
        [("intel-i7-12700", 8), ("amd-epyc-7543-2p", 8), ("amd-epyc-guest", 2), ("container-1.5", 1)]
    {
        let plan = plan_with(name, gpu);
        assert_eq!((plan.threads, plan.pin.len(), plan.waiting), (threads, 0, Waiting::Sleep), "{name}");
        assert_eq!(plan.settings.len(), 3, "{:?}", plan.settings);
    }
}

#[test]
fn processes_of_a_run_share_the_cpus() {
    let of = |processes, more: PlanRequest| plan_with("intel-i7-12700", PlanRequest { processes, ..more });
    for (processes, threads) in [(2, 10), (4, 5), (1_000, 1)] {
        let plan = of(processes, PlanRequest::default());
        assert_eq!(plan.threads, threads);
        because(&plan, "threads", &[&format!("{processes} processes share 20 CPUs")]);
        let fixed = of(processes, PlanRequest { optimize: false, ..PlanRequest::default() });
        assert_eq!(fixed.threads, threads);
        // The launcher binds processes.
        assert!(of(processes, PlanRequest { pin: Some(true), ..PlanRequest::default() }).pin.is_empty());
    }
    let two = PlanRequest { threads: Some(2), ..PlanRequest::default() };
    assert_eq!((of(4, two).threads, of(4, two).waiting), (2, Waiting::Spin));
    assert_eq!(of(1_000, two).waiting, Waiting::Yield);
}

#[test]
fn idle_workers_of_small_rollouts_are_reported() {
    let with = |num_envs, rollout_tile| {
        let request = PlanRequest { rollout_tile, ..PlanRequest::default() };
        Plan::new(&machine("apple-m2"), &request, &Workload { num_envs: Some(num_envs), ..WORK })
    };
    let plan = with(64, None);
    assert_eq!(plan.rollout_tile, Some(16));
    because(&plan, "rollout_tile", &["64 environments take 4 tiles: 4 of 8 threads idle during rollouts"]);
    let plan = with(8192, None);
    assert_eq!(plan.rollout_tile, Some(64));
    because(&plan, "rollout_tile", &["128 tiles for 8 threads"]);
    // Four tiles of 64 might all fall to the slow cores; of 32 every core takes one.
    assert_eq!((with(256, None).rollout_tile, with(384, None).rollout_tile), (Some(32), Some(32)));
    let plan = with(8192, Some(16));
    assert_eq!((plan.rollout_tile, setting(&plan, "rollout_tile").0), (Some(16), "16"));
    because(&plan, "rollout_tile", &["requested", "512 tiles"]);
}

#[test]
fn many_workers_are_given_small_tiles_rather_than_none() {
    let work = Workload { num_envs: Some(1024), ..WORK };
    let plan = Plan::new(&machine("amd-epyc-7543-2p"), &PlanRequest::default(), &work);
    assert_eq!(
        (plan.threads, plan.rollout_tile),
        (32, Some(32)),
        "16 tiles of 64 would leave half of them idle"
    );
    // Two workers: as many as leave neither waiting, and no small ones beyond that.
    let two = |num_envs| {
        let work = Workload { num_envs: Some(num_envs), ..WORK };
        Plan::new(&machine("amd-epyc-guest"), &PlanRequest::default(), &work).rollout_tile
    };
    let sizes = [1, 16, 17, 32, 64, 96, 128, 256, 1024, 1 << 22].map(two);
    assert_eq!(sizes, [16, 16, 16, 16, 32, 64, 64, 64, 64, 64].map(Some));
}

#[test]
fn an_unknown_machine_has_a_plan() {
    for topology in [Topology::of_parallelism(6), Topology::of_parallelism(0)] {
        let plan = Plan::new(&topology, &PlanRequest::default(), &WORK);
        assert_eq!((plan.threads, plan.pin.len()), (topology.parallelism, 0));
    }
    let pinned = PlanRequest { pin: Some(true), ..PlanRequest::default() };
    assert!(Plan::new(&Topology::of_parallelism(6), &pinned, &WORK).pin.is_empty());
    let empty = tempfile::tempdir().expect("a temporary directory");
    for request in [
        PlanRequest::default(),
        pinned,
        PlanRequest { optimize: false, ..pinned },
        PlanRequest { threads: Some(4), ..pinned },
    ] {
        let plan = Plan::new(&Topology::below(empty.path()), &request, &WORK);
        assert!(plan.threads >= 1 && plan.pin.is_empty(), "{plan:?}");
    }
}

#[test]
fn every_reason_is_one_line_and_the_plan_is_a_function() {
    let names =
        ["apple-m2", "intel-i7-12700", "amd-epyc-7543-2p", "intel-xeon-e5-2620v4-2s", "ampere-altra-masked"];
    for name in names.into_iter().chain(["container-1.5", "amd-epyc-guest"]) {
        let (one, again) = (plan(name), plan(name));
        assert_eq!(one, again, "{name}");
        let lanes: usize = setting(&one, "lane_width").0.parse().expect("a number");
        assert_eq!(lanes, one.lane_width);
        assert!(WORK.lane_widths.contains(&lanes), "{lanes}");
        for setting in &one.settings {
            assert!(!setting.reason.is_empty() && !setting.reason.contains('\n'), "{setting:?}");
            assert!(!setting.value.is_empty() && !setting.value.contains('\n'), "{setting:?}");
        }
    }
}
