//! Shared by the commands that act on runs: the directory of runs, paths as they are printed, and times on the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use operant_env::Registry;
use operant_metrics::{Health, RunState};
use operant_run::config;
use operant_run::runs::{self, Kind, Run};
use operant_run::{CommandLine, Error, Result, dir, path_text};
use operant_sweep::sweep;

/// The directory that holds the runs: the flag's, or the configuration's.
///
/// # Errors
/// When it cannot be used, or the flag names none that exists.
pub fn run_dir(registry: &Registry, flag: Option<&str>) -> Result<PathBuf> {
    let mut line = CommandLine::default();
    if let Some(dir) = flag {
        must_exist(Path::new(dir))?;
        line.flags.push(("run_dir", "--run-dir", dir.to_string()));
    }
    config::run_dir(registry.known(), &line)
}

/// Refuses a directory that does not exist where runs are only read.
pub fn must_exist(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    Err(Error::usage(format!("there is no directory {}", dir.display())).at("--run-dir").remedy(
        "give the directory that holds the runs; without the flag it is ./runs, or that of operant.toml",
    ))
}

/// The run in this directory as an argument of `--resume`, quoted for a shell in the working directory.
pub fn word(registry: &Registry, dir: &Path) -> String {
    path_text::run_word(dir, &config::default_run_dir(registry.known()))
}

/// As [`word`], without quotes: for a program.
pub fn argument(registry: &Registry, dir: &Path) -> String {
    path_text::run_argument(dir, &config::default_run_dir(registry.known()))
}

/// The run of this name or path. Several live ones of a name, in several directories, are an error.
///
/// # Errors
/// Usage when there is none, with the nearest name, or when there are several.
pub fn find_one(parent: &Path, name: &str) -> Result<Run> {
    let namesakes = runs::live_namesakes(parent, name);
    if namesakes.len() > 1 {
        let dirs: Vec<String> = namesakes.iter().map(|run| path_text::shown(&run.dir)).collect();
        return Err(Error::usage(format!("{} live runs are named {name}", namesakes.len()))
            .at(dirs.join(", "))
            .remedy("give the directory of the one that you mean"));
    }
    runs::find(parent, name)
}

/// As [`find_one`], and sweeps too.
///
/// # Errors
/// The same.
pub fn find_job(parent: &Path, name: &str) -> Result<Run> {
    match dir::locate_sweep(parent, name) {
        Some(dir) => Ok(runs::of_sweep(&dir)),
        None => find_one(parent, name).map_err(|error| Error {
            what: error.what.replace("there is no run ", "there is no run or sweep "),
            ..error
        }),
    }
}

/// The command that continues a run or a sweep, as a user types it.
pub fn resume_command(registry: &Registry, dir: &Path) -> String {
    let word = word(registry, dir);
    if !dir::is_sweep(dir) {
        return format!("operant train --resume {word}");
    }
    match sweep::resume_flags(dir) {
        flags if flags.is_empty() => format!("operant resume {word}"),
        flags => format!("operant sweep --resume {word} {flags}"),
    }
}

/// The error for a run or a sweep that must be live and is not.
pub fn not_live(registry: &Registry, run: &Run) -> Error {
    let resume = format!("`{}`", resume_command(registry, &run.dir));
    if run.kind == Kind::Sweep {
        let remedy = match run.health {
            Health::Reported(RunState::Finished) => {
                format!("`operant report {}` shows its results", word(registry, &run.dir))
            }
            _ => format!("{resume} continues it"),
        };
        return Error::usage(format!("{} is not being trained: {}", run.title(), run.health.name()))
            .at(run.dir.display().to_string())
            .remedy(remedy);
    }
    let finished = run.health == Health::Reported(RunState::Finished);
    let remedy = match &run.checkpoint {
        Some(path) if finished => format!("its last checkpoint is {}", path.display()),
        Some(path) => format!("its last checkpoint is {}; {resume} continues from it", path.display()),
        None => format!("it has no checkpoint; {resume} starts it over"),
    };
    Error::usage(format!("run {} is not being trained: {}", run.run, run.health.name()))
        .at(run.dir.display().to_string())
        .remedy(remedy)
}

/// A path, relative to the working directory if that is shorter.
pub fn near(path: &Path) -> String {
    let here = std::env::current_dir().and_then(std::fs::canonicalize);
    let relative = here.ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf));
    path_text::shown(relative.as_deref().unwrap_or(path))
}

/// A time in seconds, for clap.
pub fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds, such as 30".to_string())?;
    if !(0.0..=1e9).contains(&seconds) {
        return Err("give a number of seconds from 0 to 1e9".to_string());
    }
    Ok(Duration::from_secs_f64(seconds))
}
