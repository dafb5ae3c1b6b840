//! Which checkpoints a run keeps: `keep_checkpoints`, a number or `log`.

use operant_learn::setting::{Kind, Refusal, Syntax};
use serde::{Deserialize, Serialize};
use toml::Value;

use super::keys::{count, parse_value};

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
const MOST: i64 = 10_000;

/// Its syntax; a number is accepted too.
pub(super) static SYNTAX: Syntax =
    Syntax { about: "1 to 10000, or `log`", check: |text| checked(Value::String(text.to_owned())).map(drop) };

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

/// Whether a kind is that of this setting.
pub(super) fn is_kept(kind: Kind) -> bool {
    matches!(kind, Kind::Text(syntax) if std::ptr::eq(syntax, &SYNTAX))
}

/// The value as a whole number or the word.
pub(super) fn checked(value: Value) -> Result<Value, Refusal> {
    let remedy = "give a whole number such as 3, or log";
    match value.as_str() {
        Some("log") => Ok(value),
        Some(text) => count(1, MOST, parse_value(text), remedy),
        None => count(1, MOST, value, remedy),
    }
}

#[cfg(test)]
mod tests {
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
        let accepted = |text: &str| checked(parse_value(text)).map(|value| value.to_string());
        assert_eq!(accepted("log"), Ok("\"log\"".to_owned()));
        assert_eq!(accepted("7"), Ok("7".to_owned()));
        assert_eq!(checked(Value::String("7".to_owned())), Ok(Value::Integer(7)), "as --set gives it");
        for (bad, problem) in
            [("0", "is too small"), ("20000", "is too large"), ("all", "is not a whole number")]
        {
            let refused = checked(parse_value(bad)).expect_err(bad);
            assert!(refused.problem.contains(problem), "{bad}: {refused:?}");
        }
        assert!(checked(parse_value("all")).expect_err("a word").remedy.contains("or log"));
    }
}
