//! operant-metrics holds the one table of metrics and what is made from it: [`Record`] (what training publishes once
//! per update), the CSV header, the TensorBoard tags and `docs/metrics.md`. It is not a sink: it opens no files, takes
//! no measurements and knows nothing of training.
//!
//! A metric is one row in `table.rs`; nothing else names it.

#![forbid(unsafe_code)]

mod doc;
mod metric;
mod table;

pub use doc::markdown;
pub use metric::{Kind, Metric, position};
pub use table::{COUNT, METRICS, Record};
