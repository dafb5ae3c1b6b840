//! Measurements: `bench` times environments, rollouts and training, `tune` searches for faster settings, and `selftest` checks
//! a machine. All training goes through one [`measure::driver`]. operant-cli parses the command line and formats tables.

#![forbid(unsafe_code)]
#![allow(missing_docs)] // documented where that says more than the name

pub mod bench;
pub mod measure;
pub mod profile;
pub mod selftest;
pub mod trial;
pub mod tune;
