//! One file per subcommand. Each has `Args` for clap and `run`, which returns the exit code.

pub mod config;
pub mod emit;
pub mod envs;
pub mod eval;
mod overrides;
pub mod replay;
pub mod train;
