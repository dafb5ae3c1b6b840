//! Reads checkpoints of schema 1, in which totals are a flat map of whole numbers (reals as the bits of an f64) and the
//! configuration leaves out environment options with default values.

use std::collections::BTreeMap;

use super::Totals;
use crate::evaluate::EvalSchedule;

/// Adds the option whose default has changed since.
pub fn config(env: &str, config: String) -> String {
    let without = |table: &toml::Table| !table.contains_key("env");
    match config.parse() {
        Ok(table) if env == "minatar_breakout" && without(&table) => {
            format!("{config}\n[env]\nsticky_action_prob = 0.0\n")
        }
        _ => config,
    }
}

pub fn totals(map: &BTreeMap<String, u64>) -> Totals {
    let count = |name: &str| map.get(name).copied();
    let real = |name: &str| count(name).map(f64::from_bits);
    let window = (0..).map_while(|i| {
        Some((count(&format!("window.{i:04}.episodes"))?, real(&format!("window.{i:04}.mean"))?))
    });
    Totals {
        episodes: count("episodes").unwrap_or(0),
        nonfinite_updates: count("nonfinite_updates").unwrap_or(0),
        rounds: count("rounds").unwrap_or(0),
        wall_s: real("wall_s"),
        best_mean: real("best_mean"),
        solved_at_step: count("solved_at_step"),
        solved_at_s: real("solved_at_s"),
        attempts: EvalSchedule::new(window.collect(), real("first_mean"), count("last_attempt")),
    }
}
