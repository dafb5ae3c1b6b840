//! TensorBoard's event file: as `SummaryWriter` would write it, with the tags of the metrics table and `env_steps` as step.
//!
//! A run of `n` updates writes each of the first [`DENSE_UPDATES`], then every second one until twice as many, every
//! fourth until four times, and so on, so that the file grows with the logarithm of the run (a record is about 1 KiB).

mod event;
mod tfrecord;

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use operant_metrics::{Record, RunMetrics, open_file};

use crate::os::host_name;

use super::appender::Appender;
use super::{Sink, SinkError, stride::stride};

/// Number of updates that are all written; later ones are thinned increasingly.
pub const DENSE_UPDATES: u64 = 10_000;

/// Prefix of every event file's name, which TensorBoard requires.
const PREFIX: &str = "events.out.tfevents.";

/// Appends records to `events.out.tfevents.<unix time>.<host>.<pid>`.
pub struct TensorBoardSink {
    file: Appender,
    metrics: RunMetrics,
    /// One per metric.
    tags: Vec<String>,
}

impl TensorBoardSink {
    /// Starts a new event file in `dir`, in addition to existing ones; `hyperparameters` are shown in TensorBoard's
    /// HParams view.
    ///
    /// # Errors
    /// [`SinkError`] when the file cannot be created or written.
    pub fn create(
        dir: impl AsRef<Path>,
        metrics: RunMetrics,
        hyperparameters: &[(String, toml::Value)],
    ) -> Result<Self, SinkError> {
        let dir = dir.as_ref();
        let others = event_files(dir).map_err(SinkError::at("read", dir))?;
        let path = dir.join(file_name(now() as u64, &others));
        let file = Appender::create_new(&path).map_err(SinkError::at("create", &path))?;
        let tags = metrics.iter().map(|metric| metric.tag()).collect();
        let mut sink = Self { file, metrics, tags };
        sink.write(&event::file_version(now()))?;
        sink.write(&event::hyperparameters(now(), hyperparameters))?;
        sink.flush()?;
        Ok(sink)
    }

    /// Continues from a checkpoint: truncates every event file in `dir` before its first event past `env_steps` (and
    /// before any incomplete one), then starts a new file, whose first event makes TensorBoard discard later steps that
    /// it has read already.
    ///
    /// # Errors
    /// [`SinkError`] when a file cannot be read, truncated or created.
    pub fn resume(
        dir: impl AsRef<Path>,
        metrics: RunMetrics,
        hyperparameters: &[(String, toml::Value)],
        env_steps: u64,
    ) -> Result<Self, SinkError> {
        let dir = dir.as_ref();
        for name in event_files(dir).map_err(SinkError::at("read", dir))? {
            let path = dir.join(name);
            cut(&path, env_steps).map_err(SinkError::at("cut", &path))?;
        }
        let mut sink = Self::create(dir, metrics, hyperparameters)?;
        sink.write(&event::session_start(now(), env_steps.saturating_add(1)))?;
        sink.flush()?;
        Ok(sink)
    }

    fn write(&mut self, event: &[u8]) -> Result<(), SinkError> {
        let mut framed = Vec::with_capacity(event.len() + 16);
        let written = tfrecord::write(&mut framed, event).and_then(|()| self.file.push(&framed));
        written.map_err(SinkError::at("write", self.file.path()))
    }
}

impl Sink for TensorBoardSink {
    fn file(&self) -> &Appender {
        &self.file
    }

    fn file_mut(&mut self) -> &mut Appender {
        &mut self.file
    }

    fn record(&mut self, record: &Record) -> Result<(), SinkError> {
        let update = record.update as u64;
        if !update.is_multiple_of(stride(update, DENSE_UPDATES)) {
            return Ok(());
        }
        let values = self.tags.iter().map(String::as_str).zip(self.metrics.values(record));
        let event = event::scalars(now(), record.env_steps as u64, values);
        self.write(&event)
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Names of the event files in `dir`, sorted, which is the order in which TensorBoard reads them.
fn event_files(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // A link may lead out of the directory.
        if !entry.file_type()?.is_file() {
            continue;
        }
        let name = entry.file_name();
        names.extend(name.to_str().filter(|name| name.starts_with(PREFIX)).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// A name that sorts after all `others`: TensorBoard treats only the last file as live.
fn file_name(seconds: u64, others: &[String]) -> String {
    let time_of = |name: &String| name.strip_prefix(PREFIX)?.split('.').next()?.parse::<u64>().ok();
    let after = others.iter().filter_map(time_of).max().map_or(0, |time| time + 1);
    let host = host_name();
    let host: String = host.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let host = if host.is_empty() { "localhost" } else { &host };
    format!("{PREFIX}{:010}.{host}.{}", seconds.max(after), std::process::id())
}

/// Shortens an event file to its events up to and including `env_steps`.
fn cut(path: &Path, env_steps: u64) -> io::Result<()> {
    let mut file = BufReader::new(open_file(path)?);
    let (mut end, mut data) = (0, Vec::new());
    while tfrecord::read(&mut file, &mut data)? && event::step(&data).is_some_and(|step| step <= env_steps) {
        end += tfrecord::framed_len(data.len());
    }
    if end < fs::metadata(path)?.len() {
        let file = File::options().write(true).open(path)?;
        file.set_len(end)?;
        file.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "tensorboard_tests.rs"]
mod tests;
