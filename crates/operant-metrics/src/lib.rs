//! operant-metrics holds the one table of metrics and what is made from it: [`Record`] (what training publishes once
//! per update), the CSV header, the TensorBoard tags and `docs/metrics.md`; and the ring in shared memory that carries
//! records from a trainer ([`create`], [`RingWriter`], [`SideWriter`]) to whoever watches ([`RingReader`], [`find`]). It takes no
//! measurements and knows nothing of training.
//!
//! A metric is one row in `table.rs`; nothing else names it.

mod doc;
mod metric;
mod ring;
mod table;

pub use doc::markdown;
pub use metric::{Kind, Metric, position};
pub use ring::*;
pub use table::{COUNT, METRICS, Record};
