//! The chores of the workspace: `cargo xtask NAME`, one file for each.
#![forbid(unsafe_code)]

use std::process::ExitCode;

mod metrics_doc;
mod test;

const HELP: &str = "\
Chores of the operant workspace.

Usage: cargo xtask <CHORE>

Chores:
  test    Everything that must hold before a change goes in: format, lints, tests, documentation.
          Stops at the first failure and prints the command that repeats it.
  metrics-doc
          Writes docs/metrics.md from the table of metrics.
  help    This text.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        ["metrics-doc"] => metrics_doc::run(),
        ["test"] => test::run(),
        _ => {
            eprintln!("error: `cargo xtask {}` is no chore\n\n{HELP}", args.join(" "));
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
