//! `cargo xtask learning --suite [--short] [--set KEY=VALUE]..`: what a variant of the learner learns in the tasks of benches/suite.toml.
//! Every run that ends becomes a row of docs/results/suite.tsv and is not trained again; then docs/results/suite.md is written from the rows
//! whose settings are those that their variant has today. After a change of the learner's code, delete the rows.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use toml::Table;

use crate::operant::{Operant, machine};

const TASKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/suite.toml");
const ROWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/results/suite.tsv");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/results/suite.md");

/// Columns of the rows.
const COLUMNS: &str = "suite\tenv\tsteps\tseed\tvariant\tsettings\tgreedy\tsampled\tseconds\tmachine";

const ENV: usize = 1;
const SEED: usize = 3;
const VARIANT: usize = 4;
const SETTINGS: usize = 5;
/// The variant without `--set`.
const PRESET: &str = "preset";

/// Reported seeds begin here: presets are tuned on others.
const FIRST_SEED: u64 = 1001;
/// Seeds of --short, which serve to choose.
const SHORT_SEEDS: std::ops::Range<u64> = 2001..2004;
/// Seeds of a task that does not say how many.
const SEEDS: u64 = 10;

/// Keys of a configuration that change no result of a run.
const WITHOUT_EFFECT: [&str; 19] = [
    "seed",
    "device",
    "kernels",
    "memory_fraction",
    "deterministic",
    "threads",
    "rollout_tile",
    "lane_width",
    "waiting",
    "pin",
    "optimize_perf",
    "run_dir",
    "checkpoint_interval",
    "keep_checkpoints",
    "csv",
    "tensorboard",
    "ring",
    "ring_group",
    "eval_interval",
];

/// A run to train.
struct Run {
    /// `full` or `short`.
    suite: &'static str,
    env: String,
    seed: u64,
    /// What `--set` has, for every run of this variant.
    sets: Vec<String>,
    /// Hash of the settings.
    settings: String,
}

impl Run {
    /// What identifies a row.
    fn key(&self) -> String {
        format!("{}\t{}\t{}", self.env, self.seed, self.settings)
    }
}

/// Trains what has no row yet, and writes the page.
///
/// # Errors
///
/// A run that fails, or a task file that cannot be read.
pub fn run(args: &[&str]) -> Result<()> {
    let (mut short, mut sets) = (false, Vec::new());
    let mut args = args.iter().copied();
    while let Some(arg) = args.next() {
        match arg {
            "--short" => short = true,
            "--set" => sets.push(set_of(args.next().context("--set needs KEY=VALUE")?)?),
            other => bail!("`{other}` is not understood; --suite takes --short and --set KEY=VALUE"),
        }
    }
    let variant = if sets.is_empty() { PRESET.to_owned() } else { sets.join(" ") };
    let operant = Operant::build("suite")?;
    let known = known_rows()?;
    let mut runs = runs_of(&operant, short, &sets)?;
    let all = runs.len();
    runs.retain(|run| !known.contains(&run.key()));
    eprintln!("{variant}: training {} of {all} runs; the others have rows", runs.len());
    // The last first, so that a thread takes one from the end.
    runs.reverse();
    train(&operant, &variant, runs)?;
    page(&operant)
}

/// A setting of a variant, which may change what is learnt, but not the suite.
fn set_of(set: &str) -> Result<String> {
    let key = set.split_once('=').map_or(set, |(key, _)| key);
    ensure!(!set.contains(' '), "--set {set}: write it without spaces");
    ensure!(
        !WITHOUT_EFFECT.contains(&key) && !["total_timesteps", "stop_when_solved"].contains(&key),
        "--set {key}: the suite sets it, or it changes no result"
    );
    Ok(set.to_owned())
}

/// A task of benches/suite.toml.
struct Task {
    env: String,
    /// Steps and whatever else `--set` has for every variant.
    set: String,
    seeds: u64,
    is_short: bool,
}

fn tasks() -> Result<Vec<Task>> {
    let table: Table = fs::read_to_string(TASKS).context(TASKS)?.parse().context(TASKS)?;
    let tasks =
        table.get("task").and_then(toml::Value::as_array).context("benches/suite.toml has no [[task]]")?;
    let task = |task: &toml::Value| {
        let steps = task.get("steps").and_then(toml::Value::as_integer).context("a task without `steps`")?;
        Ok(Task {
            env: task.get("env").and_then(toml::Value::as_str).context("a task without `env`")?.to_owned(),
            set: format!("total_timesteps={steps}"),
            seeds: task.get("seeds").and_then(toml::Value::as_integer).map_or(SEEDS, i64::unsigned_abs),
            is_short: task.get("short").and_then(toml::Value::as_bool).unwrap_or_default(),
        })
    };
    tasks.iter().map(task).collect()
}

/// The runs of a variant, task by task.
fn runs_of(operant: &Operant, short: bool, sets: &[String]) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for Task { env, set, seeds, .. } in tasks()?.into_iter().filter(|task| task.is_short || !short) {
        let sets = [sets, &[set]].concat();
        let settings = match hash_of_settings(operant, &env, &sets) {
            // Not every task can have every setting: there are distributions of real actions only.
            Err(error) if sets.len() > 1 => {
                eprintln!("left out: {error:#}");
                continue;
            }
            settings => settings?,
        };
        let seeds = if short { SHORT_SEEDS } else { FIRST_SEED..FIRST_SEED + seeds };
        runs.extend(seeds.map(|seed| Run {
            suite: if short { "short" } else { "full" },
            env: env.clone(),
            seed,
            sets: sets.clone(),
            settings: settings.clone(),
        }));
    }
    ensure!(!runs.is_empty(), "no task of the suite can have these settings");
    Ok(runs)
}

/// Hash of the settings that a run would have: other defaults, presets or values give another one.
fn hash_of_settings(operant: &Operant, env: &str, sets: &[String]) -> Result<String> {
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set.as_str()]).collect();
    let text = operant.config(&[&[env, "--device", "cpu"], &*sets].concat())?;
    let mut table: Table = text.parse().context("`operant config` printed invalid TOML")?;
    table.retain(|key, _| !WITHOUT_EFFECT.contains(&key));
    // FNV-1a, 32 bits: a name for a set of settings.
    let hash = table
        .to_string()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    Ok(format!("{hash:08x}"))
}

/// The rows that there are.
fn known_rows() -> Result<BTreeSet<String>> {
    if !Path::new(ROWS).exists() {
        fs::write(ROWS, format!("{COLUMNS}\n")).context(ROWS)?;
    }
    let text = fs::read_to_string(ROWS).context(ROWS)?;
    let rows = text.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        ensure!(cells.len() == COLUMNS.split('\t').count(), "{ROWS}: `{line}` is not a row");
        Ok(format!("{}\t{}\t{}", cells[ENV], cells[SEED], cells[SETTINGS]))
    });
    rows.collect()
}

/// Trains runs, one on each core, and appends a row for each.
fn train(operant: &Operant, variant: &str, runs: Vec<Run>) -> Result<()> {
    let rows = fs::OpenOptions::new().append(true).open(ROWS).context(ROWS)?;
    let (rows, runs) = (Mutex::new(rows), Mutex::new(runs));
    let machine = machine();
    let worker = || -> Result<()> {
        loop {
            let Some(run) = runs.lock().ok().and_then(|mut runs| runs.pop()) else { return Ok(()) };
            let row = row(operant, variant, &machine, &run);
            if row.is_err() {
                // No more runs for the others.
                runs.lock().map(|mut runs| runs.clear()).ok();
            }
            let row = row.with_context(|| format!("{} with seed {}", run.env, run.seed))?;
            eprintln!("{row}");
            if let Ok(mut rows) = rows.lock() {
                writeln!(rows, "{row}").and_then(|()| rows.sync_data()).context(ROWS)?;
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// Trains a run and evaluates it with sampled actions, too.
fn row(operant: &Operant, variant: &str, machine: &str, run: &Run) -> Result<String> {
    let Run { suite, env, seed, sets, settings } = run;
    let name = format!("{env}-{seed}-{settings}");
    let seed_text = seed.to_string();
    let mut args = vec![env.as_str(), "--device", "cpu", "--seed", &seed_text, "--name", &name];
    args.extend(
        [
            "threads=1",
            "stop_when_solved=false",
            "csv=false",
            "tensorboard=false",
            "ring=false",
            "checkpoint_interval=0",
        ]
        .iter()
        .flat_map(|set| ["--set", set]),
    );
    args.extend(sets.iter().flat_map(|set| ["--set", set.as_str()]));
    let result = operant.train(&args)?;
    let sampled = operant.eval(&[&name, "--sample"])?;
    fs::remove_dir_all(operant.runs.join(&name)).context("the run's directory")?;
    let number =
        |value: &Value, key: &str| value[key].as_f64().with_context(|| format!("a result without {key}"));
    Ok(format!(
        "{suite}\t{env}\t{}\t{seed}\t{variant}\t{settings}\t{:.4}\t{:.4}\t{:.2}\t{machine}",
        number(&result, "env_steps")?,
        number(&result, "eval_return_mean")?,
        number(&sampled, "eval_return_mean")?,
        number(&result, "wall_s")?,
    ))
}

/// Writes the page from the rows with today's settings, with the statistics of `operant report`.
fn page(operant: &Operant) -> Result<()> {
    let text = fs::read_to_string(ROWS).context(ROWS)?;
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let mut variants: Vec<&str> = Vec::new();
    for row in &rows {
        if !variants.contains(&row[VARIANT]) {
            variants.push(row[VARIANT]);
        }
    }
    let mut current = format!("{COLUMNS}\n");
    for variant in variants {
        let sets: Vec<String> = variant.split(' ').filter(|set| *set != PRESET).map(str::to_owned).collect();
        for Task { env, set, .. } in tasks()? {
            // A variant of an earlier version may have a setting that is no more.
            let Ok(settings) = hash_of_settings(operant, &env, &[&sets[..], &[set]].concat()) else {
                continue;
            };
            for row in rows.iter().filter(|row| row[ENV] == env && row[SETTINGS] == settings) {
                let mut row = row.clone();
                row[VARIANT] = variant;
                current.push_str(&row.join("\t"));
                current.push('\n');
            }
        }
    }
    let metadata = crate::tools::workspace()?;
    let root = metadata.workspace_root.as_std_path();
    let path = metadata.target_directory.join("suite.tsv");
    fs::write(&path, current).context("target/suite.tsv")?;
    let example =
        ["run", "--quiet", "--profile", "quick", "--package", "operant-sweep", "--example", "suite"];
    let args = [&example[..], &["--", TASKS, path.as_str()]].concat();
    let text = crate::worlds::execute(root, "cargo", &args, true)?;
    fs::write(PAGE, text).context(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_are_those_that_the_help_counts() {
        let tasks = tasks().expect("benches/suite.toml is valid");
        let names: BTreeSet<&str> = tasks.iter().map(|task| task.env.as_str()).collect();
        assert_eq!((tasks.len(), names.len()), (17, 17));
        assert_eq!(tasks.iter().filter(|task| task.is_short).count(), 6);
        assert!(tasks.iter().all(|task| (5..=SEEDS).contains(&task.seeds)));
        // No seed both reports and chooses.
        const { assert!(FIRST_SEED + SEEDS <= SHORT_SEEDS.start) }
    }

    #[test]
    fn settings_of_a_variant_change_what_is_learnt() {
        assert_eq!(set_of("gamma=0.9").expect("a setting"), "gamma=0.9");
        for set in ["seed=2", "threads=4", "total_timesteps=9", "stop_when_solved=true", "hidden=[64, 64]"] {
            assert!(set_of(set).is_err(), "{set}");
        }
    }

    #[test]
    fn every_row_has_its_columns_and_no_run_has_two() {
        let text = fs::read_to_string(ROWS).expect("docs/results/suite.tsv");
        assert_eq!(text.lines().next(), Some(COLUMNS));
        let known = known_rows().expect("rows of all columns");
        assert_eq!(known.len() + 1, text.lines().count());
    }
}
