//! One file per subcommand. Each has `Args` for clap and `run`, which returns the exit code.

pub mod bench;
pub mod checkpoint;
pub mod compare;
pub mod config;
pub mod emit;
pub mod envs;
pub mod eval;
pub mod export;
pub mod info;
pub mod monitor;
pub mod new;
mod overrides;
pub mod play;
pub mod ray;
pub mod replay;
pub mod report;
mod run_args;
pub mod runs;
pub mod selftest;
pub mod shell;
pub mod stop;
pub mod sweep;
pub mod train;
pub mod tune;
