//! The metrics of one run: the table's, then those of its environment.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::{COUNT, MAX_ENV_METRICS, METRICS, Metric, MetricKind, Record, position};

/// Section of an environment's own metrics.
pub const ENV_GROUP: &str = "env";

/// Names that an environment's metrics must not have, besides those of [`METRICS`]: keys of the JSON objects that also hold metrics.
const RESERVED: &str = "run state reason env algorithm device seed pid dir name version started progress checkpoint sampled cores history events \
    uptime_s seconds_since_update seconds_since_progress total_steps eta_s skipped_records updates wall_s train_s config done solved \
    solved_at_step solved_at_s";

/// Up to this many metrics of an environment are shown with a run's losses; of more only the scores.
pub const FEW_ENV_METRICS: usize = 8;

/// Why a name cannot be that of an environment's metric; None if it can.
pub fn unusable(name: &str) -> Option<&'static str> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if !name.starts_with(|first: char| first.is_ascii_lowercase())
        || !name.bytes().all(plain)
        || name.len() > 40
    {
        Some("a name has up to 40 lower-case letters, digits and underscores, and begins with a letter")
    } else if position(name).is_some() {
        Some("every run has a metric of that name")
    } else if name.starts_with("eval_") || RESERVED.split_whitespace().any(|word| word == name) {
        Some("the name has another meaning in JSON output")
    } else {
        None
    }
}

/// The metrics of a run, in the order of columns and of a ring's words: those of the table, then those of its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunMetrics {
    env: &'static [Metric],
}

impl RunMetrics {
    /// With these metrics of the environment: names, each with its meaning in one sentence. Those beyond [`MAX_ENV_METRICS`] are left
    /// out.
    pub fn new<'a>(env: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::with_scores(env.into_iter().map(|(name, help)| (name, help, Vec::new())))
    }

    /// As [`RunMetrics::new`]; each has the positions of the rates of which it is the score, or none.
    pub fn with_scores<'a>(env: impl IntoIterator<Item = (&'a str, &'a str, Vec<usize>)>) -> Self {
        // Metrics live as long as the process, as the table does: every list is kept once.
        type Lists = BTreeMap<Vec<(String, String, Vec<usize>)>, &'static [Metric]>;
        static KNOWN: Mutex<Lists> = Mutex::new(Lists::new());
        let owned = |(name, help, of): (&str, &str, _)| (name.to_owned(), help.to_owned(), of);
        let names: Vec<_> = env.into_iter().take(MAX_ENV_METRICS).map(owned).collect();
        if names.is_empty() {
            return Self::default();
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let metric = |(name, help, of): &(String, String, Vec<usize>)| {
            let (name, help, score_of) = (&*name.clone().leak(), help.clone().leak(), of.clone().leak());
            // A monitor shows it with the losses, if they are few.
            let loss = (names.len() <= FEW_ENV_METRICS || !score_of.is_empty()).then_some(name);
            let unit = if score_of.is_empty() { "1" } else { "%" };
            Metric { name, unit, kind: MetricKind::Gauge, group: ENV_GROUP, help, loss, score_of }
        };
        let make = || &*names.iter().map(metric).collect::<Vec<_>>().leak();
        let env = match known.get(&names) {
            Some(env) => env,
            None => known.entry(names.clone()).or_insert(make()),
        };
        Self { env }
    }

    /// All metrics.
    pub fn iter(&self) -> impl Iterator<Item = &'static Metric> + use<> {
        METRICS.iter().chain(self.env)
    }

    /// The environment's own.
    pub fn env(&self) -> &'static [Metric] {
        self.env
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        COUNT + self.env.len()
    }

    /// Sets the scores among the means of the environment's metrics: exp(mean of ln(1 + rate in percent)) - 1 over their rates, as in
    /// Crafter (Hafner 2021). NaN where a rate is.
    pub fn add_scores(&self, means: &mut [f64; MAX_ENV_METRICS]) {
        for (at, metric) in self.env.iter().enumerate().filter(|(_, metric)| !metric.score_of.is_empty()) {
            let logarithms = metric.score_of.iter().map(|&of| (100.0 * means[of]).ln_1p());
            means[at] = (logarithms.sum::<f64>() / metric.score_of.len() as f64).exp_m1();
        }
    }

    /// The values of a record, in this order.
    pub fn values(&self, record: &Record) -> impl Iterator<Item = f64> + use<> {
        record.values().into_iter().chain(record.env.into_iter().take(self.env.len()))
    }

    /// The value of the metric called `name`, if the run has one.
    pub fn get(&self, record: &Record, name: &str) -> Option<f64> {
        let own = || self.env.iter().position(|metric| metric.name == name).map(|at| record.env[at]);
        record.get(name).or_else(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_an_environment_follow_those_of_the_table() {
        let metrics = RunMetrics::new([("success", "Reached it."), ("score", "")]);
        assert_eq!(metrics, RunMetrics::new([("success", "Reached it."), ("score", "")]));
        assert_eq!(metrics.count(), COUNT + 2);
        assert_eq!(metrics.iter().count(), COUNT + 2);
        let mut record = Record { sps: 5.0, ..Record::default() };
        record.env[1] = 7.0;
        assert_eq!(metrics.values(&record).count(), COUNT + 2);
        assert_eq!(metrics.values(&record).last(), Some(7.0));
        assert_eq!((metrics.get(&record, "score"), metrics.get(&record, "sps")), (Some(7.0), Some(5.0)));
        assert_eq!(RunMetrics::default().get(&record, "score"), None);
        assert_eq!(metrics.iter().last().map(Metric::tag).as_deref(), Some("env/score"));
    }

    #[test]
    fn a_score_is_made_of_mean_rates() {
        let metrics = RunMetrics::with_scores([
            ("wood", "", vec![]),
            ("length", "", vec![]),
            ("stone", "", vec![]),
            ("score", "", vec![0, 2]),
        ]);
        let mut means = [f64::NAN; MAX_ENV_METRICS];
        metrics.add_scores(&mut means);
        assert!(means.iter().all(|mean| mean.is_nan()));
        means[..3].copy_from_slice(&[0.99, 7.0, 0.0]);
        metrics.add_scores(&mut means);
        // The geometric mean of 1 + 99 and 1 + 0.
        assert!((means[3] - 9.0).abs() < 1e-12 && means[4].is_nan(), "{means:?}");
        means[2] = f64::NAN;
        metrics.add_scores(&mut means);
        assert!(means[3].is_nan());
        let many = (0..=FEW_ENV_METRICS).map(|k| (["a", "b"][k % 2], "", vec![0; k / FEW_ENV_METRICS]));
        let with_losses: Vec<_> =
            RunMetrics::with_scores(many).env().iter().map(|metric| metric.loss).collect();
        assert_eq!(with_losses[..FEW_ENV_METRICS], [None; FEW_ENV_METRICS]);
        assert_eq!(with_losses[FEW_ENV_METRICS], Some("a"));
    }

    #[test]
    fn names_that_would_be_ambiguous_are_unusable() {
        for name in [
            "",
            "Success",
            "a-b",
            "2nd",
            "sps",
            "run",
            "total_steps",
            "eval_metrics",
            "x\ty",
            &"x".repeat(41),
        ] {
            assert!(unusable(name).is_some(), "{name}");
        }
        assert_eq!(unusable("is_success"), None);
    }
}
