//! The ring: metrics of a running trainer in shared memory. Readers map it without affecting the trainer.
//!
//! ```text
//! RingWriter (training thread) ─ records, archives, state, scene ─┐
//! SideWriter (side thread)      ─ samples, events ────────────────┴─> file in /dev/shm ─> RingReader (any process)
//! ```
//!
//! `layout` defines the file format, `slot` the protocol that keeps a reader from seeing a partial write, `file` the
//! creation of a ring, and `lock` the check whether its trainer is alive.

mod archive;
mod clock;
mod directory;
mod error;
mod event;
mod file;
mod identity;
mod layout;
mod lock;
mod mapping;
mod prune;
mod reader;
mod sample;
mod scene;
mod schema;
mod series;
mod side;
pub mod slot;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod text;
mod writer;

pub use directory::{FoundRing, find, find_in, rings, rings_in};
pub use error::RingError;
pub use event::{Event, Level};
pub use identity::Identity;
pub use layout::Capacity;
pub use prune::prune;
pub use reader::{FileState, Records, RingReader};
pub use sample::{Core, CoreKind, Sample};
pub use scene::{Episode, Frame};
pub use schema::{MetricInfo, Schema};
pub use series::{MetricSummary, SeriesPoint};
pub use side::{Damage, SideWriter};
pub use state::{Health, RunState, STALL};
pub use status::{SavedCheckpoint, Status};
pub use text::{is_obeyed, plain, printable};
pub use writer::{Ring, RingWriter, create, create_in};

use crate::RunMetrics;

/// Options of a new ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingOptions {
    /// Whether the file's group may read it.
    pub group_readable: bool,
    /// Metrics that a panel of losses shows; all that have a short name if empty.
    pub losses: &'static [&'static str],
    /// The metrics of its records.
    pub metrics: RunMetrics,
    /// Its capacity.
    pub capacity: Capacity,
}
