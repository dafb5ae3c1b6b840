//! `cargo xtask learning [--gpu-presets] [--seeds A..B] [--set KEY=VALUE].. [ENV]..`: what the shipped presets learn, seed by seed,
//! against the thresholds that they promise. Without ENV all presets with a threshold are measured. Presets are tuned on seeds 1 to 10; seeds 101 to 110 are for checking alone, and 301 to 310 where docs/results/learning-cpu.md says so. With `--gpu-presets` the CPU trains with
//! the settings that a GPU takes: it computes the same, so that they can be tuned, and checked, where no GPU is.

use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use toml::Table;

use crate::operant::{Operant, machine};

/// The directory of presets, a file each.
const PRESETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/operant-env/presets");

/// Presets of more steps than this take minutes a run, so fewer seeds are tried.
const LONG: u64 = 2_000_000;

/// Key under which a result gets the mean of the evaluation with sampled actions.
const SAMPLED: &str = "sampled_return_mean";

/// The claim of a preset: every seed reaches `solved_at`, if there is one, within `total_timesteps` steps.
struct PresetClaim {
    env: String,
    threshold: Option<f64>,
    steps: u64,
}

/// What the command line asks for.
#[derive(Default)]
struct Request {
    /// Train on the CPU with the settings for GPUs.
    for_gpu: bool,
    /// The environments; empty for all with a threshold.
    only: Vec<String>,
    /// Seeds instead of the default ones.
    seeds: Option<RangeInclusive<u64>>,
    /// Settings in place of the preset's, for `--set`; the thresholds are of the preset alone.
    set: Vec<String>,
}

impl Request {
    fn of(args: &[&str]) -> Result<Self> {
        let mut request = Request::default();
        let mut args = args.iter().copied();
        while let Some(arg) = args.next() {
            match arg {
                "--gpu-presets" => request.for_gpu = true,
                "--seeds" => {
                    let text = args.next().context("--seeds needs a range such as 1..3")?;
                    let (first, last) = text.split_once("..").context("give seeds as 1..3")?;
                    request.seeds = Some(first.parse()?..=last.parse()?);
                }
                "--set" => request.set.push(args.next().context("--set needs KEY=VALUE")?.to_owned()),
                env => request.only.push(env.to_owned()),
            }
        }
        Ok(request)
    }

    /// The steps of a run, if they are not the preset's.
    fn steps(&self) -> Option<u64> {
        let text = self.set.iter().find_map(|set| set.strip_prefix("total_timesteps="))?;
        text.replace('_', "").parse::<f64>().ok().map(|steps| steps as u64)
    }

    fn measures(&self, claim: &PresetClaim) -> bool {
        if self.only.is_empty() { claim.threshold.is_some() } else { self.only.contains(&claim.env) }
    }
}

impl PresetClaim {
    /// The claim of an environment's preset; None without a preset.
    fn of(env: String) -> Result<Option<Self>> {
        let preset = Path::new(PRESETS).join(format!("{env}.toml"));
        let Ok(preset) = std::fs::read_to_string(preset) else { return Ok(None) };
        let preset: Table = preset.parse().with_context(|| env.clone())?;
        let steps = preset.get("total_timesteps").and_then(toml::Value::as_integer).unwrap_or_default();
        let threshold = preset.get("solved_at").and_then(toml::Value::as_float);
        Ok(Some(PresetClaim { env, threshold, steps: steps.unsigned_abs() }))
    }

    /// Seeds to try; the settings for GPUs take longer on a CPU.
    fn seeds(&self, for_gpu: bool) -> Vec<RangeInclusive<u64>> {
        match (self.steps > LONG, for_gpu) {
            (false, false) => vec![1..=10, 101..=110],
            (false, true) => vec![1..=5, 101..=105],
            (true, false) => vec![1..=3],
            (true, true) => vec![1..=2],
        }
    }

    /// The threshold as text.
    fn promised(&self) -> String {
        self.threshold.map_or_else(|| "-".to_owned(), |threshold| threshold.to_string())
    }
}

/// A return: three decimals where it is small.
fn shown(value: f64) -> String {
    if value.abs() < 10.0 { format!("{value:.3}") } else { format!("{value:.1}") }
}

fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Trains every seed and prints the table.
///
/// # Errors
///
/// A run that fails, or one that ends below its threshold.
pub fn run(args: &[&str]) -> Result<()> {
    let request = Request::of(args)?;
    let for_gpu = request.for_gpu;
    let operant = Operant::build("learning")?;
    let promises = operant.envs()?.into_iter().map(PresetClaim::of).collect::<Result<Vec<_>>>()?;
    let promises = promises.into_iter().flatten();
    let promises: Vec<PresetClaim> =
        promises.map(|own| PresetClaim { steps: request.steps().unwrap_or(own.steps), ..own }).collect();
    for name in &request.only {
        ensure!(promises.iter().any(|promise| promise.env == *name), "{name} has no preset");
    }
    if for_gpu {
        println!("Greedy evaluation over 100 episodes after training on the CPU with the preset for GPUs.");
        println!("{}.\n", machine());
        println!(
            "| environment | environments x steps | minibatches, epochs | updates, Adam steps | seeds | promised | worst seed \
             | median | solved: median update | last | wall s |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    } else {
        let changed = request.set.iter().map(|set| format!(" and {set}")).collect::<String>();
        println!(
            "Means of 100 episodes after training with the shipped preset{changed}, with greedy and with sampled actions."
        );
        println!("{}.\n", machine());
        println!(
            "| environment, steps | seeds | promised | greedy: worst seed | median | sampled: worst seed | median \
             | solved: median steps | median s | wall s |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    }
    let mut broken = Vec::new();
    for promise in promises.iter().filter(|promise| request.measures(promise)) {
        let gpu = if for_gpu { Some(GpuPreset::of(&operant, &promise.env)?) } else { None };
        let seeds = request.seeds.clone().map_or_else(|| promise.seeds(for_gpu), |seeds| vec![seeds]);
        for seeds in &seeds {
            let results = train(&operant, promise, gpu.as_ref(), &request.set, seeds, &mut broken)?;
            match &gpu {
                Some(preset) => preset.row(promise, seeds, &results),
                None => row(promise, seeds, &results)?,
            }
        }
    }
    ensure!(broken.is_empty(), "below the threshold: {}", broken.join(", "));
    Ok(())
}

fn train(
    operant: &Operant,
    promise: &PresetClaim,
    gpu: Option<&GpuPreset>,
    set: &[String],
    seeds: &RangeInclusive<u64>,
    broken: &mut Vec<String>,
) -> Result<Vec<Value>> {
    let mut results: Vec<Value> = Vec::new();
    for seed in seeds.clone() {
        let seed = seed.to_string();
        let mut args = vec![&*promise.env, "--device", "cpu", "--seed", &seed];
        if let Some(preset) = gpu {
            args.extend(["--config", &preset.file]);
        }
        args.extend(set.iter().flat_map(|set| ["--set", set.as_str()]));
        let mut result = operant.train(&args)?;
        if gpu.is_none() {
            let run = result["run"].as_str().context("a result without the run's name")?;
            result[SAMPLED] = operant.eval(&[run, "--sample"])?["eval_return_mean"].take();
        }
        let mean = result["eval_return_mean"].as_f64().unwrap_or(f64::NAN);
        let sampled =
            result[SAMPLED].as_f64().map_or_else(String::new, |mean| format!("sampled {}, ", shown(mean)));
        eprintln!(
            "{} seed {seed}: {}, {sampled}solved at {}",
            promise.env,
            shown(mean),
            result["solved_at_step"]
        );
        let missed = promise.threshold.is_some_and(|threshold| set.is_empty() && mean < threshold);
        if mean.is_nan() || missed {
            broken.push(format!("{} seed {seed}: {}", promise.env, shown(mean)));
        }
        results.push(result);
    }
    Ok(results)
}

fn all(results: &[Value], key: &str) -> Vec<f64> {
    results.iter().filter_map(|result| result[key].as_f64()).collect()
}

/// A row of the table for CPUs.
fn row(promise: &PresetClaim, seeds: &RangeInclusive<u64>, results: &[Value]) -> Result<()> {
    let means = all(results, "eval_return_mean");
    let sampled = all(results, SAMPLED);
    let most = all(results, "env_steps").into_iter().fold(0.0, f64::max);
    // A run is whole updates; the last may pass the budget by less than one.
    ensure!(most < promise.steps as f64 * 1.02, "{} took {most} steps", promise.env);
    println!(
        "| {}, {most:.0} | {}-{} | {} | {} | {} | {} | {} | {:.0} | {:.2} | {:.2} |",
        promise.env,
        seeds.start(),
        seeds.end(),
        promise.promised(),
        shown(worst(&means)),
        shown(median(means.clone())),
        shown(worst(&sampled)),
        shown(median(sampled)),
        median(all(results, "solved_at_step")),
        median(all(results, "solved_at_s")),
        median(all(results, "wall_s")),
    );
    Ok(())
}

/// The settings of a GPU, as a file.
struct GpuPreset {
    file: String,
    num_envs: i64,
    num_steps: i64,
    num_minibatches: i64,
    update_epochs: i64,
}

impl GpuPreset {
    fn of(operant: &Operant, env: &str) -> Result<Self> {
        let text = operant.config(&[env, "--device", "cuda"])?;
        let table: Table = text.parse().context("operant printed a configuration that is no TOML")?;
        let number = |key: &str| {
            table.get(key).and_then(toml::Value::as_integer).with_context(|| format!("{env} has no {key}"))
        };
        let path = operant.runs.join(format!("{env}-gpu.toml"));
        std::fs::create_dir_all(&operant.runs)?;
        std::fs::write(&path, &text).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(GpuPreset {
            file: path.display().to_string(),
            num_envs: number("num_envs")?,
            num_steps: number("num_steps")?,
            num_minibatches: number("num_minibatches")?,
            update_epochs: number("update_epochs")?,
        })
    }

    /// A row of the table for GPUs, in updates: what they take there does not depend on how fast this machine is.
    fn row(&self, promise: &PresetClaim, seeds: &RangeInclusive<u64>, results: &[Value]) {
        let batch = (self.num_envs * self.num_steps) as f64;
        let means = all(results, "eval_return_mean");
        let updates = median(all(results, "updates"));
        let solved: Vec<f64> = all(results, "solved_at_step").iter().map(|step| step / batch).collect();
        let last = if solved.len() < results.len() {
            "never".to_owned()
        } else {
            format!("{:.0}", solved.iter().copied().fold(0.0, f64::max))
        };
        println!(
            "| {} | {} x {} | {}, {} | {updates:.0}, {:.0} | {}-{} | {} | {} | {} | {:.0} | {last} | {:.1} |",
            promise.env,
            self.num_envs,
            self.num_steps,
            self.num_minibatches,
            self.update_epochs,
            updates * (self.num_minibatches * self.update_epochs) as f64,
            seeds.start(),
            seeds.end(),
            promise.promised(),
            shown(worst(&means)),
            shown(median(means.clone())),
            median(solved.clone()),
            median(all(results, "wall_s")),
        );
    }
}
