//! The trainer's side of a ring: the training thread publishes records and never waits for a reader.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::archive::Archives;
use super::directory::ring_dirs;
use super::error::RingError;
use super::file::{self, RingFile};
use super::identity::Identity;
use super::layout::{FACTORS, Section, SectionKind, archive_words, state};
use super::mapping::Mapping;
use super::scene::Episode;
use super::side::SideWriter;
use super::state::RunState;
use super::{RingOptions, clock, slot, text};
use crate::Record;

/// A new ring: one part for the training thread, one for the side thread.
pub struct Ring {
    /// Records, state, checkpoint, scene.
    pub writer: RingWriter,
    /// Samples and events.
    pub side: SideWriter,
    /// A warning about the ring's directory, if there is one.
    pub warning: Option<String>,
}

/// Creates the ring of a run in state *starting*, ready to be read.
///
/// # Errors
/// When it can be created in no directory; the run can train without it.
pub fn create(identity: &Identity, options: &RingOptions) -> Result<Ring, RingError> {
    let mut first = None;
    for place in ring_dirs() {
        let made = place.prepare(options.group_readable).and_then(|warning| {
            let ring = create_in(&place.dir, identity, options)?;
            Ok(Ring { warning, ..ring })
        });
        match made {
            Ok(ring) => return Ok(ring),
            // The preferred directory's error is the most useful one.
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or(RingError::TooMany))
}

/// [`create`] in an existing directory.
///
/// # Errors
/// When there is no space or no permission.
pub fn create_in(dir: &Path, identity: &Identity, options: &RingOptions) -> Result<Ring, RingError> {
    let made = file::make(dir, identity, options, None, |_| ())?;
    let sections = Sections::of(&made, options.metrics.count())?;
    let mapping = Arc::new(made.mapping);
    let shared = Arc::new(Shared {
        damaged: AtomicBool::new(false),
        current: Mutex::new(Current {
            mapping: Arc::clone(&mapping),
            path: made.path.clone(),
            generation: 0,
        }),
    });
    let side =
        SideWriter::new(Arc::clone(&shared), Arc::clone(&mapping), &made.layout, options.metrics.count())?;
    let writer = RingWriter {
        identity: identity.clone(),
        options: *options,
        path: made.path,
        shared,
        mapping,
        sections,
        archives: Archives::new(options.metrics),
        published: 0,
        anchor: 0,
        state: (RunState::Starting, String::new()),
        checkpoint: None,
        slots_written: 0,
        created_at: clock::now(),
        next_attempt: 0,
        episodes: 0,
    };
    Ok(Ring { writer, side, warning: None })
}

/// State that both writing threads share.
pub(super) struct Shared {
    /// The file must be replaced; set by the thread that detects it.
    pub damaged: AtomicBool,
    pub current: Mutex<Current>,
}

pub(super) struct Current {
    pub mapping: Arc<Mapping>,
    pub path: PathBuf,
    /// Number of the file, counted up at each replacement.
    pub generation: u64,
}

impl Shared {
    pub fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nanoseconds between attempts to replace a lost file.
const ATTEMPT_PERIOD: u64 = 1_000_000_000;

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Where the training thread writes.
#[derive(Clone, Copy)]
struct Sections {
    state: Section,
    records: Section,
    archives: [Section; FACTORS.len()],
    scene: Section,
}

impl Sections {
    fn of(made: &RingFile, metrics: usize) -> Result<Self, RingError> {
        let layout = &made.layout;
        let archives: Vec<Section> = layout.find(SectionKind::Archive, archive_words(metrics)).collect();
        Ok(Sections {
            state: layout.section(SectionKind::State, state::WORDS)?,
            records: layout.section(SectionKind::Records, 1 + metrics)?,
            archives: archives
                .try_into()
                .map_err(|_| RingError::Damaged("it has too few archives".to_owned()))?,
            scene: layout.section(SectionKind::Scene, 4)?,
        })
    }
}

/// Publishes records, states and checkpoints with stores into memory, and reads the clock occasionally. It never waits;
/// only replacing a lost file makes system calls, once, or once a second while no new file can be created.
pub struct RingWriter {
    identity: Identity,
    options: RingOptions,
    path: PathBuf,
    shared: Arc<Shared>,
    mapping: Arc<Mapping>,
    sections: Sections,
    archives: Archives,
    published: u64,
    /// The clock at `time` 0 of the records. For a resumed run that may be before boot, so it wraps. Reading the clock
    /// for each record would double the cost.
    anchor: u64,
    // Kept for a replacement of the file.
    state: (RunState, String),
    checkpoint: Option<(u64, String)>,
    slots_written: u64,
    created_at: u64,
    /// Earliest time of the next attempt to replace the file, after a failure.
    next_attempt: u64,
    episodes: u64,
}

impl RingWriter {
    /// Publishes the record of an update. Its `time` must follow the wall clock, since readers compute ages from it.
    #[inline]
    pub fn publish(&mut self, record: &Record) {
        if self.is_lost() {
            self.recreate();
        }
        if self.append(record) || self.anchor == 0 {
            self.anchor = clock::now().wrapping_sub(nanoseconds(record.time));
        }
        let now = self.anchor.wrapping_add(nanoseconds(record.time));
        self.state_word(state::PUBLISHED_AT).store(now, Ordering::Relaxed);
    }

    /// Writes a record from before this process, so that charts of a resumed run start at its first update.
    pub fn refill(&mut self, record: &Record) {
        self.append(record);
    }

    /// Returns whether the record begins a new bucket of the finest archive.
    #[inline(always)]
    fn append(&mut self, record: &Record) -> bool {
        let words = self.mapping.words();
        let (values, turned) = self.archives.add(words, &self.sections.archives, record);
        let slot = &words[self.sections.records.slot(self.published)];
        slot::write(slot, self.published, values.iter().map(|x| x.to_bits()));
        self.published += 1;
        self.state_word(state::PUBLISHED).store(self.published, Ordering::Release);
        turned
    }

    /// Sets the run's state. `reason` is one line on why it ended, empty while it has not.
    pub fn set_state(&mut self, state: RunState, reason: &str) {
        self.state = (state, text::line(reason, (state::REASON.len() - 2) * 8));
        self.slots_written += 1;
        if self.is_lost() {
            self.recreate();
        }
        self.write_state(&self.mapping);
    }

    fn write_state(&self, mapping: &Mapping) {
        let (state, reason) = &self.state;
        // The reason is written first, so that a reader that sees the state also sees the reason.
        let content = std::iter::once(reason.len() as u64).chain(text::words(reason));
        let words = &mapping.words()[self.sections.state.all()];
        slot::write(&words[state::REASON], self.slots_written, content);
        words[state::CHANGED_AT].store(clock::now(), Ordering::Relaxed);
        words[state::CODE].store(*state as u64, Ordering::Release);
    }

    /// Sets the latest checkpoint.
    pub fn set_checkpoint(&mut self, env_steps: u64, path: &Path) {
        // A path that is too long keeps its end.
        let (mut path, room) = (path.to_string_lossy().into_owned(), (state::CHECKPOINT.len() - 3) * 8);
        while path.len() > room {
            path.remove(0);
        }
        self.checkpoint = Some((env_steps, path));
        self.slots_written += 1;
        self.write_checkpoint(&self.mapping);
    }

    fn write_checkpoint(&self, mapping: &Mapping) {
        let Some((env_steps, path)) = &self.checkpoint else {
            return;
        };
        let content = [*env_steps, path.len() as u64].into_iter().chain(text::words(path));
        let words = &mapping.words()[self.sections.state.all()];
        slot::write(&words[state::CHECKPOINT], self.slots_written, content);
    }

    /// Publishes an episode of environment 0; its number is assigned here.
    pub fn show(&mut self, episode: &Episode) {
        self.episodes += 1;
        let section = self.sections.scene;
        let content = episode.to_words(section.words - 3);
        let content = [self.episodes, content.len() as u64].into_iter().chain(content);
        slot::write(&self.mapping.words()[section.all()], self.episodes, content);
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[inline(always)]
    fn state_word(&self, word: usize) -> &AtomicU64 {
        &self.mapping.words()[self.sections.state.offset + word]
    }

    #[inline(always)]
    fn is_lost(&self) -> bool {
        self.shared.damaged.load(Ordering::Relaxed) || self.mapping.lost()
    }

    /// Replaces the file after it was unlinked, truncated or overwritten. The content of an unlinked file is kept; the
    /// content of an overwritten one is not trusted. If no file can be created, records go to the old pages.
    #[cold]
    fn recreate(&mut self) {
        let now = clock::now();
        if now < self.next_attempt {
            return;
        }
        self.shared.damaged.store(false, Ordering::Relaxed);
        let old = Arc::clone(&self.mapping);
        let intact = !old.lost() && self.header_is_own();
        let Some(dir) = self.path.parent() else {
            return;
        };
        let own = old.file().map(|file| (self.path.as_path(), file));
        if !intact {
            self.archives.restart();
            self.published = 0;
        }
        // Filled before it is renamed, so that no reader sees a run without its history.
        let fill = |made: &Mapping| self.fill(made, intact.then_some(&*old));
        let Ok(made) = file::make(dir, &self.identity, &self.options, own, fill) else {
            self.next_attempt = now + ATTEMPT_PERIOD;
            return;
        };
        self.path = made.path;
        self.mapping = Arc::new(made.mapping);
        let mut current = self.shared.current();
        current.mapping = Arc::clone(&self.mapping);
        current.path.clone_from(&self.path);
        current.generation += 1;
    }

    /// Whether the header and the count of records are still what was written.
    fn header_is_own(&self) -> bool {
        self.mapping
            .words()
            .first()
            .is_some_and(|magic| magic.load(Ordering::Relaxed) == super::layout::MAGIC)
            && self.state_word(state::PUBLISHED).load(Ordering::Relaxed) == self.published
    }

    /// Writes the initial content of a replacement file. The layouts are equal, since identity and options are.
    fn fill(&self, made: &Mapping, old: Option<&Mapping>) {
        let Sections { state: section, records, archives, scene } = self.sections;
        let words = &made.words()[section.all()];
        if let Some(old) = old {
            for section in archives.iter().chain([&records, &scene]) {
                for (from, to) in old.words()[section.all()].iter().zip(&made.words()[section.all()]) {
                    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
            for word in [state::PUBLISHED, state::PUBLISHED_AT] {
                words[word].store(self.state_word(word).load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        words[state::CREATED_AT].store(self.created_at, Ordering::Relaxed);
        self.write_state(made);
        self.write_checkpoint(made);
    }
}
