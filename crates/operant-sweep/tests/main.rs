//! Searches and statistics of sweeps: one test program.

mod search;
mod statistics;
