//! Time from the start of a process to CartPole solved: with no kernel compiled yet, and with all of them on the disk.

use serde_json::{Value, json};

use super::Gpu;
use crate::measure::Spread;
use crate::selftest::child::{Scratch, result, training};
use crate::selftest::report::Report;

/// Starts with kernels on the disk.
const WARM: usize = 5;

/// Seconds to CartPole solved.
pub struct Starting {
    /// From a warm cache, the median.
    pub warm_s: Option<f64>,
}

impl Gpu<'_> {
    /// Starts training again and again, and takes down when it was solved.
    pub fn starting(&self, report: &mut Report) -> Starting {
        let mut seconds = Vec::new();
        report.check("gpu", "cartpole is solved from a cold and from a warm kernel cache", || {
            seconds = self.starts()?;
            Ok(Vec::new())
        });
        let Some((cold, warm)) = seconds.split_first().filter(|(_, warm)| !warm.is_empty()) else {
            return Starting { warm_s: None };
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
        Starting { warm_s: Some(spread.median) }
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
