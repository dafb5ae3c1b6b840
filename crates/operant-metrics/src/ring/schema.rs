//! The table of metrics in a ring: lines of tab-separated fields, so that an older monitor can show the metrics of a
//! newer trainer.

use super::text;
use crate::{ENV_GROUP, METRICS, Metric, MetricKind, RunMetrics, position};

/// Maximum number of metrics that a reader accepts.
const MAX_METRICS: usize = 4096;

/// One metric of a ring's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricInfo {
    /// Its name.
    pub name: String,
    /// Its unit, or `1` for a dimensionless number.
    pub unit: String,
    /// Behaviour over time.
    pub kind: MetricKind,
    /// Section in which it is shown.
    pub group: String,
    /// Its meaning.
    pub help: String,
    /// Its short name in a panel of losses; None if it is not shown there.
    pub loss: Option<String>,
}

impl MetricInfo {
    /// The metric of the table called `name`; a plain gauge where the table has no such row.
    pub fn named(name: &str) -> Self {
        match position(name).and_then(|at| METRICS.get(at)) {
            Some(metric) => metric.into(),
            None => MetricInfo {
                name: text::plain(name),
                unit: "1".to_owned(),
                kind: MetricKind::Gauge,
                group: "other".to_owned(),
                help: "Not in this version's table of metrics.".to_owned(),
                loss: None,
            },
        }
    }
}

impl From<&Metric> for MetricInfo {
    fn from(metric: &Metric) -> Self {
        MetricInfo {
            name: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            kind: metric.kind,
            group: metric.group.to_owned(),
            help: metric.help.to_owned(),
            loss: metric.loss.map(str::to_owned),
        }
    }
}

/// The metrics of a ring, in the order of its records' words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema(Vec<MetricInfo>);

impl Schema {
    /// These metrics, in this order.
    pub fn new(metrics: Vec<MetricInfo>) -> Self {
        Schema(metrics)
    }

    /// The metrics.
    pub fn metrics(&self) -> &[MetricInfo] {
        &self.0
    }

    /// Number of metrics.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Index of the metric called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|metric| metric.name == name)
    }

    /// The metrics of a panel of losses: first those of the environment's own, then the group of losses.
    pub fn losses(&self) -> Vec<&MetricInfo> {
        let mut losses: Vec<_> = self.0.iter().filter(|metric| metric.loss.is_some()).collect();
        losses.sort_by_key(|metric| match metric.group.as_str() {
            ENV_GROUP => 0,
            "losses" => 1,
            _ => 2,
        });
        losses
    }

    /// A run's metrics as text, in which only `shown` of the table are losses, or all if that is empty.
    pub(super) fn text_of(metrics: RunMetrics, shown: &[&str]) -> String {
        let is_shown =
            |metric: &Metric| shown.is_empty() || shown.contains(&metric.name) || metric.group == ENV_GROUP;
        let mut text = String::new();
        for metric in metrics.iter() {
            let loss = metric.loss.filter(|_| is_shown(metric)).unwrap_or_default();
            let fields = [metric.name, metric.unit, metric.kind.name(), metric.group, metric.help, loss];
            text.push_str(&fields.join("\t"));
            text.push('\n');
        }
        text
    }

    /// Parses a text. An unknown kind reads as a gauge. Trainers of earlier versions did not write which metrics are losses.
    pub(super) fn from_text(text: &str) -> Self {
        let metric = |line: &str| {
            let mut fields = line.splitn(6, '\t').map(text::plain);
            let mut field = || fields.next().unwrap_or_default();
            let (name, unit, kind, group, help) = (field(), field(), field(), field(), field());
            let kind = if kind == "counter" { MetricKind::Counter } else { MetricKind::Gauge };
            let loss = match fields.next() {
                Some(loss) => Some(loss).filter(|loss| !loss.is_empty()),
                None => MetricInfo::named(&name).loss,
            };
            MetricInfo { name, unit, kind, group, help, loss }
        };
        Schema(text.lines().take(MAX_METRICS).map(metric).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_back() {
        let schema = Schema::from_text(&Schema::text_of(RunMetrics::default(), &[]));
        assert_eq!(schema.len(), METRICS.len());
        for (info, metric) in schema.metrics().iter().zip(METRICS) {
            assert_eq!(info, &MetricInfo::from(metric));
        }
        assert_eq!(schema.position("sps"), crate::position("sps"));
        assert_eq!(schema.position("none"), None);
    }

    #[test]
    fn losses_of_rings_without_that_field_are_those_of_the_table() {
        let names = |text: &str| {
            let schema = Schema::from_text(text);
            schema.losses().iter().map(|metric| metric.name.clone()).collect::<Vec<_>>()
        };
        let [own, five] = [6, 5].map(|fields| {
            let line = |line: &str| line.split('\t').take(fields).collect::<Vec<_>>().join("\t") + "\n";
            Schema::text_of(RunMetrics::default(), &[]).lines().map(line).collect::<String>()
        });
        assert_eq!(names(&own), names(&five));
        assert_eq!(names(&own).first().map(String::as_str), Some("policy_loss"));
        assert_eq!(names(&own).last().map(String::as_str), Some("epsilon"));
        assert_eq!(
            names(&Schema::text_of(RunMetrics::default(), &["grad_norm", "learning_rate"])),
            ["grad_norm", "learning_rate"]
        );
        assert_eq!(names("q\t1\tgauge\tlosses\tA mean.\tq\nsps\t1\tgauge\tcharts\tSpeed.\t\n"), ["q"]);
    }

    #[test]
    fn a_name_is_looked_up_in_the_table() {
        let known = MetricInfo::named("sps");
        assert_eq!((known.unit.as_str(), known.group.as_str()), ("steps/s", "charts"));
        let unknown = MetricInfo::named("later\u{1b}metric");
        assert_eq!((unknown.name.as_str(), unknown.kind), ("later metric", MetricKind::Gauge));
    }

    #[test]
    fn garbage_is_metrics_without_meaning() {
        let schema = Schema::from_text("\u{fffd}\nx\tm\n");
        assert_eq!(schema.len(), 2);
        assert_eq!((schema.metrics()[1].name.as_str(), schema.metrics()[1].kind), ("x", MetricKind::Gauge));
    }
}
