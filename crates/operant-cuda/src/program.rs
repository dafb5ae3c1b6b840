//! A program to compile: text, headers and macros.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Its name in messages: `rollout.cu`.
    pub name: String,
    /// The text.
    pub source: String,
    /// Headers: each name as `#include` writes it, and the text.
    pub headers: Vec<(String, String)>,
    /// Macros and their values.
    pub defines: Vec<(String, String)>,
}
