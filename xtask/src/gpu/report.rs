//! `cargo xtask gpu --report [DIR]`: the results of a round (round.sh) as the generated part of docs/results/gpu.md.
//!
//! A row is identified by its first cells. A row that the round measured replaces the previous one; every other row is kept, with the
//! GPU, date and commit in its last cell.

use anyhow::{Context, Result};
use serde_json::Value;

const BEGIN: &str = "<!-- written by cargo xtask gpu --report -->";
const END: &str = "<!-- end of what is written -->";

type Cells = Vec<String>;

/// A table of the page.
struct Table {
    title: &'static str,
    header: &'static str,
    /// Leading cells that identify a row; with none, a round replaces the whole table.
    key: usize,
    rows: fn(&Round) -> Vec<Cells>,
}

const TRAINING: &str =
    "environment | network and work | precision | environments | steps/s | of peak | rollout | update";

const TABLES: [Table; 7] = [
    Table {
        title: "CartPole, fused kernels",
        header: TRAINING,
        key: 4,
        rows: |round| round.training("cartpole-"),
    },
    Table {
        title: "Environments alone",
        header: "environment | environments | steps/s | bits as on the CPU",
        key: 2,
        rows: |round| round.rows("worlds", alone),
    },
    Table { title: "GEMM path", header: TRAINING, key: 4, rows: |round| round.training("gemm-") },
    Table {
        title: "Whole runs in bf16",
        header: "run | steps | steps/s | seconds | mean return | solved after",
        key: 1,
        rows: Round::runs,
    },
    Table {
        title: "CartPole: operant and PPO in JAX (one jit)",
        header: "environments | precision | operant | JAX | ratio",
        key: 2,
        rows: Round::peers,
    },
    Table { title: "Training, every world", header: TRAINING, key: 4, rows: |round| round.training("walk") },
    Table {
        title: "The last round",
        header: "step | result | predicted | seconds | note",
        key: 0,
        rows: Round::steps,
    },
];

/// The results of a round.
pub struct Round {
    /// GPU, date and commit.
    measured: String,
    /// Each step that ran, with its line of round.jsonl, and the JSON that it printed.
    steps: Vec<(Value, Vec<Value>)>,
    /// The self-test's log.
    selftest: String,
}

impl Round {
    /// Reads the files of a round's directory. A line that an interruption cut is omitted.
    pub fn read(file: &dyn Fn(&str) -> Option<String>) -> Result<Round> {
        let lines = |name: &str| -> Vec<Value> {
            let text = file(name).unwrap_or_default();
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
        };
        let mut steps = lines("round.jsonl").into_iter();
        let facts = steps.next().context("there is no round.jsonl of a round")?;
        let info: Value = serde_json::from_str(&file("info.json").unwrap_or_default()).unwrap_or_default();
        let gpu = info["gpus"][0]["name"].as_str().unwrap_or("an unknown GPU");
        let measured = format!("{gpu}, {}, {}", text(&facts["date"]), text(&facts["commit"]));
        let mut latest: Vec<(Value, Vec<Value>)> = Vec::new();
        for step in steps {
            latest.retain(|(earlier, _)| earlier["step"] != step["step"]);
            let printed = if step["result"] == "skipped" {
                Vec::new()
            } else {
                lines(&format!("{}.jsonl", text(&step["step"])))
            };
            latest.push((step, printed));
        }
        Ok(Round { measured, steps: latest, selftest: file("selftest.log").unwrap_or_default() })
    }

    /// What the steps printed whose names begin like this.
    fn printed<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Value> {
        let chosen = move |step: &Value| text(&step["step"]).starts_with(prefix);
        self.steps.iter().filter(move |(step, _)| chosen(step)).flat_map(|(_, printed)| printed)
    }

    fn rows(&self, prefix: &str, cells: fn(&Value) -> Cells) -> Vec<Cells> {
        self.printed(prefix).filter(|row| row["bench"].is_string()).map(cells).collect()
    }

    fn training(&self, prefix: &str) -> Vec<Cells> {
        self.rows(prefix, |row| {
            let mut cells = vec![
                text(&row["env"]),
                text(&row["work"]),
                text(&row["precision"]),
                text(&row["envs"]),
                speed(row),
            ];
            cells.push(number(&row["fraction_of_peak"], 100.0, " %"));
            cells.extend(["rollout_s", "update_s"].map(|phase| number(&row[phase], 1e3, " ms")));
            cells
        })
    }

    fn runs(&self) -> Vec<Cells> {
        let run = |name: &str| {
            let result = self.printed(name).find(|result| result["env_steps"].is_number())?;
            let mut cells = vec![name.to_owned(), amount(&result["env_steps"]), amount(&result["sps"])];
            cells.extend(
                ["wall_s", "eval_return_mean", "solved_at_s"].map(|key| number(&result[key], 1.0, "")),
            );
            Some(cells)
        };
        ["overlap-off", "overlap-on", "breakout_large"].into_iter().filter_map(run).collect()
    }

    fn peers(&self) -> Vec<Cells> {
        let peer = |name: &str| {
            let settings = self.printed(name).next()?;
            let mut speeds: Vec<f64> = self.printed(name).filter_map(|line| line["sps"].as_f64()).collect();
            speeds.sort_by(f64::total_cmp);
            let jax = *speeds.get(speeds.len() / 2)?;
            let same = |row: &&Value| ["envs", "precision"].iter().all(|key| row[*key] == settings[*key]);
            let ours = self.printed("cartpole-separate").chain(self.printed("cartpole-many")).find(same);
            let ours = ours.map_or(Value::Null, |row| row["sps_median"].clone());
            let ratio = number(&ours, jax.recip(), "");
            Some(vec![
                text(&settings["envs"]),
                text(&settings["precision"]),
                amount(&ours),
                amount(&jax.into()),
                ratio,
            ])
        };
        ["jax-f32", "jax-bf16", "jax-many"].into_iter().filter_map(peer).collect()
    }

    fn steps(&self) -> Vec<Cells> {
        let checks = ["good", "FAILED"].map(|word| self.selftest.matches(&format!(": {word} (")).count());
        let cells = |(step, _): &(Value, Vec<Value>)| {
            let mut cells: Cells =
                ["step", "result", "predicted_s", "seconds", "why"].map(|key| text(&step[key])).into();
            if step["step"] == "selftest" {
                cells[4] = format!("{} checks good, {} failed", checks[0], checks[1]);
            }
            cells
        };
        self.steps.iter().map(cells).collect()
    }
}

fn alone(row: &Value) -> Cells {
    let bits = match row["bits_differ"].as_u64() {
        Some(0) => "yes".to_owned(),
        Some(count) => format!("**no**: {count} of 65 environments differ"),
        None => "-".to_owned(),
    };
    vec![text(&row["env"]), text(&row["envs"]), speed(row), bits]
}

/// Median, minimum and maximum, or the reason why there is none.
fn speed(row: &Value) -> String {
    match row["error"].as_str() {
        Some(error) => format!("failed: {}", error.lines().next().unwrap_or_default().replace('|', "/")),
        None => {
            let [median, min, max] = ["sps_median", "sps_min", "sps_max"].map(|key| amount(&row[key]));
            format!("{median} ({min} .. {max})")
        }
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| if value.is_null() { "-".to_owned() } else { value.to_string() }, str::to_owned)
}

fn number(value: &Value, factor: f64, unit: &str) -> String {
    value.as_f64().map_or("-".to_owned(), |number| format!("{:.2}{unit}", number * factor))
}

fn amount(value: &Value) -> String {
    match value.as_f64() {
        Some(x) if x >= 1e9 => format!("{:.2} G", x / 1e9),
        Some(x) if x >= 1e6 => format!("{:.1} M", x / 1e6),
        Some(x) => format!("{x:.0}"),
        None => "-".to_owned(),
    }
}

/// The page with a new generated part.
pub fn page(page: &str, round: &Round) -> Result<String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let (before, (old, after)) = parts.with_context(|| format!("the page lacks {BEGIN} or {END}"))?;
    let tables: String = TABLES.iter().map(|table| table.text(old, round)).collect();
    Ok(format!("{before}{BEGIN}\n{tables}\n{END}{after}"))
}

impl Table {
    /// The table, with the previous rows that the round did not measure; nothing if it has no rows at all.
    fn text(&self, old: &str, round: &Round) -> String {
        let mut rows = if self.key == 0 { Vec::new() } else { self.earlier(old) };
        for mut row in (self.rows)(round) {
            row.push(round.measured.clone());
            match rows.iter_mut().find(|earlier| self.key > 0 && earlier[..self.key] == row[..self.key]) {
                Some(earlier) => *earlier = row,
                None => rows.push(row),
            }
        }
        if rows.is_empty() {
            return String::new();
        }
        let rule = "| --- ".repeat(self.header.matches(" | ").count() + 2);
        let lines: String = rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
        format!("\n### {}\n\n| {} | measured |\n{rule}|\n{lines}", self.title, self.header)
    }

    /// The rows of this table in the previous text.
    fn earlier(&self, old: &str) -> Vec<Cells> {
        let from = old.lines().skip_while(|line| line.strip_prefix("### ") != Some(self.title)).skip(1);
        let lines = from.take_while(|line| !line.starts_with("### ")).filter(|line| line.starts_with("| "));
        let cells = |line: &str| line.trim_matches(['|', ' ']).split(" | ").map(str::to_owned).collect();
        lines.skip(2).map(cells).filter(|row: &Cells| row.len() > self.key).collect()
    }
}

#[cfg(test)]
mod tests;
