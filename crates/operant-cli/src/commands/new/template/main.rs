//! The operant command with one more environment: `cargo run --release -- train gridworld`.

mod gridworld;

use std::process::ExitCode;

fn main() -> ExitCode {
    operant_cli::main(operant_cli::builtin().with(gridworld::GridWorld))
}
