//! The order of the runs in the list.

use std::cmp::Ordering;

use operant_metrics::natural;

use super::run::RunView;

/// What the runs are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortBy {
    /// Name, numbers in it by their value; the runs that train come first.
    #[default]
    Name,
    State,
    /// Environment.
    Env,
    /// Share of the steps taken.
    Done,
    /// Steps taken.
    Steps,
    /// Steps per second.
    Speed,
    Return,
    /// When it began.
    Started,
}

impl SortBy {
    const ALL: [SortBy; 8] = [
        SortBy::Name,
        SortBy::State,
        SortBy::Env,
        SortBy::Done,
        SortBy::Steps,
        SortBy::Speed,
        SortBy::Return,
        SortBy::Started,
    ];

    /// The title of its column.
    pub const fn title(self) -> &'static str {
        match self {
            SortBy::Name => "run",
            SortBy::State => "state",
            SortBy::Env => "env",
            SortBy::Done => "done",
            SortBy::Steps => "steps",
            SortBy::Speed => "sps",
            SortBy::Return => "return",
            SortBy::Started => "start",
        }
    }

    /// The next column.
    pub fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    /// Whether its values are numbers, which are sorted in descending order.
    pub const fn is_number(self) -> bool {
        !matches!(self, SortBy::Name | SortBy::State | SortBy::Env)
    }

    fn compare(self, a: &RunView, b: &RunView) -> Ordering {
        let value = |name: &'static str| (a.value(name), b.value(name));
        match self {
            SortBy::Name => Ordering::Equal,
            SortBy::State => a.verdict().word.cmp(b.verdict().word),
            SortBy::Env => natural(&a.identity().env, &b.identity().env),
            SortBy::Done => numbers((a.done(), b.done())),
            SortBy::Steps => numbers(value("env_steps")),
            SortBy::Speed => numbers(value("sps")),
            SortBy::Return => numbers((a.mean_return().0, b.mean_return().0)),
            SortBy::Started => a.identity().started_unix_ns.cmp(&b.identity().started_unix_ns),
        }
    }
}

/// How the runs are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    /// By which column.
    pub by: SortBy,
    /// Whether the largest comes first.
    pub reversed: bool,
}

impl Order {
    /// Sorts by the column; runs with equal values are sorted by name. By name, live runs come before the others.
    pub(super) fn sort(self, runs: &mut [RunView]) {
        let is_later = |run: &RunView| self.by == SortBy::Name && !run.status.health.is_alive();
        runs.sort_by(|a, b| {
            let by = self.by.compare(a, b).then_with(|| natural(a.name(), b.name()));
            is_later(a).cmp(&is_later(b)).then(if self.reversed { by.reverse() } else { by })
        });
    }
}

/// Numbers by their value, a missing one as less than all.
fn numbers((a, b): (f64, f64)) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(&b),
        (a, b) => b.cmp(&a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_least() {
        assert_eq!(numbers((f64::NAN, -1.0)), Ordering::Less);
        assert_eq!(numbers((f64::NAN, f64::NAN)), Ordering::Equal);
        assert_eq!(numbers((2.0, 10.0)), Ordering::Less);
    }
}
