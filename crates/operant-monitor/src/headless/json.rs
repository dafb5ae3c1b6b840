//! A run as one JSON object on one line.
//!
//! `null` means that there is no value: a GPU's figures without a GPU, the seconds since an update before the
//! first one. A gauge that the last update did not report (no episode ended) shows the last value that any
//! update reported.

use std::time::Duration;

use operant_metrics::{Core, CoreKind, Event, MetricInfo, MetricKind, MetricSummary, SavedCheckpoint};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::reading::{Figure, Reading, is_whole};
use crate::date::Date;

/// Events in an object at most.
const EVENTS: usize = 32;

/// Keys that are not metrics, in their order; a metric of such a name (a later trainer's) is left to `history`.
pub const FIXED: [&str; 23] = [
    "run",
    "state",
    "reason",
    "env",
    "algorithm",
    "device",
    "seed",
    "pid",
    "dir",
    "version",
    "started",
    "uptime_s",
    "seconds_since_update",
    "seconds_since_progress",
    "total_steps",
    "progress",
    "eta_s",
    "checkpoint",
    "sampled",
    "cores",
    "history",
    "skipped_records",
    "events",
];

/// The object, without a line break.
pub fn line(reading: &Reading) -> String {
    // Only a map key that is no string, or a Serialize that refuses, could fail; neither occurs below.
    serde_json::to_string(&Object(reading)).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

struct Object<'a>(&'a Reading);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Reading { identity, status, figures, sample, events, skipped, .. } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("run", &identity.run)?;
        map.serialize_entry("state", status.health.name())?;
        map.serialize_entry("reason", &status.reason)?;
        map.serialize_entry("env", &identity.env)?;
        map.serialize_entry("algorithm", &identity.algorithm)?;
        map.serialize_entry("device", &identity.device)?;
        map.serialize_entry("seed", &identity.seed)?;
        map.serialize_entry("pid", &identity.pid)?;
        map.serialize_entry("dir", &identity.dir.to_string_lossy())?;
        map.serialize_entry("version", &identity.version)?;
        map.serialize_entry("started", &Date::of_unix_ns(identity.started_unix_ns).rfc3339())?;
        map.serialize_entry("uptime_s", &seconds(status.uptime))?;
        map.serialize_entry("seconds_since_update", &status.since_update.map(seconds))?;
        map.serialize_entry("seconds_since_progress", &seconds(status.since_progress))?;
        map.serialize_entry("total_steps", &identity.total_steps)?;
        map.serialize_entry("progress", &self.0.progress())?;
        map.serialize_entry("eta_s", &self.0.eta().map(rounded))?;
        map.serialize_entry("checkpoint", &status.checkpoint.as_ref().map(Checkpoint))?;
        let mut seen = Vec::new();
        for Figure { info, value, .. } in figures {
            if !FIXED.contains(&info.name.as_str()) && !seen.contains(&&info.name) {
                map.serialize_entry(&info.name, &Number::of(*value, info))?;
                seen.push(&info.name);
            }
        }
        let sampled =
            sample.as_ref().map(|sample| Sampled { age: sample.age, values: &sample.values, figures });
        map.serialize_entry("sampled", &sampled)?;
        let cores: Vec<_> = sample.iter().flat_map(|sample| &sample.cores).map(OneCore).collect();
        map.serialize_entry("cores", &cores)?;
        map.serialize_entry("history", &History(figures))?;
        map.serialize_entry("skipped_records", skipped)?;
        let recent: Vec<_> = events[events.len().saturating_sub(EVENTS)..].iter().map(OneEvent).collect();
        map.serialize_entry("events", &recent)?;
        map.end()
    }
}

/// Seconds to the millisecond.
fn seconds(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64())
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// A number: without a decimal point for counts, null if there is none.
struct Number {
    value: f64,
    whole: bool,
}

impl Number {
    fn of(value: f64, info: &MetricInfo) -> Self {
        Number { value, whole: is_whole(info) || info.unit == "B" }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            // Up to 2^53 a float holds every whole number.
            whole if self.whole && whole.fract() == 0.0 && (0.0..9.1e15).contains(&whole) => {
                serializer.serialize_u64(whole as u64)
            }
            finite if finite.is_finite() => serializer.serialize_f64(finite),
            _ => serializer.serialize_none(),
        }
    }
}

struct Checkpoint<'a>(&'a SavedCheckpoint);

impl Serialize for Checkpoint<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("env_steps", &self.0.env_steps)?;
        map.serialize_entry("path", &self.0.path)?;
        map.end()
    }
}

/// The last sample, and its time.
struct Sampled<'a> {
    age: Duration,
    values: &'a [f64],
    figures: &'a [Figure],
}

impl Serialize for Sampled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("age_s", &seconds(self.age))?;
        for (Figure { info, .. }, value) in self.figures.iter().zip(self.values) {
            if value.is_finite() && info.name != "age_s" {
                map.serialize_entry(&info.name, &Number::of(*value, info))?;
            }
        }
        map.end()
    }
}

struct OneCore<'a>(&'a Core);

impl Serialize for OneCore<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("number", &self.0.number)?;
        map.serialize_entry("kind", kind(self.0.kind))?;
        map.serialize_entry("utilization", &Number { value: decimal(self.0.utilization), whole: false })?;
        map.end()
    }
}

/// A single-precision number as its own shortest decimal, so that 0.6 is not printed as 0.6000000238418579.
fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// The word for a kind of core.
fn kind(kind: CoreKind) -> &'static str {
    match kind {
        CoreKind::Uniform => "uniform",
        CoreKind::Performance => "performance",
        CoreKind::Efficiency => "efficiency",
    }
}

/// The whole run, gauge by gauge.
struct History<'a>(&'a [Figure]);

impl Serialize for History<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut seen = Vec::new();
        for Figure { info, history, .. } in self.0 {
            if info.kind == MetricKind::Gauge && !seen.contains(&&info.name) {
                map.serialize_entry(&info.name, &Past(history))?;
                seen.push(&info.name);
            }
        }
        map.end()
    }
}

struct Past<'a>(&'a MetricSummary);

impl Serialize for Past<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        for (name, value) in
            [("min", self.0.min), ("max", self.0.max), ("mean", self.0.mean), ("last", self.0.last)]
        {
            map.serialize_entry(name, &Number { value, whole: false })?;
        }
        map.serialize_entry("count", &self.0.count)?;
        map.end()
    }
}

struct OneEvent<'a>(&'a Event);

impl Serialize for OneEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("number", &self.0.number)?;
        map.serialize_entry("time", &Date::of_unix_ns(self.0.unix_ns).rfc3339())?;
        map.serialize_entry("level", self.0.level.name())?;
        map.serialize_entry("text", &self.0.text)?;
        map.end()
    }
}
