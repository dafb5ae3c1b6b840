//! A run read from its directory, after its ring is gone. `metrics.csv` has its curves, `run.json` its state, `operant.log`
//! its events. The scene and the utilization of the cores are not stored.

mod files;
mod table;

use std::cell::RefCell;
use std::fs::TryLockError;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use operant_metrics::{
    Event, Health, Identity, MetricSummary, RingReader, RunFile, RunState, Schema, SeriesPoint, Status,
    boot_id, open_file, process_start,
};

pub use files::settings;
use files::{ago, modified};
use table::{Header, Table, Tail};

use crate::date::Date;

/// A run's directory, open for reading. The rows of `metrics.csv` are read when a curve is first requested: a
/// list of many runs needs only the newest row of each.
#[derive(Debug, Clone)]
pub struct Recorded {
    dir: PathBuf,
    file: RunFile,
    identity: Identity,
    header: Header,
    tail: Tail,
    table: RefCell<Table>,
    /// When `run.json` and `metrics.csv` were last written, as far as they have been read.
    seen: [Option<SystemTime>; 2],
    is_sweep: bool,
    /// When the trainer logged its end; none if it did not.
    ended: Option<SystemTime>,
    health: Health,
    /// How many times something new was read.
    revision: u64,
}

/// Whether there is a run in this directory. A saved policy has a configuration, too.
pub fn is_run(dir: &Path) -> bool {
    let has = |name: &str| dir.join(name).is_file();
    has("run.json") || has("metrics.csv") || has("config.toml") && !has("meta.json")
}

/// Whether a directory is that of a sweep, which has a run.json too.
pub fn is_sweep(dir: &Path) -> bool {
    dir.join("sweep.db").is_file()
}

impl Recorded {
    /// Opens the run in `dir`; none where there is no run. Files that cannot be read are skipped.
    pub fn open(dir: &Path) -> Option<Self> {
        if !is_run(dir) {
            return None;
        }
        let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
        let header = Header::read(&dir.join("metrics.csv")).unwrap_or_else(|_| Header::empty());
        let mut run = Recorded {
            identity: Identity::default(),
            file: RunFile::default(),
            tail: Tail::default(),
            table: RefCell::default(),
            seen: [None; 2],
            ended: None,
            health: Health::Killed,
            revision: 0,
            is_sweep: is_sweep(&dir),
            header,
            dir,
        };
        run.refresh();
        Some(run)
    }

    /// Reads what is new.
    pub fn refresh(&mut self) {
        let (file, rows) = (self.dir.join("run.json"), self.dir.join("metrics.csv"));
        let seen = [modified(&file), modified(&rows)];
        if seen[0] != self.seen[0] || self.revision == 0 {
            self.file = RunFile::read(&self.dir).unwrap_or_default();
            self.identity = self.identify();
        }
        if seen[1] != self.seen[1] || self.revision == 0 {
            if let Ok(header) = Header::read(&rows)
                && header.schema != self.header.schema
            {
                (self.header, *self.table.borrow_mut()) = (header, Table::default());
            }
            self.tail = Tail::read(&rows, &self.header).unwrap_or_default();
        }
        let is_new = seen != self.seen || self.revision == 0;
        if is_new {
            (self.seen, self.revision) = (seen, self.revision + 1);
        }
        // A trainer that was killed changes no file.
        self.health = self.health();
        if is_new {
            self.ended = self.logged_end();
        }
    }

    /// The time of the last event of a run that reported its end. A copy of its directory keeps it, unlike the times of its files.
    fn logged_end(&self) -> Option<SystemTime> {
        self.file.state().filter(|state| state.is_final())?;
        files::events(&self.dir).last().map(|event| UNIX_EPOCH + Duration::from_nanos(event.unix_ns))
    }

    fn identify(&self) -> Identity {
        let setting = |wanted: &str| {
            let own = settings(&self.dir).into_iter().find(|(name, _)| name == wanted);
            own.map(|(_, value)| value)
        };
        let env = match self.file.env.as_str() {
            "" => setting("environment").unwrap_or_default(),
            env => env.to_owned(),
        };
        let file = &self.file;
        Identity {
            run: name_of(&self.dir),
            env,
            algorithm: setting("algorithm").unwrap_or_default(),
            device: file.device.clone(),
            seed: file.seed,
            dir: self.dir.clone(),
            pid: file.pid,
            process_start: file.process_start,
            boot_id: file.boot_id.clone(),
            started_unix_ns: Date::unix_ns_of(&file.started).unwrap_or(0),
            total_steps: file.total_steps,
            solved_at: setting("solved_at")
                .and_then(|text| text.parse().ok())
                .filter(|x: &f64| x.is_finite()),
            ..Identity::default()
        }
    }

    /// The last state that the trainer reported; if that is not final, also whether the trainer is still running.
    fn health(&self) -> Health {
        match self.file.state() {
            Some(state) if state.is_final() => Health::Reported(state),
            // A directory of a version without run.json: result.json is the last file that it wrote.
            None if self.dir.join("result.json").is_file() => Health::Reported(RunState::Finished),
            said if self.is_held() => Health::Reported(said.unwrap_or(RunState::Starting)),
            _ => Health::Killed,
        }
    }

    /// Whether the trainer is running. The process is checked before the lock, because testing the lock holds it for a moment.
    fn is_held(&self) -> bool {
        let RunFile { pid, process_start: start, boot_id: boot, .. } = &self.file;
        if *pid > 0 && *start > 0 && process_start(*pid) == Some(*start) && *boot == boot_id() {
            return true;
        }
        let Ok(log) = open_file(&self.dir.join("operant.log")) else { return false };
        matches!(log.try_lock_shared(), Err(TryLockError::WouldBlock))
    }

    /// The ring that `run.json` names, if it still exists and has the same process and directory (this directory may be a copy).
    pub fn ring(&self) -> Option<RingReader> {
        let ring = RingReader::open(self.file.ring.as_deref()?).ok()?;
        self.is_of(ring.identity()).then_some(ring)
    }

    /// Whether `other` is the process that `run.json` names, training in this directory; or the file names none.
    pub fn is_of(&self, other: &Identity) -> bool {
        let own = &self.identity;
        if other.dir != own.dir {
            return false;
        }
        let same =
            (own.pid, own.process_start, &own.boot_id) == (other.pid, other.process_start, &other.boot_id);
        same || own.pid == 0
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Whether it is the directory of a sweep.
    pub fn is_sweep(&self) -> bool {
        self.is_sweep
    }

    /// Who runs what, as far as the directory says.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A metric per column of `metrics.csv`.
    pub fn schema(&self) -> &Schema {
        &self.header.schema
    }

    /// The newest row.
    pub fn latest(&self) -> Vec<f64> {
        let mut latest = self.tail.latest.clone();
        latest.resize(self.schema().len(), f64::NAN);
        latest
    }

    /// The last value of a column that any of the newest rows reported.
    pub fn reported(&self, y: usize) -> f64 {
        self.tail.reported.get(y).copied().unwrap_or(f64::NAN)
    }

    /// The update of the newest row.
    pub fn last_update(&self) -> u64 {
        self.tail.update
    }

    /// Grows with everything that is read.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The end of the log.
    pub fn events(&self) -> Vec<Event> {
        files::events(&self.dir)
    }

    /// Its health; times are the modification times of its files.
    pub fn status(&self) -> Status {
        let [file, rows] = self.seen;
        let written = self.ended.or(file.max(rows));
        let since = written.map_or(Duration::ZERO, ago);
        let started = UNIX_EPOCH + Duration::from_nanos(self.identity.started_unix_ns);
        let end = if self.health.is_alive() { Some(SystemTime::now()) } else { written };
        let lived = end.and_then(|end| end.duration_since(started).ok());
        Status {
            health: self.health,
            reason: self.file.reason.clone(),
            since_update: self.ended.or(rows).filter(|_| self.tail.update > 0).map(ago),
            since_progress: since,
            since_alive: since,
            uptime: lived.filter(|_| self.identity.started_unix_ns > 0).unwrap_or_default(),
            checkpoint: files::checkpoint(&self.dir),
        }
    }

    /// Column `y` against column `x`; see [`RingReader::series`].
    pub fn series(
        &self,
        x: usize,
        y: usize,
        updates: RangeInclusive<u64>,
        points: usize,
    ) -> Vec<SeriesPoint> {
        self.with_table(|table| table.series(x, y, updates, points))
    }

    /// Column `y` over the whole run.
    pub fn summary(&self, y: usize) -> MetricSummary {
        self.with_table(|table| table.summary(y))
    }

    /// Rows skipped because they were incomplete or damaged.
    pub fn skipped(&self) -> u64 {
        self.with_table(|table| table.skipped)
    }

    /// The rows, read as far as the newest row that is known.
    fn with_table<T>(&self, look: impl FnOnce(&Table) -> T) -> T {
        let mut table = self.table.borrow_mut();
        if table.last_update() < self.tail.update {
            // If the file has just been replaced, the next call reads it.
            let _ = table.follow(&self.dir.join("metrics.csv"), &self.header);
        }
        look(&table)
    }
}

/// The last part of a path, safe to print on a terminal.
fn name_of(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or(dir.as_os_str());
    operant_metrics::plain(&name.to_string_lossy())
}
