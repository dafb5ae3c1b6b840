//! Archives summarize every 16, 256, 4,096 and 65,536 consecutive updates, so that a monitor started hours later can
//! draw the whole run.
//!
//! An entry holds two words and a 32-bit count per metric. For a gauge: minimum, maximum, mean and last value as f32,
//! over the updates that reported it. For a counter: first and last value as f64.

use super::layout::{FACTORS, Section};
use super::slot;
use crate::{COUNT, MAX_ENV_METRICS, METRICS, MetricKind, Record, RunMetrics};
use std::sync::atomic::{AtomicU64, Ordering};

/// Most metrics of a run, rounded up to whole vectors.
const WIDTH: usize = (COUNT + MAX_ENV_METRICS).next_multiple_of(8);

/// One value per metric, padded, and aligned to cache lines: vector stores that cross a cache line are slower.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Row([f64; WIDTH]);

impl std::ops::Deref for Row {
    type Target = [f64; WIDTH];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for Row {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Statistics of every metric since the last entry.
struct Tally {
    /// Index of the current group of `factor` updates; `u64::MAX` before the first record.
    bucket: u64,
    records: u64,
    min: Row,
    max: Row,
    sum: Row,
    count: Row,
    last: Row,
}

impl Tally {
    fn new() -> Self {
        let row = Row([0.0; WIDTH]);
        let mut tally = Tally { bucket: 0, records: 0, min: row, max: row, sum: row, count: row, last: row };
        tally.begin(u64::MAX);
        tally
    }

    /// Resets the statistics and starts `bucket`.
    fn begin(&mut self, bucket: u64) {
        (self.bucket, self.records) = (bucket, 0);
        self.min.fill(f64::INFINITY);
        self.max.fill(f64::NEG_INFINITY);
        self.sum.fill(0.0);
        self.count.fill(0.0);
        self.last.fill(f64::NAN);
    }

    /// Adds records, oldest first. A NaN is not counted.
    fn add(&mut self, rows: &[Row], metrics: usize) {
        self.records += rows.len() as u64;
        // One vector of metrics at a time, so that its statistics stay in registers.
        for first in (0..metrics).step_by(8) {
            let lane = first..first + 8;
            let load = |from: &Row| -> [f64; 8] { std::array::from_fn(|i| from[first + i]) };
            let (mut min, mut max, mut sum) = (load(&self.min), load(&self.max), load(&self.sum));
            let (mut count, mut last) = (load(&self.count), load(&self.last));
            for row in rows {
                let row: [f64; 8] = load(row);
                for i in 0..8 {
                    let x = row[i];
                    let there = !x.is_nan();
                    min[i] = if x < min[i] { x } else { min[i] };
                    max[i] = if x > max[i] { x } else { max[i] };
                    sum[i] += if there { x } else { 0.0 };
                    count[i] += if there { 1.0 } else { 0.0 };
                    last[i] = if there { x } else { last[i] };
                }
            }
            self.min[lane.clone()].copy_from_slice(&min);
            self.max[lane.clone()].copy_from_slice(&max);
            self.sum[lane.clone()].copy_from_slice(&sum);
            self.count[lane.clone()].copy_from_slice(&count);
            self.last[lane].copy_from_slice(&last);
        }
    }

    /// Adds the statistics of a finer archive.
    fn merge(&mut self, finer: &Tally, metrics: usize) {
        self.records += finer.records;
        for i in 0..metrics {
            self.min[i] = self.min[i].min(finer.min[i]);
            self.max[i] = self.max[i].max(finer.max[i]);
            self.sum[i] += finer.sum[i];
            self.count[i] += finer.count[i];
            self.last[i] = if finer.last[i].is_nan() { self.last[i] } else { finer.last[i] };
        }
    }

    /// The words of an entry after its sequence word.
    fn words(&self, metrics: usize) -> impl Iterator<Item = u64> {
        let metric = |i: usize| match METRICS.get(i).map(|metric| metric.kind) {
            Some(MetricKind::Counter) => [self.min[i].to_bits(), self.last[i].to_bits()],
            _ => {
                let (count, nothing) = (self.count[i], self.count[i] == 0.0);
                let some = |x: f64| if nothing { f32::NAN } else { x as f32 };
                [
                    pair(some(self.min[i]), some(self.max[i])),
                    pair(some(self.sum[i] / count), some(self.last[i])),
                ]
            }
        };
        let counts = |i: usize| (self.count[2 * i] as u64) | (self.count[2 * i + 1] as u64) << 32;
        std::iter::once(self.records)
            .chain((0..metrics).flat_map(metric))
            .chain((0..metrics.div_ceil(2)).map(counts))
    }
}

fn pair(low: f32, high: f32) -> u64 {
    u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
}

fn unpair(word: u64) -> (f64, f64) {
    (f64::from(f32::from_bits(word as u32)), f64::from(f32::from_bits((word >> 32) as u32)))
}

/// Maximum number of records in a bucket of the finest archive.
const ROWS: usize = FACTORS[0] as usize;

/// The writer's side of all archives. Records are buffered and added up when their bucket is full.
pub struct Archives {
    metrics: RunMetrics,
    rows: Box<[Row; ROWS]>,
    filled: usize,
    tallies: [Tally; FACTORS.len()],
    /// Entries written to each archive.
    written: [u64; FACTORS.len()],
}

impl Archives {
    pub fn new(metrics: RunMetrics) -> Self {
        let rows = Box::new([Row([f64::NAN; WIDTH]); ROWS]);
        Archives {
            metrics,
            rows,
            filled: 0,
            tallies: std::array::from_fn(|_| Tally::new()),
            written: [0; FACTORS.len()],
        }
    }

    /// Adds one record. An entry is written when the first update of the next bucket arrives.
    /// Returns the record's values, and whether it begins a new bucket.
    #[inline(always)]
    pub fn add(
        &mut self,
        words: &[AtomicU64],
        sections: &[Section; FACTORS.len()],
        record: &Record,
    ) -> (&[f64], bool) {
        let bucket = (record.update as u64).saturating_sub(1) / FACTORS[0];
        let turned = bucket != self.tallies[0].bucket;
        if turned {
            self.add_up();
            self.turn(words, sections, 0, bucket);
        } else if self.filled == ROWS {
            self.add_up();
        }
        let row = &mut self.rows[self.filled];
        row[..COUNT].copy_from_slice(&record.values());
        let own = self.metrics.env().len();
        row[COUNT..][..own].copy_from_slice(&record.env[..own]);
        self.filled += 1;
        (&row[..self.metrics.count()], turned)
    }

    #[cold]
    fn add_up(&mut self) {
        let filled = std::mem::take(&mut self.filled);
        self.tallies[0].add(&self.rows[..filled], self.metrics.count());
    }

    /// Writes the entry of a finished bucket, adds it to the next coarser archive, and starts `bucket`.
    #[cold]
    fn turn(&mut self, words: &[AtomicU64], sections: &[Section; FACTORS.len()], level: usize, bucket: u64) {
        if self.tallies[level].records > 0 {
            let (section, number) = (&sections[level], self.written[level]);
            slot::write(
                &words[section.slot(number)],
                number,
                self.tallies[level].words(self.metrics.count()),
            );
            self.written[level] = number + 1;
            words[section.offset].store(number + 1, Ordering::Release);
            if level + 1 < FACTORS.len() {
                let coarser = self.tallies[level].bucket / (FACTORS[level + 1] / FACTORS[level]);
                if coarser != self.tallies[level + 1].bucket {
                    self.turn(words, sections, level + 1, coarser);
                }
                let (finer, coarser) = self.tallies.split_at_mut(level + 1);
                coarser[0].merge(&finer[level], self.metrics.count());
            }
        }
        // Reset in place, to avoid a copy of the tally.
        self.tallies[level].begin(bucket);
    }

    /// Resets the entry counters, for a new empty file.
    pub fn restart(&mut self) {
        self.written = [0; FACTORS.len()];
    }
}

/// Statistics of one metric over one or more consecutive updates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    pub last: f64,
    /// Number of updates that reported it.
    pub count: u64,
}

impl Span {
    /// Statistics of a single update.
    pub fn single(x: f64) -> Self {
        Span { min: x, max: x, mean: x, last: x, count: u64::from(!x.is_nan()) }
    }

    /// Reads metric `i` of `metrics` from an entry's content without its sequence word.
    pub fn load(content: &[AtomicU64], metrics: usize, i: usize, kind: MetricKind) -> Self {
        let word = |at: usize| content.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
        let (a, b) = (word(1 + 2 * i), word(2 + 2 * i));
        let counts = word(1 + 2 * metrics + i / 2);
        let count = if i.is_multiple_of(2) { counts & 0xffff_ffff } else { counts >> 32 };
        match kind {
            MetricKind::Counter => {
                let (first, last) = (f64::from_bits(a), f64::from_bits(b));
                Span { min: first, max: last, mean: (first + last) / 2.0, last, count }
            }
            MetricKind::Gauge => {
                let ((min, max), (mean, last)) = (unpair(a), unpair(b));
                Span { min, max, mean, last, count }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position;
    use crate::ring::layout::{Capacity, Layout, SectionKind};

    struct Bench {
        words: Vec<AtomicU64>,
        sections: [Section; 4],
        archives: Archives,
    }

    impl Bench {
        fn new() -> Self {
            let capacity = Capacity { archives: [4, 8, 8, 8], ..Capacity::default() };
            let layout = Layout::new(&capacity, COUNT, 0, 0);
            let words = (0..layout.words).map(|_| AtomicU64::new(0)).collect();
            let sections: Vec<_> = layout.find(SectionKind::Archive, 1).collect();
            Bench {
                words,
                sections: sections.try_into().unwrap(),
                archives: Archives::new(RunMetrics::default()),
            }
        }

        fn add(&mut self, update: u64, sps: f64) {
            let record =
                Record { update: update as f64, env_steps: update as f64 * 1e9, sps, ..Record::default() };
            self.archives.add(&self.words, &self.sections, &record);
        }

        /// (first update, last update, sps) of entry `number` of a level.
        fn entry(&self, level: usize, number: u64) -> Option<(f64, f64, Span)> {
            let slot = &self.words[self.sections[level].slot(number)];
            let load = |name| {
                let i = position(name).unwrap();
                slot::read(slot, |content| Span::load(content, COUNT, i, METRICS[i].kind))
                    .map(|(_, span)| span)
            };
            Some((load("update")?.min, load("update")?.last, load("sps")?))
        }
    }

    #[test]
    fn entries_summarize_their_updates_at_every_level() {
        let mut bench = Bench::new();
        for update in 1..=256 * 2 + 1 {
            bench.add(update, update as f64);
        }
        assert_eq!(bench.archives.written, [32, 1, 0, 0]);
        let expected = Span { min: 497.0, max: 512.0, mean: 504.5, last: 512.0, count: 16 };
        assert_eq!(bench.entry(0, 31), Some((497.0, 512.0, expected)));
        let expected = Span { min: 1.0, max: 256.0, mean: 128.5, last: 256.0, count: 256 };
        assert_eq!(bench.entry(1, 0), Some((1.0, 256.0, expected)));
        for update in 514..=65_536 + 512 {
            bench.add(update, 1.0);
        }
        assert_eq!(bench.archives.written[1..], [256 + 1, 16, 0]);
        assert_eq!(bench.entry(2, 15).unwrap().1, 65_536.0);
    }

    #[test]
    fn a_value_that_was_not_reported_does_not_count() {
        let mut bench = Bench::new();
        bench.add(1, f64::NAN);
        bench.add(2, 5.0);
        bench.add(3, 7.0);
        bench.add(4, f64::NAN);
        bench.add(17, f64::NAN);
        bench.add(33, 1.0);
        let span = bench.entry(0, 0).unwrap().2;
        assert_eq!(span, Span { min: 5.0, max: 7.0, mean: 6.0, last: 7.0, count: 2 });
        let nothing = bench.entry(0, 1).unwrap().2;
        assert!(nothing.count == 0 && nothing.mean.is_nan() && nothing.min.is_nan() && nothing.last.is_nan());
    }

    #[test]
    fn counters_keep_full_precision() {
        let mut bench = Bench::new();
        for update in 1..=17 {
            bench.add(123_456_000 + update, 1.0);
        }
        assert_eq!(bench.entry(0, 0).unwrap().1, 123_456_016.0);
    }

    #[test]
    fn thinned_updates_are_added_to_their_own_bucket() {
        let mut bench = Bench::new();
        for update in (8..=80).step_by(8) {
            bench.add(update, update as f64);
        }
        assert_eq!(bench.entry(0, 0).unwrap().2.count, 2);
        assert_eq!((bench.entry(0, 1).unwrap().0, bench.entry(0, 1).unwrap().1), (24.0, 32.0));
    }
}
