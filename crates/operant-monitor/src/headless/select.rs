//! Selects the runs to print, and waits for the first values of a run that has just started.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use operant_metrics::{Core, FileState, Health, RingError, RingReader, RunState, STALL, printable};

use super::reading::Reading;
use crate::MonitorError;
use crate::data::{Recorded, RunLocations, Source};

/// How long a snapshot waits for the first values of a live run.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for a damaged ring: a live trainer makes a new one within a second or two.
const REPAIR: Duration = Duration::from_secs(3);

/// The runs called `names`; without names all live runs, or the one that ended last.
pub(super) fn runs(locations: &RunLocations, names: &[String]) -> Result<Vec<Source>, MonitorError> {
    if names.is_empty() {
        return unnamed(locations);
    }
    let mut runs: Vec<Source> = Vec::new();
    for name in names {
        let (_, run) = locations.open(name)?;
        if runs.iter().all(|other| other.path() != run.path()) {
            runs.push(run);
        }
    }
    Ok(runs)
}

/// Prints a note to stderr, apart from the results. A closed stderr must not cause a panic.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {}", printable(text));
}

/// All live runs, or the one that ended last. A ring that cannot be read does not hide the others.
fn unnamed(locations: &RunLocations) -> Result<Vec<Source>, MonitorError> {
    let mut refused = 0;
    let mut runs: Vec<Source> = Vec::new();
    for found in locations.rings() {
        match RingReader::open(&found.path) {
            Ok(ring) => runs.push(ring.into()),
            Err(error) => {
                note(&format!("{} is skipped: {error}", found.name));
                refused += 1;
            }
        }
    }
    if runs.iter().any(|run| run.status().health.is_alive()) {
        runs.retain(|run| run.status().health.is_alive());
        return Ok(runs);
    }
    let has_ring = |dir: &Recorded| runs.iter().any(|ring| ring.identity().dir == dir.path());
    let newest = locations.newest_dir().and_then(|dir| Recorded::open(&dir)).filter(|dir| !has_ring(dir));
    runs.extend(newest.map(Source::from));
    let last = runs.into_iter().min_by_key(|run| run.status().since_alive);
    match (last, refused) {
        (Some(run), _) => Ok(vec![run]),
        (None, 0) => Err(match locations.run_dirs().first().and_then(|dir| Recorded::open(dir)) {
            Some(sweep) => MonitorError::sweep(sweep.identity()),
            None => MonitorError::NoRun { what: "there is no run to show" },
        }),
        (None, _) => Err(MonitorError::NoRun { what: "there is no run whose ring can be read" }),
    }
}

/// Waits, within reason, until a live run has its first update and a sample of its cores, so that a snapshot is complete.
pub(super) fn settle(run: &Source) {
    let Source::Ring(reader) = run else { return };
    let begun = Instant::now();
    // If the trainer has another clock, one reading cannot distinguish a stalled run from a running one.
    let first = reader.published();
    let moves = || reader.shares_clock() || reader.published() > first || begun.elapsed() > STALL;
    while begun.elapsed() < PATIENCE || !moves() {
        let training =
            matches!(reader.status().health, Health::Reported(RunState::Starting | RunState::Running));
        // The first sample lists the cores, without their utilization.
        let sampled =
            |cores: &[Core]| cores.is_empty() || cores.iter().any(|core| !core.utilization.is_nan());
        let complete = reader.published() > 0 && reader.sample().is_some_and(|sample| sampled(&sample.cores));
        if !training || (complete && moves()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads a run. If a ring's file was lost or replaced, the trainer's new file is read instead; data from a truncated file
/// is discarded.
pub(super) fn look(run: &mut Source) -> Result<Reading, MonitorError> {
    let until = Instant::now() + REPAIR;
    loop {
        match run {
            Source::Ring(ring) if ring.presence() != FileState::Here => {
                if let Ok(other) = RingReader::open(ring.path()) {
                    *ring = other;
                }
            }
            Source::Ring(_) => {}
            Source::Recorded(dir) => dir.refresh(),
        }
        if let Some(reading) = Reading::of(run)
            && run.presence() != FileState::Truncated
        {
            return Ok(reading);
        }
        if Instant::now() >= until {
            let what = format!("{} was cut short or written over", run.path().display());
            return Err(RingError::Damaged(what).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
