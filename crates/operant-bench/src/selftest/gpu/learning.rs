//! Training with the GPU presets, in f32 and bf16, to the end; the mean return must reach `solved_at`.

use operant_env::EnvSpec;
use operant_learn::Precision;
use operant_run::config::{CommandLine, EnvFacts, requested};
use serde_json::{Value, json};

use super::Gpu;
use crate::selftest::child::train;
use crate::selftest::report::Report;

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Bf16];
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// A small run for tests without a GPU; it does not learn.
const SMALL: [&str; 10] = [
    "--steps",
    "1024",
    "--set",
    "num_envs=64",
    "--set",
    "num_steps=8",
    "--set",
    "num_minibatches=2",
    "--set",
    "eval_episodes=4",
];

impl Gpu<'_> {
    /// Trains all of them.
    pub fn learning(&self, report: &mut Report) {
        let quick = self.extent.quick;
        let (environments, precisions) = if quick { (1, 1) } else { (usize::MAX, PRECISIONS.len()) };
        let mut rows = Vec::new();
        for (env, threshold) in self.learned().into_iter().take(environments) {
            for precision in &PRECISIONS[..precisions] {
                for seed in SEEDS.take(if quick { 1 } else { 3 }) {
                    let name = format!("{env}: its preset learns in {precision} with seed {seed}");
                    report.check("gpu", name, || {
                        let row = self.learn(&env, *precision, seed, threshold)?;
                        let solved = row["solved"] == true;
                        let mean = row["eval_return_mean"].as_f64().unwrap_or(f64::NAN);
                        rows.push(row);
                        // A small run only needs to end in a number.
                        Ok(match (solved, quick) {
                            (true, false) => Vec::new(),
                            (_, true) if mean.is_finite() => Vec::new(),
                            _ => vec![format!("it reached {mean}; the threshold is {threshold}")],
                        })
                    });
                }
            }
        }
        let solved = rows.iter().filter(|row| row["solved"] == true).count();
        let runs = rows.len();
        let line = match quick {
            true => format!("small runs, which need not reach their threshold: {runs}"),
            false => format!("{solved} of {runs} runs reached their threshold"),
        };
        report.part("learning", Value::Array(rows), &line);
    }

    /// The trained environments with their thresholds. MinAtar would take minutes instead of seconds.
    fn learned(&self) -> Vec<(String, f64)> {
        let numbers = |spec: &EnvSpec| spec.obs.is_real();
        let specs = self.specs().into_iter().filter(numbers);
        specs.filter_map(|spec| self.threshold(&spec.name).map(|threshold| (spec.name, threshold))).collect()
    }

    fn threshold(&self, env: &str) -> Option<f64> {
        let facts = EnvFacts::registered(self.registry, env).ok()?;
        requested(facts, &CommandLine::default(), None).ok()?.settings.run.solved_at
    }

    fn learn(&self, env: &str, precision: Precision, seed: u64, threshold: f64) -> Result<Value, String> {
        let seed_text = seed.to_string();
        let mut args =
            vec![env, "--device", &self.name, "--precision", precision.name(), "--seed", &seed_text];
        if self.extent.quick {
            args.extend(SMALL);
        }
        let result = train(&args)?;
        let mean = result["eval_return_mean"].as_f64();
        Ok(json!({
            "env": env,
            "precision": precision.name(),
            "seed": seed,
            "threshold": threshold,
            "solved": mean.map(|mean| mean >= threshold),
            "eval_return_mean": mean,
            "env_steps": result["env_steps"],
            "train_s": result["train_s"],
            "wall_s": result["wall_s"],
            "solved_at_step": result["solved_at_step"],
            "solved_at_s": result["solved_at_s"],
            "sps": result["sps"],
            "reduced": self.extent.quick,
        }))
    }
}
