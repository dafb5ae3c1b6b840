//! The recording lane: running a rule over [`Trace`] records it as a graph, which [`Graph::emit`] prints as CUDA C++.
//!
//! A [`Value`] is a constant or a node of the graph, so it is `Copy`, and constants need no recorder: they fold while
//! the rule runs. The text that comes out uses round-to-nearest intrinsics for every float operation, so no compiler
//! flag can change a result, and gives values the names that the rule gave them.

mod emit;
mod graph;
mod memory;
mod values;

pub use emit::Parameters;
pub use graph::{Graph, Outputs};
pub use memory::Recorded;
pub use values::{Trace, Value};
