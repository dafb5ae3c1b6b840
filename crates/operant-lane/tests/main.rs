//! The tests of operant-lane, one program.

mod accuracy;
mod conformance;
#[path = "support/cxx.rs"]
mod cxx;
mod philox;
