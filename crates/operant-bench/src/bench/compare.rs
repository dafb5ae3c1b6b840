//! Comparison with the rows of an earlier run: each is faster, slower, or the same within both spreads.

use std::path::Path;

use operant_run::{Error, Result};
use serde_json::Value;

use super::Bench;
use super::row::Row;
use super::verdict::{Comparison, Verdict};

/// Relative differences below this are not significant: the same machine differs by as much from one minute to another.
const DRIFT: f64 = 0.03;

/// A row of a file.
#[derive(Debug, Clone, PartialEq)]
struct BaselineRow {
    bench: Bench,
    env: String,
    device: String,
    precision: String,
    envs: u64,
    threads: Option<u64>,
    work: Option<String>,
    sps: [f64; 3],
}

/// The rows of an earlier run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Baseline(Vec<BaselineRow>);

impl Baseline {
    /// Reads the output of `operant bench --json`.
    ///
    /// # Errors
    /// When the file cannot be read or holds anything else, with its line.
    pub fn read(path: &Path) -> Result<Self> {
        let place = format!("--compare {}", path.display());
        let remedy = "write one with `operant bench --json > FILE`";
        let text = operant_run::dir::read_text(path).map_err(|error| {
            Error::usage(format!("the earlier run cannot be read: {error}")).at(&place).remedy(remedy)
        })?;
        Self::parse(&text).map_err(|(line, problem)| {
            Error::usage(problem)
                .at(line.map_or(place.clone(), |line| format!("{place}:{line}")))
                .remedy(remedy)
        })
    }

    /// Parses text; the error is the line, if there is one, and the problem.
    fn parse(text: &str) -> std::result::Result<Self, (Option<usize>, String)> {
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let row = serde_json::from_str(line).ok().and_then(|value| known(&value));
            let problem = || (Some(number + 1), "this is not a row of `operant bench --json`".to_owned());
            rows.push(row.ok_or_else(problem)?);
        }
        if rows.is_empty() {
            return Err((None, "the earlier run has no rows".to_owned()));
        }
        Ok(Self(rows))
    }

    /// Compares a row; of several earlier ones of its kind the last counts.
    pub fn compare(&self, row: &Row) -> Comparison {
        let is_of_its_kind = |known: &&BaselineRow| {
            known.bench == row.bench
                && known.env == row.env
                && known.device == row.device
                && known.precision == row.precision
                && known.envs == row.envs as u64
                && known.threads == row.threads.map(|threads| threads as u64)
                && known.work.as_ref().is_none_or(|work| *work == row.work)
        };
        match self.0.iter().rev().find(is_of_its_kind) {
            None => Comparison { verdict: Verdict::New, before: None, ratio: f64::NAN },
            Some(known) => {
                let after = [row.sps.median, row.sps.min, row.sps.max];
                let ratio = row.sps.median / known.sps[0];
                let is_drift = (ratio - 1.0).abs() < DRIFT;
                let verdict = if is_drift { Verdict::Same } else { Verdict::of(known.sps, after) };
                Comparison { verdict, before: Some(known.sps), ratio }
            }
        }
    }
}

/// A row as [`Row::to_json`] writes it; None for anything else.
fn known(value: &Value) -> Option<BaselineRow> {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let sps = ["sps_median", "sps_min", "sps_max"].map(|key| value[key].as_f64().unwrap_or(f64::NAN));
    let [median, min, max] = sps;
    if !(min > 0.0 && min <= median && median <= max && max.is_finite()) {
        return None;
    }
    Some(BaselineRow {
        bench: Bench::named(value["bench"].as_str()?).ok()?,
        env: text("env")?,
        device: text("device")?,
        precision: text("precision")?,
        envs: value["envs"].as_u64()?,
        threads: match value.get("threads")? {
            Value::Null => None,
            threads => Some(threads.as_u64()?),
        },
        work: text("work"),
        sps,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::row::made_up as row;

    #[test]
    fn a_row_finds_its_own_kind() {
        let old = row(Bench::Train, [100.0, 95.0, 104.0]);
        let text =
            |rows: &[Row]| rows.iter().map(|row| format!("{}\n", row.to_json("m"))).collect::<String>();
        let earlier = Baseline::parse(&text(&[row(Bench::Env, [1.0; 3]), old.clone()])).expect("rows");
        let new = row(Bench::Train, [150.0, 140.0, 160.0]);
        let comparison = earlier.compare(&new);
        assert_eq!((comparison.verdict, comparison.ratio), (Verdict::Faster, 1.5));
        assert_eq!(comparison.before, Some([100.0, 95.0, 104.0]));
        // Beyond both spreads, but less than DRIFT.
        let near = row(Bench::Train, [102.9, 102.8, 103.0]);
        let narrow = Baseline::parse(&text(&[row(Bench::Train, [100.0, 99.9, 100.1])])).expect("rows");
        assert_eq!(narrow.compare(&near).verdict, Verdict::Same);
        assert_eq!(narrow.compare(&row(Bench::Train, [103.1, 103.0, 103.2])).verdict, Verdict::Faster);
        for other in [
            Row { threads: Some(1), ..new.clone() },
            Row { threads: None, ..new.clone() },
            Row { envs: 65, ..new.clone() },
            Row { device: "cuda:0".to_owned(), ..new.clone() },
            Row { precision: "bf16", ..new.clone() },
            Row { env: "acrobot".to_owned(), ..new.clone() },
            Row { work: "more".to_owned(), ..new.clone() },
            row(Bench::Rollout, [1.0; 3]),
        ] {
            assert_eq!(earlier.compare(&other).verdict, Verdict::New, "{other:?}");
        }
        let twice = Baseline::parse(&text(&[old, new.clone()])).expect("rows");
        assert_eq!(twice.compare(&new).verdict, Verdict::Same, "the last counts");
    }

    #[test]
    fn invalid_rows_are_reported_with_their_line() {
        let good = row(Bench::Env, [2.0, 1.0, 3.0]).to_json("m");
        let with = |key: &str, value: Value| {
            let mut bad = good.clone();
            bad[key] = value;
            bad.to_string()
        };
        for bad in [
            "not json".to_owned(),
            "{}".to_owned(),
            "[]".to_owned(),
            "7".to_owned(),
            with("bench", json!("bnech")),
            with("sps_median", Value::Null),
            with("sps_median", json!(5.0)),
            with("sps_min", json!(0.0)),
            with("threads", json!("two")),
            with("envs", json!(-1)),
        ] {
            let (line, problem) = Baseline::parse(&format!("{good}\n\n{bad}\n")).expect_err(&bad);
            assert_eq!(line, Some(3), "{bad}");
            assert!(problem.contains("not a row"), "{problem}");
        }
        assert_eq!(Baseline::parse(" \n").expect_err("empty").0, None);
    }
}
