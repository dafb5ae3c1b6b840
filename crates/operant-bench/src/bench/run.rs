//! The measurements: several series of repetitions of each case, in turn, so that other load on the machine affects all of them
//! alike, until the spread is known or the time is up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use operant_learn::network::Network;
use operant_run::Result;
use serde_json::json;

use super::Bench;
use super::case::Case;
use super::device::Series;
use super::limits::{self, Key, key};
use super::plan::BenchPlan;
use super::row::Row;
use crate::measure::{
    Phases, RepetitionBudget, Spread, middle_half, rollout_bytes, training_bytes, training_flops,
};
use crate::profile;

/// Maximum series of a case. Each allocates its data again, so the address in memory is part of the spread.
const SERIES: usize = 4;
/// A spread is determined when the middle half of at least this many repetitions, from [`MIN_SERIES`] series, lies within
/// [`MAX_SPREAD`].
const MIN_REPETITIONS: usize = 12;
/// See [`MIN_REPETITIONS`].
const MIN_SERIES: usize = 3;
/// See [`MIN_REPETITIONS`].
const MAX_SPREAD: f64 = 0.02;
/// Minimum repetitions of the first series.
const FIRST_SERIES_REPETITIONS: usize = 2;
/// Share of the time for a requested profile.
const PROFILE_SHARE: f64 = 0.25;
/// Share of the time for measuring a GPU's limits; a CPU's limits take a fixed time.
const LIMITS_SHARE: f64 = 0.02;

/// Receives the progress.
pub trait Progress {
    /// `what` is measured now; `done` is the completed share of the whole.
    fn at(&mut self, what: &str, done: f64);
}

/// The results of a case so far.
struct Entry<'a> {
    case: &'a Case,
    series: Vec<Series>,
    /// Peak operations per second, measured just before each series.
    peaks: Vec<f64>,
}

impl Entry<'_> {
    fn samples(&self) -> Vec<f64> {
        self.series.iter().flat_map(|series| series.speed.samples.iter().copied()).collect()
    }

    fn is_known(&self) -> bool {
        is_known(&self.samples(), self.series.len())
    }

    /// The weight of a case in the shared time: an update takes longest.
    fn weight(&self) -> f64 {
        if self.series.len() >= SERIES || self.is_known() {
            return 0.0;
        }
        let each = match self.case.bench {
            Bench::Env => 1.0,
            Bench::Rollout => 1.5,
            Bench::Train => 4.0,
        };
        each * (SERIES - self.series.len()) as f64
    }
}

/// Whether the spread of repetitions is known well enough to stop.
fn is_known(samples: &[f64], count: usize) -> bool {
    count >= MIN_SERIES && samples.len() >= MIN_REPETITIONS && middle_half(samples) < MAX_SPREAD
}

/// Measures all cases within about `budget`, and each at least twice.
///
/// # Errors
/// When a case cannot run, or a device fails.
pub fn run(
    plan: &BenchPlan,
    budget: Duration,
    profile: bool,
    progress: &mut dyn Progress,
) -> Result<Vec<Row>> {
    let begin = Instant::now();
    let measuring = if profile { budget.mul_f64(1.0 - PROFILE_SHARE) } else { budget };
    let mut bandwidths: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    let mut entries: Vec<Entry> =
        plan.cases.iter().map(|case| Entry { case, series: Vec::new(), peaks: Vec::new() }).collect();
    for round in 0..SERIES {
        let mut limited = BTreeSet::new();
        for number in 0..entries.len() {
            let left = measuring.saturating_sub(begin.elapsed());
            // Every case is measured once in any case, and further series as time allows.
            if round > 0 && (left.is_zero() || entries[number].weight() == 0.0) {
                continue;
            }
            let case = entries[number].case;
            let device = &plan.devices[case.device];
            let done = begin.elapsed().as_secs_f64() / budget.as_secs_f64().max(1e-9);
            progress.at(&format!("{} {} on {}", case.bench, case.name, device.name()), done.min(1.0));
            if limited.insert(key(case)) {
                let measured = limits::bandwidth(device, case, budget.mul_f64(LIMITS_SHARE))?;
                bandwidths.entry(key(case)).or_default().extend(measured);
            }
            if case.bench != Bench::Env {
                let peaks = limits::flops(device, case, budget.mul_f64(LIMITS_SHARE / 4.0))?;
                entries[number].peaks.extend(peaks);
            }
            let all: f64 = entries.iter().map(Entry::weight).sum();
            let entry = &mut entries[number];
            let left = measuring.saturating_sub(begin.elapsed());
            let visits = (SERIES - entry.series.len()) as f64;
            let share = entry.weight() / visits / all.max(f64::MIN_POSITIVE);
            let min_repetitions = if round == 0 { FIRST_SERIES_REPETITIONS } else { 1 };
            entry.series.push(
                device.measure(case, RepetitionBudget { budget: left.mul_f64(share), min_repetitions })?,
            );
        }
    }
    let bandwidth = |case| Spread::of(bandwidths.get(&key(case)).cloned().unwrap_or_default());
    let mut rows: Vec<Row> = entries.iter().map(|entry| row(plan, entry, bandwidth(entry.case))).collect();
    if profile {
        let chosen = profiled(&plan.cases);
        for (turn, number) in chosen.iter().enumerate() {
            let case = &plan.cases[*number];
            let (turn, turns) = (turn as f64, chosen.len() as f64);
            progress.at(&format!("profile of {}", case.name), 1.0 - PROFILE_SHARE * (1.0 - turn / turns));
            // Earlier profiles may have overrun their time.
            let left = budget.saturating_sub(begin.elapsed()).div_f64(turns - turn);
            let share = left.max(budget.mul_f64(PROFILE_SHARE / turns));
            rows[*number].profile = Some(plan.devices[case.device].profile(case, share)?);
        }
    }
    Ok(rows)
}

/// Measures one case after another, each within its share of what is left of `budget`, and gives each row to `emit` at once, so that
/// an interrupted measurement keeps the rows before; ends early when `emit` returns false. A case that fails is an error in place of a
/// row. With `bits` a row of environments on a GPU says how many differ from the scalar CPU (`bits_differ`).
pub fn stream(
    mut plan: BenchPlan,
    budget: Duration,
    bits: bool,
    progress: &mut dyn Progress,
    emit: &mut dyn FnMut(&BenchPlan, Result<Row>) -> bool,
) {
    let begin = Instant::now();
    let cases = std::mem::take(&mut plan.cases);
    let count = cases.len();
    for (number, case) in cases.into_iter().enumerate() {
        let share = budget.saturating_sub(begin.elapsed()).div_f64((count - number) as f64);
        plan.cases = vec![case];
        let (case, device) = (&plan.cases[0], &plan.devices[plan.cases[0].device]);
        let rows = run(&plan, share, false, progress).and_then(|mut rows| {
            if let Some(differing) = bits.then(|| device.differing(case)).transpose()?.flatten() {
                rows[0].more["bits_differ"] = json!(differing);
            }
            Ok(rows.remove(0))
        });
        if !emit(&plan, rows) {
            break;
        }
    }
}

/// The cases whose rows carry a profile: those of training, or of the bench nearest to it that is measured.
fn profiled(cases: &[Case]) -> Vec<usize> {
    let most = cases.iter().map(|case| case.bench).max();
    (0..cases.len()).filter(|number| Some(cases[*number].bench) == most).collect()
}

fn row(plan: &BenchPlan, entry: &Entry<'_>, bandwidth: Spread) -> Row {
    let Entry { case, series, peaks } = entry;
    let (device, config) = (&plan.devices[case.device], &case.config);
    let samples = entry.samples();
    let network = Network::new(case.architecture.clone());
    let line = if device.is_cpu() { profile::cpu::LINE } else { profile::gpu::SECTOR };
    let (flops_per_step, bytes_per_step) = match case.bench {
        // The states are read at the start of a rollout and written at its end.
        Bench::Env => (None, (2 * size_of::<u32>() * case.state_words) as f64 / config.num_steps as f64),
        Bench::Rollout => (Some(network.acting_flops() as f64), rollout_bytes(&case.layout)),
        Bench::Train => (Some(training_flops(&network, config)), training_bytes(&case.layout, config, line)),
    };
    let phases: Vec<Phases> = series.iter().filter_map(|series| series.phases).collect();
    let last = series.last();
    Row {
        bench: case.bench,
        env: case.name.clone(),
        device: device.name().to_owned(),
        precision: case.network.precision.name(),
        envs: config.num_envs,
        threads: case.threads.as_ref().map(|options| options.threads),
        work: case.work(),
        reps: samples.len(),
        middle_half: middle_half(&samples),
        sps: Spread::of(samples),
        flops_per_step,
        peak_flops: Spread::of(peaks.clone()),
        bytes_per_step,
        bandwidth,
        phases: (!phases.is_empty()).then(|| Phases::median(&phases)),
        launches: last.map_or(0.0, |series| series.speed.launches),
        bus_bytes: last.map_or(0.0, |series| series.speed.bus_bytes),
        more: last.map_or_else(|| json!({}), |series| series.more.clone()),
        profile: None,
        comparison: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_known_after_three_series_that_agree() {
        let quiet: Vec<f64> = (0..12).map(|i| 100.0 + f64::from(i % 3)).collect();
        assert!(is_known(&quiet, 3));
        assert!(!is_known(&quiet, 2), "two series are too few");
        assert!(!is_known(&quiet[..11], 3));
        let wide: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i % 10)).collect();
        assert!(!is_known(&wide, 3));
        // Two series that disagree.
        let apart: Vec<f64> = (0..24).map(|i| if i < 12 { 100.0 } else { 105.0 }).collect();
        assert!(!is_known(&apart, 3));
    }
}
