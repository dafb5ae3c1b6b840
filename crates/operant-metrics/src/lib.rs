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
mod os;
mod process;
mod ring;
mod run_file;
mod run_metrics;
mod shape;
mod sweep;
mod table;

pub use curve::aligned;
pub use doc::markdown;
pub use metric::{MAX_ENV_METRICS, Metric, MetricKind, position};
pub use natural::natural;
pub use os::boot_id;
pub use process::{ProcessInfo, process_start};
pub use ring::*;
pub use run_file::{MAX_SMALL_FILE, RUN_FILE, RunFile, open_file, read_file};
pub use run_metrics::{ENV_GROUP, FEW_ENV_METRICS, RunMetrics, unusable};
pub use shape::{Point, Shape, tone};
pub use sweep::{SweepState, SweepTrial};
pub use table::{COUNT, METRICS, Record};
