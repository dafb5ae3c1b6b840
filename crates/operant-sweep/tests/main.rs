//! Searches, statistics and tables of sweeps, and files that may be a stranger's: one test program.

mod fuzz;
mod pages;
mod search;
mod statistics;
mod table;
