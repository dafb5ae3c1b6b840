//! The operant command with one more environment: `cargo run --release -- train {env}`.

mod {env};

use std::process::ExitCode;

fn main() -> ExitCode {
    operant_cli::main(operant_cli::builtin().with({env}::{type}::default()))
}
