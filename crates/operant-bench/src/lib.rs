//! Measurements: `bench` times environments, rollouts and training, `tune` searches for faster settings, and `selftest` checks
//! and times a machine. All training goes through one [`measure::driver`]. operant-cli parses the command line and formats tables.

#![forbid(unsafe_code)]

pub mod bench;
pub mod measure;
pub mod profile;
pub mod selftest;
pub mod trial;
pub mod tune;
