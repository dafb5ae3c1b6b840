//! The report of a self-test: lines on stderr during the run, and one JSON object.

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::time::Instant;

use serde_json::{Value, json};

/// The result of a check.
#[derive(Debug, Clone)]
pub struct Check {
    /// `cpu` or `gpu`.
    pub target: &'static str,
    pub name: String,
    pub problems: Vec<String>,
    /// Seconds that it took.
    pub seconds: f64,
}

/// The report of a self-test.
#[derive(Debug, Default)]
pub struct Report {
    /// Checks in order.
    pub checks: Vec<Check>,
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
        let _ = writeln!(stderr(), "{target}: {name}: {verdict} ({seconds:.1} s)");
        for problem in &problems {
            let _ = writeln!(stderr(), "    {problem}");
        }
        self.checks.push(Check { target, name, problems, seconds });
    }

    /// Adds a part of the result and prints a summary on stderr.
    pub fn part(&mut self, name: &'static str, value: Value, line: &str) {
        let _ = writeln!(stderr(), "{name}: {line}");
        self.parts.insert(name, value);
    }

    /// Whether every check passed.
    pub fn good(&self) -> bool {
        self.checks.iter().all(|check| check.problems.is_empty())
    }

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
        let mut value = json!({
            "operant": env!("CARGO_PKG_VERSION"),
            "commit": option_env!("OPERANT_COMMIT"),
            "unix_time": std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            "passed": self.good(),
            "gpu": self.gpu,
            "checks": checks,
        });
        for (name, part) in &self.parts {
            value[*name] = part.clone();
        }
        value
    }
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
}
