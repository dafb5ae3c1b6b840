//! What a run tells the world while it trains: [`Publisher`] is what the training loop holds. It hands each record to the
//! sinks (files) and to the ring (shared memory), and everything slower to one thread beside the loop, [`side`].
//!
//! Training depends on none of it: a ring that cannot be made costs the ring, a sink that fails costs the sink.

mod notify;
mod scene;
mod side;
mod standing;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use operant_metrics::{Identity, Level, Record, Ring, RingError, RingOptions, RingWriter, RunState};

use crate::runs::StateFile;
use crate::signals::Signals;
use crate::sinks::{SinkEvent, Sinks};
use side::Side;
use standing::Standing;

/// Longest time for which rows stay in this process.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Least time from one episode shown to the next.
const SCENE_INTERVAL: Duration = Duration::from_millis(500);

/// Where the ring is to be, if there is to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RingPlace {
    /// None.
    Nowhere,
    /// In the first directory that can hold rings.
    Default,
    /// In this directory.
    In(PathBuf),
}

/// Makes the ring of a run; none where none is wanted.
///
/// # Errors
/// When no place will have it.
pub(crate) fn make_ring(
    identity: &Identity,
    place: &RingPlace,
    group_readable: bool,
) -> Result<Option<Ring>, RingError> {
    let options = RingOptions { group_readable, ..RingOptions::default() };
    match place {
        RingPlace::Nowhere => Ok(None),
        RingPlace::Default => operant_metrics::create(identity, &options).map(Some),
        RingPlace::In(dir) => operant_metrics::create_in(dir, identity, &options).map(Some),
    }
}

/// The training loop's hand on everything that watches it.
pub(crate) struct Publisher {
    sinks: Sinks,
    flushed: Instant,
    ring: Option<RingWriter>,
    shown: Instant,
    side: Side,
    state_file: Arc<StateFile>,
    standing: Arc<Standing>,
    pulse: Arc<AtomicU64>,
}

impl Publisher {
    /// Begins to publish; from now on utilization is sampled, also that of `gpu`, by its UUID, where the device is one.
    /// `pulse` counts the work of the device; `steps` are the environment steps taken, and those to take.
    pub fn start(
        sinks: Sinks,
        ring: Option<Ring>,
        pulse: Arc<AtomicU64>,
        signals: &Signals,
        state_file: &Arc<StateFile>,
        gpu: Option<String>,
        steps: Range<u64>,
    ) -> Self {
        let (writer, side_writer) = ring.map_or((None, None), |ring| (Some(ring.writer), Some(ring.side)));
        let standing = Arc::new(Standing::new(&steps));
        let side = Side::start(
            side_writer,
            Arc::clone(&standing),
            Arc::clone(&pulse),
            signals.clone(),
            Arc::clone(state_file),
            gpu,
        );
        let now = Instant::now();
        let state_file = Arc::clone(state_file);
        let shown = now - SCENE_INTERVAL;
        Publisher { sinks, flushed: now, ring: writer, shown, side, state_file, standing, pulse }
    }

    /// The ring's file.
    pub fn ring(&self) -> Option<&Path> {
        self.ring.as_ref().map(RingWriter::path)
    }

    /// Training begins.
    pub fn ready(&mut self) {
        self.side.wait_for_a_sample();
        self.state(RunState::Running, "");
        self.side.ready();
    }

    /// A record from before this process, for the ring alone.
    pub fn refill(&mut self, record: &Record) {
        if let Some(ring) = &mut self.ring {
            ring.refill(record);
        }
    }

    /// Publishes the record of one update; returns what happened to files.
    pub fn publish(&mut self, mut record: Record) -> Vec<SinkEvent> {
        self.standing.complete(&mut record);
        if let Some(ring) = &mut self.ring {
            ring.publish(&record);
        }
        let mut lost = self.sinks.record(&record);
        if self.flushed.elapsed() >= FLUSH_INTERVAL {
            self.flushed = Instant::now();
            lost.extend(self.sinks.flush());
        }
        lost
    }

    /// Waits until every row is on the disk; returns what happened to files.
    pub fn sync(&mut self) -> Vec<SinkEvent> {
        self.sinks.sync()
    }

    /// Whether it is time to show another episode to those who watch.
    pub fn wants_scene(&mut self) -> bool {
        let due = self.ring.is_some() && self.shown.elapsed() >= SCENE_INTERVAL;
        if due {
            self.shown = Instant::now();
        }
        due
    }

    /// Shows an episode.
    pub fn show(&mut self, episode: &operant_learn::EpisodeRecording) {
        if let Some(ring) = &mut self.ring {
            ring.show(&scene::episode(episode));
        }
    }

    /// Says in which state the run is; `reason` is one line, empty while it goes on.
    pub fn state(&mut self, state: RunState, reason: &str) {
        if let Some(ring) = &mut self.ring {
            ring.set_state(state, reason);
        }
        match state {
            RunState::Stopping => self.side.stopping(),
            RunState::Paused | RunState::Running => self.state_file.set(state, reason),
            // The last word comes with what was reached.
            _ => {}
        }
    }

    /// While training pauses and publishes nothing: makes a ring that was lost anew.
    pub fn mend_while_paused(&mut self) {
        if self.standing.take_lost_ring()
            && let Some(ring) = &mut self.ring
        {
            ring.set_state(RunState::Paused, "");
        }
    }

    /// Names the latest checkpoint.
    pub fn checkpoint(&mut self, env_steps: u64, path: &Path) {
        if let Some(ring) = &mut self.ring {
            ring.set_checkpoint(env_steps, path);
        }
    }

    /// Tells those who watch what happened.
    pub fn event(&self, level: Level, text: &str) {
        self.side.event(level, text);
    }

    /// The loop is alive though the device has nothing to do.
    pub fn alive(&self) {
        self.pulse.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the thread beside the loop, which first writes the events that wait.
    pub fn end(&mut self) {
        self.side.end();
    }
}
