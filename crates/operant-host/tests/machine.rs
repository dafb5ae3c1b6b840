//! The sampler on the machine that the test runs on.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use operant_host::{HostSample, Sampler};

/// Checks that every value is in its range or NaN; with `cpu`, the CPU's values must be known.
fn check(sample: &HostSample) {
    assert!(sample.resident_memory > 100e3 && sample.resident_memory < 1e15, "{sample:?}");
    assert!(!sample.cores.is_empty(), "{sample:?}");
    assert!(sample.cores.is_sorted_by_key(|core| core.number), "{sample:?}");
    for share in [sample.cpu_utilization, sample.cpu_performance, sample.cpu_efficiency] {
        assert!(share.is_nan() || (0.0..=1.0).contains(&share), "{sample:?}");
    }
    for core in &sample.cores {
        assert!(core.utilization.is_nan() || (0.0..=1.0).contains(&core.utilization), "{sample:?}");
    }
    assert!(sample.cpu_balance.is_nan() || sample.cpu_balance >= 0.0, "{sample:?}");
}

#[test]
fn a_busy_thread_is_seen() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let mut sampler = Sampler::new();
    let busy = thread::spawn(|| {
        while !STOP.load(Relaxed) {
            std::hint::spin_loop();
        }
    });
    // Half a core, summed over cores: a container may grant a busy thread no more.
    let deadline = Instant::now() + Duration::from_secs(20);
    let seen = loop {
        let sample = sampler.sample();
        check(&sample);
        let busy_cores = sample.cpu_utilization * sample.cores.len() as f64;
        if busy_cores >= 0.5 || Instant::now() > deadline {
            break busy_cores;
        }
        thread::sleep(Duration::from_millis(20));
    };
    STOP.store(true, Relaxed);
    busy.join().expect("the busy thread");
    assert!(seen >= 0.5, "a thread was busy, and the sampler saw {seen} busy cores");
}

#[test]
fn the_cores_are_those_that_the_process_may_use() {
    let cores = operant_host::cores::usable();
    assert!(!cores.is_empty());
    // Both follow the affinity mask; the standard library's count is also held down by a cgroup's quota.
    let parallelism = thread::available_parallelism().expect("a count").get();
    assert!(cores.len() >= parallelism, "{} cores, {parallelism} threads", cores.len());
}

#[test]
fn a_cpu_run_asks_for_no_gpu() {
    let mut sampler = Sampler::new();
    assert_eq!(sampler.gpu_missing(), None);
    assert_eq!(sampler.sample().gpu, None);
}

#[test]
fn a_gpu_that_is_asked_for_is_there_or_says_why_not() {
    let mut sampler = Sampler::with_gpu("GPU-00000000-0000-0000-0000-000000000000");
    let reason = sampler.gpu_missing().expect("a reason").to_owned();
    assert!(!reason.is_empty() && !reason.contains('\n'), "{reason}");
    let sample = sampler.sample();
    assert_eq!(sample.gpu, None);
    check(&sample);

    // `GPU 0: NVIDIA H200 (UUID: GPU-...)`, where there is one.
    let listed = std::process::Command::new("nvidia-smi").arg("-L").output();
    let listed =
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    for uuid in listed.lines().filter_map(|line| line.rsplit_once("(UUID: GPU-")?.1.strip_suffix(')')) {
        let mut sampler = Sampler::with_gpu(&format!("GPU-{uuid}"));
        assert_eq!(sampler.gpu_missing(), None);
        let gpu = sampler.sample().gpu.expect("a GPU");
        assert!(gpu.utilization.is_nan() || (0.0..=1.0).contains(&gpu.utilization), "{gpu:?}");
    }
}
