//! The tests of the learner on the CPU and, on the simulated GPU, of its kernels. `footprint.rs` is a separate program.

#[macro_use]
#[path = "../../operant-env/tests/support/worlds.rs"]
mod world_tests;

#[macro_use]
mod support;

mod cases;

mod any_env;
mod backend;
mod bf16;
mod cpu_options;
mod cuda;
mod dqn;
mod gradients;
mod group;
mod intrinsic;
mod memory;
mod optimiser;
mod pqn;
mod recompute;
mod sac;
mod two_players;
mod update;
