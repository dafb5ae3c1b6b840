//! The source of a run's data: its ring while that exists, else its directory.

use std::ops::RangeInclusive;
use std::path::Path;

use operant_metrics::{
    Episode, Event, FileState, Identity, MetricSummary, RingReader, Sample, Schema, SeriesPoint, Status,
};

use super::recorded::Recorded;

/// A run that can be read.
pub enum Source {
    Ring(RingReader),
    /// Its directory.
    Recorded(Recorded),
}

impl From<RingReader> for Source {
    fn from(ring: RingReader) -> Self {
        Source::Ring(ring)
    }
}

impl From<Recorded> for Source {
    fn from(run: Recorded) -> Self {
        Source::Recorded(run)
    }
}

impl Source {
    /// The ring's file, or the run's directory.
    pub fn path(&self) -> &Path {
        match self {
            Source::Ring(ring) => ring.path(),
            Source::Recorded(run) => run.path(),
        }
    }

    /// Who runs what.
    pub fn identity(&self) -> &Identity {
        match self {
            Source::Ring(ring) => ring.identity(),
            Source::Recorded(run) => run.identity(),
        }
    }

    pub fn schema(&self) -> &Schema {
        match self {
            Source::Ring(ring) => ring.schema(),
            Source::Recorded(run) => run.schema(),
        }
    }

    /// Its health, the times of its heartbeats, and its latest checkpoint.
    pub fn status(&self) -> Status {
        match self {
            Source::Ring(ring) => ring.status(),
            Source::Recorded(run) => run.status(),
        }
    }

    /// The newest value of every metric; `None` while the ring is being overwritten: try again.
    pub fn latest(&self) -> Option<Vec<f64>> {
        match self {
            Source::Ring(ring) => ring.latest(),
            Source::Recorded(run) => Some(run.latest()),
        }
    }

    /// The last reported value of a metric, if it is known without reading the whole run.
    pub fn reported(&self, y: usize) -> Option<f64> {
        match self {
            Source::Ring(_) => None,
            Source::Recorded(run) => Some(run.reported(y)).filter(|value| value.is_finite()),
        }
    }

    /// Metric `y` against metric `x`; see [`RingReader::series`].
    pub fn series(
        &self,
        x: usize,
        y: usize,
        updates: RangeInclusive<u64>,
        points: usize,
    ) -> Vec<SeriesPoint> {
        match self {
            Source::Ring(ring) => ring.series(x, y, updates, points),
            Source::Recorded(run) => run.series(x, y, updates, points),
        }
    }

    /// Metric `y` over the whole run.
    pub fn summary(&self, y: usize) -> MetricSummary {
        match self {
            Source::Ring(ring) => ring.summary(y),
            Source::Recorded(run) => run.summary(y),
        }
    }

    /// What happened, oldest first.
    pub fn events(&self) -> Vec<Event> {
        match self {
            Source::Ring(ring) => ring.events(),
            Source::Recorded(run) => run.events(),
        }
    }

    /// The newest utilization; none for a directory.
    pub fn sample(&self) -> Option<Sample> {
        match self {
            Source::Ring(ring) => ring.sample(),
            Source::Recorded(_) => None,
        }
    }

    /// The episode that is shown, if its number is greater than `after`; none for a directory.
    pub fn scene(&self, after: u64) -> Option<Episode> {
        match self {
            Source::Ring(ring) => ring.scene(after),
            Source::Recorded(_) => None,
        }
    }

    /// The number of the newest update.
    pub fn last_update(&self) -> u64 {
        match self {
            Source::Ring(ring) => ring.last_update(),
            Source::Recorded(run) => run.last_update(),
        }
    }

    /// Grows with every record: what was read at the same revision is still valid.
    pub fn revision(&self) -> u64 {
        match self {
            Source::Ring(ring) => ring.published(),
            Source::Recorded(run) => run.revision(),
        }
    }

    /// Records that were skipped: damaged, or being written while they were read.
    pub fn skipped(&self) -> u64 {
        match self {
            Source::Ring(ring) => ring.skipped(),
            Source::Recorded(run) => run.skipped(),
        }
    }

    /// Whether the ring's file still exists and is complete. Always true for a directory: its last contents are shown after it is deleted.
    pub fn presence(&self) -> FileState {
        match self {
            Source::Ring(ring) => ring.presence(),
            Source::Recorded(_) => FileState::Here,
        }
    }

    /// A copy of the present data.
    pub fn freeze(&self) -> Source {
        match self {
            Source::Ring(ring) => Source::Ring(ring.freeze()),
            Source::Recorded(run) => Source::Recorded(run.clone()),
        }
    }
}
