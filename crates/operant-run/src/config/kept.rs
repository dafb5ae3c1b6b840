//! Which checkpoints a run keeps: `keep_checkpoints`, a number or `log`.

use serde::{Deserialize, Serialize};

/// Which checkpoints a run keeps, besides the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeepCheckpoints {
    /// This many of the latest, at least 1.
    Latest(usize),
    /// The latest, and those after [milestones](KeepCheckpoints::keeps).
    Log(Word),
}

/// The word of [`KeepCheckpoints::Log`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    Log,
}

/// Milestones for each doubling of the updates.
const PER_DOUBLING: u64 = 4;

/// The most that can be kept by number.
pub(super) const MOST: i64 = 10_000;

impl KeepCheckpoints {
    /// Spacing that grows with the updates.
    pub const LOG: Self = KeepCheckpoints::Log(Word::Log);

    /// How many of the latest are kept.
    pub fn latest(self) -> usize {
        match self {
            KeepCheckpoints::Latest(count) => count.max(1),
            KeepCheckpoints::Log(_) => 1,
        }
    }

    /// Whether the checkpoint after this many updates is saved and kept, however old it is: with `log` after 0, 1, 2, 3, 4, 5, 6, 7, 8, 10,
    /// 12, 14, 16, 20, ... updates. It depends on nothing else, so a run that is killed and resumed keeps the same ones.
    pub fn keeps(self, updates: u64) -> bool {
        self == KeepCheckpoints::LOG && updates.is_multiple_of(spacing(updates))
    }

    /// Updates until the next that [`KeepCheckpoints::keeps`] names.
    pub fn to_next(self, updates: u64) -> u64 {
        match self {
            KeepCheckpoints::Latest(_) => u64::MAX,
            KeepCheckpoints::Log(_) => spacing(updates) - updates % spacing(updates),
        }
    }
}

/// Updates from one milestone to the next: a quarter of the power of two at or below.
fn spacing(updates: u64) -> u64 {
    (updates.checked_ilog2().map_or(1, |power| 1 << power) / PER_DOUBLING).max(1)
}

#[cfg(test)]
mod tests {
    use toml::Value;

    use super::super::keys::{accept, find, parse};
    use super::*;

    #[test]
    fn milestones_are_four_for_each_doubling() {
        let log = KeepCheckpoints::LOG;
        let first: Vec<u64> = (0..=40).filter(|updates| log.keeps(*updates)).collect();
        assert_eq!(first, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40]);
        for power in 2..20 {
            let doubling = (1u64 << power)..(2 << power);
            assert_eq!(doubling.filter(|updates| log.keeps(*updates)).count(), 4, "from 2^{power}");
        }
        for updates in 0..5_000 {
            let next = (updates + 1..).find(|later| log.keeps(*later)).expect("they never end");
            assert_eq!(updates + log.to_next(updates), next);
        }
        assert!(log.to_next(u64::MAX - 1) > 0 && !KeepCheckpoints::Latest(3).keeps(4));
    }

    #[test]
    fn it_is_a_number_or_the_word() {
        let key = find("keep_checkpoints").expect("a setting");
        let checked = |text: &str| accept(key, parse(key, text));
        assert_eq!(checked("log"), Ok(Value::String("log".to_owned())));
        assert_eq!(checked("7"), Ok(Value::Integer(7)));
        for (bad, problem) in
            [("0", "is too small"), ("20000", "is too large"), ("all", "is not a whole number")]
        {
            let refused = checked(bad).expect_err(bad);
            assert!(refused.problem.contains(problem), "{bad}: {refused:?}");
        }
        assert!(checked("all").expect_err("a word").remedy.contains("or log"));
    }
}
