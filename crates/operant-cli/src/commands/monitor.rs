//! `operant monitor`: watches runs in the terminal. The code is that of the slim operant-monitor program; what the list of
//! runs can do to a run is done here.

use std::path::Path;
use std::sync::Arc;

use operant_metrics::{Health, RunState};
use operant_monitor::Control;
use operant_run::runs::{self, Asked, Live};
use operant_run::{Error, ErrorKind, config};
use rustix::process::{Pid, Signal, kill_process};

/// Watch runs in the terminal
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: operant_monitor::Options,
}

/// Watches, and gives the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let mut options = args.options.clone();
    options.run_dir.get_or_insert_with(|| config::default_run_dir(operant_env::builtin().known()));
    options.control = Some(Arc::new(Signals));
    operant_monitor::run(&options).map_err(|error| {
        let kind = if error.exit_code() == 2 { ErrorKind::Usage } else { ErrorKind::Disk };
        Error::new(kind, error.what()).remedy(error.remedy()).into()
    })
}

/// Acts on runs by signals to their trainers.
#[derive(Debug)]
struct Signals;

impl Signals {
    /// The live trainer of the run in `dir`.
    fn live(dir: &Path) -> Result<Live, String> {
        let parent = dir.parent().unwrap_or(dir);
        let live = runs::find(parent, &dir.to_string_lossy()).and_then(|run| Live::of(&run));
        live.map_err(|error| error.what)?.ok_or_else(|| "has ended".to_string())
    }
}

impl Control for Signals {
    fn stop(&self, dir: &Path) -> Result<String, String> {
        match Self::live(dir)?.stop().map_err(|error| error.what)? {
            Asked::Now => Ok("stops after its update, with a checkpoint".to_string()),
            Asked::Before => Ok("is stopping already".to_string()),
        }
    }

    fn pause(&self, dir: &Path) -> Result<String, String> {
        // Looked at just before the signal: the process is that run's trainer.
        let live = Self::live(dir)?;
        let pid = live.run().pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let pid = pid.ok_or_else(|| "has no process that is known".to_string())?;
        kill_process(pid, Signal::USR2).map_err(|error| format!("cannot be sent SIGUSR2: {error}"))?;
        match live.run().health {
            Health::Said(RunState::Paused) => Ok("continues".to_string()),
            _ => Ok("pauses after its update".to_string()),
        }
    }
}
