//! Telemetry of a run. The training loop holds a [`Publisher`], which writes each record to the sinks (files) and the
//! ring (shared memory) and leaves everything slower to the side thread, [`side`].
//!
//! Training depends on none of it: it continues without a ring that cannot be created or a sink that fails.

mod notify;
pub(crate) mod scene;
mod shared;
mod side;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use operant_metrics::{Identity, Level, Record, Ring, RingError, RingOptions, RingWriter, RunState};

use crate::runs::StateFile;
use crate::sinks::{SinkEvent, Sinks};
use shared::SharedState;
pub(crate) use side::SideContext;
use side::SideHandle;

/// Longest time for which rows are buffered.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between recorded episodes.
const SCENE_INTERVAL: Duration = Duration::from_millis(500);

/// Where to create the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RingLocation {
    /// No ring.
    Nowhere,
    /// In the first directory that can hold rings.
    Default,
    /// In this directory.
    In(PathBuf),
}

/// Creates the ring of a run, unless it is disabled.
///
/// # Errors
/// When it can be created in no directory.
pub(crate) fn make_ring(
    identity: &Identity,
    place: &RingLocation,
    options: &RingOptions,
) -> Result<Option<Ring>, RingError> {
    match place {
        RingLocation::Nowhere => Ok(None),
        RingLocation::Default => operant_metrics::create(identity, options).map(Some),
        RingLocation::In(dir) => operant_metrics::create_in(dir, identity, options).map(Some),
    }
}

/// Publishes the training loop's records, states and events.
pub(crate) struct Publisher {
    sinks: Sinks,
    flushed: Instant,
    ring: Option<RingWriter>,
    shown: Instant,
    side: SideHandle,
    state_file: Arc<StateFile>,
    shared: Arc<SharedState>,
    pulse: Arc<AtomicU64>,
}

impl Publisher {
    /// Starts publishing and the sampling of utilization. `pulse` is the heartbeat of the device; `steps` are the
    /// environment steps taken and the total to take.
    pub fn start(
        sinks: Sinks,
        ring: Option<Ring>,
        pulse: Arc<AtomicU64>,
        context: SideContext,
        steps: Range<u64>,
    ) -> Self {
        let (writer, side_writer) = ring.map_or((None, None), |ring| (Some(ring.writer), Some(ring.side)));
        let shared = Arc::new(SharedState::new(&steps));
        let state_file = Arc::clone(&context.state_file);
        let side = SideHandle::start(side_writer, Arc::clone(&shared), Arc::clone(&pulse), context);
        let now = Instant::now();
        let shown = now - SCENE_INTERVAL;
        Publisher { sinks, flushed: now, ring: writer, shown, side, state_file, shared, pulse }
    }

    /// The ring's file.
    pub fn ring(&self) -> Option<&Path> {
        self.ring.as_ref().map(RingWriter::path)
    }

    /// Reports that training begins.
    pub fn ready(&mut self) {
        self.side.wait_for_a_sample();
        self.state(RunState::Running, "");
        self.side.ready();
    }

    /// Publishes a record from before this process to the ring only.
    pub fn refill(&mut self, record: &Record) {
        if let Some(ring) = &mut self.ring {
            ring.refill(record);
        }
    }

    /// Publishes the record of one update; returns changes of the sinks.
    pub fn publish(&mut self, mut record: Record) -> Vec<SinkEvent> {
        self.shared.complete(&mut record);
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

    /// Waits until every row is on the disk; returns changes of the sinks.
    pub fn sync(&mut self) -> Vec<SinkEvent> {
        self.sinks.sync()
    }

    /// Whether it is time to publish another episode for monitors.
    pub fn scene_is_due(&mut self) -> bool {
        let due = self.ring.is_some() && self.shown.elapsed() >= SCENE_INTERVAL;
        if due {
            self.shown = Instant::now();
        }
        due
    }

    /// Publishes an episode.
    pub fn show(&mut self, episode: &operant_learn::EpisodeRecording) {
        if let Some(ring) = &mut self.ring {
            ring.show(&scene::episode(episode));
        }
    }

    /// Sets the run's state; `reason` is one line, empty until the run ends.
    pub fn state(&mut self, state: RunState, reason: &str) {
        if let Some(ring) = &mut self.ring {
            ring.set_state(state, reason);
        }
        match state {
            RunState::Stopping => self.side.stopping(),
            RunState::Paused | RunState::Running => self.state_file.set(state, reason),
            // The final state is written together with the final counts.
            _ => {}
        }
    }

    /// Replaces a lost ring while training is paused and publishes nothing.
    pub fn recreate_ring_while_paused(&mut self) {
        if self.shared.take_lost_ring()
            && let Some(ring) = &mut self.ring
        {
            ring.set_state(RunState::Paused, "");
        }
    }

    /// Publishes the latest checkpoint.
    pub fn checkpoint(&mut self, env_steps: u64, path: &Path) {
        if let Some(ring) = &mut self.ring {
            ring.set_checkpoint(env_steps, path);
        }
    }

    /// Publishes an event to monitors.
    pub fn event(&self, level: Level, text: &str) {
        self.side.event(level, text);
    }

    /// Advances the heartbeat while the device has nothing to do.
    pub fn alive(&self) {
        self.pulse.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the side thread, which first writes the queued events.
    pub fn end(&mut self) {
        self.side.end();
    }
}
