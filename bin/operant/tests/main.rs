//! The `operant` program as a user runs it: one test program, a module for each topic.

mod common;
#[path = "../../../crates/operant-env/tests/support/data.rs"]
mod data;
#[path = "../../../crates/operant-cuda/tests/support/stand_in.rs"]
mod stand_in;
#[path = "common/terminal.rs"]
mod terminal;

mod attacks;
mod bench;
mod colour;
mod completions;
mod control;
mod detach;
mod disk;
mod earlier;
mod errors;
mod export;
mod faults;
mod gpu_cli;
mod gpu_loop;
mod gpu_round;
mod init_from;
mod kept;
mod liveness;
mod manage;
mod mpi;
mod names;
mod network;
mod new_crate;
mod play;
mod play_checkpoint;
mod replays;
mod ring_faults;
mod runs;
mod selftest;
mod signals;
mod sweep;
mod sweep_control;
mod systemd;
mod tags;
mod tune;
mod two_players;
mod watch;
mod worlds;
