//! `cargo xtask soak`: long runs at 512, 2,048 and 8,192 environments, 10 M steps each: every value finite, memory flat.

use anyhow::{Context, Result, ensure};

use crate::operant::{Operant, machine};

const STEPS: u64 = 10_000_000;
/// Growth of the resident memory from a tenth of the run to its end that counts as flat, MB.
const FLAT_MB: f64 = 1.0;

/// Runs the soak and prints a table.
///
/// # Errors
///
/// A run that fails, a value that is not finite, or memory that grows.
pub fn run() -> Result<()> {
    let operant = Operant::build("soak")?;
    println!(
        "CartPole, {STEPS} steps, 128 steps per horizon, minibatches of 32,768 at most. {}.\n",
        machine()
    );
    println!("| environments | values, all finite | resident MB at a tenth | at the end | steps/s |");
    println!("| --- | --- | --- | --- | --- |");
    for envs in [512u64, 2_048, 8_192] {
        let minibatches = format!("num_minibatches={}", (envs * 128 / 32_768).max(4));
        let name = format!("soak-{envs}");
        let (envs_text, steps) = (envs.to_string(), STEPS.to_string());
        let set = [
            "--set",
            "num_steps=128",
            "--set",
            "update_epochs=4",
            "--set",
            &minibatches,
            "--set",
            "learning_rate=2.5e-4",
        ];
        let args = ["cartpole", "--envs", &envs_text, "--steps", &steps, "--name", &name];
        let result = operant.train(&[&args[..], &set[..]].concat())?;

        let path = operant.file(&name, "metrics.csv");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().context("metrics.csv is empty")?.split(',').collect();
        let memory =
            header.iter().position(|name| *name == "resident_memory").context("no column of memory")?;
        let mut values = 0;
        let mut resident = Vec::new();
        for line in lines {
            for (name, cell) in header.iter().zip(line.split(',')) {
                // Statistics of episodes are empty where none ended.
                if cell.is_empty() && name.starts_with("episodic") {
                    continue;
                }
                let value: f64 = cell.parse().with_context(|| format!("{name} is `{cell}` in {line}"))?;
                ensure!(value.is_finite(), "{name} is {value} at {envs} environments");
                values += 1;
            }
            let cell = line.split(',').nth(memory).context("a short line")?;
            resident.push(cell.parse::<f64>()? / 1e6);
        }
        let (early, late) = (resident[resident.len() / 10], resident[resident.len() - 1]);
        println!(
            "| {envs} | {values} | {early:.1} | {late:.1} | {:.0} |",
            result["sps"].as_f64().unwrap_or(f64::NAN)
        );
        ensure!(
            late - early <= FLAT_MB,
            "memory grew from {early:.1} to {late:.1} MB at {envs} environments"
        );
    }
    Ok(())
}
