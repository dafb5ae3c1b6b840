//! The table of metrics in a ring: lines of tab-separated fields, so that an older monitor can show the metrics of a
//! newer trainer.

use super::text;
use crate::{METRICS, Metric, MetricKind, position};

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

    /// This program's table as text.
    pub(super) fn own_text() -> String {
        let mut text = String::new();
        for metric in METRICS {
            let fields = [metric.name, metric.unit, metric.kind.name(), metric.group, metric.help];
            text.push_str(&fields.join("\t"));
            text.push('\n');
        }
        text
    }

    /// Parses a text. An unknown kind reads as a gauge.
    pub(super) fn from_text(text: &str) -> Self {
        let metric = |line: &str| {
            let mut fields = line.splitn(5, '\t').map(text::plain);
            let mut field = || fields.next().unwrap_or_default();
            let (name, unit, kind, group, help) = (field(), field(), field(), field(), field());
            let kind = if kind == "counter" { MetricKind::Counter } else { MetricKind::Gauge };
            MetricInfo { name, unit, kind, group, help }
        };
        Schema(text.lines().take(MAX_METRICS).map(metric).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_back() {
        let schema = Schema::from_text(&Schema::own_text());
        assert_eq!(schema.len(), METRICS.len());
        for (info, metric) in schema.metrics().iter().zip(METRICS) {
            let fields =
                (info.name.as_str(), info.unit.as_str(), info.kind, info.group.as_str(), info.help.as_str());
            assert_eq!(fields, (metric.name, metric.unit, metric.kind, metric.group, metric.help));
        }
        assert_eq!(schema.position("sps"), crate::position("sps"));
        assert_eq!(schema.position("none"), None);
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
