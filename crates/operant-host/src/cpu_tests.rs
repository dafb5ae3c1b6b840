//! Tests of the busy shares on texts of `/proc/stat`.

use super::*;
use crate::cores::CoreKind::{Efficiency, Performance, Uniform};

/// A meter of cores 0, 1, ... of these kinds.
fn meter(kinds: &[CoreKind]) -> CpuMeter {
    CpuMeter::new(kinds.iter().zip(0..).map(|(&kind, number)| CpuCore { number, kind }).collect())
}

fn shares(meter: &CpuMeter) -> Vec<(u32, f32)> {
    meter.cores().map(|core| (core.number, core.utilization)).collect()
}

/// Recorded on a machine with two cores; the long interrupt line is shortened.
const BEFORE: &str = "\
cpu  10692 0 2486 198389 225 0 25 9 0 0
cpu0 5205 0 1035 99632 30 0 7 3 0 0
cpu1 5486 0 1451 98756 195 0 17 5 0 0
intr 159618 0 0 0 0 0 0 0 0 0 0 0 0 0
ctxt 256288
btime 1
";

/// 25 ticks later: core 0 busy for 10 of them, core 1 for all but 5.
const AFTER: &str = "\
cpu  10722 0 2486 198409 225 0 25 9 0 0
cpu0 5213 0 1036 99645 32 0 8 3 0 0
cpu1 5500 0 1454 98759 197 0 18 7 0 0
intr 159700 0 0 0 0 0 0 0 0 0 0 0 0 0
";

#[test]
fn busy_is_all_but_idle_and_iowait() {
    let mut meter = meter(&[Uniform, Uniform]);
    meter.read(BEFORE);
    assert!(meter.cores().all(|core| core.utilization.is_nan()), "no rate from one reading");
    assert!(meter.summary().all.is_nan());
    meter.read(AFTER);
    assert_eq!(shares(&meter), [(0, 0.4), (1, 0.8)]);
    let summary = meter.summary();
    assert!((summary.all - 0.6).abs() < 1e-12);
    assert!((summary.evenness - 0.5).abs() < 1e-12, "the least busy core over the most busy one");
    assert!(summary.performance.is_nan() && summary.efficiency.is_nan() && summary.balance.is_nan());
}

#[test]
fn two_kinds_and_their_balance() {
    let mut meter = meter(&[Performance, Performance, Efficiency]);
    meter.read("cpu0 0 0 0 0\ncpu1 0 0 0 0\ncpu2 0 0 0 0\n");
    meter.read("cpu0 100 0 0 0\ncpu1 60 0 0 40\ncpu2 20 0 0 80\n");
    let summary = meter.summary();
    assert!((summary.performance - 0.8).abs() < 1e-12);
    assert!((summary.efficiency - 0.2).abs() < 1e-12);
    assert!((summary.balance - 0.25).abs() < 1e-12);
    assert!((summary.evenness - 0.2).abs() < 1e-12);
    assert!((summary.all - 0.6).abs() < 1e-12);
}

#[test]
fn one_core_and_idle_cores_have_no_evenness() {
    for kinds in [&[Uniform][..], &[Uniform, Uniform]] {
        let mut meter = meter(kinds);
        meter.read("cpu0 0 0 0 0\ncpu1 0 0 0 0\n");
        meter.read(if kinds.len() == 1 { "cpu0 50 0 0 50\n" } else { "cpu0 0 0 0 100\ncpu1 0 0 0 100\n" });
        assert!(meter.summary().evenness.is_nan(), "{kinds:?}");
    }
}

#[test]
fn no_balance_without_busy_performance_cores() {
    let mut meter = meter(&[Performance, Efficiency]);
    meter.read("cpu0 0 0 0 0\ncpu1 0 0 0 0\n");
    meter.read("cpu0 0 0 0 10\ncpu1 10 0 0 0\n");
    let summary = meter.summary();
    assert_eq!((summary.performance, summary.efficiency), (0.0, 1.0));
    assert!(summary.balance.is_nan(), "1 / 0 is no balance");
}

#[test]
fn guest_time_is_not_counted_twice() {
    let mut meter = meter(&[Uniform]);
    meter.read("cpu0 0 0 0 0 0 0 0 0 0 0\n");
    // 50 ticks in a guest: 30 of user's 30, 20 of nice's 20.
    meter.read("cpu0 30 20 0 50 0 0 0 0 30 20\n");
    assert_eq!(shares(&meter), [(0, 0.5)]);
}

#[test]
fn stolen_time_is_busy() {
    let mut meter = meter(&[Uniform]);
    meter.read("cpu0 0 0 0 0 0 0 0 0 0 0\n");
    meter.read("cpu0 10 0 0 50 0 0 0 40 0 0\n");
    assert_eq!(shares(&meter), [(0, 0.5)]);
}

#[test]
fn iowait_that_turns_into_idle_is_one_sleep() {
    let mut meter = meter(&[Uniform]);
    meter.read("cpu0 100 0 0 1000 50 0 0 0 0 0\n");
    // 10 busy and 10 idle ticks; 40 ticks of iowait became idle.
    meter.read("cpu0 110 0 0 1050 10 0 0 0 0 0\n");
    assert_eq!(shares(&meter), [(0, 0.5)]);
}

#[test]
fn without_a_tick_the_share_stays() {
    let mut meter = meter(&[Uniform, Uniform]);
    meter.read(BEFORE);
    meter.read(BEFORE);
    assert!(meter.cores().all(|core| core.utilization.is_nan()), "0 / 0 is no share");
    meter.read(AFTER);
    meter.read(AFTER);
    assert_eq!(shares(&meter), [(0, 0.4), (1, 0.8)]);
}

#[test]
fn counters_that_start_anew_give_no_share_once() {
    let mut meter = meter(&[Uniform]);
    meter.read("cpu0 1000 0 0 1000\n");
    meter.read("cpu0 1010 0 0 1010\n");
    assert_eq!(shares(&meter), [(0, 0.5)]);
    // Idle restarts from zero and user continues: all of the period would look busy.
    meter.read("cpu0 1015 0 0 5\n");
    assert!(meter.summary().all.is_nan());
    meter.read("cpu0 1018 0 0 6\n");
    assert_eq!(shares(&meter), [(0, 0.75)]);
}

#[test]
fn a_tick_of_jitter_is_not_a_new_start() {
    let mut meter = meter(&[Uniform]);
    meter.read("cpu0 1000 0 0 1000\n");
    meter.read("cpu0 1010 0 0 999\n");
    assert_eq!(shares(&meter), [(0, 1.0)]);
    meter.read("cpu0 999999 0 0 998\n");
    assert_eq!(shares(&meter), [(0, 1.0)], "never above 1");
}

#[test]
fn cores_come_and_go() {
    let mut meter = meter(&[Uniform; 3]);
    meter.read("cpu  0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\ncpu2 0 0 0 0\n");
    meter.read("cpu  0 0 0 0\ncpu0 5 0 0 5\ncpu2 10 0 0 0\n");
    assert_eq!(shares(&meter), [(0, 0.5), (2, 1.0)], "core 2 keeps its number");
    assert_eq!(meter.summary().all, 0.75);
    meter.read("cpu0 10 0 0 10\ncpu1 900 0 0 0\ncpu2 20 0 0 0\n");
    assert!(shares(&meter)[1].1.is_nan(), "back, with no earlier reading to compare with");
    assert_eq!(meter.summary().all, 0.75);
    meter.read("cpu0 15 0 0 15\ncpu1 900 0 0 10\ncpu2 30 0 0 0\n");
    assert_eq!(shares(&meter), [(0, 0.5), (1, 0.0), (2, 1.0)]);
}

#[test]
fn cores_that_the_process_may_not_use_do_not_count() {
    let mut meter = CpuMeter::new(vec![CpuCore { number: 1, kind: Uniform }]);
    meter.read(BEFORE);
    meter.read(AFTER);
    assert_eq!(shares(&meter), [(1, 0.8)]);
    assert!((meter.summary().all - 0.8).abs() < 1e-12);
}

#[test]
fn bad_text_is_no_core() {
    let huge = format!("cpu0 {0} {0} {0} {0} {0} {0} {0} {0}\n", u64::MAX);
    for bad in [
        "",
        "cpu",
        "cpu0",
        "cpu0 1 2 3",
        "cpu0 a b c d",
        "cpux 1 2 3 4",
        "cpu-1 1 2 3 4",
        "cpu0 -1 2 3 4",
        "\0é",
    ] {
        let mut meter = meter(&[Uniform]);
        meter.read("cpu0 0 0 0 0\n");
        meter.read(bad);
        assert_eq!(shares(&meter), [], "{bad:?}");
        assert!(meter.summary().all.is_nan());
    }
    let mut meter = meter(&[Uniform]);
    meter.read("cpu0 0 0 0 0\n");
    meter.read(&huge);
    let share = meter.summary().all;
    assert!((0.0..=1.0).contains(&share), "{share}");
}
