//! The machine as operant reads it: one test program, a module for each topic.

mod support;

mod machine;
mod plan;
mod topology;
