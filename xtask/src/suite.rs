//! `cargo xtask learning --suite [--short] [--set KEY=VALUE]..`: what a variant of the learner learns in the tasks of benches/suite.toml.
//! `cargo xtask learning --algorithms [ENV]..`: what each algorithm learns in the tasks of benches/algorithms.toml, whose runs take up to hours:
//! an interrupted one continues from its last checkpoint.
//! Every run that ends becomes a row of docs/results/{suite,algorithms}.tsv and is not trained again; then the page beside it is written from
//! the rows whose settings are those that their variant has today. After a change of the learner's code, delete the rows.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use toml::Table;

use crate::operant::{Operant, machine};

/// A list of tasks, the rows of what was trained, and the page that shows them.
struct Suite {
    name: &'static str,
    tasks: &'static str,
    rows: &'static str,
    page: &'static str,
    /// Whether a run that was stopped goes on.
    continues: bool,
}

macro_rules! suite {
    ($name:literal, $continues:literal) => {
        Suite {
            name: $name,
            tasks: concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/", $name, ".toml"),
            rows: concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/results/", $name, ".tsv"),
            page: concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/results/", $name, ".md"),
            continues: $continues,
        }
    };
}

/// Variants of the learner.
const LEARNER: Suite = suite!("suite", false);
/// The algorithms.
const ALGORITHMS: Suite = suite!("algorithms", true);

/// Columns of the rows.
const COLUMNS: &str = "suite\tenv\tsteps\tseed\tvariant\tsettings\tgreedy\tsampled\tseconds\tmachine";

const ENV: usize = 1;
const SEED: usize = 3;
const VARIANT: usize = 4;
const SETTINGS: usize = 5;
/// The variant without `--set`.
const PRESET: &str = "preset";

/// The variant of the first presets that the suite trained.
const FIRST: &str = "first";

/// Reported seeds begin here: presets are tuned on others (but MountainCarContinuous got longer rollouts after seed 1008 had failed).
const FIRST_SEED: u64 = 1001;
/// Seeds of --short, which serve to choose.
const SHORT_SEEDS: std::ops::Range<u64> = 2001..2004;
/// Prefix of a setting that some CPUs do not support.
const PRECISION: &str = "precision=";

/// Seeds of a task that does not say how many.
const SEEDS: u64 = 10;

/// Keys of a configuration that change no result of a run.
const WITHOUT_EFFECT: [&str; 20] = [
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
    "checkpoint_replay",
    "csv",
    "tensorboard",
    "ring",
    "ring_group",
    "eval_interval",
];

/// A run to train.
struct Run {
    /// `full` or `short`, or that of algorithms.
    suite: &'static str,
    env: String,
    seed: u64,
    /// What `--set` has, for every run of this variant.
    sets: Vec<String>,
    /// What the rows call the variant.
    variant: String,
    /// Hash of the settings.
    settings: String,
    /// Whether it learns from a replay, which it needs to go on as if it had not been stopped.
    has_replay: bool,
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
    let operant = Operant::build(LEARNER.name)?;
    let runs = LEARNER.runs(&operant, short, &sets, &[])?;
    LEARNER.finish(&operant, runs)
}

/// The same for algorithms, in all tasks or in those of these environments.
///
/// # Errors
///
/// A run that fails, or a task file that cannot be read.
pub fn algorithms(envs: &[&str]) -> Result<()> {
    let operant = Operant::build_keeping("learning-algorithms")?;
    let runs = ALGORITHMS.runs(&operant, false, &[], envs)?;
    ALGORITHMS.finish(&operant, runs)
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

/// A task of the list.
struct Task {
    env: String,
    /// What `--set` has for this task alone.
    own: Vec<String>,
    /// Steps.
    steps: String,
    seeds: u64,
    is_short: bool,
}

impl Task {
    fn of(task: &toml::Value) -> Result<Self> {
        const KEYS: [&str; 9] =
            ["env", "algorithm", "steps", "seeds", "short", "set", "low", "high", "published"];
        let keys = task.as_table().context("a task that is no table")?;
        if let Some(key) = keys.keys().find(|key| !KEYS.contains(&key.as_str())) {
            bail!("a task with `{key}`");
        }
        let is_scored = ["low", "high"].iter().all(|key| keys.contains_key(*key));
        ensure!(is_scored || keys.contains_key("algorithm"), "a task without `low` and `high`");
        let text = |key| task.get(key).and_then(toml::Value::as_str);
        let steps = task.get("steps").and_then(toml::Value::as_integer).context("a task without `steps`")?;
        let own = task.get("set").and_then(toml::Value::as_array).into_iter().flatten();
        let own = own.filter_map(toml::Value::as_str).map(str::to_owned);
        let algorithm = text("algorithm").map(|algorithm| format!("algorithm={algorithm}"));
        Ok(Self {
            env: text("env").context("a task without `env`")?.to_owned(),
            own: algorithm.into_iter().chain(own).collect(),
            steps: format!("total_timesteps={steps}"),
            seeds: task.get("seeds").and_then(toml::Value::as_integer).map_or(SEEDS, i64::unsigned_abs),
            is_short: task.get("short").and_then(toml::Value::as_bool).unwrap_or_default(),
        })
    }

    /// What `--set` has in all, for a variant.
    fn sets(&self, variant: &[String]) -> Vec<String> {
        [variant, &self.own, core::slice::from_ref(&self.steps)].concat()
    }

    /// The name of a variant in the rows.
    fn variant(&self, sets: &[String]) -> String {
        let all = [sets, &self.own].concat();
        if all.is_empty() { PRESET.to_owned() } else { all.join(" ") }
    }
}

impl Suite {
    fn tasks(&self) -> Result<Vec<Task>> {
        let path = self.tasks;
        let table: Table = fs::read_to_string(path).context(path)?.parse().context(path)?;
        let tasks = table.get("task").and_then(toml::Value::as_array).context("no [[task]]").context(path)?;
        tasks.iter().map(Task::of).collect::<Result<_>>().context(path)
    }

    /// The runs of a variant that have no row yet, task by task.
    fn runs(&self, operant: &Operant, short: bool, sets: &[String], envs: &[&str]) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        let tasks = self.tasks()?;
        if let Some(env) = envs.iter().find(|env| !tasks.iter().any(|task| task.env == **env)) {
            bail!("{} has no task of {env}", self.tasks);
        }
        let wanted =
            |task: &Task| (task.is_short || !short) && (envs.is_empty() || envs.contains(&&*task.env));
        for task in tasks.into_iter().filter(wanted) {
            let all = task.sets(sets);
            // Not every task can have every setting: there are distributions of real actions only. Not every CPU has bf16.
            let others: Vec<String> = all.iter().filter(|set| !set.starts_with(PRECISION)).cloned().collect();
            let lacks_precision = || others.len() < all.len() && config(operant, &task.env, &others).is_ok();
            let (settings, has_replay) = match config(operant, &task.env, &all)
                .and_then(|_| hash_of_settings(operant, &task.env, &all))
            {
                Err(error) if !sets.is_empty() || lacks_precision() => {
                    eprintln!("left out: {error:#}");
                    continue;
                }
                settings => settings?,
            };
            let seeds = if short { SHORT_SEEDS } else { FIRST_SEED..FIRST_SEED + task.seeds };
            runs.extend(seeds.map(|seed| Run {
                suite: if self.continues { self.name } else { ["full", "short"][usize::from(short)] },
                env: task.env.clone(),
                seed,
                sets: all.clone(),
                variant: task.variant(sets),
                settings: settings.clone(),
                has_replay,
            }));
        }
        ensure!(!runs.is_empty(), "no task of the suite can have these settings");
        let (known, all) = (self.known()?, runs.len());
        runs.retain(|run| !known.contains(&run.key()));
        eprintln!("training {} of {all} runs; the others have rows", runs.len());
        Ok(runs)
    }

    /// Trains what is left, and writes the page.
    fn finish(&self, operant: &Operant, mut runs: Vec<Run>) -> Result<()> {
        // The last first, so that a thread takes one from the end.
        runs.reverse();
        let trained = self.train(operant, runs);
        self.write_page(operant)?;
        trained
    }
}

/// Leaves out settings that came after the first rows, where they have no effect: the rows stay those of the same settings.
fn leave_out_later(table: &mut Table) {
    let is =
        |table: &Table, key: &str, value: &str| table.get(key).is_some_and(|own| own.to_string() == value);
    let has_no_bins = is(table, "value_bins", "1");
    let has_no_sequences = is(table, "burn_in", "0") && is(table, "core", "\"mlp\"");
    let has_a_ratio = is(table, "max_updates_per_step", "0.0");
    let has_one_value = is(table, "intrinsic_gamma", "0.0");
    for (is_unused, keys) in [
        (has_no_bins, &["value_bins", "value_min", "value_max"][..]),
        (has_no_sequences, &["burn_in", "sequence_length"]),
        (has_a_ratio, &["max_updates_per_step"]),
        (has_one_value, &["intrinsic_gamma"]),
    ] {
        table.retain(|key, _| !is_unused || !keys.contains(&key));
    }
}

/// The configuration that a run on this CPU would have.
fn config(operant: &Operant, env: &str, sets: &[String]) -> Result<Table> {
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set.as_str()]).collect();
    let text = operant.config(&[&[env, "--device", "cpu"], &*sets].concat())?;
    text.parse().context("`operant config` printed invalid TOML")
}

/// Hash of the settings that a run would have, for other defaults, presets or values another one; and whether it has a replay. A CPU without
/// a precision has the same hash, so that any machine can write the page.
fn hash_of_settings(operant: &Operant, env: &str, sets: &[String]) -> Result<(String, bool)> {
    let (precision, others): (Vec<_>, Vec<_>) =
        sets.iter().cloned().partition(|set| set.starts_with(PRECISION));
    let mut table = config(operant, env, &others)?;
    if let Some(precision) = precision.last() {
        table.insert("precision".to_owned(), precision[PRECISION.len()..].into());
    }
    let has_replay = table.contains_key("checkpoint_replay");
    table.retain(|key, _| !WITHOUT_EFFECT.contains(&key));
    leave_out_later(&mut table);
    // FNV-1a, 32 bits: a name for a set of settings.
    let hash = table
        .to_string()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    Ok((format!("{hash:08x}"), has_replay))
}

impl Suite {
    /// The rows that there are.
    fn known(&self) -> Result<BTreeSet<String>> {
        let path = self.rows;
        if !Path::new(path).exists() {
            fs::write(path, format!("{COLUMNS}\n")).context(path)?;
        }
        let text = fs::read_to_string(path).context(path)?;
        let rows = text.lines().skip(1).map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            ensure!(cells.len() == COLUMNS.split('\t').count(), "{path}: `{line}` is not a row");
            Ok(format!("{}\t{}\t{}", cells[ENV], cells[SEED], cells[SETTINGS]))
        });
        rows.collect()
    }

    /// Trains runs, one on each core, and appends a row for each.
    fn train(&self, operant: &Operant, runs: Vec<Run>) -> Result<()> {
        let rows = fs::OpenOptions::new().append(true).open(self.rows).context(self.rows)?;
        let (rows, runs) = (Mutex::new(rows), Mutex::new(runs));
        let machine = machine();
        let worker = || -> Result<()> {
            loop {
                let Some(run) = runs.lock().ok().and_then(|mut runs| runs.pop()) else { return Ok(()) };
                let row = self.row(operant, &machine, &run);
                if row.is_err() {
                    // No more runs of this environment for the others, which may lack a program that it needs.
                    runs.lock().map(|mut runs| runs.retain(|other| other.env != run.env)).ok();
                }
                let row = row.with_context(|| format!("{} with seed {}", run.env, run.seed))?;
                eprintln!("{row}");
                if let Ok(mut rows) = rows.lock() {
                    writeln!(rows, "{row}").and_then(|()| rows.sync_data()).context(self.rows)?;
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

    /// Trains a run, or goes on with it, and evaluates it with sampled actions, too.
    fn row(&self, operant: &Operant, machine: &str, run: &Run) -> Result<String> {
        let Run { suite, env, seed, sets, variant, settings, .. } = run;
        let name = format!("{}-{seed}-{settings}", env.replace([':', '/'], "-"));
        let result = if operant.file(&name, "checkpoints").exists() {
            operant.train(&["--resume", &name])?
        } else {
            let _ = fs::remove_dir_all(operant.runs.join(&name));
            let seed_text = seed.to_string();
            let mut args = vec![env.as_str(), "--device", "cpu", "--seed", &seed_text, "--name", &name];
            let every = if self.continues { "checkpoint_interval=100" } else { "checkpoint_interval=0" };
            let fixed = [
                "threads=1",
                "stop_when_solved=false",
                "csv=false",
                "tensorboard=false",
                "ring=false",
                every,
            ];
            let replay = run.has_replay.then_some("checkpoint_replay=true");
            let sets = fixed.into_iter().chain(replay).chain(sets.iter().map(String::as_str));
            args.extend(sets.flat_map(|set| ["--set", set]));
            operant.train(&args)?
        };
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
    fn write_page(&self, operant: &Operant) -> Result<()> {
        let text = fs::read_to_string(self.rows).context(self.rows)?;
        let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split('\t').collect()).collect();
        let mut variants: Vec<&str> = Vec::new();
        for row in &rows {
            if !variants.contains(&row[VARIANT]) {
                variants.push(row[VARIANT]);
            }
        }
        // A task's own settings are part of what its rows call the variant.
        let variants = if self.continues { vec![PRESET] } else { variants };
        let mut current = format!("{COLUMNS}\n");
        for variant in variants {
            let sets: Vec<String> =
                variant.split(' ').filter(|set| *set != PRESET).map(str::to_owned).collect();
            for task in self.tasks()? {
                // A variant of an earlier version may have a setting that is no more.
                let Ok((settings, _)) = hash_of_settings(operant, &task.env, &task.sets(&sets)) else {
                    continue;
                };
                for row in rows.iter().filter(|row| row[ENV] == task.env && row[SETTINGS] == settings) {
                    let (mut row, variant) = (row.clone(), task.variant(&sets));
                    row[VARIANT] = &variant;
                    current.push_str(&row.join("\t"));
                    current.push('\n');
                }
            }
        }
        for task in if self.continues { Vec::new() } else { self.tasks()? } {
            let is_own = |row: &Vec<&str>| [row[0], row[ENV], row[VARIANT]] == ["full", &task.env, PRESET];
            let own: Vec<_> = rows.iter().filter(|row| is_own(row)).collect();
            for row in own.iter().filter(|row| row[SETTINGS] == own[0][SETTINGS]) {
                let mut row = (**row).clone();
                row[VARIANT] = FIRST;
                current.push_str(&row.join("\t"));
                current.push('\n');
            }
        }
        let metadata = crate::tools::workspace()?;
        let root = metadata.workspace_root.as_std_path();
        let path = metadata.target_directory.join(self.name).with_extension("tsv");
        fs::write(&path, current).context("rows of the page")?;
        let example =
            ["run", "--quiet", "--profile", "quick", "--package", "operant-sweep", "--example", "suite"];
        let args = [&example[..], &["--", self.name, self.tasks, path.as_str()]].concat();
        let text = crate::worlds::execute(root, "cargo", &args, true)?;
        fs::write(self.page, text).context(self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_are_those_that_the_help_counts() {
        let tasks = LEARNER.tasks().expect("benches/suite.toml is valid");
        let names: BTreeSet<&str> = tasks.iter().map(|task| task.env.as_str()).collect();
        assert_eq!((tasks.len(), names.len()), (17, 17));
        assert_eq!(tasks.iter().filter(|task| task.is_short).count(), 6);
        assert!(tasks.iter().all(|task| (5..=SEEDS).contains(&task.seeds)));
        // No seed both reports and chooses.
        const { assert!(FIRST_SEED + SEEDS <= SHORT_SEEDS.start) }
    }

    #[test]
    fn settings_that_came_later_change_no_hash_where_they_are_off() {
        let left = |text: &str| {
            let mut table: Table = text.parse().expect("a table");
            leave_out_later(&mut table);
            table.keys().cloned().collect::<Vec<_>>().join(" ")
        };
        let off = "burn_in = 0\ncore = \"mlp\"\nintrinsic_gamma = 0.0\nmax_updates_per_step = 0.0\nsequence_length = 0\nvalue_bins = 1\nvalue_max = 9.0";
        assert_eq!(left(off), "core");
        let on = "burn_in = 0\ncore = \"gru\"\nmax_updates_per_step = 2.0\nsequence_length = 0\nvalue_bins = 51\nvalue_max = 9.0";
        assert_eq!(left(on), "burn_in core max_updates_per_step sequence_length value_bins value_max");
        assert_eq!(left("core = \"mlp\"\nsequence_length = 0"), "core sequence_length");
    }

    #[test]
    fn the_tasks_of_algorithms_are_distinct() {
        let tasks = ALGORITHMS.tasks().expect("benches/algorithms.toml is valid");
        let keys: BTreeSet<_> = tasks.iter().map(|task| (&task.env, &task.own, &task.steps)).collect();
        assert_eq!(keys.len(), tasks.len());
        assert!(tasks.iter().all(|task| task.own.iter().any(|set| set.starts_with("algorithm="))));
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
        for suite in [LEARNER, ALGORITHMS] {
            let text = fs::read_to_string(suite.rows).expect("docs/results");
            assert_eq!(text.lines().next(), Some(COLUMNS));
            let known = suite.known().expect("rows of all columns");
            assert_eq!(known.len() + 1, text.lines().count(), "{}", suite.rows);
        }
    }
}
