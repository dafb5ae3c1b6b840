//! The side thread's part of a ring: samples of utilization, and events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::error::RingError;
use super::event::Level;
use super::file;
use super::layout::{EVENT_WORDS, Layout, MAGIC, READY, READY_WORD, Section, SectionKind, sample};
use super::mapping::Mapping;
use super::sample::Core;
use super::writer::Shared;
use super::{clock, slot, text};
use crate::COUNT;

/// Damage to the file of a live trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// It was removed, or another file has its name.
    Unlinked,
    /// It was truncated.
    Truncated,
    /// Another program wrote into it.
    Overwritten,
}

impl Damage {
    /// `"unlinked"`, `"truncated"` or `"overwritten"`.
    pub const fn name(self) -> &'static str {
        match self {
            Damage::Unlinked => "unlinked",
            Damage::Truncated => "truncated",
            Damage::Overwritten => "overwritten",
        }
    }
}

/// Writes samples and events.
pub struct SideWriter {
    shared: Arc<Shared>,
    mapping: Arc<Mapping>,
    generation: u64,
    /// Damage that [`SideWriter::check`] has reported, or that the training thread detected first.
    known: Option<Damage>,
    unreported: Option<Damage>,
    /// The same in every file of a run, since identity and options are.
    seen: Section,
    metrics: usize,
    events: Section,
    words: usize,
    pulse: u64,
    progress_at: u64,
    samples: u64,
    /// Every event that the ring holds, for a new file.
    kept: Vec<(u64, Level, String)>,
    written: u64,
}

impl SideWriter {
    pub(super) fn new(
        shared: Arc<Shared>,
        mapping: Arc<Mapping>,
        layout: &Layout,
        metrics: usize,
    ) -> Result<Self, RingError> {
        Ok(SideWriter {
            shared,
            mapping,
            generation: 0,
            known: None,
            unreported: None,
            metrics,
            seen: layout.section(SectionKind::Sample, sample::VALUES + metrics)?,
            events: layout.section(SectionKind::Events, EVENT_WORDS)?,
            words: layout.words,
            pulse: 0,
            progress_at: clock::now(),
            samples: 0,
            kept: Vec::new(),
            written: 0,
        })
    }

    /// Writes a sample: one value per metric of the table, NaN for those that are not sampled, and the cores. `pulse` is the
    /// heartbeat of training; the time of its last change distinguishes a run that hangs from a slow one.
    pub fn sample(&mut self, values: &[f64; COUNT], cores: &[Core], pulse: u64) {
        self.follow();
        let now = clock::now();
        if pulse != self.pulse {
            (self.pulse, self.progress_at) = (pulse, now);
        }
        self.samples += 1;
        let room = self.seen.words - 1 - sample::VALUES - self.metrics;
        let cores = &cores[..cores.len().min(room)];
        let head = [now, pulse, self.progress_at, cores.len() as u64];
        let unsampled = std::iter::repeat_n(f64::NAN, self.metrics - COUNT);
        let values = values.iter().copied().chain(unsampled).map(f64::to_bits);
        let cores = cores.iter().map(|core| {
            u64::from(core.utilization.to_bits())
                | (u64::from(core.number) & 0xff_ffff) << 32
                | (core.kind as u64) << 56
        });
        let content = head.into_iter().chain(values).chain(cores);
        slot::write(&self.mapping.words()[self.seen.all()], self.samples, content);
    }

    /// Writes an event; its text becomes one line, shortened if it is long.
    pub fn event(&mut self, level: Level, what: &str) {
        self.follow();
        let event = (clock::unix_now(), level, text::line(what, (EVENT_WORDS - 3) * 8));
        self.write(&event);
        if self.kept.len() >= self.events.entries {
            self.kept.remove(0);
        }
        self.kept.push(event);
    }

    fn write(&mut self, (unix_ns, level, line): &(u64, Level, String)) {
        let number = self.written;
        let content = [*unix_ns, *level as u64 | (line.len() as u64) << 32];
        let words = self.mapping.words();
        slot::write(&words[self.events.slot(number)], number, content.into_iter().chain(text::words(line)));
        self.written = number + 1;
        words[self.events.offset].store(self.written, Ordering::Release);
    }

    /// Checks the file, and switches to a new one if the training thread has made one. The next published record or
    /// state replaces a damaged file.
    pub fn check(&mut self) -> Option<Damage> {
        self.follow();
        if let Some(mended) = self.unreported.take() {
            return Some(mended);
        }
        let file = self.mapping.file()?;
        let words = self.mapping.words();
        let short = file.metadata().is_ok_and(|is| is.len() < self.words as u64 * 8);
        let damage = if short || self.mapping.lost() {
            Damage::Truncated
        } else if !file::names(&self.shared.current().path, file) {
            Damage::Unlinked
        } else if [(0, MAGIC), (READY_WORD, READY)]
            .iter()
            .any(|&(at, is)| words[at].load(Ordering::Relaxed) != is)
        {
            Damage::Overwritten
        } else {
            return None;
        };
        self.known = Some(damage);
        self.shared.damaged.store(true, Ordering::Relaxed);
        Some(damage)
    }

    /// Switches to the new file.
    fn follow(&mut self) {
        let (mapping, generation) = {
            let current = self.shared.current();
            if current.generation == self.generation {
                return;
            }
            (Arc::clone(&current.mapping), current.generation)
        };
        // The training thread detects only missing pages by itself.
        if self.known.take().is_none() {
            self.unreported = Some(Damage::Truncated);
        }
        (self.mapping, self.generation, self.written) = (mapping, generation, 0);
        for event in std::mem::take(&mut self.kept) {
            self.write(&event);
            self.kept.push(event);
        }
    }
}
