//! A text to compile, with all that goes into it.

/// A text to compile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// What messages call it: `rollout.cu`.
    pub name: String,
    /// The text.
    pub source: String,
    /// What `#include` finds: a name as it is written there, and the text.
    pub headers: Vec<(String, String)>,
    /// Macros and their values.
    pub defines: Vec<(String, String)>,
}
