//! Files that records are written to: [`CsvSink`] (`metrics.csv`) and [`TensorBoardSink`] (an event file), both with
//! the names of the metrics table. Training never depends on them: [`Sinks`] returns the error of a failed sink and
//! retries it.

mod appender;
mod csv;
mod error;
mod stride;
mod tensorboard;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use operant_metrics::Record;

use appender::Appender;
pub use csv::{CsvSink, MAX_ROWS};
pub use csv::{each_row, each_row_of, env_columns, last_row};
pub use error::SinkError;
pub(crate) use error::io_remedy;
pub use tensorboard::{DENSE_UPDATES, TensorBoardSink};

/// Writes one record per update to a file.
pub trait Sink: Send {
    /// The file that it writes.
    fn file(&self) -> &Appender;

    /// Mutable access to the file.
    fn file_mut(&mut self) -> &mut Appender;

    /// Writes the record of one update. Buffered: the content of the file before [`Sink::flush`] is unspecified.
    fn record(&mut self, record: &Record) -> Result<(), SinkError>;

    /// The path of the file that it writes.
    fn path(&self) -> &Path {
        self.file().path()
    }

    /// Writes the buffer to the operating system, so that it survives the process.
    fn flush(&mut self) -> Result<(), SinkError> {
        let flushed = self.file_mut().flush();
        flushed.map_err(SinkError::at("write", self.path()))
    }

    /// Flushes and waits for the disk, so that it survives a crash of the machine. Called before a checkpoint.
    fn sync(&mut self) -> Result<(), SinkError> {
        let synced = self.file_mut().sync();
        synced.map_err(SinkError::at("sync", self.path()))
    }

    /// After an error: truncates the file to its last complete record. Records since then are lost.
    fn recover(&mut self) -> Result<(), SinkError> {
        let recovered = self.file_mut().recover();
        recovered.map_err(SinkError::at("recover", self.path()))
    }
}

/// Time between attempts to write a failed file again.
const RETRY: Duration = Duration::from_secs(1);

/// A change to report to the user.
#[derive(Debug)]
pub enum SinkEvent {
    /// A file cannot be written; training continues without it, and tries again every second.
    Lost(SinkError),
    /// The file is written again, without the updates after `after` and before `before`.
    Recovered {
        /// The file.
        path: PathBuf,
        /// The last update before the gap.
        after: u64,
        /// The first update after the gap.
        before: u64,
    },
}

/// The sinks of one run. One that fails pauses until its file can be written again: a full disk costs records, not the training.
#[derive(Default)]
pub struct Sinks {
    sinks: Vec<Slot>,
    /// The update that was recorded last.
    update: u64,
}

struct Slot {
    sink: Box<dyn Sink>,
    lost: Option<Outage>,
    /// The last update that was flushed.
    flushed: u64,
}

/// State of a failed sink.
struct Outage {
    after: u64,
    tried: Instant,
}

impl Sinks {
    /// An empty set of sinks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sink.
    pub fn add(&mut self, sink: impl Sink + 'static) {
        self.sinks.push(Slot { sink: Box::new(sink), lost: None, flushed: 0 });
    }

    /// [`Sink::record`] on each sink that works.
    pub fn record(&mut self, record: &Record) -> Vec<SinkEvent> {
        self.update = record.update as u64;
        let update = self.update;
        let mut events = Vec::new();
        for slot in &mut self.sinks {
            match &mut slot.lost {
                None => events.extend(slot.work(|sink| sink.record(record))),
                Some(outage) if outage.tried.elapsed() >= RETRY => {
                    outage.tried = Instant::now();
                    let again = |sink: &mut dyn Sink| {
                        sink.recover().and_then(|()| sink.record(record)).and_then(|()| sink.flush())
                    };
                    if again(slot.sink.as_mut()).is_ok() {
                        let (path, after) = (slot.sink.path().to_owned(), outage.after);
                        (slot.lost, slot.flushed) = (None, update);
                        events.push(SinkEvent::Recovered { path, after, before: update });
                    }
                }
                Some(_) => {}
            }
        }
        events
    }

    /// [`Sink::flush`] on each sink that works.
    pub fn flush(&mut self) -> Vec<SinkEvent> {
        self.finish(|sink| sink.flush())
    }

    /// [`Sink::sync`] on each sink that works.
    pub fn sync(&mut self) -> Vec<SinkEvent> {
        self.finish(|sink| sink.sync())
    }

    fn finish(&mut self, action: impl Fn(&mut dyn Sink) -> Result<(), SinkError>) -> Vec<SinkEvent> {
        let mut events = Vec::new();
        for slot in self.sinks.iter_mut().filter(|slot| slot.lost.is_none()) {
            events.extend(slot.work(&action));
            if slot.lost.is_none() {
                slot.flushed = self.update;
            }
        }
        events
    }
}

impl Slot {
    fn work(&mut self, action: impl FnOnce(&mut dyn Sink) -> Result<(), SinkError>) -> Option<SinkEvent> {
        let error = action(self.sink.as_mut()).err()?;
        self.lost = Some(Outage { after: self.flushed, tried: Instant::now() });
        Some(SinkEvent::Lost(error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use operant_metrics::RunMetrics;

    use super::*;

    /// A disk that is full while `full` is set.
    struct Failing {
        sink: CsvSink,
        full: Arc<AtomicBool>,
        recovered: bool,
    }

    impl Failing {
        fn result(&self) -> Result<(), SinkError> {
            let full = std::io::ErrorKind::StorageFull.into();
            if self.full.load(Ordering::Relaxed) {
                Err(SinkError::at("write", self.path())(full))
            } else {
                Ok(())
            }
        }
    }

    impl Sink for Failing {
        fn file(&self) -> &Appender {
            self.sink.file()
        }

        fn file_mut(&mut self) -> &mut Appender {
            self.sink.file_mut()
        }

        fn record(&mut self, record: &Record) -> Result<(), SinkError> {
            assert!(self.recovered || record.update < 3.0, "a failed sink recovers before it continues");
            self.result()
        }

        fn recover(&mut self) -> Result<(), SinkError> {
            self.recovered = true;
            self.result()
        }
    }

    #[test]
    fn a_failed_sink_pauses_alone_and_continues_once_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.csv");
        let full = Arc::new(AtomicBool::new(false));
        let mut sinks = Sinks::new();
        let sink = CsvSink::create(dir.path().join("failing.csv"), RunMetrics::default()).unwrap();
        sinks.add(Failing { sink, full: Arc::clone(&full), recovered: false });
        sinks.add(CsvSink::create(&path, RunMetrics::default()).unwrap());
        let mut record = Record { update: 1.0, env_steps: 10.0, ..Record::default() };
        assert!(sinks.record(&record).is_empty() && sinks.flush().is_empty());
        full.store(true, Ordering::Relaxed);
        record.update = 2.0;
        let events = sinks.record(&record);
        let [SinkEvent::Lost(error)] = &events[..] else { panic!("{events:?}") };
        let text = error.to_string();
        assert!(text.contains("failing.csv") && text.contains("free space"), "{text}");
        full.store(false, Ordering::Relaxed);
        // It is tried again after a second.
        let events = loop {
            record.update += 1.0;
            let events = sinks.record(&record);
            if !events.is_empty() {
                break events;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        };
        let [SinkEvent::Recovered { after: 1, before, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(*before as f64, record.update);
        assert!(sinks.sync().is_empty());
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count() as u64, before + 1);
    }

    #[test]
    fn a_file_that_is_truncated_while_it_is_written_has_no_hole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.csv");
        let mut sink = CsvSink::create(&path, RunMetrics::default()).unwrap();
        let row = |update| Record { update, env_steps: 10.0 * update, ..Record::default() };
        for update in 1..=2 {
            sink.record(&row(f64::from(update))).unwrap();
            sink.flush().unwrap();
        }
        std::fs::File::options().write(true).open(&path).unwrap().set_len(5).unwrap();
        sink.record(&row(3.0)).unwrap();
        sink.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.contains(&0), "{:?}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_file_is_made_or_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::os::unix::fs::symlink("target", at("metrics.csv")).unwrap();
        for target_is_there in [false, true] {
            let created = CsvSink::create(at("metrics.csv"), RunMetrics::default())
                .err()
                .map(|error| error.to_string());
            let resumed = Appender::resume(&at("metrics.csv")).err().map(|error| error.to_string());
            for text in [created, resumed] {
                assert!(text.as_ref().is_some_and(|text| text.contains("link to another file")), "{text:?}");
            }
            assert_eq!(std::fs::read(at("target")).ok(), target_is_there.then(|| b"mine".to_vec()));
            std::fs::write(at("target"), "mine").unwrap();
        }
    }

    #[test]
    fn a_full_disk_is_detected_when_a_sink_is_created() {
        let dir = tempfile::tempdir().unwrap();
        let full = dir.path().join("metrics.csv");
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        let text = CsvSink::create(&full, RunMetrics::default()).err().unwrap().to_string();
        assert!(text.contains("metrics.csv") && text.contains("free space"), "{text}");
    }
}
