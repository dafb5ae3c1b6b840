//! The reader's side of a ring. It maps the file read-only, never waits, and validates everything it reads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::RingError;
use super::event::{Event, Level};
use super::identity::Identity;
use super::layout::{EVENT_WORDS, HEADER_WORDS, Layout, Section, SectionKind, archive_words, sample, state};
use super::mapping::Mapping;
use super::sample::{Core, CoreKind, Sample};
use super::scene::Episode;
use super::schema::Schema;
use super::status::{self, Status, Watch};
use super::{clock, file, slot, text};
use crate::MetricKind;

/// Attempts to read a single slot that is being written.
const ATTEMPTS: usize = 64;

/// Larger files are not read as rings, so that reading a whole one is quick. Ours have 8 MB.
const MAX_BYTES: u64 = 1 << 28;

/// State of the file since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// It is unchanged.
    Here,
    /// It was removed.
    Gone,
    /// Another file has its name now: open that one.
    Replaced,
    /// It was truncated: what was read since then is not valid.
    Truncated,
}

/// Raw records, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Records {
    /// Number of the first row, counted from the first record published.
    pub first: u64,
    /// One value per metric. Rows that could not be read completely are skipped.
    pub rows: Vec<Vec<f64>>,
    /// Number of requested records that were overwritten or being written.
    pub skipped: u64,
}

/// A run's ring, open for reading.
pub struct RingReader {
    path: PathBuf,
    pub(super) mapping: Mapping,
    identity: Identity,
    pub(super) schema: Schema,
    pub(super) sections: Sections,
    layout: Layout,
    pub(super) skipped: AtomicU64,
    /// Whether the trainer belongs to this boot of the machine.
    pub(super) this_boot: bool,
    pub(super) watch: Watch,
    frozen: Option<Status>,
}

/// The sections that a reader uses.
#[derive(Debug, Clone)]
pub(super) struct Sections {
    pub state: Section,
    pub records: Section,
    /// Finest first.
    pub archives: Vec<Section>,
    pub events: Option<Section>,
    pub sample: Section,
    pub scene: Option<Section>,
}

impl RingReader {
    /// Opens the ring at `path`.
    ///
    /// # Errors
    /// When the file does not exist, cannot be read, or is not a ring that this version reads.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        let at = |what| move |error| RingError::io(what, path, error);
        let file = file::open(path).map_err(at("cannot open"))?;
        let metadata = file.metadata().map_err(at("cannot look at"))?;
        if !metadata.is_file() {
            return Err(RingError::NotARing(format!("{} is not a regular file", path.display())));
        }
        if metadata.len() < HEADER_WORDS as u64 * 8 {
            return Err(RingError::NotARing(format!("{} is too short for a header", path.display())));
        }
        if metadata.len() > MAX_BYTES {
            return Err(RingError::NotARing(format!("{} is too large for a ring", path.display())));
        }
        let mapping = Mapping::readable(file).map_err(at("cannot map"))?.ok_or(RingError::TooMany)?;
        Self::over(path.to_owned(), mapping)
    }

    /// A reader of words in memory, such as a recorded ring, without a trainer.
    ///
    /// # Errors
    /// When they are not a ring that this version reads.
    pub fn of_words(words: Vec<u64>) -> Result<Self, RingError> {
        let words = words.into_iter().map(AtomicU64::new).collect();
        Self::over(PathBuf::new(), Mapping::owned(words))
    }

    fn over(path: PathBuf, mapping: Mapping) -> Result<Self, RingError> {
        let words = mapping.words();
        // The ready word is loaded first: everything else was stored before it.
        let ready = words.get(super::layout::READY_WORD).map_or(0, |word| word.load(Ordering::Acquire));
        let mut header: Vec<u64> =
            words.iter().take(HEADER_WORDS).map(|word| word.load(Ordering::Relaxed)).collect();
        if let Some(word) = header.get_mut(super::layout::READY_WORD) {
            *word = ready;
        }
        let layout = Layout::read(&header, words.len())?;
        let text_of = |kind| Ok(text::read_section(&words[layout.section(kind, 1)?.all()]));
        let identity = Identity::from_text(&text_of(SectionKind::Identity)?);
        let schema = Schema::from_text(&text_of(SectionKind::Schema)?);
        let metrics = schema.len();
        let mut archives: Vec<Section> = layout
            .find(SectionKind::Archive, archive_words(metrics))
            .filter(|section| section.head > 0)
            .collect();
        archives.sort_by_key(|section| section.factor);
        let headed = |kind, entry| layout.find(kind, entry).find(|section| section.head > 0);
        let sections = Sections {
            state: layout.section(SectionKind::State, state::WORDS)?,
            records: layout.section(SectionKind::Records, 1 + metrics)?,
            archives,
            events: headed(SectionKind::Events, EVENT_WORDS),
            sample: layout.section(SectionKind::Sample, 1 + sample::VALUES + metrics)?,
            scene: layout.find(SectionKind::Scene, 4).next(),
        };
        Ok(RingReader {
            path,
            this_boot: identity.is_of_this_boot(),
            watch: Watch::new(identity.shares_clock()),
            mapping,
            identity,
            schema,
            sections,
            layout,
            skipped: AtomicU64::new(0),
            frozen: None,
        })
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identity of the run.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The trainer's metrics.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The run's status now; for a frozen copy, when it was frozen.
    pub fn status(&self) -> Status {
        self.frozen.clone().unwrap_or_else(|| status::of(self))
    }

    /// Whether the trainer's clock is that of this process. If not, a run is stalled only when this reader has seen nothing
    /// change for [`super::STALL`]: the first reading cannot tell.
    pub fn shares_clock(&self) -> bool {
        self.watch.shares_clock()
    }

    /// Records published so far.
    pub fn published(&self) -> u64 {
        self.words()[self.sections.state.offset + state::PUBLISHED].load(Ordering::Acquire)
    }

    /// One record, by its number; none if it was overwritten or is being written.
    fn record(&self, number: u64) -> Option<Vec<f64>> {
        let metrics = self.schema.len();
        let values = |content: &[AtomicU64]| -> Vec<f64> {
            content[..metrics].iter().map(|word| f64::from_bits(word.load(Ordering::Relaxed))).collect()
        };
        match slot::read(&self.words()[self.sections.records.slot(number)], values) {
            Some((found, values)) if found == number => Some(values),
            _ => {
                self.skipped.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// The last record in the schema's order, with the latest sampled values. Before the first record, counters are 0
    /// and all metrics that are not sampled are NaN.
    pub fn latest(&self) -> Option<Vec<f64>> {
        let initial = || self.schema.metrics().iter().map(|metric| metric.kind.initial()).collect();
        let mut values: Vec<f64> = match self.published() {
            0 => initial(),
            // If the newest is overwritten while it is read, there is a newer one.
            _ => (0..ATTEMPTS).find_map(|_| self.record(self.published().checked_sub(1)?))?,
        };
        if let Some(sample) = self.sample() {
            for (value, sampled) in values.iter_mut().zip(sample.values) {
                if !sampled.is_nan() {
                    *value = sampled;
                }
            }
        }
        Some(values)
    }

    /// The records from number `after` on that the ring still holds.
    pub fn records(&self, after: u64) -> Records {
        let published = self.published();
        let held = self.sections.records.entries as u64;
        let first = after.max(published.saturating_sub(held)).min(published);
        let rows: Vec<_> = (first..published).filter_map(|number| self.record(number)).collect();
        let asked = published.saturating_sub(after);
        Records { first, skipped: asked - rows.len() as u64, rows }
    }

    /// The `update` of the last record.
    pub fn last_update(&self) -> u64 {
        let Some(update) = self.schema.position("update") else {
            return self.published();
        };
        // As in `latest`.
        (0..ATTEMPTS)
            .find_map(|_| self.record(self.published().checked_sub(1)?))
            .map_or(0, |record| record[update] as u64)
    }

    /// The latest sample of utilization; none before the first.
    pub fn sample(&self) -> Option<Sample> {
        let (section, metrics) = (self.sections.sample, self.schema.len());
        let slot = &self.words()[section.all()];
        let (number, content) = (0..ATTEMPTS).find_map(|_| slot::read(slot, slot::copy))?;
        if number == 0 {
            return None;
        }
        let (values, rest) = content[sample::VALUES..].split_at_checked(metrics)?;
        let core = |word: &u64| Core {
            number: (word >> 32) as u32 & 0xff_ffff,
            kind: CoreKind::of_code(word >> 56),
            utilization: f32::from_bits(*word as u32),
        };
        let cores = usize::try_from(content[sample::CORES]).unwrap_or(usize::MAX);
        Some(Sample {
            values: values.iter().map(|word| f64::from_bits(*word)).collect(),
            cores: rest.iter().take(cores).map(core).collect(),
            age: self.watch.since(2, clock::now(), &[content[sample::TIME]]),
        })
    }

    /// The events that the ring still holds, oldest first.
    pub fn events(&self) -> Vec<Event> {
        let Some(section) = self.sections.events else {
            return Vec::new();
        };
        let written = self.words()[section.offset].load(Ordering::Acquire);
        let first = written.saturating_sub(section.entries as u64);
        let event = |number: u64| {
            let (found, content) = slot::read(&self.words()[section.slot(number)], slot::copy)?;
            let (&[unix_ns, what], words) = content.split_first_chunk::<2>()?;
            let text = text::plain(&text::from_words(words, what >> 32));
            let level = Level::of_code(what & 0xffff_ffff);
            (found == number).then_some(Event { number, unix_ns, level, text })
        };
        (first..written).filter_map(event).collect()
    }

    /// The latest recorded episode, if its number is greater than `after`.
    pub fn scene(&self, after: u64) -> Option<Episode> {
        let slot = &self.words()[self.sections.scene?.all()];
        let newer = slot::read(slot, |content| content[0].load(Ordering::Relaxed))?.1 > after;
        if !newer {
            return None;
        }
        let (_, content) = (0..ATTEMPTS).find_map(|_| slot::read(slot, slot::copy))?;
        let (&[number, words], content) = content.split_first_chunk::<2>()?;
        Episode::from_words(number, content.get(..usize::try_from(words).ok()?)?)
    }

    /// Number of slots that were skipped because they were being written, overwritten or damaged.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// A copy in memory of the current content. Its status does not change.
    pub fn freeze(&self) -> RingReader {
        let words = self.words();
        let mut copy: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        // Each slot is copied again with the slot protocol: one that is being written is skipped.
        let mut settle = |slot: std::ops::Range<usize>| {
            let content = (0..ATTEMPTS).find_map(|_| slot::read(&words[slot.clone()], slot::copy));
            match content {
                Some((number, content)) => {
                    copy[slot.start] = number.wrapping_mul(2).wrapping_add(2);
                    copy[slot.start + 1..slot.end].copy_from_slice(&content);
                }
                None => copy[slot.start] = 0,
            }
        };
        let Sections { records, archives, events, sample, scene, .. } = &self.sections;
        for section in std::iter::once(records).chain(archives).chain(events) {
            (0..section.entries as u64).for_each(|entry| settle(section.slot(entry)));
        }
        for section in std::iter::once(sample).chain(scene) {
            settle(section.all());
        }
        RingReader {
            path: self.path.clone(),
            mapping: Mapping::owned(copy.into_iter().map(AtomicU64::new).collect()),
            identity: self.identity.clone(),
            schema: self.schema.clone(),
            sections: self.sections.clone(),
            layout: self.layout.clone(),
            skipped: AtomicU64::new(self.skipped()),
            this_boot: self.this_boot,
            watch: Watch::new(self.watch.shares_clock()),
            frozen: Some(self.status()),
        }
    }

    /// State of the file.
    pub fn presence(&self) -> FileState {
        let Some(own) = self.mapping.file() else {
            return FileState::Here;
        };
        let short = own.metadata().is_ok_and(|is| is.len() < self.layout.words as u64 * 8);
        match (file::names(&self.path, own), self.path.exists()) {
            (true, _) if short || self.mapping.lost() => FileState::Truncated,
            (true, _) => FileState::Here,
            (false, true) => FileState::Replaced,
            (false, false) => FileState::Gone,
        }
    }

    pub(super) fn kind(&self, metric: usize) -> MetricKind {
        self.schema.metrics()[metric].kind
    }
}
