//! What measures operant: `bench` times environments, rollout and training, `tune` searches for faster settings with it, and
//! `selftest` checks and times a machine. Nothing here reads a command line or formats a table: that is operant-cli.

#![forbid(unsafe_code)]

pub mod bench;
pub mod selftest;
pub mod tune;
