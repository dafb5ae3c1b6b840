//! `cargo xtask learning [ENV]..`: what the shipped presets learn, seed by seed, against the thresholds that they promise.
//! Presets are tuned on seeds 1 to 10; seeds 101 to 110 are for checking alone.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::operant::{Operant, machine};

/// An environment's promise: every seed reaches `threshold` within `steps`.
struct Promise {
    env: &'static str,
    threshold: f64,
    steps: u64,
    seeds: &'static [std::ops::RangeInclusive<u64>],
}

const CLASSIC: &[std::ops::RangeInclusive<u64>] = &[1..=10, 101..=110];

const PROMISES: [Promise; 6] = [
    Promise { env: "cartpole", threshold: 475.0, steps: 200_000, seeds: CLASSIC },
    Promise { env: "acrobot", threshold: -85.0, steps: 500_000, seeds: CLASSIC },
    Promise { env: "mountain_car", threshold: -115.0, steps: 1_000_000, seeds: CLASSIC },
    Promise { env: "mountain_car_continuous", threshold: 90.0, steps: 500_000, seeds: CLASSIC },
    Promise { env: "pendulum", threshold: -170.0, steps: 500_000, seeds: CLASSIC },
    Promise { env: "minatar_breakout", threshold: 30.0, steps: 10_000_000, seeds: &[1..=3] },
];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Trains every seed and prints the table.
///
/// # Errors
///
/// A run that fails, or one that ends below its threshold.
pub fn run(only: &[&str]) -> Result<()> {
    let operant = Operant::build("learning")?;
    println!("Greedy evaluation over 100 episodes after training with the shipped preset.");
    println!("{}.\n", machine());
    println!(
        "| environment, steps | seeds | promised | worst seed | median | solved: median steps | median s | wall s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut broken = Vec::new();
    for promise in PROMISES.iter().filter(|promise| only.is_empty() || only.contains(&promise.env)) {
        for seeds in promise.seeds {
            let mut results: Vec<Value> = Vec::new();
            for seed in seeds.clone() {
                let result = operant.train(&[promise.env, "--seed", &seed.to_string()])?;
                let mean = result["eval_return_mean"].as_f64().unwrap_or(f64::NAN);
                eprintln!("{} seed {seed}: {mean:.1}, solved at {}", promise.env, result["solved_at_step"]);
                if mean.is_nan() || mean < promise.threshold {
                    broken.push(format!("{} seed {seed}: {mean:.1}", promise.env));
                }
                results.push(result);
            }
            let all = |key: &str| -> Vec<f64> {
                results.iter().filter_map(|result| result[key].as_f64()).collect()
            };
            let means = all("eval_return_mean");
            let most = all("env_steps").into_iter().fold(0.0, f64::max);
            // A run is whole updates; the last may pass the budget by less than one.
            ensure!(most < promise.steps as f64 * 1.02, "{} took {most} steps", promise.env);
            println!(
                "| {}, {most:.0} | {}-{} | {} | {:.1} | {:.1} | {:.0} | {:.2} | {:.2} |",
                promise.env,
                seeds.start(),
                seeds.end(),
                promise.threshold,
                means.iter().copied().fold(f64::INFINITY, f64::min),
                median(means.clone()),
                median(all("solved_at_step")),
                median(all("solved_at_s")),
                median(all("wall_s")),
            );
        }
    }
    ensure!(broken.is_empty(), "below the threshold: {}", broken.join(", "));
    Ok(())
}
