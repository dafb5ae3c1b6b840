//! `operant monitor`: watches runs in the terminal. The code is that of the slim operant-monitor program.

use operant_run::{Error, ErrorKind};

/// Watch runs in the terminal
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: operant_monitor::Options,
}

/// Watches, and gives the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    operant_monitor::run(&args.options).map_err(|error| {
        let kind = if error.exit_code() == 2 { ErrorKind::Usage } else { ErrorKind::Disk };
        Error::new(kind, error.what()).remedy(error.remedy()).into()
    })
}
