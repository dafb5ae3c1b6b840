//! The measurements themselves: several series of repetitions of each case, in turn, so that other work of the machine meets all of
//! them, until the spread is known or the time is up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use operant_learn::network::Network;
use operant_run::Result;
use serde_json::json;

use super::Bench;
use super::case::Case;
use super::limits::{self, Key, key};
use super::place::Series;
use super::plan::Plan;
use super::row::Row;
use crate::measure::{Effort, Phases, Spread, middle_half, rollout_bytes, training_bytes, training_flops};
use crate::profile;

/// Series of a case at most. Each allocates what it measures again, so the place in memory is part of the spread.
const SERIES: usize = 4;
/// A spread is known when the middle half of this many repetitions or more, from [`ENOUGH_SERIES`], lies within [`NARROW`].
const ENOUGH: usize = 12;
/// See [`ENOUGH`].
const ENOUGH_SERIES: usize = 3;
/// See [`ENOUGH`].
const NARROW: f64 = 0.02;
/// Repetitions of a first series, however long they take.
const LEAST: usize = 2;
/// Share of the time that a profile takes, where one is asked for.
const PROFILE_SHARE: f64 = 0.25;
/// Share of the time that a measurement of a GPU's limits takes; that of a CPU has its own length.
const LIMITS_SHARE: f64 = 0.02;

/// How it goes.
pub trait Progress {
    /// This is measured now; so much of the whole is done.
    fn at(&mut self, what: &str, done: f64);
}

/// What is known of a case.
struct Entry<'a> {
    case: &'a Case,
    series: Vec<Series>,
    /// Multiply-adds at most, measured just before each series.
    peaks: Vec<f64>,
}

impl Entry<'_> {
    fn samples(&self) -> Vec<f64> {
        self.series.iter().flat_map(|series| series.speed.samples.iter().copied()).collect()
    }

    fn is_known(&self) -> bool {
        is_known(&self.samples(), self.series.len())
    }

    /// How much time it takes, beside others, to learn as much of it: an update is the longest.
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
    count >= ENOUGH_SERIES && samples.len() >= ENOUGH && middle_half(samples) < NARROW
}

/// Measures everything within about `budget`, and at least twice.
///
/// # Errors
/// When a case cannot be carried out, or a device fails.
pub fn run(plan: &Plan, budget: Duration, profile: bool, progress: &mut dyn Progress) -> Result<Vec<Row>> {
    let begin = Instant::now();
    let measuring = if profile { budget.mul_f64(1.0 - PROFILE_SHARE) } else { budget };
    let mut bandwidths: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    let mut entries: Vec<Entry> =
        plan.cases.iter().map(|case| Entry { case, series: Vec::new(), peaks: Vec::new() }).collect();
    for round in 0..SERIES {
        let mut limited = BTreeSet::new();
        for number in 0..entries.len() {
            let left = measuring.saturating_sub(begin.elapsed());
            // Everything is measured once whatever it takes, and the rest as far as there is time.
            if round > 0 && (left.is_zero() || entries[number].weight() == 0.0) {
                continue;
            }
            let case = entries[number].case;
            let place = &plan.places[case.place];
            let done = begin.elapsed().as_secs_f64() / budget.as_secs_f64().max(1e-9);
            progress.at(&format!("{} {} on {}", case.bench, case.name, place.name()), done.min(1.0));
            if limited.insert(key(case)) {
                let measured = limits::bandwidth(place, case, budget.mul_f64(LIMITS_SHARE))?;
                bandwidths.entry(key(case)).or_default().extend(measured);
            }
            if case.bench != Bench::Env {
                let peaks = limits::flops(place, case, budget.mul_f64(LIMITS_SHARE / 4.0))?;
                entries[number].peaks.extend(peaks);
            }
            let all: f64 = entries.iter().map(Entry::weight).sum();
            let entry = &mut entries[number];
            let left = measuring.saturating_sub(begin.elapsed());
            let visits = (SERIES - entry.series.len()) as f64;
            let share = entry.weight() / visits / all.max(f64::MIN_POSITIVE);
            let least = if round == 0 { LEAST } else { 1 };
            entry.series.push(place.measure(case, Effort { budget: left.mul_f64(share), least })?);
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
            // What came before may have taken longer than it was to.
            let left = budget.saturating_sub(begin.elapsed()).div_f64(turns - turn);
            let share = left.max(budget.mul_f64(PROFILE_SHARE / turns));
            rows[*number].profile = Some(plan.places[case.place].profile(case, share)?);
        }
    }
    Ok(rows)
}

/// The cases whose rows carry a profile: those of training, or of the bench nearest to it that is measured.
fn profiled(cases: &[Case]) -> Vec<usize> {
    let most = cases.iter().map(|case| case.bench).max();
    (0..cases.len()).filter(|number| Some(cases[*number].bench) == most).collect()
}

fn row(plan: &Plan, entry: &Entry<'_>, bandwidth: Spread) -> Row {
    let Entry { case, series, peaks } = entry;
    let (place, config) = (&plan.places[case.place], &case.config);
    let samples = entry.samples();
    let network = Network::new(case.architecture.clone());
    let line = if place.is_cpu() { profile::cpu::LINE } else { profile::gpu::SECTOR };
    let (flops_per_step, bytes_per_step) = match case.bench {
        // The states are read at the start of a horizon and written at its end.
        Bench::Env => (None, (2 * size_of::<u32>() * case.state_words) as f64 / config.num_steps as f64),
        Bench::Rollout => (Some(network.forward_flops() as f64), rollout_bytes(&case.layout)),
        Bench::Train => (Some(training_flops(&network, config)), training_bytes(&case.layout, config, line)),
    };
    let phases: Vec<Phases> = series.iter().filter_map(|series| series.phases).collect();
    let last = series.last();
    Row {
        bench: case.bench,
        env: case.name.clone(),
        device: place.name().to_owned(),
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
        assert!(!is_known(&quiet, 2), "two series do not know what the next finds");
        assert!(!is_known(&quiet[..11], 3));
        let wide: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i % 10)).collect();
        assert!(!is_known(&wide, 3));
        // Two series that disagree.
        let apart: Vec<f64> = (0..24).map(|i| if i < 12 { 100.0 } else { 105.0 }).collect();
        assert!(!is_known(&apart, 3));
    }
}
