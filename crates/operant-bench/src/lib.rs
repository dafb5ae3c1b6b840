//! Measurements: `bench` times environments, rollouts and training, `tune` searches for faster settings, and `selftest` checks
//! a machine. All training goes through one [`measure::driver`]. operant-cli parses the command line and formats tables.

#![forbid(unsafe_code)]
#![allow(missing_docs)] // an internal crate: documented only where the name is not enough

pub mod bench;
pub mod measure;
pub mod profile;
pub mod selftest;
pub mod trial;
pub mod tune;
