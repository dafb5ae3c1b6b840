//! operant-metrics defines the table of metrics and everything generated from it: [`Record`] (what training publishes
//! once per update), the CSV header, the TensorBoard tags and `docs/metrics.md`; and the ring in shared memory that
//! carries records from a trainer ([`create`], [`RingWriter`], [`SideWriter`]) to monitors ([`RingReader`], [`find`]).
//! It takes no measurements and does not depend on the training code.
//!
//! A metric is declared by one row in `table.rs` and nowhere else; the trainer sets its value in a [`Record`].

mod curve;
mod doc;
mod metric;
mod natural;
#[cfg(not(unix))]
mod no_files;
#[cfg(unix)]
mod os;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod ring;
#[cfg(unix)]
mod run_file;
mod run_metrics;
mod shape;
#[cfg(unix)]
mod sweep;
mod table;

pub use curve::aligned;
pub use doc::markdown;
pub use metric::{MAX_ENV_METRICS, Metric, MetricKind, position};
pub use natural::natural;
#[cfg(not(unix))]
pub use no_files::{MAX_SMALL_FILE, read_file};
#[cfg(unix)]
pub use os::boot_id;
#[cfg(unix)]
pub use process::{ProcessInfo, process_start};
#[cfg(unix)]
pub use ring::*;
#[cfg(unix)]
pub use run_file::{MAX_SMALL_FILE, RUN_FILE, RunFile, open_file, read_file};
pub use run_metrics::{ENV_GROUP, FEW_ENV_METRICS, RunMetrics, unusable};
pub use shape::{Point, Shape, tone};
#[cfg(unix)]
pub use sweep::{SweepState, SweepTrial};
pub use table::{COUNT, METRICS, Record};
