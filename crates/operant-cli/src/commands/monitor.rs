//! `operant monitor`: watches runs and sweeps in the terminal. The code is shared with the small operant-monitor program; what the list of
//! runs can do to a run is done here, and sweeps are read here.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;

use operant_env::Registry;
use operant_metrics::{Health, RunState, SweepState};
use operant_monitor::sweep::SweepSource;
use operant_monitor::{Control, MonitorError};
use operant_run::runs::{self, LiveRun, StopRequest};
use operant_run::{Error, ErrorKind, config, dir, path_text};
use operant_sweep::{Overview, Report};

use super::{report, run_args};
use crate::output;

/// Watch runs in the terminal
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: operant_monitor::Options,
}

/// Watches, and gives the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let mut options = args.options.clone();
    if let Some(dir) = &options.run_dir {
        run_args::must_exist(dir)?;
    }
    options.run_dir.get_or_insert_with(|| config::default_run_dir(registry.known()));
    options.control = Some(Arc::new(Signals));
    let parent = options.run_dir.clone().unwrap_or_default();
    operant_metrics::prune();
    let shown = match &options.runs[..] {
        [name] => match dir::locate_sweep(&parent, name) {
            Some(sweep) if options.once || options.json || !std::io::stdout().is_terminal() => {
                return once(&sweep, options.json);
            }
            Some(sweep) => operant_monitor::sweep::watch(&mut Sweep(Overview::new(sweep)), &options),
            None => watch(&parent, &options)?,
        },
        _ => watch(&parent, &options)?,
    };
    shown.map_err(|error| {
        let kind = if error.exit_code() == 2 { ErrorKind::Usage } else { ErrorKind::Disk };
        Error::new(kind, error.what()).remedy(error.remedy()).into()
    })
}

/// Watches runs. On a terminal it waits for those that begin later.
fn watch(parent: &Path, options: &operant_monitor::Options) -> operant_run::Result<Result<u8, MonitorError>> {
    for name in &options.runs {
        if let Some(sweep) = dir::locate_sweep(parent, name) {
            let word = path_text::quoted(name);
            return Err(Error::usage(format!("{name} is a sweep, which is shown alone"))
                .at(sweep.display().to_string())
                .remedy(format!("watch it with `operant monitor {word}`, or name its runs")));
        }
        runs::refuse_slip(parent, name)?;
    }
    Ok(operant_monitor::run(options))
}

/// Prints a sweep where there is no terminal.
fn once(sweep: &Path, json: bool) -> anyhow::Result<u8> {
    let report = Report::of_sweep(sweep)?;
    match json {
        true => output::print(&(report.to_json() + "\n"))?,
        false => output::print_painted(&report::text(&report, usize::MAX))?,
    }
    Ok(0)
}

/// A sweep that is read again and again.
struct Sweep(Overview);

impl SweepSource for Sweep {
    fn read(&mut self) -> Result<SweepState, String> {
        self.0.read().map_err(|error| error.what)
    }
}

/// Acts on runs by signals to their trainers.
#[derive(Debug)]
struct Signals;

impl Signals {
    /// The live process of the run or sweep in `dir`.
    fn live(dir: &Path) -> Result<LiveRun, String> {
        let parent = dir.parent().unwrap_or(dir);
        let live = runs::find_any(parent, &dir.to_string_lossy()).and_then(|run| LiveRun::of(&run));
        live.map_err(|error| error.what)?.ok_or_else(|| "has ended".to_string())
    }
}

impl Control for Signals {
    fn stop(&self, dir: &Path) -> Result<String, String> {
        match Self::live(dir)?.stop().map_err(|error| error.what)? {
            StopRequest::Sent => Ok("stops after its update, with a checkpoint".to_string()),
            StopRequest::AlreadyStopping => Ok("is stopping already".to_string()),
        }
    }

    fn pause(&self, dir: &Path) -> Result<String, String> {
        let live = Self::live(dir)?;
        live.pause().map_err(|error| error.what)?;
        match live.run().health {
            Health::Reported(RunState::Paused) => Ok("continues".to_string()),
            _ => Ok("pauses after its update".to_string()),
        }
    }

    fn sweep(&self, dir: &Path) -> Box<dyn SweepSource> {
        Box::new(Sweep(Overview::new(dir.to_path_buf())))
    }
}
