//! Where records go on disk: [`CsvSink`] (`metrics.csv`) and [`TensorBoardSink`] (an event file), both with the names of
//! the metrics table. Training never depends on them: [`Sinks`] drops a sink that fails and hands its error back.

mod csv;
mod error;
mod stride;
mod tensorboard;

use std::path::Path;

use operant_metrics::Record;

pub use csv::{CsvSink, MAX_ROWS};
pub(crate) use csv::{each_row, last_row};
pub use error::SinkError;
pub(crate) use error::io_remedy;
pub use tensorboard::{DENSE_UPDATES, TensorBoardSink};

/// Takes one record per update and makes it last.
pub trait Sink: Send {
    /// The file that it writes.
    fn path(&self) -> &Path;

    /// Takes the record of one update. Buffered: what is on disk before [`Sink::flush`] is unspecified.
    fn record(&mut self, record: &Record) -> Result<(), SinkError>;

    /// Hands everything buffered to the operating system, so that it survives the process.
    fn flush(&mut self) -> Result<(), SinkError>;

    /// Flushes and waits for the disk, so that it survives the machine. Meant for the moment before a checkpoint.
    fn sync(&mut self) -> Result<(), SinkError>;
}

/// The sinks of one run. One that fails is dropped and its error returned, to be logged as a warning: a full disk
/// costs the record, not the training.
#[derive(Default)]
pub struct Sinks {
    sinks: Vec<Box<dyn Sink>>,
}

impl Sinks {
    /// No sinks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn add(&mut self, sink: impl Sink + 'static) {
        self.sinks.push(Box::new(sink));
    }

    /// How many are still written.
    pub fn len(&self) -> usize {
        self.sinks.len()
    }

    /// Whether none is written.
    pub fn is_empty(&self) -> bool {
        self.sinks.is_empty()
    }

    /// [`Sink::record`] on each; returns the errors of those that it dropped.
    pub fn record(&mut self, record: &Record) -> Vec<SinkError> {
        self.each(|sink| sink.record(record))
    }

    /// [`Sink::flush`] on each; returns the errors of those that it dropped.
    pub fn flush(&mut self) -> Vec<SinkError> {
        self.each(|sink| sink.flush())
    }

    /// [`Sink::sync`] on each; returns the errors of those that it dropped.
    pub fn sync(&mut self) -> Vec<SinkError> {
        self.each(|sink| sink.sync())
    }

    fn each(&mut self, mut action: impl FnMut(&mut dyn Sink) -> Result<(), SinkError>) -> Vec<SinkError> {
        let mut errors = Vec::new();
        self.sinks.retain_mut(|sink| action(sink.as_mut()).map_err(|error| errors.push(error)).is_ok());
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails from its second record on.
    struct Failing(u32);

    impl Sink for Failing {
        fn path(&self) -> &Path {
            Path::new("failing.csv")
        }

        fn record(&mut self, _: &Record) -> Result<(), SinkError> {
            self.0 += 1;
            let full = std::io::ErrorKind::StorageFull.into();
            if self.0 > 1 { Err(SinkError::at("write", self.path())(full)) } else { Ok(()) }
        }

        fn flush(&mut self) -> Result<(), SinkError> {
            Ok(())
        }

        fn sync(&mut self) -> Result<(), SinkError> {
            Ok(())
        }
    }

    #[test]
    fn a_sink_that_fails_is_dropped_and_the_others_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.csv");
        let mut sinks = Sinks::new();
        sinks.add(Failing(0));
        sinks.add(CsvSink::create(&path).unwrap());
        let record = Record { update: 1.0, env_steps: 10.0, ..Record::default() };
        assert!(sinks.record(&record).is_empty());
        let errors = sinks.record(&record);
        assert_eq!(errors.len(), 1);
        let text = errors[0].to_string();
        assert!(text.contains("failing.csv") && text.contains("make room"), "{text}");
        assert_eq!(sinks.len(), 1);
        assert!(sinks.record(&record).is_empty() && sinks.sync().is_empty());
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 4);
    }

    #[test]
    fn a_full_disk_is_noticed_when_a_sink_is_created() {
        let dir = tempfile::tempdir().unwrap();
        let full = dir.path().join("metrics.csv");
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        let text = CsvSink::create(&full).err().unwrap().to_string();
        assert!(text.contains("metrics.csv") && text.contains("make room"), "{text}");
    }
}
