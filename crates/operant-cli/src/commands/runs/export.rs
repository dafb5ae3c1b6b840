//! `operant runs --export`: a table of the runs, or the runs themselves for a tracker, whose package is Python's.

use operant_run::Error;
use operant_run::world::{self, python};
use serde_json::Value;

use super::RunRow;
use crate::output;

/// Where runs are exported to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Export {
    Csv,
    Wandb,
    Mlflow,
    Trackio,
    Tensorboard,
}

impl Export {
    /// Exports the runs, and returns the exit code.
    pub fn export(self, runs: &[RunRow]) -> anyhow::Result<u8> {
        if self == Export::Csv {
            let rows = runs.iter().map(|run| Ok(serde_json::to_value(run.json()?)?));
            output::print(&csv(&rows.collect::<anyhow::Result<Vec<Value>>>()?))?;
            return Ok(0);
        }
        let (alive, ended): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.run.health.is_alive());
        for run in &alive {
            output::note(&format!("left out, since it is in progress: {}", run.run.run));
        }
        if ended.is_empty() {
            return Err(Error::usage("no run that has ended").remedy("`operant runs` lists them").into());
        }
        let dirs: Vec<_> = ended.iter().map(|run| &run.run.dir).collect();
        let name = clap::ValueEnum::to_possible_value(&self).map(|value| value.get_name().to_owned());
        let python = world::interpreter();
        let status = python::module(&python, "operant.track").args(name).args(dirs).status();
        Ok(u8::from(!status.map_err(|error| missing(&python.display().to_string(), &error))?.success()))
    }
}

fn missing(python: &str, error: &std::io::Error) -> Error {
    Error::usage(format!("{python} cannot be started: {error}"))
        .remedy("activate an environment in which the package operant-rl is installed")
}

/// Columns before the others.
const FIRST: [&str; 4] = ["run", "env", "algorithm", "state"];

/// Objects as CSV (RFC 4180): a column for each value in any of them, nested ones as `config.gamma`. Text that a spreadsheet would take for a formula gets no special
/// treatment: the file is for programs.
fn csv(rows: &[Value]) -> String {
    let flat: Vec<Vec<(String, String)>> = rows
        .iter()
        .map(|row| {
            let mut cells = Vec::new();
            flatten("", row, &mut cells);
            cells
        })
        .collect();
    let mut columns: Vec<&str> = Vec::new();
    let names = || flat.iter().flatten().map(|(name, _)| name.as_str());
    // What identifies a run comes first.
    for name in FIRST.into_iter().filter(|first| names().any(|name| name == *first)).chain(names()) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    let line = |cells: Vec<&str>| cells.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    let value = |row: &'_ [(String, String)], column: &str| {
        row.iter().find(|(name, _)| name == column).map_or(String::new(), |(_, value)| value.clone())
    };
    let mut text = line(columns.clone());
    for row in &flat {
        let cells: Vec<String> = columns.iter().map(|column| value(row, column)).collect();
        text += &line(cells.iter().map(String::as_str).collect());
    }
    text
}

fn flatten(prefix: &str, value: &Value, cells: &mut Vec<(String, String)>) {
    match value {
        Value::Object(entries) => {
            // `config` has the changed settings, too.
            for (key, value) in entries.iter().filter(|(key, _)| !prefix.is_empty() || *key != "changed") {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&name, value, cells);
            }
        }
        Value::Null => cells.push((prefix.to_owned(), String::new())),
        Value::String(text) => cells.push((prefix.to_owned(), text.clone())),
        other => cells.push((prefix.to_owned(), other.to_string())),
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_rows_with_all_columns() {
        let rows = [
            serde_json::json!({"run": "a", "config": {"gamma": 0.9, "hidden": [1, 2]}, "note": null}),
            serde_json::json!({"run": "b, \"c\"", "config": {"ent_coef": 1}, "note": "two\nlines"}),
        ];
        let expected = "run,config.gamma,config.hidden,note,config.ent_coef\n\
                        a,0.9,\"[1,2]\",,\n\
                        \"b, \"\"c\"\"\",,,\"two\nlines\",1\n";
        assert_eq!(csv(&rows), expected);
    }
}
