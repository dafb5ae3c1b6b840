//! A metric over a window of updates, from the finest data that the ring still holds: records for the newest updates,
//! archives for older ones.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use super::archive::Span;
use super::layout::Section;
use super::reader::RingReader;
use super::slot;

/// A source may give this many times the requested number of points. Resolutions differ by a factor of 16, so the
/// chosen one gives at least a quarter of the requested number.
const GENEROUS: u64 = 4;

/// One point of a chart: statistics of one or more consecutive updates. NaN (a gap) if they reported nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesPoint {
    /// The x metric after the last of these updates.
    pub x: f64,
    /// The last of these updates.
    pub update: u64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Last value.
    pub last: f64,
}

/// Statistics of a metric over a whole run. NaN if it was never reported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricSummary {
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Mean over the updates that reported it.
    pub mean: f64,
    /// Last value reported.
    pub last: f64,
    /// Number of updates that reported it, among those that the ring covers.
    pub count: u64,
}

impl MetricSummary {
    /// Summarises values, one per update; NaN means that nothing was reported.
    pub fn of(values: &[f64]) -> Self {
        let mut all =
            MetricSummary { min: f64::NAN, max: f64::NAN, mean: f64::NAN, last: f64::NAN, count: 0 };
        let mut sum = 0.0;
        for value in values.iter().copied().filter(|value| !value.is_nan()) {
            // `min` and `max` of numbers pass over a NaN.
            (all.min, all.max, all.last) = (all.min.min(value), all.max.max(value), value);
            (sum, all.count) = (sum + value, all.count + 1);
        }
        all.mean = if all.count > 0 { sum / all.count as f64 } else { f64::NAN };
        all
    }
}

impl MetricSummary {
    /// A copy that includes the newest value: the minimum is not above it and the maximum not below, though a summary may be
    /// a little older, and older parts of a run are kept in single precision.
    pub fn with_newest(mut self, value: f64) -> Self {
        if value.is_finite() {
            (self.min, self.max, self.last) = (self.min.min(value), self.max.max(value), value);
            self.mean = if self.mean.is_nan() { value } else { self.mean.clamp(self.min, self.max) };
        }
        self
    }
}

/// The position of the entries of one resolution: level 0 is the ring of records.
struct Source {
    section: Section,
    /// Numbers of the entries that the ring holds.
    numbers: std::ops::Range<u64>,
}

/// Statistics of x and y over the updates of one entry.
struct Entry {
    first: u64,
    last: u64,
    x: f64,
    y: Span,
}

impl RingReader {
    /// Metric `y` against metric `x` (positions in the schema) over a window of updates, oldest first, at the
    /// resolution closest to `points` points: it returns from a quarter of that to four times as many.
    pub fn series(
        &self,
        x: usize,
        y: usize,
        updates: RangeInclusive<u64>,
        points: usize,
    ) -> Vec<SeriesPoint> {
        let mut series = Vec::new();
        self.walk(x, y, updates, points, |entry| {
            let Span { min, max, mean, last, .. } = entry.y;
            series.push(SeriesPoint { x: entry.x, update: entry.last, min, max, mean, last });
        });
        series
    }

    /// Metric `y` over the whole run.
    pub fn summary(&self, y: usize) -> MetricSummary {
        let mut all =
            MetricSummary { min: f64::NAN, max: f64::NAN, mean: f64::NAN, last: f64::NAN, count: 0 };
        let mut sum = 0.0;
        self.walk(y, y, 0..=u64::MAX, 1, |entry| {
            let Span { min, max, mean, last, count } = entry.y;
            if count > 0 {
                // `f64::min` and `f64::max` ignore a NaN.
                (all.min, all.max, all.last) = (all.min.min(min), all.max.max(max), last);
                all.count += count;
                sum += mean * count as f64;
                all.mean = sum / all.count as f64;
            }
        });
        all
    }

    fn walk(
        &self,
        x: usize,
        y: usize,
        updates: RangeInclusive<u64>,
        points: usize,
        mut take: impl FnMut(&Entry),
    ) {
        let metrics = self.schema.len();
        let Some(update) = self.schema.position("update").filter(|_| x < metrics && y < metrics) else {
            return;
        };
        let sources = self.sources();
        let (from, to) = updates.into_inner();
        // A window without an end extends to the available data.
        let oldest = sources.iter().rev().find_map(|source| self.first_update(source, update)).unwrap_or(1);
        let length = to.min(self.last_update()).saturating_sub(from.max(oldest)).saturating_add(1);
        let room = (points as u64).max(1).saturating_mul(GENEROUS);
        let fits = |source: &Source| length / source.section.factor.max(1) <= room;
        let finest = sources.iter().position(fits).unwrap_or(sources.len() - 1);

        // From the coarsest to the finest, each for the updates that no finer one covers; then the newest updates, for
        // which the chosen resolution has no entry yet, from finer ones.
        let mut covered = from.saturating_sub(1);
        for level in (0..sources.len()).rev() {
            let finer = if level > finest { self.first_update(&sources[level - 1], update) } else { None };
            let until = finer.unwrap_or(u64::MAX);
            for number in self.after(&sources[level], covered, update) {
                let Some(entry) = self.entry(&sources[level], number, [update, x, y]) else {
                    continue;
                };
                if entry.first > to || entry.first >= until {
                    break;
                }
                // An entry that overlaps the points so far would be drawn twice.
                if entry.first > covered || covered < from {
                    covered = entry.last;
                    take(&entry);
                }
            }
        }
    }

    /// The records, then the archives from fine to coarse.
    fn sources(&self) -> Vec<Source> {
        let held = |section: Section, written: u64| {
            let numbers = written.saturating_sub(section.entries as u64)..written;
            Source { section, numbers }
        };
        let written = |section: &Section| self.words()[section.offset].load(Ordering::Acquire);
        let archives = self.sections.archives.iter().map(|section| held(*section, written(section)));
        std::iter::once(held(self.sections.records, self.published())).chain(archives).collect()
    }

    fn first_update(&self, source: &Source, update: usize) -> Option<u64> {
        // The oldest may be overwritten at any time.
        let mut numbers = source.numbers.clone().take(8);
        numbers.find_map(|number| self.entry(source, number, [update; 3])).map(|entry| entry.first)
    }

    /// The entries that cover updates after `covered`, found by binary search.
    fn after(&self, source: &Source, covered: u64, update: usize) -> std::ops::Range<u64> {
        let (mut low, mut high) = (source.numbers.start, source.numbers.end);
        while low < high {
            let middle = low + (high - low) / 2;
            // A missing entry is one of the oldest.
            let before = self.entry(source, middle, [update; 3]).is_none_or(|entry| entry.last <= covered);
            (low, high) = if before { (middle + 1, high) } else { (low, middle) };
        }
        low..source.numbers.end
    }

    /// An entry, if it is still there and complete.
    fn entry(&self, source: &Source, number: u64, [update, x, y]: [usize; 3]) -> Option<Entry> {
        let span = |content: &[AtomicU64], i: usize| -> Span {
            if source.section.head == 0 {
                Span::single(f64::from_bits(content[i].load(Ordering::Relaxed)))
            } else {
                Span::load(content, self.schema.len(), i, self.kind(i))
            }
        };
        let load = |content: &[AtomicU64]| {
            let updates = span(content, update);
            Entry {
                first: updates.min as u64,
                last: updates.last as u64,
                x: span(content, x).last,
                y: span(content, y),
            }
        };
        match slot::read(&self.words()[source.section.slot(number)], load) {
            Some((found, entry)) if found == number => Some(entry),
            _ => {
                self.skipped.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}
