//! Searches, statistics and tables of sweeps: one test program.

mod search;
mod statistics;
mod table;
