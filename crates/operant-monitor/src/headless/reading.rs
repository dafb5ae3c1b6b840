//! A snapshot of a run: everything that the headless modes print, read at one moment.

use operant_metrics::{
    Event, Health, Identity, MetricInfo, MetricKind, MetricSummary, RunState, Sample, SeriesPoint, Status,
};

use crate::data::Source;

/// Columns of the text's small charts.
pub const TREND: usize = 36;

/// A run at one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Who runs what.
    pub identity: Identity,
    pub status: Status,
    /// A figure per metric of the run's own schema.
    pub figures: Vec<Figure>,
    /// The last sample of the machine.
    pub sample: Option<Sample>,
    /// What happened, oldest first.
    pub events: Vec<Event>,
    /// Records that the reader had to skip: torn, or overtaken by the writer.
    pub skipped: u64,
    /// Mean return over the run in a few dozen equal parts at most, NaN where no episode ended.
    pub returns: Vec<f64>,
    /// Like `returns`, for the speed.
    pub speeds: Vec<f64>,
}

/// One metric of a run.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Name, unit, kind, group, meaning.
    pub info: MetricInfo,
    /// The last reported value; NaN if there is none.
    pub value: f64,
    /// Over the whole run.
    pub history: MetricSummary,
}

impl Reading {
    /// Reads a run. None if its newest record cannot be read, which is temporary if the ring is intact.
    pub fn of(run: &Source) -> Option<Self> {
        let metrics = run.schema().metrics();
        let latest = run.latest()?;
        let figures = metrics.iter().enumerate().map(|(position, info)| {
            let newest = latest.get(position).copied().unwrap_or(f64::NAN);
            let history = run.summary(position).with_newest(newest);
            let value = if newest.is_finite() { newest } else { history.last };
            Figure { info: info.clone(), value, history }
        });
        Some(Reading {
            identity: run.identity().clone(),
            status: run.status(),
            figures: figures.collect(),
            sample: run.sample(),
            events: run.events(),
            skipped: run.skipped(),
            returns: trend(run, "episodic_return"),
            speeds: trend(run, "sps"),
        })
    }

    /// The value of a metric; NaN if there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.figure(name).map_or(f64::NAN, |figure| figure.value)
    }

    /// A metric by name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.info.name == name)
    }

    /// Share of the environment steps taken, 0 to 1; none if the run has no number of steps to take.
    pub fn progress(&self) -> Option<f64> {
        let share = self.value("env_steps") / self.identity.total_steps as f64;
        share.is_finite().then(|| share.clamp(0.0, 1.0))
    }

    /// Seconds until every step is taken, at the average speed; none if the run makes no progress.
    pub fn eta(&self) -> Option<f64> {
        let moves = matches!(self.status.health, Health::Reported(RunState::Running | RunState::Starting));
        let speed =
            ["sps_average", "sps"].map(|name| self.value(name)).into_iter().find(|speed| *speed > 0.0)?;
        let left = (self.identity.total_steps as f64 - self.value("env_steps")).max(0.0);
        (moves && self.identity.total_steps > 0 && left.is_finite()).then(|| left / speed)
    }
}

/// A metric over the whole run.
fn trend(run: &Source, name: &str) -> Vec<f64> {
    let position = |name| run.schema().position(name);
    let (Some(x), Some(y)) = (position("update"), position(name)) else { return Vec::new() };
    // At least a quarter as many points as are requested come back.
    parts(&run.series(x, y, 0..=run.last_update(), 4 * TREND), TREND)
}

/// Means over equal parts of the updates behind the points, at most `parts` of them. Points stand for one update or for
/// many; a part without the end of a point repeats the previous part.
fn parts(points: &[SeriesPoint], parts: usize) -> Vec<f64> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let (parts, span) = (parts.min(points.len()), last.update.saturating_sub(first.update) + 1);
    let place = |point: &SeriesPoint| {
        let from_start = point.update.saturating_sub(first.update);
        ((u128::from(from_start) * parts as u128 / u128::from(span)) as usize).min(parts - 1)
    };
    let mut sums = vec![(0.0, 0u32, false); parts];
    for point in points {
        let (sum, count, seen) = &mut sums[place(point)];
        *seen = true;
        if point.mean.is_finite() {
            (*sum, *count) = (*sum + point.mean, *count + 1);
        }
    }
    let mut before = f64::NAN;
    let mean = |(sum, count, seen): (f64, u32, bool)| {
        if seen {
            before = if count > 0 { sum / f64::from(count) } else { f64::NAN };
        }
        before
    };
    sums.into_iter().map(mean).collect()
}

/// Whether a metric is an integer counter, which is printed without a decimal point.
pub fn is_whole(info: &MetricInfo) -> bool {
    info.kind == MetricKind::Counter && info.unit != "s"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(update: u64, mean: f64) -> SeriesPoint {
        SeriesPoint { x: update as f64, update, min: mean, max: mean, mean, last: mean }
    }

    #[test]
    fn parts_are_equal_stretches_of_the_run_whatever_the_points_stand_for() {
        assert!(parts(&[], 4).is_empty());
        assert_eq!(parts(&[point(9, 2.0)], 4), [2.0]);
        // Coarse at first, every update at the end: the last part has most of the points.
        let mixed: Vec<_> = [(16, 1.0), (32, 2.0), (48, 3.0), (61, 4.0), (62, 5.0), (63, 6.0), (64, 6.0)]
            .map(|(update, mean)| point(update, mean))
            .to_vec();
        assert_eq!(parts(&mixed, 4), [1.0, 2.0, 3.0, 21.0 / 4.0]);
        // A part without a reported value is a gap; a part without points is not.
        let gap = [point(0, 1.0), point(25, f64::NAN), point(50, 3.0), point(99, 4.0), point(99, 4.0)];
        let drawn = parts(&gap, 5);
        assert!(drawn[1].is_nan());
        assert_eq!((drawn[0], drawn[2], drawn[3], drawn[4]), (1.0, 3.0, 3.0, 4.0));
    }
}
