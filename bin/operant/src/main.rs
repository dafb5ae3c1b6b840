//! The operant command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    operant_cli::main(operant_cli::builtin())
}
