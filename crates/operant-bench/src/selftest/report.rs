//! The report of a self-test: lines on stderr during the run, and one JSON object.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

/// The result of a check.
#[derive(Debug, Clone)]
pub struct Check {
    /// `cpu` or `gpu`.
    pub target: &'static str,
    /// The check's name.
    pub name: String,
    /// The problems found.
    pub problems: Vec<String>,
    /// Seconds that it took.
    pub seconds: f64,
}

/// A measured speed.
#[derive(Debug, Clone)]
pub struct Row {
    /// `env`, `env+writes`, `rollout` or `train`.
    pub bench: &'static str,
    /// Environment.
    pub env: String,
    /// `cpu` or `cuda:K`.
    pub device: String,
    /// `f32`, `tf32` or `bf16`.
    pub precision: &'static str,
    /// num_envs (N).
    pub envs: usize,
    /// Other details, such as the widths of the network.
    pub what: String,
    /// Threads, on a CPU.
    pub threads: Option<usize>,
    /// Environment steps per second: median, minimum, maximum.
    pub sps: [f64; 3],
    /// Repetitions.
    pub reps: usize,
    /// Floating-point operations of the network per step, if there is one.
    pub flops_per_step: Option<f64>,
    /// Peak of the device in that precision, if known.
    pub peak_flops: Option<f64>,
    /// Additional results.
    pub more: Value,
}

/// The report of a self-test.
#[derive(Debug, Default)]
pub struct Report {
    /// Checks in order.
    pub checks: Vec<Check>,
    /// Speeds in order.
    pub rows: Vec<Row>,
    /// The GPU, if one was tested.
    pub gpu: Option<Value>,
    /// Additional parts of the result by name.
    pub parts: BTreeMap<&'static str, Value>,
}

impl Report {
    /// Runs a check and prints the result on stderr.
    pub fn check(
        &mut self,
        target: &'static str,
        name: impl Into<String>,
        check: impl FnOnce() -> Result<Vec<String>, String>,
    ) {
        let (name, start) = (name.into(), Instant::now());
        let problems = check().unwrap_or_else(|error| vec![error]);
        let seconds = start.elapsed().as_secs_f64();
        let verdict = if problems.is_empty() { "good" } else { "FAILED" };
        eprintln!("{target}: {name}: {verdict} ({seconds:.1} s)");
        for problem in &problems {
            eprintln!("    {problem}");
        }
        self.checks.push(Check { target, name, problems, seconds });
    }

    /// Adds a speed and prints it on stderr.
    pub fn row(&mut self, row: Row) {
        let [median, least, greatest] = row.sps;
        eprintln!(
            "{}: {} {} {} {} x {}: {} steps/s ({} .. {}, {} times)",
            row.device,
            row.bench,
            row.env,
            row.precision,
            row.envs,
            row.what,
            amount(median),
            amount(least),
            amount(greatest),
            row.reps
        );
        self.rows.push(row);
    }

    /// Adds a part of the result and prints a summary on stderr.
    pub fn part(&mut self, name: &'static str, value: Value, line: &str) {
        eprintln!("{name}: {line}");
        self.parts.insert(name, value);
    }

    /// Whether every check passed.
    pub fn good(&self) -> bool {
        self.checks.iter().all(|check| check.problems.is_empty())
    }

    /// The JSON object.
    pub fn to_json(&self) -> Value {
        let checks: Vec<Value> = self
            .checks
            .iter()
            .map(|check| {
                json!({
                    "target": check.target,
                    "check": check.name,
                    "passed": check.problems.is_empty(),
                    "problems": check.problems,
                    "seconds": check.seconds,
                })
            })
            .collect();
        let rows: Vec<Value> = self.rows.iter().map(row_to_json).collect();
        let mut value = json!({
            "operant": env!("CARGO_PKG_VERSION"),
            "commit": option_env!("OPERANT_COMMIT"),
            "unix_time": std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            "passed": self.good(),
            "gpu": self.gpu,
            "checks": checks,
            "speeds": rows,
        });
        for (name, part) in &self.parts {
            value[*name] = part.clone();
        }
        value
    }
}

fn row_to_json(row: &Row) -> Value {
    let [median, least, greatest] = row.sps;
    let achieved = row.flops_per_step.map(|flops| flops * median);
    json!({
        "bench": row.bench,
        "env": row.env,
        "device": row.device,
        "precision": row.precision,
        "envs": row.envs,
        "what": row.what,
        "threads": row.threads,
        "sps_median": median,
        "sps_min": least,
        "sps_max": greatest,
        "reps": row.reps,
        "flops_per_step": row.flops_per_step,
        "peak_flops": row.peak_flops,
        "fraction_of_peak": achieved.zip(row.peak_flops).map(|(achieved, peak)| achieved / peak),
        "more": row.more,
    })
}

/// A rate with a prefix: 1.23 G.
pub fn amount(x: f64) -> String {
    let (scaled, prefix) = match x {
        x if x >= 1e9 => (x / 1e9, " G"),
        x if x >= 1e6 => (x / 1e6, " M"),
        x if x >= 1e3 => (x / 1e3, " k"),
        x => (x, ""),
    };
    format!("{scaled:.3}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_fails_the_report_and_says_why() {
        let mut report = Report::default();
        report.check("cpu", "sums", || Ok(Vec::new()));
        assert!(report.good());
        report.check("gpu", "sums", || Err("no such device".to_owned()));
        assert!(!report.good());
        let value = report.to_json();
        assert_eq!(value["passed"], false);
        assert_eq!(value["checks"][1]["problems"][0], "no such device");
    }

    #[test]
    fn amounts_have_prefixes() {
        assert_eq!(amount(12_345_678_901.0), "12.346 G");
        assert_eq!(amount(950.0), "950.000");
    }
}
