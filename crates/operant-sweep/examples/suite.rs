//! `suite suite TASKS.toml ROWS.tsv` prints the page of `cargo xtask learning --suite`: interquartile means over seeds with 95% intervals, and
//! normalised scores over all tasks, as in `operant report`. `suite algorithms TASKS.toml ROWS.tsv` prints that of `--algorithms`.

use std::error::Error;

use operant_sweep::stats::{Estimate, aggregate, improvement, quantile};

/// A task of benches/suite.toml, or of benches/algorithms.toml.
#[derive(serde::Deserialize)]
struct Task {
    env: String,
    steps: u64,
    #[serde(default)]
    algorithm: String,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    low: f64,
    #[serde(default)]
    high: f64,
    #[serde(default)]
    published: String,
}

#[derive(serde::Deserialize)]
struct Tasks {
    task: Vec<Task>,
}

/// A row of docs/results/suite.tsv.
struct Row<'a> {
    env: &'a str,
    steps: u64,
    is_short: bool,
    variant: &'a str,
    greedy: f64,
    sampled: f64,
    seconds: f64,
    machine: &'a str,
}

impl<'a> Row<'a> {
    fn of(line: &'a str) -> Result<Self, Box<dyn Error>> {
        let [suite, env, steps, _, variant, _, greedy, sampled, seconds, machine] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            return Err(format!("`{line}` does not have ten columns").into());
        };
        let (steps, seconds) = (steps.parse()?, seconds.parse()?);
        let (greedy, sampled) = (greedy.parse()?, sampled.parse()?);
        Ok(Row { env, steps, is_short: suite == "short", variant, greedy, sampled, seconds, machine })
    }
}

/// The runs of a variant in a task.
fn runs<'a, 'b>(rows: &'b [Row<'a>], variant: &str, env: &str, is_short: bool) -> Vec<&'b Row<'a>> {
    let is_own = |row: &&Row<'_>| row.variant == variant && row.env == env && row.is_short == is_short;
    rows.iter().filter(is_own).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let [page, tasks, rows] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("usage: suite suite|algorithms TASKS.toml ROWS.tsv".into());
    };
    let (tasks, text) = (std::fs::read_to_string(tasks)?, std::fs::read_to_string(rows)?);
    let Tasks { task: tasks } = toml::from_str(&tasks)?;
    let rows = text.lines().skip(1).map(Row::of).collect::<Result<Vec<_>, _>>()?;
    if page == "algorithms" {
        algorithms(&tasks, &rows);
        return Ok(());
    }
    println!("{}", HEAD.trim_end());
    for is_short in [false, true] {
        let (mut variants, mut machines) = (Vec::new(), Vec::new());
        for row in rows.iter().filter(|row| row.is_short == is_short) {
            for (list, word) in [(&mut variants, row.variant), (&mut machines, row.machine)] {
                if !list.contains(&word) {
                    list.push(word);
                }
            }
        }
        if variants.is_empty() {
            continue;
        }
        println!("\n## {}\n", if is_short { "The short suite" } else { "The suite" });
        machines.iter().for_each(|machine| println!("{machine}."));
        overview(&tasks, &rows, &variants, is_short);
        for variant in variants {
            table(&tasks, &rows, variant, is_short);
        }
    }
    Ok(())
}

const HEAD: &str = "\
# Returns of the suite

Written by `cargo xtask learning --suite`; `--short` trains six tasks with three seeds. A variant is the presets with `--set KEY=VALUE`. Every run is a
row of [suite.tsv](suite.tsv), with its machine, date and commit; runs that have a row are not repeated, so delete the rows to repeat them.

Each return is the interquartile mean over seeds of the mean return of 100 episodes after training, with its 95% interval (stratified bootstrap). A quarter
of the runs, rounded down, is left out at each end, so with three seeds it is the plain mean. The normalised score of a run is
`(return - low) / (high - low)`: `low` is the return of the untrained policy; `high` is the optimum if it is known, otherwise a threshold or a published return,
so scores can exceed 1. Both are in [suite.toml](../../benches/suite.toml). The overall score is the interquartile mean over the runs of all tasks of which the
variant and the presets have rows; the next column has that of the presets there. The first presets are those of the oldest rows of each task. The probability of improvement is that of a higher greedy return than a run of the first
variant in the same task, averaged over the tasks that both have. Seconds are the wall time of a run on one thread, with a run on each core.
Seeds from 1001 on are those of the suite, seeds from 2001 on those of the short suite, with which variants are chosen. MountainCarContinuous got longer rollouts
after seed 1008 of the suite had failed, so its row is no independent check.
";

const ALGORITHMS: &str = "\
# Returns of the algorithms

Written by `cargo xtask learning --algorithms` from the runs of [algorithms.toml](../../benches/algorithms.toml), with the presets' settings except those named beside the algorithm. Every run is a
row of [algorithms.tsv](algorithms.tsv), with its machine, date and commit. An interrupted run continues with its replay, bit for bit as if it had not been interrupted.

Returns are means of 100 episodes after training (of `eval_episodes` where it is named), with greedy actions and with sampled ones. The table shows the interquartile mean
over seeds with its 95% interval (stratified bootstrap), which is the plain mean of three seeds or fewer; the next column has the greedy return of every seed. Seeds begin at 1001.
Seconds are the median time of a whole run, on one thread of machines that differ and also did other work.
Published figures were trained with other code, and those of MuJoCo's tasks on other versions of MuJoCo.
";

/// A row for each task and algorithm, environment by environment.
fn algorithms(tasks: &[Task], rows: &[Row<'_>]) {
    println!("{}", ALGORITHMS.trim_end());
    println!("\n| environment | algorithm | steps | seeds | greedy | each | sampled | seconds | published |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut missing = Vec::new();
    for Task { env, steps, algorithm, set, published, .. } in tasks {
        let sets = set.iter().map(|set| format!(" {set}")).collect::<String>();
        let mut own = runs(rows, &format!("algorithm={algorithm}{sets}"), env, false);
        // Runs take whole updates.
        own.retain(|row| 20 * row.steps.abs_diff(*steps) < *steps);
        let named = format!("{algorithm}{}", set.iter().map(|set| format!(", `{set}`")).collect::<String>());
        if own.is_empty() {
            missing.push(format!("{env} with {named}, {steps} steps"));
            continue;
        }
        let of = |score: fn(&Row<'_>) -> f64| own.iter().map(|row| score(row)).collect::<Vec<f64>>();
        let each = own.iter().map(|row| digits(row.greedy)).collect::<Vec<_>>().join(", ");
        println!(
            "| {env} | {named} | {} | {} | {} | {each} | {} | {:.0} | {published} |",
            own[0].steps,
            own.len(),
            shown(aggregate(&[of(|row| row.greedy)])),
            shown(aggregate(&[of(|row| row.sampled)])),
            median(of(|row| row.seconds)),
        );
    }
    if !missing.is_empty() {
        println!("\nNot trained yet: {}.", missing.join("; "));
    }
}

/// Normalised scores of the variants over the tasks that they and the first one have.
fn overview(tasks: &[Task], rows: &[Row<'_>], variants: &[&str], is_short: bool) {
    println!(
        "\n| variant | tasks | runs | greedy score | the presets there | sampled score | P(improvement) | seconds a run |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for variant in variants {
        let (mut scores, mut first, mut seconds) = ([Vec::new(), Vec::new()], Vec::new(), Vec::new());
        for task in tasks {
            let runs_of = |variant: &str| runs(rows, variant, &task.env, is_short);
            let (own, other) = (runs_of(variant), runs_of(variants[0]));
            if own.is_empty() || other.is_empty() {
                continue;
            }
            let normal = |score: f64| (score - task.low) / (task.high - task.low);
            let of = |runs: &[&Row<'_>], score: fn(&Row<'_>) -> f64| -> Vec<f64> {
                runs.iter().map(|row| normal(score(row))).collect()
            };
            scores[0].push(of(&own, |row| row.greedy));
            scores[1].push(of(&own, |row| row.sampled));
            first.push(of(&other, |row| row.greedy));
            seconds.extend(own.iter().map(|row| row.seconds));
        }
        let better =
            if *variant == variants[0] { "-".to_owned() } else { shown(improvement(&scores[0], &first)) };
        println!(
            "| {} | {} | {} | {} | {:.3} | {} | {better} | {:.1} |",
            named(variant),
            scores[0].len(),
            seconds.len(),
            shown(aggregate(&scores[0])),
            aggregate(&first).value,
            shown(aggregate(&scores[1])),
            median(seconds)
        );
    }
}

/// Every task of a variant.
fn table(tasks: &[Task], rows: &[Row<'_>], variant: &str, is_short: bool) {
    println!("\n### {}\n", named(variant));
    println!("| task | steps | seeds | greedy | sampled | low | high | seconds |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for Task { env, low, high, .. } in tasks {
        let own = runs(rows, variant, env, is_short);
        if own.is_empty() {
            continue;
        }
        let of = |score: fn(&Row<'_>) -> f64| own.iter().map(|row| score(row)).collect::<Vec<f64>>();
        println!(
            "| {env} | {} | {} | {} | {} | {low} | {high} | {:.1} |",
            own[0].steps,
            own.len(),
            shown(aggregate(&[of(|row| row.greedy)])),
            shown(aggregate(&[of(|row| row.sampled)])),
            median(of(|row| row.seconds))
        );
    }
}

fn named(variant: &str) -> String {
    match variant {
        "preset" => "the presets".to_owned(),
        "first" => "the first presets".to_owned(),
        _ => format!("`{variant}`"),
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    quantile(&numbers, 0.5)
}

/// A return: three decimals where it is small.
fn digits(value: f64) -> String {
    if value.abs() < 10.0 { format!("{value:.3}") } else { format!("{value:.1}") }
}

/// An estimate with its interval: three decimals where it is small.
fn shown(Estimate { value, low, high }: Estimate) -> String {
    let digits = if value.abs() < 10.0 { 3 } else { 1 };
    format!("{value:.digits$} ({low:.digits$} to {high:.digits$})")
}
