//! Information on runs: from their directories, which last, and their rings, which are current.

use std::path::{Path, PathBuf};

use operant_metrics::{Health, RUN_FILE, RingReader, RunFile, RunState, plain};

use super::starting;
use crate::checkpoint;
use crate::dir;
use crate::error::{Error, Result, nearest};
use crate::sinks;

/// What a directory is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One training run.
    Run,
    /// Its runs are in it.
    Sweep,
}

impl Kind {
    /// `run` or `sweep`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Run => "run",
            Kind::Sweep => "sweep",
        }
    }
}

/// A run, live or ended; or a sweep, of which only state, process and directory are known here.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Which of them it is.
    pub kind: Kind,
    /// Its name.
    pub run: String,
    /// Environment.
    pub env: String,
    /// Device.
    pub device: String,
    /// Its state.
    pub health: Health,
    /// Why it ended, one line; empty if unknown or not ended.
    pub reason: String,
    /// Process id of its trainer while it is alive.
    pub pid: Option<u32>,
    /// Environment steps taken, if known.
    pub env_steps: Option<u64>,
    /// Environment steps to take.
    pub total_steps: Option<u64>,
    /// Environment steps per second of training.
    pub sps: Option<f64>,
    /// Seed, if known.
    pub seed: Option<u64>,
    /// Mean return of the episodes of a recent update.
    pub episodic_return: Option<f64>,
    /// When its latest process began to train, UTC; empty if unknown.
    pub started: String,
    /// Its directory, absolute.
    pub dir: PathBuf,
    /// The latest checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// The ring of its latest process, if there is one.
    pub ring: Option<PathBuf>,
    /// Its trainer's process: id, start in clock ticks after boot, boot id.
    pub(super) process: (u32, u64, String),
}

impl Run {
    /// `run mine`, `sweep rates`.
    pub fn title(&self) -> String {
        format!("{} {}", self.kind.name(), plain(&self.run))
    }
}

/// The runs in `parent`, and live ones elsewhere that have a ring; ordered by start, latest last.
pub fn list(parent: &Path) -> Vec<Run> {
    let rings = open_rings();
    let parent = absolute(parent);
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(&parent)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| dir::is_run(path))
        .collect();
    for ring in &rings {
        let elsewhere = &ring.identity().dir;
        if ring.status().health.is_alive() && !dirs.iter().any(|dir| same(dir, elsewhere)) {
            dirs.push(elsewhere.clone());
        }
    }
    let mut runs: Vec<Run> = dirs.iter().map(|dir| of_dir(dir, &rings)).collect();
    runs.sort_by(|a, b| (&a.started, &a.run).cmp(&(&b.started, &b.run)));
    runs
}

/// The sweeps in `parent`; ordered by start, latest last.
pub fn sweeps(parent: &Path) -> Vec<Run> {
    let mut sweeps: Vec<Run> = dir::sweeps(parent).iter().map(|dir| of_sweep(dir)).collect();
    sweeps.sort_by(|a, b| (&a.started, &a.run).cmp(&(&b.started, &b.run)));
    sweeps
}

/// The sweep in `dir`.
pub fn of_sweep(dir: &Path) -> Run {
    of_dir(&absolute(dir), &[])
}

/// As [`find`], and sweeps too.
///
/// # Errors
/// Usage when there is none, with the nearest name.
pub fn find_any(parent: &Path, name: &str) -> Result<Run> {
    match dir::locate_sweep(parent, name) {
        Some(dir) => Ok(of_sweep(&dir)),
        None => find(parent, name).map_err(|error| Error {
            what: error.what.replace("there is no run ", "there is no run or sweep "),
            ..error
        }),
    }
}

/// The run of this name in `parent`, the one at this path, or else the one whose ring has this name.
///
/// # Errors
/// Usage when there is none, with the nearest name.
pub fn find(parent: &Path, run: &str) -> Result<Run> {
    let rings = open_rings();
    if let Some(dir) = dir::locate(parent, run) {
        return Ok(of_dir(&absolute(&dir), &rings));
    }
    if let Some(sweep) = dir::locate_sweep(parent, run) {
        return Err(dir::not_a_run(run, &sweep));
    }
    if let Ok(found) = operant_metrics::find(run)
        && let Ok(ring) = RingReader::open(&found.path)
    {
        let dir = ring.identity().dir.clone();
        return Ok(of_dir(&dir, std::slice::from_ref(&ring)));
    }
    Err(dir::no_run(parent, run, &names(parent, &rings), "`operant runs` lists the runs"))
}

/// The error of [`find`] if there is no such run and another one has nearly this name, or there is a file: a slip rather than a run that
/// begins later. A name that differs in its numbers alone is no slip: seed-2 follows seed-1.
///
/// # Errors
/// Usage, with that name.
pub fn refuse_slip(parent: &Path, run: &str) -> Result<()> {
    let without_digits = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let is_near = || {
        let names = names(parent, &open_rings());
        let near = nearest(run, names.iter().map(String::as_str));
        near.is_some_and(|near| without_digits(near) != without_digits(run))
    };
    // A ring's file is the path of a run; what is wrong with it is found when it is opened.
    let is_file = || !run.ends_with(".ring") && dir::file_in_place(parent, run, "run").is_some();
    find(parent, run).map(|_| ()).or_else(|error| if is_file() || is_near() { Err(error) } else { Ok(()) })
}

/// The names of the runs and sweeps in `parent`, and of live runs elsewhere.
fn names(parent: &Path, rings: &[RingReader]) -> Vec<String> {
    let live = rings.iter().filter(|ring| ring.status().health.is_alive());
    let sweeps = dir::sweeps(parent).into_iter().map(|dir| dir::name_of(&dir));
    let live = live.map(|ring| ring.identity().run.clone());
    dir::names(parent).into_iter().chain(sweeps).chain(live).collect()
}

/// The live runs of this name in any directory. A path names one run.
pub fn live_namesakes(parent: &Path, run: &str) -> Vec<Run> {
    if run.contains('/') {
        return Vec::new();
    }
    let mut runs = list(parent);
    runs.retain(|found| found.run == run && found.health.is_alive());
    runs
}

/// Every ring of this user that can be read.
fn open_rings() -> Vec<RingReader> {
    operant_metrics::rings().iter().filter_map(|found| RingReader::open(&found.path).ok()).collect()
}

/// A path from the root, with links resolved where it exists.
fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf())
}

/// Whether two paths are equal as text, which is how a ring stores them.
pub(super) fn same(a: &Path, b: &Path) -> bool {
    a == b || plain(&a.to_string_lossy()) == plain(&b.to_string_lossy())
}

/// The run in `dir`, with values of its ring if `rings` contains it.
fn of_dir(dir: &Path, rings: &[RingReader]) -> Run {
    // The lock is tested first: a trainer releases it after writing its final state, so a free lock means that the
    // final state is readable.
    let was_held = dir::is_held(dir);
    let file = RunFile::read(dir);
    let ring = rings
        .iter()
        .filter(|ring| same(&ring.identity().dir, dir))
        // Earlier processes of the directory may have left rings too.
        .filter(|ring| file.as_ref().is_none_or(|file| is_of(ring, file)))
        .max_by_key(|ring| ring.identity().started_unix_ns);
    let mut run = match (&file, ring) {
        (Some(file), _) => of_file(dir, file),
        (None, Some(ring)) => of_ring(dir, ring),
        (None, None) => of_nothing(dir),
    };
    if let Some(ring) = ring {
        update_from_ring(&mut run, ring);
    }
    // A lock taken just now counts as held too.
    let held = || was_held || dir::is_held(dir);
    let reported = file.as_ref().and_then(RunFile::state);
    match run.health {
        // The last state of a process that may have died. A ring shows that at once; without a ring, the lock does.
        Health::Reported(state) if !state.is_final() && run.ring.is_none() && !held() => {
            run.health = Health::Killed;
        }
        // Its ring was removed and is being replaced: the state in its file applies.
        Health::Killed
            if run.ring.is_some() && (reported.is_some_and(RunState::is_final) || dir::is_held(dir)) =>
        {
            run.health = Health::Reported(reported.unwrap_or(RunState::Running));
        }
        _ => {}
    }
    run.pid = run.health.is_alive().then_some(run.process.0).filter(|pid| *pid > 0);
    let checkpoints = || checkpoint::steps(&dir.join("checkpoints")).unwrap_or_default().pop();
    if run.checkpoint.as_ref().is_none_or(|path| !path.exists()) {
        run.checkpoint = checkpoints().map(|(_, path)| path);
    }
    let row = sinks::last_row(&dir.join("metrics.csv"));
    let in_row = row.map(|row| row.episodic_return).filter(|mean| mean.is_finite());
    run.episodic_return = run.episodic_return.or(in_row);
    if run.env_steps.is_none() {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count
        let rows_steps = row.map(|row| row.env_steps as u64);
        run.env_steps = rows_steps.or_else(|| Some(checkpoints()?.0));
        run.sps = row.map(|row| row.sps_average).filter(|sps| sps.is_finite());
    }
    run
}

/// Whether a ring belongs to the process in a run's file.
fn is_of(ring: &RingReader, file: &RunFile) -> bool {
    let identity = ring.identity();
    (identity.pid, identity.process_start, &identity.boot_id) == (file.pid, file.process_start, &file.boot_id)
}

fn of_file(dir: &Path, file: &RunFile) -> Run {
    Run {
        kind: if dir::is_sweep(dir) { Kind::Sweep } else { Kind::Run },
        run: dir::name_of(dir),
        env: file.env.clone(),
        device: file.device.clone(),
        // An unknown state of a later version is not a final one.
        health: Health::Reported(file.state().unwrap_or(RunState::Running)),
        reason: file.reason.clone(),
        pid: None,
        env_steps: file.env_steps,
        total_steps: Some(file.total_steps),
        sps: file.sps,
        seed: Some(file.seed),
        episodic_return: None,
        started: file.started.clone(),
        dir: dir.to_path_buf(),
        checkpoint: file.checkpoint.clone(),
        ring: None,
        process: (file.pid, file.process_start, file.boot_id.clone()),
    }
}

/// A run whose directory is gone or has no run.json.
fn of_ring(dir: &Path, ring: &RingReader) -> Run {
    let identity = ring.identity();
    let mut run = of_file(dir, &starting(identity, None));
    run.run.clone_from(&identity.run);
    run
}

/// A directory without run.json: its process has not written it yet, or an older version trained it.
fn of_nothing(dir: &Path) -> Run {
    let env = config(dir).as_ref().and_then(crate::config::environment_of).unwrap_or_default();
    let mut run = of_file(dir, &RunFile { env, ..RunFile::default() }.plain());
    (run.total_steps, run.seed) = (None, None);
    run.health = if dir.join("result.json").exists() {
        Health::Reported(RunState::Finished)
    } else {
        // It counts as killed unless a process holds the lock.
        Health::Reported(RunState::Starting)
    };
    run
}

/// Takes over values that the ring has more recently.
fn update_from_ring(run: &mut Run, ring: &RingReader) {
    let status = ring.status();
    run.ring = Some(ring.path().to_path_buf());
    run.health = status.health;
    if !status.reason.is_empty() {
        run.reason = status.reason;
    }
    if run.checkpoint.is_none() {
        run.checkpoint = status.checkpoint.map(|checkpoint| PathBuf::from(checkpoint.path));
    }
    let latest = ring.latest();
    let value = |name: &str| -> Option<f64> {
        let at = ring.schema().position(name)?;
        latest.as_ref()?.get(at).copied().filter(|x| x.is_finite())
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count
    let env_steps = value("env_steps").map(|steps| steps as u64);
    // The file has the exact final values; the ring has the current ones.
    run.env_steps = run.env_steps.or(env_steps);
    run.sps = run.sps.or(value("sps_average"));
    run.episodic_return = value("episodic_return");
}

/// The configuration of the run in `dir`; none if it is missing or cannot be read.
pub fn config(dir: &Path) -> Option<toml::Table> {
    let bytes = dir::read_small(&dir.join("config.toml")).ok()?;
    String::from_utf8(bytes).ok()?.parse().ok()
}

/// The files whose locks a run's trainer holds: its log and its ring.
pub(super) fn held_files(run: &Run) -> Vec<PathBuf> {
    let log = dir::log_of(&run.dir);
    std::iter::once(log).chain(run.ring.clone()).collect()
}

/// Reads a run's state again, for example after its trainer has ended.
pub(super) fn reload(run: &Run) -> Run {
    debug_assert!(run.dir.is_absolute(), "the directory of {RUN_FILE} is absolute");
    of_dir(&run.dir, &open_rings())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use operant_metrics::{Identity, RingOptions, create_in};

    use super::*;
    use crate::dir::RunDir;
    use crate::runs::{FinalCounts, StateFile};

    fn begin(run: &RunDir) -> (Identity, StateFile) {
        let identity =
            Identity { dir: absolute(run.path()), ..Identity::of_this_process(run.name(), "cartpole") };
        let (file, written) = StateFile::begin(run.path(), starting(&identity, None));
        written.expect("written");
        (identity, file)
    }

    #[test]
    fn a_run_that_ends_while_it_is_read_is_never_shown_as_killed() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let current = Arc::new(Mutex::new(None::<PathBuf>));
        let (shown, place) = (Arc::clone(&current), parent.path().to_path_buf());
        let trainer = std::thread::spawn(move || {
            for i in 0..200 {
                let run = RunDir::create(&place, Some(&format!("run{i}")), "cartpole", 1).expect("made");
                let (_, file) = begin(&run);
                *shown.lock().expect("no panic") = Some(run.path().to_path_buf());
                std::thread::yield_now();
                file.end(RunState::Finished, "", FinalCounts::default()).expect("written");
            }
        });
        while !trainer.is_finished() {
            let Some(dir) = current.lock().expect("no panic").clone() else { continue };
            let health = of_dir(&dir, &[]).health;
            assert!(health != Health::Killed, "{}", dir.display());
        }
        trainer.join().expect("no panic");
    }

    #[test]
    fn a_run_without_its_ring_has_the_state_of_its_file() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let run = RunDir::create(parent.path(), Some("mine"), "cartpole", 1).expect("made");
        let (identity, file) = begin(&run);
        let ring = create_in(parent.path(), &identity, &RingOptions::default()).expect("a ring");
        let rings = [RingReader::open(ring.writer.path()).expect("opened")];
        drop(ring);
        assert_eq!(rings[0].status().health, Health::Killed);
        let dir = absolute(run.path());
        let health = || of_dir(&dir, &rings).health;
        assert_eq!(health(), Health::Reported(RunState::Running));
        file.set(RunState::Paused, "");
        assert_eq!(health(), Health::Reported(RunState::Paused));
        file.set(RunState::Stopping, "");
        assert_eq!(health(), Health::Reported(RunState::Stopping));
        drop(run);
        assert_eq!(health(), Health::Killed);
        file.end(RunState::Preempted, "SIGTERM", FinalCounts::default()).expect("written");
        assert_eq!(health(), Health::Reported(RunState::Preempted));
    }
}
