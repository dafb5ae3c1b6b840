//! `cargo xtask soak`: long runs: every value finite, memory flat. On the CPU 10 M steps at 512, 2,048 and 8,192 environments; on a
//! GPU ten minutes.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::operant::{Operant, machine};

const STEPS: u64 = 10_000_000;
/// Growth of the resident memory from a tenth of the run to its end that counts as flat, MB.
const FLAT_MB: f64 = 1.0;
/// The limit for a GPU's memory, which other processes use too, and of the process that drives one: the driver's own buffers grow
/// for a while.
const FLAT_GPU_MB: f64 = 16.0;
/// Default minutes on a GPU.
const MINUTES: f64 = 10.0;
/// Interval between two checks of the run.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the soak of the CPU, or of a GPU (`gpu [--minutes M] [TRAIN FLAGS]..`), and prints a table.
///
/// # Errors
///
/// A run that fails, a value that is not finite, or memory that grows.
pub fn run(args: &[&str]) -> Result<()> {
    match args {
        [] => on_cpu(),
        ["gpu", "--minutes", minutes, flags @ ..] => {
            on_gpu(minutes.parse().with_context(|| format!("`{minutes}` is no number of minutes"))?, flags)
        }
        ["gpu", flags @ ..] => on_gpu(MINUTES, flags),
        _ => bail!("`cargo xtask soak` takes nothing, or gpu [--minutes M] and flags of `operant train`"),
    }
}

fn on_cpu() -> Result<()> {
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
        let device = ["cartpole", "--device", "cpu"];
        let args = ["--envs", &envs_text, "--steps", &steps, "--name", &name];
        let result = operant.train(&[&device[..], &args, &set].concat())?;
        let metrics = Metrics::read(&operant.file(&name, "metrics.csv"))?;
        let [early, late] = metrics.tenth_and_end("resident_memory")?.context("no resident memory")?;
        let (values, sps) = (metrics.values, result["sps"].as_f64().unwrap_or(f64::NAN));
        println!("| {envs} | {values} | {early:.1} | {late:.1} | {sps:.0} |");
        flat("resident memory", [early, late], FLAT_MB)?;
    }
    Ok(())
}

fn on_gpu(minutes: f64, flags: &[&str]) -> Result<()> {
    let operant = Operant::build("soak")?;
    let name = "soak-gpu";
    let endless = ["--steps", "1e15", "--set", "lr_schedule=constant", "--set", "csv=true"];
    let mut child =
        operant.start(&[&["cartpole", "--device", "cuda", "--name", name][..], &endless, flags].concat())?;
    let deadline = Instant::now() + Duration::from_secs_f64(60.0 * minutes);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().context("cannot look after operant")? {
            bail!("operant ended by itself ({status}); its words are above");
        }
        std::thread::sleep(LOOK);
    }
    let asked = Instant::now();
    let result = stopped(child)?;
    let stopping = asked.elapsed().as_secs_f64();

    let number = |key: &str| result[key].as_f64().unwrap_or(f64::NAN);
    let metrics = Metrics::read(&operant.file(name, "metrics.csv"))?;
    let shown = |memory: Option<[f64; 2]>| match memory {
        Some([early, late]) => format!("{early:.1} | {late:.1}"),
        None => "unknown | unknown".to_owned(),
    };
    let resident = metrics.tenth_and_end("resident_memory")?;
    let on_device = metrics.tenth_and_end("gpu_memory")?;
    let device = result["device"].as_str().unwrap_or("a GPU").to_owned();
    println!("CartPole on {device} for {minutes} minutes, `{}`. {}.\n", flags.join(" "), machine());
    println!(
        "| updates | steps | values, all finite | resident MB at a tenth | at the end | device MB at a tenth | at the \
         end | steps/s | s from SIGTERM to the end |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    println!(
        "| {} | {:.3e} | {} | {} | {} | {:.0} | {stopping:.2} |",
        number("updates"),
        number("env_steps"),
        metrics.values,
        shown(resident),
        shown(on_device),
        number("sps"),
    );
    for (what, memory) in [("resident memory", resident), ("memory of the device", on_device)] {
        memory.map_or(Ok(()), |memory| flat(what, memory, FLAT_GPU_MB))?;
    }
    Ok(())
}

/// Asks a run to stop, and gives its result.
fn stopped(child: Child) -> Result<Value> {
    let pid = child.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status().context("cannot start kill")?;
    ensure!(killed.success(), "`kill -TERM {pid}` failed");
    let output = child.wait_with_output().context("operant does not end")?;
    ensure!(output.status.code() == Some(75), "operant ended with {} after SIGTERM", output.status);
    serde_json::from_slice(&output.stdout).context("operant printed no JSON object")
}

fn flat(what: &str, [early, late]: [f64; 2], most: f64) -> Result<()> {
    ensure!(late - early <= most, "{what} grew from {early:.1} to {late:.1} MB");
    Ok(())
}

/// A run's metrics.csv, all of whose values are finite.
struct Metrics {
    header: Vec<String>,
    rows: Vec<Vec<Option<f64>>>,
    /// How many there are.
    values: usize,
}

impl Metrics {
    fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut lines = text.lines();
        let header: Vec<String> =
            lines.next().context("metrics.csv is empty")?.split(',').map(str::to_owned).collect();
        let (mut known, mut values) = (vec![false; header.len()], 0);
        let mut rows = Vec::new();
        for line in lines {
            let mut row = Vec::new();
            for ((name, known), cell) in header.iter().zip(&mut known).zip(line.split(',')) {
                if cell.is_empty() {
                    // Statistics of episodes are empty if none ended, and values that a device does not report are always empty.
                    ensure!(!*known || name.starts_with("episodic"), "{name} has no value in {line}");
                    row.push(None);
                    continue;
                }
                let value: f64 = cell.parse().with_context(|| format!("{name} is `{cell}` in {line}"))?;
                ensure!(value.is_finite(), "{name} is {value} in {line}");
                *known = true;
                values += 1;
                row.push(Some(value));
            }
            rows.push(row);
        }
        ensure!(rows.len() >= 10, "there are {} rows, too few to judge", rows.len());
        Ok(Metrics { header, rows, values })
    }

    /// Megabytes at a tenth of the run and at its end; None if it is unknown.
    fn tenth_and_end(&self, name: &str) -> Result<Option<[f64; 2]>> {
        let column =
            self.header.iter().position(|own| own == name).with_context(|| format!("no column {name}"))?;
        let megabytes = |row: &Vec<Option<f64>>| row.get(column).copied().flatten().map(|bytes| bytes / 1e6);
        let (tenth, last) = (&self.rows[self.rows.len() / 10], &self.rows[self.rows.len() - 1]);
        Ok(megabytes(tenth).zip(megabytes(last)).map(|(tenth, last)| [tenth, last]))
    }
}
