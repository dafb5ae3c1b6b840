//! One run in the monitor: its source, the data read for this frame, and the data kept when the ring
//! goes away.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use operant_metrics::{
    ENV_GROUP, Event, FileState, Health, Identity, MetricInfo, MetricSummary, RingError, RingReader, Sample,
    Schema, SeriesPoint, Status,
};

use super::recorded::settings;
use super::source::Source;
use super::stage::Stage;
use crate::verdict::{self, Verdict};
use crate::view::View;

/// Time until a summary over the whole run is computed again.
const SUMMARY_AGE: Duration = Duration::from_millis(500);
/// How often a run's directory is checked.
const DIRECTORY_AGE: Duration = Duration::from_millis(500);

/// A run that is open.
pub struct RunView {
    name: String,
    path: PathBuf,
    /// The source: the run, or the copy made when the user froze it.
    source: Source,
    /// The run while `source` is a copy.
    live: Option<Source>,
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
    /// [`Source::revision`] of what was read for this frame.
    revision: u64,
    pub presence: FileState,
    /// A warning about the file; empty if there is none.
    pub note: String,
    /// The playback of the scene.
    pub stage: Stage,
    now: Duration,
    /// When a directory was last checked.
    looked: Option<Duration>,
    series: RefCell<HashMap<(usize, usize), CachedSeries>>,
    summaries: RefCell<HashMap<usize, CachedSummary>>,
    /// The settings but the seed, once they were asked for.
    settings: OnceCell<Vec<(String, String)>>,
}

struct CachedSeries {
    updates: RangeInclusive<u64>,
    points: usize,
    revision: u64,
    data: Rc<[SeriesPoint]>,
}

struct CachedSummary {
    at: Duration,
    revision: u64,
    data: MetricSummary,
}

impl RunView {
    /// Opens the ring of the run called `name` at `path`.
    ///
    /// # Errors
    /// When there is no ring there, or it cannot be read.
    pub fn open(name: &str, path: &Path) -> Result<Self, RingError> {
        Ok(Self::of_source(name, RingReader::open(path)?))
    }

    /// The view of a run that is open already.
    pub fn of_source(name: &str, source: impl Into<Source>) -> Self {
        let source = source.into();
        let status = source.status();
        let mut run = RunView {
            name: name.to_string(),
            path: source.path().to_path_buf(),
            status,
            latest: vec![f64::NAN; source.schema().len()],
            sample: None,
            events: Vec::new(),
            last_update: 0,
            revision: 0,
            presence: FileState::Here,
            note: String::new(),
            stage: Stage::default(),
            now: Duration::ZERO,
            series: RefCell::default(),
            summaries: RefCell::default(),
            settings: OnceCell::new(),
            source,
            live: None,
            looked: None,
        };
        run.refresh(Duration::ZERO);
        run
    }

    /// The run's name, or its ring's: with `~2` appended if two live runs share one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its ring's file, or its directory where it has no ring.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether it is read from its directory, without scene, cores and samples.
    pub fn is_recorded(&self) -> bool {
        matches!(self.source, Source::Recorded(_))
    }

    /// Whether it is a sweep, which has a view of its own.
    pub fn is_sweep(&self) -> bool {
        matches!(&self.source, Source::Recorded(dir) if dir.is_sweep())
    }

    /// Who it is.
    pub fn identity(&self) -> &Identity {
        self.source.identity()
    }

    pub fn schema(&self) -> &Schema {
        self.source.schema()
    }

    /// Reads what this frame shows. `now` is the time since the monitor began.
    pub fn refresh(&mut self, now: Duration) {
        self.now = now;
        if self.live.is_some() {
            return;
        }
        if let Source::Recorded(run) = &mut self.source {
            if self.looked.is_some_and(|at| now.saturating_sub(at) < DIRECTORY_AGE) {
                return;
            }
            self.looked = Some(now);
            run.refresh();
        }
        self.presence = self.source.presence();
        if self.presence != FileState::Here {
            self.reopen();
        }
        let status = self.source.status();
        if self.presence == FileState::Truncated {
            // The file's content is not valid any more; what was read before remains on the screen. Only the kernel
            // still knows whether there is a trainer.
            if self.status.health.is_alive() && !status.health.is_alive() {
                self.status.health = Health::Killed;
            }
            return;
        }
        self.status = status;
        self.revision = self.source.revision();
        self.last_update = self.source.last_update();
        if let Some(latest) = self.source.latest() {
            self.latest = latest;
        }
        self.sample = self.source.sample().or(self.sample.take());
        let events = self.source.events();
        if !events.is_empty() {
            self.events = events;
        }
    }

    /// Opens another valid file of the same name, if there is one.
    fn reopen(&mut self) {
        let opened = match self.presence {
            FileState::Gone => None,
            _ => RingReader::open(&self.path).ok(),
        };
        match opened {
            Some(reader) => {
                let same = same_process(reader.identity(), self.identity());
                self.source = Source::Ring(reader);
                self.presence = FileState::Here;
                self.series.borrow_mut().clear();
                self.summaries.borrow_mut().clear();
                self.settings.take();
                if same {
                    self.note.clear();
                } else {
                    self.events.clear();
                    self.stage = Stage::default();
                    self.note = "a new run has taken this name".to_string();
                }
                self.latest = vec![f64::NAN; self.source.schema().len()];
                self.sample = None;
            }
            None => {
                let what = match self.presence {
                    FileState::Gone => "was removed",
                    FileState::Replaced => "was replaced by something that cannot be read",
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
            let copy = self.source.freeze();
            self.live = Some(std::mem::replace(&mut self.source, copy));
        }
    }

    /// Continues it.
    pub fn thaw(&mut self) {
        if let Some(live) = self.live.take() {
            self.source = live;
        }
    }

    /// Advances the scene. Called while it is on the screen and nothing is frozen.
    pub fn play(&mut self, now: Duration) {
        self.stage.advance(&self.source, now);
    }

    /// Whether another run has the same environment and settings but for the seed. Settings that cannot be read are not the same.
    pub fn differs_in_seed_only(&self, other: &RunView) -> bool {
        let (own, others) = (self.settings_but_seed(), other.settings_but_seed());
        !own.is_empty() && own == others && self.identity().env == other.identity().env
    }

    fn settings_but_seed(&self) -> &[(String, String)] {
        self.settings.get_or_init(|| {
            let mut settings = settings(&self.identity().dir);
            settings.retain(|(name, _)| name != "seed");
            settings
        })
    }

    /// The metrics of the panel of losses. A recorded run has a column for every metric of the table, and values only in those of its algorithm.
    pub fn losses(&self) -> Vec<&MetricInfo> {
        let has_values = |metric: &&MetricInfo| {
            self.position(&metric.name).and_then(|y| self.source.reported(y)).is_some()
        };
        let losses = self.schema().losses();
        match self.is_recorded() && losses.iter().any(has_values) {
            true => losses.into_iter().filter(|metric| has_values(metric)).collect(),
            false => losses,
        }
    }

    /// Positions of the metrics of the environment's own.
    pub fn own(&self) -> Vec<usize> {
        let metrics = self.schema().metrics().iter().enumerate();
        metrics.filter(|(_, metric)| metric.group == ENV_GROUP).map(|(at, _)| at).collect()
    }

    /// Position of the metric called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.source.schema().position(name)
    }

    /// Newest value of the metric called `name`; NaN when there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.position(name).and_then(|i| self.latest.get(i)).copied().unwrap_or(f64::NAN)
    }

    /// Like `value`; if the newest update did not report the metric, the last reported value.
    pub fn last_reported(&self, name: &str) -> f64 {
        match self.value(name) {
            value if value.is_nan() => self
                .position(name)
                .map_or(f64::NAN, |y| self.source.reported(y).unwrap_or_else(|| self.summary_of(y).last)),
            value => value,
        }
    }

    /// The mean return of the last evaluation, or before the first one of the last training episodes; and whether it was evaluated.
    pub fn mean_return(&self) -> (f64, bool) {
        match self.last_reported("eval_return") {
            mean if mean.is_nan() => (self.last_reported("episodic_return"), false),
            mean => (mean, true),
        }
    }

    /// The largest value over the whole run. The summary is up to half a second old, so the newest value is included.
    pub fn best(&self, name: &str) -> f64 {
        self.summary(name).map_or(f64::NAN, |summary| summary.max).max(self.value(name))
    }

    /// Share of the environment steps taken; NaN where it is not known.
    pub fn done(&self) -> f64 {
        match self.identity().total_steps {
            0 => f64::NAN,
            // A run whose number of steps was lowered may have taken more.
            total => (self.value("env_steps") / total as f64).min(1.0),
        }
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
        let stale = self.presence == FileState::Truncated;
        if let Some(cached) = cache.get(&(x, y)) {
            let fresh =
                cached.revision == self.revision && cached.updates == updates && cached.points == points;
            if fresh || stale {
                return Rc::clone(&cached.data);
            }
        }
        let data: Rc<[SeriesPoint]> = match stale {
            true => Rc::from([]),
            false => self.source.series(x, y, updates.clone(), points).into(),
        };
        let entry = CachedSeries { updates, points, revision: self.revision, data: Rc::clone(&data) };
        cache.insert((x, y), entry);
        data
    }

    /// The metric called `name` over the whole run, at most half a second old.
    pub fn summary(&self, name: &str) -> Option<MetricSummary> {
        self.position(name).map(|y| self.summary_of(y))
    }

    /// The metric at `y` over the whole run: the newest value is current, the rest up to half a second old.
    pub fn summary_of(&self, y: usize) -> MetricSummary {
        let newest = self.latest.get(y).copied().unwrap_or(f64::NAN);
        self.recent_summary(y).with_newest(newest)
    }

    fn recent_summary(&self, y: usize) -> MetricSummary {
        let mut cache = self.summaries.borrow_mut();
        if let Some(CachedSummary { at, revision, data }) = cache.get(&y) {
            // A ring grows with every update; the run of a directory has usually ended.
            let fresh = match self.is_recorded() {
                true => *revision == self.revision,
                false => self.now.saturating_sub(*at) < SUMMARY_AGE,
            };
            if fresh || self.presence == FileState::Truncated {
                return *data;
            }
        }
        let data = self.source.summary(y);
        cache.insert(y, CachedSummary { at: self.now, revision: self.revision, data });
        data
    }

    /// The description of its state.
    pub fn verdict(&self) -> Verdict {
        verdict::of(self.identity(), &self.status, self.value("env_steps"))
    }
}

fn same_process(a: &Identity, b: &Identity) -> bool {
    (a.pid, a.process_start, &a.boot_id) == (b.pid, b.process_start, &b.boot_id)
}
