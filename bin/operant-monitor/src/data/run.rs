//! One run as the monitor sees it: its ring, what was read of it for this frame, and what is kept when the ring goes away.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use operant_metrics::{
    Event, Health, Identity, Presence, RingError, RingReader, Sample, Schema, SeriesPoint, Status, Summary,
};

use super::stage::Stage;
use crate::verdict::{self, Verdict};
use crate::view::View;

/// How long a summary over the whole run is good for.
const SUMMARY_AGE: Duration = Duration::from_millis(500);

/// A run that is open.
pub struct RunView {
    name: String,
    path: PathBuf,
    /// What is read: the live ring, or the copy made when the user froze it.
    reader: RingReader,
    /// The live ring while `reader` is a copy.
    live: Option<RingReader>,
    /// State, ages, checkpoint.
    pub status: Status,
    /// Newest value of every metric, by the ring's own schema; NaN where there is none.
    pub latest: Vec<f64>,
    /// Newest utilization.
    pub sample: Option<Sample>,
    /// Events, oldest first.
    pub events: Vec<Event>,
    /// Number of the newest update.
    pub last_update: u64,
    /// Number of records published so far.
    pub published: u64,
    /// What became of the file.
    pub presence: Presence,
    /// What the user should know of the file; empty while all is well.
    pub note: String,
    /// What is playing of the scene.
    pub stage: Stage,
    now: Duration,
    series: RefCell<HashMap<(usize, usize), CachedSeries>>,
    summaries: RefCell<HashMap<usize, (Duration, Summary)>>,
}

struct CachedSeries {
    updates: RangeInclusive<u64>,
    points: usize,
    published: u64,
    data: Rc<[SeriesPoint]>,
}

impl RunView {
    /// Opens the ring of the run called `name` at `path`.
    ///
    /// # Errors
    /// When there is no ring there, or it cannot be read.
    pub fn open(name: &str, path: &Path) -> Result<Self, RingError> {
        Ok(Self::of_reader(name, RingReader::open(path)?))
    }

    /// The view of a ring that is open already.
    pub fn of_reader(name: &str, reader: RingReader) -> Self {
        let status = reader.status();
        let mut run = RunView {
            name: name.to_string(),
            path: reader.path().to_path_buf(),
            status,
            latest: vec![f64::NAN; reader.schema().len()],
            sample: None,
            events: Vec::new(),
            last_update: 0,
            published: 0,
            presence: Presence::Here,
            note: String::new(),
            stage: Stage::default(),
            now: Duration::ZERO,
            series: RefCell::default(),
            summaries: RefCell::default(),
            reader,
            live: None,
        };
        run.refresh(Duration::ZERO);
        run
    }

    /// The name of the ring: the run's, or with `~2` behind it where two runs share one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its ring is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is read.
    pub fn reader(&self) -> &RingReader {
        &self.reader
    }

    /// Who it is.
    pub fn identity(&self) -> &Identity {
        self.reader.identity()
    }

    /// Its metrics.
    pub fn schema(&self) -> &Schema {
        self.reader.schema()
    }

    /// Reads what this frame shows. `now` is the time since the monitor began.
    pub fn refresh(&mut self, now: Duration) {
        self.now = now;
        if self.live.is_some() {
            return;
        }
        self.presence = self.reader.presence();
        if self.presence != Presence::Here {
            self.reopen();
        }
        let status = self.reader.status();
        if self.presence == Presence::Truncated {
            // Nothing in the file is to be believed, and what was read before stays on the screen. Only the kernel
            // still knows whether there is a trainer.
            if self.status.health.is_alive() && !status.health.is_alive() {
                self.status.health = Health::Killed;
            }
            return;
        }
        self.status = status;
        self.published = self.reader.published();
        self.last_update = self.reader.last_update();
        if let Some(latest) = self.reader.latest() {
            self.latest = latest;
        }
        self.sample = self.reader.sample().or(self.sample.take());
        let events = self.reader.events();
        if !events.is_empty() {
            self.events = events;
        }
    }

    /// Follows the name to another file, if there is a good one.
    fn reopen(&mut self) {
        let opened = match self.presence {
            Presence::Gone => None,
            _ => RingReader::open(&self.path).ok(),
        };
        match opened {
            Some(reader) => {
                let same = same_process(reader.identity(), self.identity());
                self.reader = reader;
                self.presence = Presence::Here;
                self.series.borrow_mut().clear();
                self.summaries.borrow_mut().clear();
                if same {
                    self.note.clear();
                } else {
                    self.events.clear();
                    self.stage = Stage::default();
                    self.note = "a new run has taken this name".to_string();
                }
                self.latest = vec![f64::NAN; self.reader.schema().len()];
                self.sample = None;
            }
            None => {
                let what = match self.presence {
                    Presence::Gone => "was removed",
                    Presence::Replaced => "was replaced by something that cannot be read",
                    _ => "was cut short",
                };
                let then = match self.status.health.is_alive() {
                    true => "the trainer makes a new one with its next update",
                    false => "this is what it held last",
                };
                self.note = format!("{} {what}; {then}", self.path.display());
            }
        }
    }

    /// Holds everything as it is now.
    pub fn freeze(&mut self) {
        if self.live.is_none() {
            let copy = self.reader.freeze();
            self.live = Some(std::mem::replace(&mut self.reader, copy));
        }
    }

    /// Lets it go on.
    pub fn thaw(&mut self) {
        if let Some(live) = self.live.take() {
            self.reader = live;
        }
    }

    /// Plays the scene on. Called while it is on the screen and nothing is frozen.
    pub fn play(&mut self, now: Duration) {
        self.stage.advance(&self.reader, now);
    }

    /// Position of the metric called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.reader.schema().position(name)
    }

    /// Newest value of the metric called `name`; NaN when there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.position(name).and_then(|i| self.latest.get(i)).copied().unwrap_or(f64::NAN)
    }

    /// The same, or where the newest update had nothing to report the last value that any update did.
    pub fn last_reported(&self, name: &str) -> f64 {
        match self.value(name) {
            value if value.is_nan() => self.summary(name).map_or(f64::NAN, |summary| summary.last),
            value => value,
        }
    }

    /// The greatest value over the whole run. The summary is up to half a second old, and no best is below the newest.
    pub fn best(&self, name: &str) -> f64 {
        self.summary(name).map_or(f64::NAN, |summary| summary.max).max(self.value(name))
    }

    /// The unit of the metric called `name`.
    pub fn unit(&self, name: &str) -> &str {
        self.position(name).and_then(|i| self.schema().metrics().get(i)).map_or("1", |metric| &metric.unit)
    }

    /// The metric called `name` over the updates that `view` shows, in about `points` points, oldest first; empty when
    /// the ring does not have it.
    pub fn series(&self, view: &View, name: &str, points: usize) -> Rc<[SeriesPoint]> {
        let updates = view.window.updates(self.last_update);
        match (self.position(view.axis.metric()), self.position(name)) {
            (Some(x), Some(y)) => self.series_of(x, y, updates, points),
            _ => Rc::from([]),
        }
    }

    /// The metric at `y` against the one at `x` over `updates`.
    pub fn series_of(
        &self,
        x: usize,
        y: usize,
        updates: RangeInclusive<u64>,
        points: usize,
    ) -> Rc<[SeriesPoint]> {
        let mut cache = self.series.borrow_mut();
        let stale = self.presence == Presence::Truncated;
        if let Some(cached) = cache.get(&(x, y)) {
            let fresh =
                cached.published == self.published && cached.updates == updates && cached.points == points;
            if fresh || stale {
                return Rc::clone(&cached.data);
            }
        }
        let data: Rc<[SeriesPoint]> = match stale {
            true => Rc::from([]),
            false => self.reader.series(x, y, updates.clone(), points).into(),
        };
        let entry = CachedSeries { updates, points, published: self.published, data: Rc::clone(&data) };
        cache.insert((x, y), entry);
        data
    }

    /// The metric called `name` over the whole run, at most half a second old.
    pub fn summary(&self, name: &str) -> Option<Summary> {
        self.position(name).map(|y| self.summary_of(y))
    }

    /// The metric at `y` over the whole run, at most half a second old.
    pub fn summary_of(&self, y: usize) -> Summary {
        let mut cache = self.summaries.borrow_mut();
        if let Some((at, summary)) = cache.get(&y)
            && (self.now.saturating_sub(*at) < SUMMARY_AGE || self.presence == Presence::Truncated)
        {
            return *summary;
        }
        let summary = self.reader.summary(y);
        cache.insert(y, (self.now, summary));
        summary
    }

    /// What to say of its state.
    pub fn verdict(&self) -> Verdict {
        verdict::of(self.identity(), &self.status, self.value("env_steps"))
    }
}

fn same_process(a: &Identity, b: &Identity) -> bool {
    (a.pid, a.process_start, &a.boot_id) == (b.pid, b.process_start, &b.boot_id)
}
