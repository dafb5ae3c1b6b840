//! What measures operant: `bench` times environments, rollout and training, `tune` searches for faster settings, and `selftest`
//! checks and times a machine. All that train do it through one [`measure::driver`]. Nothing here reads a command line or formats a table: that is operant-cli.

#![forbid(unsafe_code)]

pub mod bench;
pub mod measure;
pub mod parity;
pub mod profile;
pub mod selftest;
pub mod trial;
pub mod tune;
