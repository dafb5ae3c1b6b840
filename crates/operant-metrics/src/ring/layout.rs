//! The layout of a ring file, version 1: a header of words, then sections that the header lists.
//!
//! Everything is a 64-bit word in the machine's byte order. A reader takes every offset and size from the file and
//! checks them against its length, so that a minor version may add sections and metrics, and enlarge entries.
//!
//! ```text
//! word 0        magic                  word 4      words of the header
//!      1        byte order mark             5      number of sections
//!      2        major << 32 | minor         8 ..   sections: kind, offset, words, head words, entry words, entries, factor
//!      3        words of the file           127    ready, stored last
//! ```

use super::error::RingError;

pub const MAGIC: u64 = u64::from_ne_bytes(*b"operant\0");
pub const BYTE_ORDER: u64 = 0x0102_0304_0506_0708;
/// Only the same major version is readable.
pub const MAJOR: u64 = 1;
/// Incremented when something is added.
pub const MINOR: u64 = 0;
/// Value of the ready word once everything else is written.
pub const READY: u64 = u64::from_ne_bytes(*b"isready\0");

pub const HEADER_WORDS: usize = 128;
pub const READY_WORD: usize = 127;
const SECTIONS_AT: usize = 8;
const SECTION_WORDS: usize = 7;
const MAX_SECTIONS: usize = (READY_WORD - SECTIONS_AT) / SECTION_WORDS;

/// Words per cache line: sections and entries are aligned to one.
const LINE: usize = 8;

/// Words in the state section: state, records published, time of the last one, time of the state, time of creation.
pub mod state {
    pub const CODE: usize = 0;
    pub const PUBLISHED: usize = 1;
    pub const PUBLISHED_AT: usize = 2;
    pub const CHANGED_AT: usize = 3;
    pub const CREATED_AT: usize = 4;
    /// Slot: sequence, bytes, text.
    pub const REASON: std::ops::Range<usize> = 8..64;
    /// Slot: sequence, environment steps, bytes, text.
    pub const CHECKPOINT: std::ops::Range<usize> = 64..192;
    pub const WORDS: usize = 192;
}

/// Words of the sampler's slot before its values: sequence, time, pulse, time of the last progress, cores.
pub mod sample {
    pub const TIME: usize = 0;
    pub const PROGRESS_AT: usize = 2;
    pub const CORES: usize = 3;
    pub const VALUES: usize = 4;
}

/// Words of an event: sequence, time, level and bytes, text.
pub const EVENT_WORDS: usize = 32;

/// Updates per entry of each archive.
pub const FACTORS: [u64; 4] = [16, 256, 4096, 65_536];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum SectionKind {
    /// Text: the run's identity.
    Identity = 1,
    /// Text: the table of metrics.
    Schema = 2,
    /// See [`state`].
    State = 3,
    /// Ring of records: sequence, a word per metric.
    Records = 4,
    /// Ring of summaries of `factor` updates each.
    Archive = 5,
    Events = 6,
    /// Slot of the utilization sampler.
    Sample = 7,
    Scene = 8,
}

/// Capacity of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Records.
    pub records: usize,
    /// Entries of each archive.
    pub archives: [usize; FACTORS.len()],
    /// Events.
    pub events: usize,
    /// Cores in the sampler's slot.
    pub cores: usize,
    /// Words of the scene.
    pub scene: usize,
}

impl Default for Capacity {
    /// Holds 59 million updates, ten hours of 0.6 ms each; 7.9 MB.
    fn default() -> Self {
        Self { records: 4096, archives: [1456, 1456, 1456, 896], events: 256, cores: 1024, scene: 32_768 }
    }
}

/// Position of a section, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    pub kind: u64,
    pub offset: usize,
    pub words: usize,
    /// Words before the first entry; the first of them counts the entries written.
    pub head: usize,
    pub entry: usize,
    pub entries: usize,
    /// Updates per entry.
    pub factor: u64,
}

impl Section {
    /// Position of slot `number`, wrapped around the ring.
    #[inline(always)]
    pub fn slot(&self, number: u64) -> std::ops::Range<usize> {
        let index = (number % self.entries as u64) as usize;
        let start = self.offset + self.head + index * self.entry;
        start..start + self.entry
    }

    pub fn all(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.words
    }
}

/// The sections of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub words: usize,
    pub sections: Vec<Section>,
}

/// Words of an archive's entry: sequence, number of records, two words per metric, and the counts, two per word.
pub const fn archive_words(metrics: usize) -> usize {
    2 + 2 * metrics + metrics.div_ceil(2)
}

impl Layout {
    /// The layout of a new file with this number of metrics and with texts of these lengths in bytes.
    pub fn new(capacity: &Capacity, metrics: usize, identity: usize, schema: usize) -> Self {
        let mut layout = Self { words: HEADER_WORDS, sections: Vec::new() };
        let text = |bytes: usize| 1 + bytes.div_ceil(8);
        layout.add(SectionKind::Identity, 0, text(identity), 1, 1);
        layout.add(SectionKind::Schema, 0, text(schema), 1, 1);
        layout.add(SectionKind::State, 0, state::WORDS, 1, 1);
        layout.add(SectionKind::Records, 0, 1 + metrics, capacity.records, 1);
        for (factor, entries) in FACTORS.into_iter().zip(capacity.archives) {
            layout.add(SectionKind::Archive, LINE, archive_words(metrics), entries, factor);
        }
        layout.add(SectionKind::Events, LINE, EVENT_WORDS, capacity.events, 1);
        layout.add(SectionKind::Sample, 0, 1 + sample::VALUES + metrics + capacity.cores, 1, 1);
        layout.add(SectionKind::Scene, 0, 3 + capacity.scene, 1, 1);
        layout
    }

    fn add(&mut self, kind: SectionKind, head: usize, entry: usize, entries: usize, factor: u64) {
        let entry = entry.next_multiple_of(LINE);
        let words = head + entry * entries;
        self.sections.push(Section {
            kind: kind as u64,
            offset: self.words,
            words,
            head,
            entry,
            entries,
            factor,
        });
        self.words += words;
    }

    /// The header's words, with the ready word 0.
    pub fn header(&self) -> [u64; HEADER_WORDS] {
        let mut header = [0; HEADER_WORDS];
        header[..6].copy_from_slice(&[
            MAGIC,
            BYTE_ORDER,
            MAJOR << 32 | MINOR,
            self.words as u64,
            HEADER_WORDS as u64,
            self.sections.len() as u64,
        ]);
        for (section, words) in
            self.sections.iter().zip(header[SECTIONS_AT..].chunks_exact_mut(SECTION_WORDS))
        {
            let Section { kind, offset, words: length, head, entry, entries, factor } = *section;
            words.copy_from_slice(&[
                kind,
                offset as u64,
                length as u64,
                head as u64,
                entry as u64,
                entries as u64,
                factor,
            ]);
        }
        header
    }

    /// Parses a file's header and checks it against the file's length of `words` words.
    ///
    /// # Errors
    /// When it is not the header of a ring, is not complete yet, has another major version, or does not fit the file.
    pub fn read(header: &[u64], words: usize) -> Result<Self, RingError> {
        let damaged = |what: &str| RingError::Damaged(what.to_owned());
        if header.len() < HEADER_WORDS {
            return Err(RingError::NotARing("it is too short for a header".to_owned()));
        }
        if header[0] != MAGIC {
            return Err(RingError::NotARing("its first word is not that of a ring".to_owned()));
        }
        if header[1] != BYTE_ORDER {
            return Err(RingError::NotARing(
                "it was written on a machine with another byte order".to_owned(),
            ));
        }
        let (major, minor) = (header[2] >> 32, header[2] & 0xffff_ffff);
        if major != MAJOR {
            return Err(RingError::Version { major, minor });
        }
        if header[READY_WORD] != READY {
            return Err(RingError::NotReady);
        }
        if header[3] > words as u64 {
            return Err(damaged("the file is shorter than its header says: it was truncated"));
        }
        let count = usize::try_from(header[5]).unwrap_or(usize::MAX);
        if count > MAX_SECTIONS {
            return Err(damaged("its header lists too many sections"));
        }
        let total = header[3] as usize;
        let mut sections = Vec::with_capacity(count);
        for fields in header[SECTIONS_AT..].chunks_exact(SECTION_WORDS).take(count) {
            let size = |field: u64| usize::try_from(field).unwrap_or(usize::MAX);
            let [offset, words, head, entry, entries] = [1, 2, 3, 4, 5].map(|field| size(fields[field]));
            let section = Section { kind: fields[0], offset, words, head, entry, entries, factor: fields[6] };
            let inside = offset.checked_add(words).is_some_and(|end| end <= total) && offset >= HEADER_WORDS;
            let filled = entry.checked_mul(entries).and_then(|all| all.checked_add(head)) == Some(words);
            if !inside || !filled || entry == 0 || entries == 0 || section.factor == 0 {
                return Err(damaged("its header lists a section that does not fit"));
            }
            sections.push(section);
        }
        Ok(Self { words: total, sections })
    }

    /// The first section of a kind whose entries have at least `entry` words.
    ///
    /// # Errors
    /// When there is none.
    pub fn section(&self, kind: SectionKind, entry: usize) -> Result<Section, RingError> {
        self.find(kind, entry)
            .next()
            .ok_or_else(|| RingError::Damaged(format!("it has no usable {kind:?} section")))
    }

    /// Every section of a kind whose entries have at least `entry` words.
    pub fn find(&self, kind: SectionKind, entry: usize) -> impl Iterator<Item = Section> {
        self.sections.iter().copied().filter(move |s| s.kind == kind as u64 && s.entry >= entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::COUNT;

    fn ready(layout: &Layout) -> [u64; HEADER_WORDS] {
        let mut header = layout.header();
        header[READY_WORD] = READY;
        header
    }

    #[test]
    fn a_header_reads_back() {
        let layout = Layout::new(&Capacity::default(), COUNT, 100, 1000);
        assert_eq!(Layout::read(&ready(&layout), layout.words).unwrap(), layout);
        // Checks the limit, and the size that the documentation states.
        let bytes = layout.words * 8;
        assert!(bytes <= 8_000_000 && (bytes + 50_000) / 100_000 == 79, "{bytes} bytes");
        assert!(layout.sections.iter().all(|section| section.offset % LINE == 0));
        assert!(layout.sections.len() <= MAX_SECTIONS);
    }

    #[test]
    fn a_header_that_does_not_fit_is_refused() {
        let layout = Layout::new(&Capacity::default(), COUNT, 100, 1000);
        let header = ready(&layout);
        let broken = |word: usize, value: u64| {
            let mut header = header;
            header[word] = value;
            Layout::read(&header, layout.words).unwrap_err()
        };
        assert!(matches!(broken(0, 1), RingError::NotARing(_)));
        assert!(matches!(broken(1, 0x0807_0605_0403_0201), RingError::NotARing(_)));
        assert!(matches!(broken(2, 2 << 32), RingError::Version { major: 2, minor: 0 }));
        assert!(matches!(broken(READY_WORD, 0), RingError::NotReady));
        assert!(matches!(broken(3, u64::MAX), RingError::Damaged(_)));
        assert!(matches!(broken(5, u64::MAX), RingError::Damaged(_)));
        for (word, value) in [1, 2, 3, 4, 5]
            .map(|word| (word, u64::MAX - 3))
            .into_iter()
            .chain([1, 2, 4, 5, 6].map(|word| (word, 0)))
        {
            assert!(matches!(broken(SECTIONS_AT + word, value), RingError::Damaged(_)), "{word} {value}");
        }
        assert!(matches!(Layout::read(&header, layout.words - 1), Err(RingError::Damaged(_))));
        assert!(matches!(Layout::read(&header[..5], layout.words), Err(RingError::NotARing(_))));
    }
}
