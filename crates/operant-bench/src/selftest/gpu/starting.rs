//! Time from process start to CartPole solved, with a cold and with a warm kernel cache.

use serde_json::{Value, json};

use super::Gpu;
use crate::measure::Spread;
use crate::selftest::child::{Scratch, result, training};
use crate::selftest::report::Report;

/// Number of starts with a warm cache.
const WARM: usize = 5;

/// Seconds to CartPole solved.
pub struct StartTimes {
    /// The median with a warm cache.
    pub warm_s: Option<f64>,
}

impl Gpu<'_> {
    /// Starts training repeatedly, and reports when it was solved.
    pub fn starting(&self, report: &mut Report) -> StartTimes {
        let mut seconds = Vec::new();
        report.check("gpu", "cartpole is solved from a cold and from a warm kernel cache", || {
            seconds = self.starts()?;
            Ok(Vec::new())
        });
        let Some((cold, warm)) = seconds.split_first().filter(|(_, warm)| !warm.is_empty()) else {
            return StartTimes { warm_s: None };
        };
        let spread = Spread::of(warm.to_vec());
        let value = json!({
            "cold_s": cold,
            "warm_s_median": spread.median,
            "warm_s_min": spread.min,
            "warm_s_max": spread.max,
            "warm_runs": warm.len(),
            "reduced": self.extent.quick,
        });
        let line = format!(
            "{cold:.2} s from process start with a cold kernel cache, {:.2} s ({:.2} .. {:.2}) with a warm one",
            spread.median, spread.min, spread.max
        );
        report.part("solved_from_start", value, &line);
        StartTimes { warm_s: Some(spread.median) }
    }

    /// The seconds of each start, the cold one first.
    fn starts(&self) -> Result<Vec<f64>, String> {
        let cache = Scratch::new()?;
        let warm = if self.extent.quick { 1 } else { WARM };
        let mut seconds = Vec::new();
        for _ in 0..=warm {
            let place = Scratch::new()?;
            let mut args = vec!["cartpole", "--device", &self.name, "--seed", "1", "--no-ring"];
            args.extend(["--set", "stop_when_solved=true"]);
            if self.extent.quick {
                args.extend(super::learning::SMALL);
                args.extend(["--set", "solved_at=1"]);
            }
            let mut command = training(&args, place.path())?;
            command.env("OPERANT_CACHE_DIR", cache.path());
            let output = command.output().map_err(|error| format!("training cannot be started: {error}"))?;
            let result: Value = result(&output)?;
            let solved = result["solved_at_s"].as_f64();
            seconds.push(solved.ok_or_else(|| format!("it was not solved: {result}"))?);
        }
        Ok(seconds)
    }
}
