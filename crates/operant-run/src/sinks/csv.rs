//! `metrics.csv`: one row per update, with the metrics' names as header and an empty cell for a missing value.
//!
//! The file is bounded. It holds at most [`MAX_ROWS`] rows: while a run has more updates than that, only every second
//! one is kept, then every fourth, and so on; the kept updates are the multiples of that stride. Since the stride
//! follows from the update's number alone, a resumed run arrives at the same rows. A line is a row only when it has all
//! its cells and its newline, so an incomplete last line is detected and dropped on resume.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use operant_metrics::{MAX_ENV_METRICS, Record, RunMetrics, open_file, position};

use super::appender::Appender;
use super::{Sink, SinkError, stride::stride};
use crate::dir::new_file;

/// Rows after which every second one is dropped.
pub const MAX_ROWS: u64 = 100_000;

/// Appends records to `metrics.csv`.
pub struct CsvSink {
    file: Appender,
    metrics: RunMetrics,
    max_rows: u64,
    /// Only updates that are multiples of this are in the file.
    stride: u64,
    line: String,
}

impl CsvSink {
    /// Starts a new file with its header, replacing any file there.
    ///
    /// # Errors
    /// [`SinkError`] when the file cannot be created or written.
    pub fn create(path: impl Into<PathBuf>, metrics: RunMetrics) -> Result<Self, SinkError> {
        let path = path.into();
        let mut sink = Self::new(Appender::create(&path).map_err(SinkError::at("create", &path))?, metrics);
        sink.file.push(header(metrics).as_bytes()).map_err(SinkError::at("write", &path))?;
        sink.flush()?;
        Ok(sink)
    }

    /// Continues a file from a checkpoint: rows past the checkpoint's `env_steps` and incomplete rows are removed. A
    /// missing file is created. A file without some of the table's metrics, as from an earlier version, gets empty
    /// cells for them, and loses columns of the environment's own metrics that `metrics` does not have; another file is renamed to `metrics.1.csv` or the next free number, and a new one is
    /// started.
    ///
    /// # Errors
    /// [`SinkError`] when the file cannot be read, rewritten or renamed; the file is then as it was.
    pub fn resume(path: impl Into<PathBuf>, metrics: RunMetrics, env_steps: u64) -> Result<Self, SinkError> {
        let path = path.into();
        if Columns::of(&path).map_err(SinkError::at("read", &path))?.is_none() {
            set_aside(&path).map_err(SinkError::at("rename", &path))?;
            return Self::create(path, metrics);
        }
        rewrite(&path, metrics, |row| row.env_steps <= env_steps as f64)
            .map_err(SinkError::at("rewrite", &path))?;
        Ok(Self::new(Appender::resume(&path).map_err(SinkError::at("open", &path))?, metrics))
    }

    fn new(file: Appender, metrics: RunMetrics) -> Self {
        Self { file, metrics, max_rows: MAX_ROWS, stride: 1, line: String::new() }
    }

    /// Drops the rows that a larger stride no longer keeps.
    fn thin(&mut self, stride: u64) -> io::Result<()> {
        self.file.flush()?;
        rewrite(self.file.path(), self.metrics, |row| row.update % stride as f64 == 0.0)?;
        self.file = Appender::resume(self.file.path())?;
        self.stride = stride;
        Ok(())
    }
}

impl Sink for CsvSink {
    fn file(&self) -> &Appender {
        &self.file
    }

    fn file_mut(&mut self) -> &mut Appender {
        &mut self.file
    }

    fn record(&mut self, record: &Record) -> Result<(), SinkError> {
        let update = record.update as u64;
        let stride = stride(update, self.max_rows);
        if stride > self.stride {
            let path = self.path().to_owned();
            self.thin(stride).map_err(SinkError::at("thin", &path))?;
        }
        if !update.is_multiple_of(self.stride) {
            return Ok(());
        }
        push_row(&mut self.line, self.metrics, record);
        let written = self.file.push(self.line.as_bytes());
        written.map_err(SinkError::at("write", self.file.path()))
    }
}

/// Parses a line, including its newline, with these columns; `None` if it is incomplete or invalid.
fn parse(line: &[u8], columns: &Columns) -> Option<Record> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (mut values, mut env) = (Record::default().values(), [f64::NAN; MAX_ENV_METRICS]);
    let mut cells = line.split(',');
    for column in &columns.places {
        let cell = cells.next()?;
        let value = if cell.is_empty() { f64::NAN } else { cell.parse().ok()? };
        match *column {
            Column::Table(at) => values[at] = value,
            Column::Env(at) => env[at] = value,
            Column::Dropped => {}
        }
    }
    let record = Record { env, ..Record::from_values(values) };
    let whole = cells.next().is_none() && !record.update.is_nan() && !record.env_steps.is_nan();
    whole.then_some(record)
}

/// Calls `take` with each row up to `env_steps`, oldest first; incomplete rows are skipped, and so are files that are none of a run's
/// metrics. The metrics of an environment are in the order of [`env_columns`].
///
/// # Errors
/// When the file cannot be read.
pub fn each_row(path: &Path, env_steps: u64, take: impl FnMut(&Record)) -> io::Result<()> {
    rows(path, Columns::of(path)?, env_steps, take)
}

/// As [`each_row`], with the metrics of the environment in the order of a run's.
///
/// # Errors
/// When the file cannot be read.
pub fn each_row_of(
    path: &Path,
    metrics: RunMetrics,
    env_steps: u64,
    take: impl FnMut(&Record),
) -> io::Result<()> {
    rows(path, Columns::of(path)?.map(|columns| columns.for_run(metrics)), env_steps, take)
}

fn rows(
    path: &Path,
    columns: Option<Columns>,
    env_steps: u64,
    mut take: impl FnMut(&Record),
) -> io::Result<()> {
    let Some(columns) = columns else { return Ok(()) };
    let mut file = BufReader::new(open_file(path)?);
    let mut line = Vec::new();
    while next_line(&mut file, &mut line)? {
        if let Some(row) = parse(&line, &columns).filter(|row| row.env_steps <= env_steps as f64) {
            take(&row);
        }
    }
    Ok(())
}

/// Reads the next line, or a part of one that is longer than any row; false at the end.
fn next_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    Ok(file.by_ref().take(MAX_HEADER).read_until(b'\n', line)? > 0)
}

/// The names of the environment's own metrics in a file.
///
/// # Errors
/// When the file cannot be read.
pub fn env_columns(path: &Path) -> io::Result<Vec<String>> {
    Ok(Columns::of(path)?.map_or(Vec::new(), |columns| columns.env))
}

/// The last complete row; none if there is none, or the file is not one of a run's metrics.
pub fn last_row(path: &Path) -> Option<Record> {
    /// Enough for several rows of any length.
    const TAIL: u64 = 16 << 10;
    let columns = Columns::of(path).ok()??;
    let mut file = open_file(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail).ok()?;
    tail.split_inclusive(|byte| *byte == b'\n').rev().find_map(|line| parse(line, &columns))
}

/// The first line, newline included.
fn header(metrics: RunMetrics) -> String {
    let names: Vec<_> = metrics.iter().map(|metric| metric.name).collect();
    names.join(",") + "\n"
}

fn push_row(line: &mut String, metrics: RunMetrics, record: &Record) {
    line.clear();
    for (i, value) in metrics.values(record).enumerate() {
        if i > 0 {
            line.push(',');
        }
        push_cell(line, value);
    }
    line.push('\n');
}

/// Writes a value so that reading it gives the same bits: nothing for NaN, whole numbers without a point.
fn push_cell(line: &mut String, value: f64) {
    // Writing to a String cannot fail.
    let _ = if value.is_nan() {
        Ok(())
    } else if value.fract() == 0.0 && value.abs() < 9e15 {
        write!(line, "{}", value as i64)
    } else {
        write!(line, "{value:?}")
    };
}

/// Longest header that is read.
const MAX_HEADER: u64 = 64 << 10;

/// The metric of a column.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    /// Of the table, by its index.
    Table(usize),
    /// Of the environment, by its index in [`Record::env`].
    Env(usize),
    /// None that is read.
    Dropped,
}

/// What a file's columns are.
#[derive(Default)]
struct Columns {
    places: Vec<Column>,
    /// The names of the environment's own metrics.
    env: Vec<String>,
}

impl Columns {
    /// Of a file; none if it is missing, or not one of a run's metrics: it has `update` and `env_steps`, and
    /// at most [`MAX_ENV_METRICS`] names that are not in the table and could be an environment's.
    fn of(path: &Path) -> io::Result<Option<Self>> {
        let mut first = Vec::new();
        match open_file(path) {
            Ok(file) => BufReader::new(file.take(MAX_HEADER)).read_until(b'\n', &mut first)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let first = String::from_utf8_lossy(&first);
        let names = first.strip_suffix('\n').into_iter().flat_map(|names| names.split(','));
        let mut columns = Columns::default();
        for name in names {
            let place = position(name);
            columns.places.push(place.map_or(Column::Env(columns.env.len()), Column::Table));
            if place.is_none() {
                if operant_metrics::unusable(name).is_some() || columns.env.len() == MAX_ENV_METRICS {
                    return Ok(None);
                }
                columns.env.push(name.to_owned());
            }
        }
        let has = |name| position(name).is_some_and(|place| columns.places.contains(&Column::Table(place)));
        Ok((has("update") && has("env_steps")).then_some(columns))
    }

    /// The environment's own by their names, in the order of `metrics`.
    fn for_run(self, metrics: RunMetrics) -> Self {
        let of_run = |name: &String| metrics.env().iter().position(|metric| metric.name == name);
        let place = |column: &Column| match *column {
            Column::Env(at) => of_run(&self.env[at]).map_or(Column::Dropped, Column::Env),
            column => column,
        };
        Columns { places: self.places.iter().map(place).collect(), env: self.env }
    }
}

/// Renames a file with unknown columns, unless it is empty, to the first free `<stem>.<n>.csv`.
fn set_aside(path: &Path) -> io::Result<()> {
    if !fs::metadata(path).is_ok_and(|meta| meta.len() > 0) {
        return Ok(());
    }
    let free = (1u32..).map(|n| path.with_extension(format!("{n}.csv"))).find(|name| !name.exists());
    free.map_or(Ok(()), |name| fs::rename(path, name))
}

/// Keeps the rows that `keep` accepts, under the header of `metrics`, by writing a new file and renaming it over the old one.
fn rewrite(path: &Path, metrics: RunMetrics, keep: impl Fn(&Record) -> bool) -> io::Result<()> {
    let columns = Columns::of(path)?.unwrap_or_default().for_run(metrics);
    let temporary = path.with_extension("csv.tmp");
    let write = || {
        let mut from = BufReader::new(open_file(path)?);
        let mut to = BufWriter::new(new_file(&temporary)?);
        let (mut line, mut row) = (Vec::new(), String::new());
        next_line(&mut from, &mut line)?;
        to.write_all(header(metrics).as_bytes())?;
        while next_line(&mut from, &mut line)? {
            if let Some(record) = parse(&line, &columns).filter(&keep) {
                push_row(&mut row, metrics, &record);
                to.write_all(row.as_bytes())?;
            }
        }
        to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))
}

#[cfg(test)]
#[path = "csv_tests.rs"]
mod tests;
