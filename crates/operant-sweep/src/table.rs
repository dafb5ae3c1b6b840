//! The table of a sweep: an SQLite database with its specification, trials, decisions, results and curves. Every change is a
//! transaction that is on the disk before the sweep acts on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use operant_run::{Error, ErrorKind, Result, RunResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, params};

use crate::search::{Trial, TrialResult};
use crate::spec::{Objective, Spec};

/// Name of the file in a sweep's directory.
pub const FILE: &str = operant_run::dir::SWEEP_FILE;

/// Facts: when the sweep began, UTC; the command that began it; and the flags that continue it where it trains elsewhere.
pub const CREATED: &str = "created";
pub const COMMAND: &str = "command";
pub const RESUME: &str = "resume";

/// Version of the tables.
const FORMAT: &str = "1";

const TABLES: &str = "
CREATE TABLE sweep (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE environments (number INTEGER PRIMARY KEY, env TEXT NOT NULL, name TEXT NOT NULL, config TEXT NOT NULL);
CREATE TABLE trials (
    trial INTEGER PRIMARY KEY, env TEXT NOT NULL, settings TEXT NOT NULL, config TEXT NOT NULL,
    parent INTEGER REFERENCES trials, reason TEXT NOT NULL);
CREATE TABLE decisions (
    decision INTEGER PRIMARY KEY, trial INTEGER NOT NULL REFERENCES trials, until INTEGER NOT NULL, UNIQUE (trial, until));
CREATE TABLE results (
    trial INTEGER NOT NULL REFERENCES trials, seed INTEGER NOT NULL, until INTEGER NOT NULL,
    env_steps INTEGER, updates INTEGER, eval_return_mean REAL, eval_return_std REAL, eval_episodes INTEGER,
    solved_at_step INTEGER, solved_at_s REAL, wall_s REAL, train_s REAL, sps REAL, error TEXT,
    PRIMARY KEY (trial, seed, until)) WITHOUT ROWID;
CREATE TABLE curves (
    trial INTEGER NOT NULL, seed INTEGER NOT NULL, env_steps INTEGER NOT NULL, train_s REAL NOT NULL,
    episodic_return REAL NOT NULL, PRIMARY KEY (trial, seed, env_steps)) WITHOUT ROWID;
";

/// A table that earlier versions do not have.
const MEASURES: &str = "
CREATE TABLE IF NOT EXISTS measures (
    trial INTEGER NOT NULL, seed INTEGER NOT NULL, until INTEGER NOT NULL, name TEXT NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (trial, seed, until, name)) WITHOUT ROWID;
";

/// The table of a sweep.
#[derive(Debug)]
pub struct Table {
    connection: Connection,
    path: PathBuf,
}

/// An environment of a sweep, and its runs' configuration without what varies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The environment, as in the specification.
    pub env: String,
    /// The name that it gives itself.
    pub name: String,
    /// The configuration as TOML.
    pub config: String,
}

/// A trial in the table.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRow {
    pub trial: Trial,
    /// The effective configuration of its runs, as TOML; the seed does not matter.
    pub config: String,
    /// Why it was begun.
    pub reason: String,
}

/// The result of a run of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    pub trial: usize,
    pub seed: u64,
    /// Steps, as decided.
    pub until: u64,
    /// The result, or the error of a run that failed.
    pub result: std::result::Result<RunResult, String>,
}

/// A point of a run's curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Environment steps.
    pub env_steps: u64,
    /// Seconds of training.
    pub train_s: f64,
    /// Mean return of the episodes that ended since the point before.
    pub episodic_return: f64,
}

impl Table {
    fn failed(&self, what: &str) -> impl Fn(rusqlite::Error) -> Error {
        failed(what, &self.path)
    }

    /// Makes the table of a new sweep.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(dir: &Path, spec: &Spec, bases: &[Base]) -> Result<Self> {
        // The table appears whole: a directory without one is not a sweep.
        let (path, new) = (dir.join(FILE), dir.join(format!("{FILE}.new")));
        let problem = failed("the table of the sweep cannot be made", &path);
        let mut connection = Connection::open(&new).map_err(&problem)?;
        let write = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            transaction.execute_batch(TABLES)?;
            transaction.execute_batch(MEASURES)?;
            let text = serde_json::to_string(spec).expect("a specification is JSON");
            let (version, machine) = (env!("CARGO_PKG_VERSION"), crate::report::this_machine());
            let now = operant_run::dir::utc(std::time::SystemTime::now());
            for (key, value) in [
                ("format", FORMAT),
                ("spec", &text),
                ("version", version),
                ("machine", &machine),
                ("wall_s", "0"),
                (CREATED, &now),
            ] {
                transaction.execute("INSERT INTO sweep VALUES (?, ?)", params![key, value])?;
            }
            for (number, Base { env, name, config }) in bases.iter().enumerate() {
                transaction.execute(
                    "INSERT INTO environments VALUES (?, ?, ?, ?)",
                    params![number, env, name, config],
                )?;
            }
            transaction.commit()
        };
        write(&mut connection).map_err(&problem)?;
        connection.close().map_err(|(_, error)| problem(error))?;
        let rename = || std::fs::rename(&new, &path).and_then(|()| std::fs::File::open(dir)?.sync_all());
        rename().map_err(|error| Error::disk("the table of the sweep cannot be made", &path, &error))?;
        Self::open(dir, true).map(|(table, _)| table)
    }

    /// Opens the table of a sweep, to continue it or to read it.
    ///
    /// # Errors
    /// When it cannot be read, or another version of operant wrote it.
    pub fn open(dir: &Path, write: bool) -> Result<(Self, Spec)> {
        let path = dir.join(FILE);
        let flags = if write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
        let problem = failed("the table of the sweep cannot be read", &path);
        let connection = Connection::open_with_flags(&path, flags).map_err(&problem)?;
        guard(&connection).map_err(&problem)?;
        if let Some(what) = strange_table(&connection).map_err(&problem)? {
            return Err(damaged(&what, &path));
        }
        let connection = if write { prepared(connection).map_err(&problem)? } else { connection };
        if write {
            connection.execute_batch(MEASURES).map_err(&problem)?;
        }
        let get = |key: &str| {
            connection
                .query_row("SELECT value FROM sweep WHERE key = ?", [key], |row| row.get::<_, String>(0))
                .optional()
        };
        let format = get("format").map_err(&problem)?;
        if format.as_deref() != Some(FORMAT) {
            let what =
                format!("the table of the sweep has format {}", format.unwrap_or_else(|| "none".to_owned()));
            return Err(Error::usage(what)
                .at(path.display().to_string())
                .remedy("use the version of operant that began the sweep"));
        }
        let text = get("spec").map_err(&problem)?.unwrap_or_default();
        let unreadable = |problem: String| damaged(&format!("its specification: {problem}"), &path);
        let spec: Spec = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        spec.check_stored().map_err(unreadable)?;
        Ok((Self { connection, path }, spec))
    }

    /// Adds a trial and the decision to train it.
    pub fn begin(&mut self, spec: &Spec, row: &TrialRow) -> Result<()> {
        let TrialRow { trial, config, reason } = row;
        let env = &spec.environments[trial.env];
        let values = spec.axes.iter().map(|axis| &axis.key).zip(&trial.point);
        let settings = serde_json::to_string(&values.collect::<BTreeMap<_, _>>()).expect("values are JSON");
        let write = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            transaction.execute(
                "INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?)",
                params![trial.id, env, settings, config, trial.parent, reason],
            )?;
            transaction.execute(
                "INSERT INTO decisions (trial, until) VALUES (?, ?)",
                params![trial.id, trial.until],
            )?;
            transaction.commit()
        };
        write(&mut self.connection).map_err(self.failed("a trial cannot be written"))
    }

    /// Adds the decision to continue a trial.
    pub fn proceed(&mut self, trial: usize, until: u64) -> Result<()> {
        let written = self
            .connection
            .execute("INSERT INTO decisions (trial, until) VALUES (?, ?)", params![trial, until]);
        written.map(drop).map_err(self.failed("a decision cannot be written"))
    }

    /// Adds the result of a run and its whole curve; `wall_s` is the time of the whole sweep.
    pub fn finish(&mut self, row: &RunRow, curve: &[CurvePoint], wall_s: f64) -> Result<()> {
        let write = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            let (trial, seed, until) = (row.trial, row.seed, row.until);
            match &row.result {
                Ok(result) => transaction.execute(
                    "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                    params![
                        trial,
                        seed,
                        until,
                        result.env_steps,
                        result.updates,
                        result.eval_return_mean,
                        result.eval_return_std,
                        result.eval_episodes,
                        result.solved_at_step,
                        result.solved_at_s,
                        result.wall_s,
                        result.train_s,
                        result.sps
                    ],
                )?,
                Err(error) => transaction.execute(
                    "INSERT INTO results (trial, seed, until, error) VALUES (?, ?, ?, ?)",
                    params![trial, seed, until, error],
                )?,
            };
            for (name, value) in row.result.iter().flat_map(|result| &result.eval_metrics) {
                let query = "INSERT OR REPLACE INTO measures VALUES (?, ?, ?, ?, ?)";
                transaction.execute(query, params![trial, seed, until, name, value])?;
            }
            transaction.execute("UPDATE sweep SET value = ? WHERE key = 'wall_s'", [wall_s.to_string()])?;
            if !curve.is_empty() {
                transaction
                    .execute("DELETE FROM curves WHERE trial = ? AND seed = ?", params![trial, seed])?;
            }
            let mut insert = transaction.prepare_cached("INSERT INTO curves VALUES (?, ?, ?, ?, ?)")?;
            for point in curve {
                let CurvePoint { env_steps, train_s, episodic_return } = point;
                insert.execute(params![trial, seed, env_steps, train_s, episodic_return])?;
            }
            drop(insert);
            transaction.commit()
        };
        write(&mut self.connection).map_err(self.failed("a result cannot be written"))
    }

    /// The environments, in the order of the specification.
    pub fn bases(&self, spec: &Spec) -> Result<Vec<Base>> {
        let query = "SELECT env, name, config FROM environments ORDER BY number";
        let bases = self.rows("environments", query, [], |row| {
            Ok(Base { env: row.get(0)?, name: row.get(1)?, config: row.get(2)? })
        })?;
        if !bases.iter().map(|base| &base.env).eq(&spec.environments) {
            return Err(self.damaged("its environments are not those of its specification"));
        }
        Ok(bases)
    }

    /// The error for a table whose content is inconsistent.
    pub(crate) fn damaged(&self, what: &str) -> Error {
        damaged(what, &self.path)
    }

    /// Seconds that the sweep has taken.
    pub fn wall_s(&self) -> Result<f64> {
        Ok(self.fact("wall_s")?.parse().unwrap_or(0.0))
    }

    /// Sets the seconds that the sweep has taken.
    pub fn set_wall_s(&mut self, wall_s: f64) -> Result<()> {
        self.set_fact("wall_s", &wall_s.to_string())
    }

    /// Notes which process carries the sweep out.
    pub fn begin_process(&mut self) -> Result<()> {
        self.set_fact("pid", &std::process::id().to_string())
    }

    /// Sets a fact about the sweep.
    pub fn set_fact(&mut self, key: &str, value: &str) -> Result<()> {
        let written = self.connection.execute("INSERT OR REPLACE INTO sweep VALUES (?, ?)", [key, value]);
        written.map(drop).map_err(self.failed("the sweep cannot be written"))
    }

    /// A fact about the sweep: `machine`, `version`, `pid`, [`CREATED`], [`COMMAND`], [`RESUME`]; empty if it is unknown.
    pub fn fact(&self, key: &str) -> Result<String> {
        let query = "SELECT value FROM sweep WHERE key = ?";
        let read = self.connection.query_row(query, [key], |row| row.get(0)).optional();
        Ok(read.map_err(self.failed("the sweep cannot be read"))?.unwrap_or_default())
    }

    /// All decisions, in their order: trial and steps.
    pub fn decisions(&self) -> Result<Vec<(usize, u64)>> {
        let query = "SELECT trial, until FROM decisions ORDER BY decision";
        self.rows("decisions", query, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// All results, by trial, seed and steps.
    pub fn results(&self) -> Result<Vec<RunRow>> {
        let mut measured: BTreeMap<(usize, u64, u64), BTreeMap<String, f64>> = BTreeMap::new();
        // Tables of earlier versions do not have it.
        let has = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'measures'";
        if self.rows("results", has, [], |row| row.get::<_, u64>(0))? != [0] {
            let query = "SELECT trial, seed, until, name, value FROM measures";
            let all = self.rows("results", query, [], |row| {
                Ok(((row.get(0)?, row.get(1)?, row.get(2)?), (row.get(3)?, row.get(4)?)))
            })?;
            for (run, (name, value)) in all {
                measured.entry(run).or_default().insert(name, value);
            }
        }
        self.rows("results", "SELECT * FROM results ORDER BY trial, seed, until", [], |row| {
            let (trial, until) = (row.get("trial")?, row.get("until")?);
            let error: Option<String> = row.get("error")?;
            let seed = row.get::<_, u64>("seed")?;
            let result = match error {
                Some(error) => Err(error),
                None => Ok(RunResult {
                    seed,
                    env_steps: row.get("env_steps")?,
                    updates: row.get("updates")?,
                    eval_return_mean: row.get("eval_return_mean")?,
                    eval_return_std: row.get("eval_return_std")?,
                    eval_episodes: row.get("eval_episodes")?,
                    solved_at_step: row.get("solved_at_step")?,
                    solved_at_s: row.get("solved_at_s")?,
                    wall_s: row.get("wall_s")?,
                    train_s: row.get("train_s")?,
                    sps: row.get("sps")?,
                    eval_metrics: measured.remove(&(trial, seed, until)).unwrap_or_default(),
                    ..RunResult::default()
                }),
            };
            Ok(RunRow { trial, seed, until, result })
        })
    }

    /// All trials with their results, by number.
    pub fn trials(&self, spec: &Spec) -> Result<Vec<TrialRow>> {
        let query = "SELECT *, (SELECT MAX(until) FROM decisions WHERE decisions.trial = trials.trial) AS until \
                     FROM trials ORDER BY trial";
        let mut trials = self.rows("trials", query, [], |row| {
            let (env, settings): (String, String) = (row.get("env")?, row.get("settings")?);
            let environments = &spec.environments;
            let env = environments.iter().position(|name| *name == env).unwrap_or(environments.len());
            let mut values: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&settings).unwrap_or_default();
            let value = |key: &str| serde_json::from_value(values.remove(key)?).ok();
            let point = spec.axes.iter().map(|axis| axis.key.as_str()).filter_map(value).collect();
            let trial = Trial {
                id: row.get("trial")?,
                env,
                point,
                parent: row.get("parent")?,
                until: row.get("until")?,
                results: Vec::new(),
            };
            Ok(TrialRow { trial, config: row.get("config")?, reason: row.get("reason")? })
        })?;
        // Searches find trials by their numbers.
        let is_sound = |(number, TrialRow { trial, .. }): (usize, &TrialRow)| {
            trial.id == number
                && trial.env < spec.environments.len()
                && trial.point.len() == spec.axes.len()
                && trial.parent.is_none_or(|parent| parent < number)
        };
        if let Some(wrong) = trials.iter().enumerate().position(|row| !is_sound(row)) {
            return Err(self.damaged(&format!("trial {wrong} is missing, or does not fit the specification")));
        }
        let results = self.results()?;
        let mut of_trial: BTreeMap<usize, Vec<&RunRow>> = BTreeMap::new();
        for row in &results {
            of_trial.entry(row.trial).or_default().push(row);
        }
        for TrialRow { trial, .. } in &mut trials {
            let own = of_trial.remove(&trial.id).unwrap_or_default();
            let mut untils: Vec<u64> = own.iter().map(|row| row.until).collect();
            untils.sort_unstable();
            untils.dedup();
            let rows = |until: u64| own.iter().copied().filter(move |row| row.until == until);
            let results = untils.into_iter().filter_map(|until| mean(spec, until, rows(until)));
            trial.results = results.collect();
        }
        Ok(trials)
    }

    /// The curve of a run.
    pub fn curve(&self, trial: usize, seed: u64) -> Result<Vec<CurvePoint>> {
        let query = "SELECT env_steps, train_s, episodic_return FROM curves WHERE trial = ? AND seed = ? ORDER BY env_steps";
        self.rows("a curve", query, params![trial, seed], |row| {
            Ok(CurvePoint { env_steps: row.get(0)?, train_s: row.get(1)?, episodic_return: row.get(2)? })
        })
    }

    /// The rows of a query; `what` names them in an error.
    fn rows<T>(
        &self,
        what: &str,
        query: &str,
        params: impl rusqlite::Params,
        row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let read = || -> rusqlite::Result<Vec<T>> {
            self.connection.prepare_cached(query)?.query_map(params, row)?.collect()
        };
        read().map_err(self.failed(&format!("{what} cannot be read")))
    }
}

/// The means of a trial's runs after `until` steps; None until all seeds have one.
pub fn mean<'a>(spec: &Spec, until: u64, rows: impl Iterator<Item = &'a RunRow>) -> Option<TrialResult> {
    let rows: Vec<&RunRow> = rows.collect();
    if rows.len() < spec.seeds.len() {
        return None;
    }
    let count = rows.len() as f64;
    let objective = rows.iter().map(|row| objective(&spec.search.objective, row)).sum::<f64>() / count;
    let seconds = rows.iter().filter_map(|row| Some(row.result.as_ref().ok()?.train_s)).sum::<f64>() / count;
    Some(TrialResult { until, objective, seconds })
}

/// What a search maximises. An environment that was not solved counts as solved after twice the steps or the time.
pub(crate) fn objective(objective: &Objective, row: &RunRow) -> f64 {
    let Ok(result) = &row.result else { return f64::NEG_INFINITY };
    match objective {
        Objective::EvalReturn => {
            result.eval_return_mean.filter(|mean| mean.is_finite()).unwrap_or(f64::NEG_INFINITY)
        }
        Objective::SolvedAtStep => {
            -(result.solved_at_step.map_or(2.0 * result.env_steps as f64, |step| step as f64))
        }
        Objective::SolvedAtS => -result.solved_at_s.unwrap_or(2.0 * result.wall_s),
        Objective::Metric { name, minimize } => match result.eval_metrics.get(name) {
            Some(mean) => {
                if *minimize {
                    -mean
                } else {
                    *mean
                }
            }
            None => f64::NEG_INFINITY,
        },
    }
}

/// A table may be a stranger's: its schema runs no functions with side effects, and changes to it go through SQL alone.
fn guard(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(())
}

/// What the database has that operant does not make: views or virtual tables in place of tables, and triggers.
fn strange_table(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let mut query = connection.prepare("SELECT name, type FROM pragma_table_list WHERE schema = 'main'")?;
    for row in query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
        let (name, kind) = row?;
        kinds.insert(name, kind);
    }
    let own = TABLES.split("CREATE TABLE ").skip(1).filter_map(|table| table.split([' ', '(']).next());
    for name in own.chain(["measures"]) {
        if let Some(kind) = kinds.get(name).filter(|kind| *kind != "table") {
            return Ok(Some(format!("{name} is a {kind}, not a table")));
        }
    }
    let query = "SELECT name FROM sqlite_schema WHERE type = 'trigger' LIMIT 1";
    let trigger: Option<String> = connection.query_row(query, [], |row| row.get(0)).optional()?;
    Ok(trigger.map(|name| format!("it has a trigger, {name}")))
}

fn damaged(what: &str, path: &Path) -> Error {
    Error::usage(format!("the table of the sweep is damaged: {what}"))
        .at(path.display().to_string())
        .remedy("restore sweep.db from a backup, or start a new sweep")
}

/// A connection whose transactions survive a crash of the machine.
fn prepared(connection: Connection) -> rusqlite::Result<Connection> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

fn failed(what: &str, path: &Path) -> impl Fn(rusqlite::Error) -> Error + use<> {
    let resume = path.parent().map(|dir| operant_run::path_text::quoted(&dir.to_string_lossy()));
    let resume = format!("`operant sweep --resume {}`", resume.unwrap_or_default());
    let (what, path) = (what.to_owned(), path.display().to_string());
    let reads = what.ends_with("read");
    move |error| {
        let remedy = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                format!("close the other program that uses the table; {resume} continues the sweep")
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                "make sweep.db and its directory readable and writable".to_owned()
            }
            _ if reads => "restore sweep.db from a backup, or start a new sweep".to_owned(),
            _ => format!("free space on the disk, then {resume} continues"),
        };
        Error::new(ErrorKind::Disk, format!("{what}: {error}")).at(path.clone()).remedy(remedy)
    }
}
