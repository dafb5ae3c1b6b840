//! The recording lane: running a rule over [`Trace`] records it as a graph. The finished [`Function`] is printed as CUDA C++
//! ([`Function::emit`]), written to files, and run on a CPU by [`crate::rows`].
//!
//! A [`Value`] is a constant or a node of the graph, so it is `Copy`, and constants need no recorder: they fold while
//! the rule runs. The text that comes out uses round-to-nearest intrinsics for every float operation, so no compiler
//! flag can change a result, and gives values the names that the rule gave them.

mod check;
mod emit;
mod function;
mod graph;
mod memory;
mod operation;
mod parameters;
mod values;

pub use emit::KEYWORDS;
pub use function::{Function, Output};
pub use graph::{Arg, Graph, Literal, Outputs, Type};
pub(crate) use graph::{Assignment, Item, Op, Steps};
pub use memory::Recorded;
pub use operation::Operation;
pub(crate) use operation::{Arithmetic, OperationVisitor};
pub use parameters::Parameters;
pub use values::{Constant, Trace, Value};
