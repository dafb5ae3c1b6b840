//! operant-sweep trains many runs and reports what they show: searches over settings ([`search`]), the table that they are
//! written to ([`table`]), the sweep itself ([`sweep`]), and reports with intervals over seeds ([`report`]).

#![forbid(unsafe_code)]
#![allow(missing_docs)] // an internal crate: documented only where the name is not enough

pub mod forecast;
mod gaussian;
pub mod html;
pub mod league;
mod overview;
pub mod plan;
pub mod player;
pub mod plot;
mod random;
pub mod report;
mod rows;
pub mod search;
pub mod space;
pub mod spec;
pub mod stats;
pub mod sweep;
pub mod table;
pub mod task;

pub use forecast::Forecast;
pub use overview::{Overview, overview};
pub use plan::Plan;
pub use report::Report;
pub use rows::{Row, rows};
pub use spec::{Given, Spec};
pub use sweep::{Ended, Status, Sweep, Watch};
pub use task::{Executor, Local};
