//! The slim monitor binary: the same code as `operant monitor`, without the trainer.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

/// Shows operant's training runs live.
#[derive(Debug, Parser)]
#[command(name = "operant-monitor", version, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    options: operant_monitor::Options,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors of clap too, with code 0. A closed pipe is not a failure.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match operant_monitor::run(&cli.options) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // A closed stderr must not cause a panic.
            let text = format!("error: {}\n  remedy: {}", error.what(), error.remedy());
            let _ = writeln!(std::io::stderr(), "{}", operant_monitor::printable(&text));
            ExitCode::from(error.exit_code())
        }
    }
}
