//! One row of the table of metrics, and the macro that generates [`crate::Record`] from the rows.

use crate::METRICS;

/// Maximum number of an environment's own metrics.
pub const MAX_ENV_METRICS: usize = 32;

/// How a metric behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Never decreases within a run; starts at 0 and always has a value.
    Counter,
    /// Can rise and fall; NaN while there is nothing to report.
    Gauge,
}

impl MetricKind {
    /// The initial value: 0 for a counter, NaN for a gauge.
    pub const fn initial(self) -> f64 {
        match self {
            MetricKind::Counter => 0.0,
            MetricKind::Gauge => f64::NAN,
        }
    }

    /// `"counter"` or `"gauge"`.
    pub const fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name of the field of [`crate::Record`] and of the CSV column.
    pub name: &'static str,
    /// Unit, or `1` for a dimensionless number.
    pub unit: &'static str,
    /// Behaviour over time.
    pub kind: MetricKind,
    /// Section in which it is shown; the prefix of its TensorBoard tag, as in CleanRL.
    pub group: &'static str,
    /// Meaning, in one sentence.
    pub help: &'static str,
    /// Its short name in a monitor's panel of losses; None if it is not shown there.
    pub loss: Option<&'static str>,
    /// Positions, among the environment's own metrics, of the rates of which it is the score; empty if it is measured.
    pub score_of: &'static [usize],
}

impl Metric {
    /// TensorBoard tag, such as `losses/policy_loss`.
    pub fn tag(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}

/// Index of the metric called `name` in [`METRICS`] and in [`crate::Record::values`].
pub fn position(name: &str) -> Option<usize> {
    METRICS.iter().position(|metric| metric.name == name)
}

/// Generates `METRICS`, `COUNT` and `Record` from rows of `name unit kind group help;`, or `name unit kind group(loss) help;`.
macro_rules! metrics {
    (@loss) => { None };
    (@loss $loss:literal) => { Some($loss) };
    ($($name:ident $unit:literal $kind:ident $group:ident $(($loss:literal))? $help:literal;)*) => {
        /// The table: one row per metric, in the order of the CSV's columns.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: stringify!($name),
            unit: $unit,
            kind: MetricKind::$kind,
            group: stringify!($group),
            help: $help,
            loss: metrics!(@loss $($loss)?),
            score_of: &[],
        }),*];

        /// Number of metrics.
        pub const COUNT: usize = METRICS.len();

        /// One value per metric: what training publishes after each update. Counters start at 0, gauges at NaN, which
        /// stands for "nothing to report".
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Record {
            $(
                #[doc = concat!($help, " Unit: ", $unit, ".")]
                pub $name: f64,
            )*
            /// The environment's own metrics, in the order of [`crate::RunMetrics`]: means over the episodes that ended in this update.
            pub env: [f64; MAX_ENV_METRICS],
        }

        impl Default for Record {
            fn default() -> Self {
                Self { $($name: MetricKind::$kind.initial(),)* env: [f64::NAN; MAX_ENV_METRICS] }
            }
        }

        impl Record {
            /// The values in the order of [`METRICS`], without those of the environment.
            pub const fn values(&self) -> [f64; COUNT] {
                [$(self.$name),*]
            }

            /// The inverse of [`Record::values`].
            pub const fn from_values(values: [f64; COUNT]) -> Self {
                let [$($name),*] = values;
                Self { $($name,)* env: [f64::NAN; MAX_ENV_METRICS] }
            }

            /// The value of the metric called `name`, if the table has one.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use metrics;
