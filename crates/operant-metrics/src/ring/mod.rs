//! The ring: metrics of a running trainer in shared memory, which readers map without its noticing.
//!
//! ```text
//! RingWriter (training thread) ─ records, archives, state, scene ─┐
//! SideWriter (thread beside it) ─ samples, events ────────────────┴─> file in /dev/shm ─> RingReader (any process)
//! ```
//!
//! `layout` says where things lie, `slot` how one word-sized protocol keeps a reader from seeing half of a write, `file`
//! how a ring comes into being, `lock` who is alive.

mod archive;
mod clock;
mod error;
mod event;
mod file;
mod identity;
mod layout;
mod lock;
mod mapping;
mod place;
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

pub use error::RingError;
pub use event::{Event, Level};
pub use identity::{Identity, boot_id, process_start};
pub use layout::Capacity;
pub use place::{Found, find, find_in, rings, rings_in};
pub use reader::{Presence, Records, RingReader};
pub use sample::{Core, CoreKind, Sample};
pub use scene::{Episode, Frame, Point, Shape};
pub use schema::{MetricInfo, Schema};
pub use series::{SeriesPoint, Summary};
pub use side::{Damage, SideWriter};
pub use state::{Health, RunState, STALL};
pub use status::{SavedCheckpoint, Status};
pub use text::plain;
pub use writer::{Ring, RingWriter, create, create_in};

/// How a ring is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingOptions {
    /// Lets the file's group read it.
    pub group_readable: bool,
    /// How much it holds.
    pub capacity: Capacity,
}
