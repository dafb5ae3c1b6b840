//! Which runs to print, and when a run that has just begun has something to print.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use operant_metrics::{Core, Found, Health, Presence, RingError, RingReader, RunState};

use super::reading::Reading;
use crate::MonitorError;

/// How long a snapshot waits for the first values of a live run.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a damaged ring is waited for: a live trainer makes a new one within a second or two.
const REPAIR: Duration = Duration::from_secs(3);

/// The rings of the runs called `names`; without names, of all live runs, or of the one that ended last.
pub(super) fn runs(names: &[String]) -> Result<Vec<RingReader>, MonitorError> {
    if names.is_empty() {
        return unnamed(operant_metrics::rings());
    }
    let mut readers: Vec<RingReader> = Vec::new();
    for name in names {
        let found = operant_metrics::find(name)?;
        if readers.iter().all(|reader| reader.path() != found.path) {
            let opened = RingReader::open(&found.path);
            readers.push(opened.map_err(|error| MonitorError::Unreadable { run: name.clone(), error })?);
        }
    }
    Ok(readers)
}

/// Prints a note to stderr, apart from the results. A closed stderr is no reason to panic.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {text}");
}

/// All live runs of `found`, or the one that ended last. A ring that cannot be read does not hide the others.
fn unnamed(found: Vec<Found>) -> Result<Vec<RingReader>, MonitorError> {
    let mut refused = 0;
    let mut readers = Vec::new();
    for Found { name, path } in found {
        match RingReader::open(&path) {
            Ok(reader) => readers.push(reader),
            Err(error) => {
                note(&format!("{name} is left out: {error}"));
                refused += 1;
            }
        }
    }
    if readers.iter().any(|reader| reader.status().health.is_alive()) {
        readers.retain(|reader| reader.status().health.is_alive());
        return Ok(readers);
    }
    let last = readers.into_iter().min_by_key(|reader| reader.status().since_alive);
    match (last, refused) {
        (Some(reader), _) => Ok(vec![reader]),
        (None, 0) => Err(MonitorError::NoRun { what: "there is no run to show" }),
        (None, _) => Err(MonitorError::NoRun { what: "there is no run whose ring can be read" }),
    }
}

/// Waits, within reason, until a live run has its first update and a sample of its cores, so that a snapshot is complete.
pub(super) fn settle(reader: &RingReader) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let training = matches!(reader.status().health, Health::Said(RunState::Starting | RunState::Running));
        // The first sample knows the cores and not yet how busy they are.
        let sampled =
            |cores: &[Core]| cores.is_empty() || cores.iter().any(|core| !core.utilization.is_nan());
        let complete = reader.published() > 0 && reader.sample().is_some_and(|sample| sampled(&sample.cores));
        if !training || complete {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Looks at a run, at the end of its ring's name: a file that was lost or replaced is followed to the one that the trainer
/// made instead. What is read from a file that someone has cut short is not believed.
pub(super) fn look(reader: &mut RingReader) -> Result<Reading, MonitorError> {
    let until = Instant::now() + REPAIR;
    loop {
        if reader.presence() != Presence::Here
            && let Ok(other) = RingReader::open(reader.path())
        {
            *reader = other;
        }
        if let Some(reading) = Reading::of(reader)
            && reader.presence() != Presence::Truncated
        {
            return Ok(reading);
        }
        if Instant::now() >= until {
            let what = format!("{} was cut short or written over", reader.path().display());
            return Err(RingError::Damaged(what).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
