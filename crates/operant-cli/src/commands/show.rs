//! `operant show`: one run or sweep on one screen.

mod sweep;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use operant_env::Registry;
use operant_learn::EvalActions;
use operant_metrics::{FEW_ENV_METRICS, Health, RingReader, RunState, plain, printable};
use operant_run::checkpoint::{self, Listed};
use operant_run::evaluate::EvalSummary;
use operant_run::paint::paint;
use operant_run::progress::short;
use operant_run::runs::{self, Kind};
use operant_run::{dir, log, path_text, world};
use serde::Serialize;

use super::run_args;
use super::runs::{Json, RunRow, of_health};
use crate::table::{self, hanging, size};
use crate::{daemon, output};

/// Show one run or sweep: state, result, settings, checkpoints or trials, and what to do next
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Name or directory of a run or sweep
    #[arg(value_name = "RUN|SWEEP")]
    run: String,
    /// Print one JSON object; unknown values are null
    #[arg(long)]
    json: bool,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  operant show mine
  operant show mine --json | jq '.checkpoints[].env_steps'

The settings are those that differ from the environment's preset; `operant
config ENV` prints all of them, and config.toml in the run's directory has the
run's. --json has the keys of `operant runs --json`, and ended, checkpoints,
log, metrics and output. Of a sweep it has the keys of `operant runs --sweeps
--json`, and vary, command, resume and trials, the best of each environment
first.";

/// Column where the values start.
const COLUMN: usize = 15;

/// Checkpoints that are listed, at most; the others are counted.
const FEW: usize = 8;

/// Prints the run.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    let run = runs::find_any(&parent, &args.run)?;
    if run.kind == Kind::Sweep {
        let shown = sweep::Shown::of(run)?;
        output::print(&match args.json {
            true => shown.json(registry)?.to_string() + "\n",
            false => shown.text(registry, table::width().unwrap_or(table::DEFAULT_WIDTH)),
        })?;
        return Ok(0);
    }
    let shown = Shown::of(RunRow::of(run, registry))?;
    match args.json {
        true => output::print(&(serde_json::to_string(&shown.json()?)? + "\n"))?,
        false => {
            output::print_painted(&shown.text(registry, table::width().unwrap_or(table::DEFAULT_WIDTH)))?
        }
    }
    Ok(0)
}

/// The run and its files.
struct Shown {
    row: RunRow,
    /// Oldest first.
    checkpoints: Vec<Listed>,
    /// When its latest process ended, UTC; of a killed one the last sign of life.
    ended: Option<String>,
    log: Option<PathBuf>,
    metrics: Option<PathBuf>,
    output: Option<PathBuf>,
}

impl Shown {
    fn of(row: RunRow) -> operant_run::Result<Self> {
        let dir = &row.run.dir;
        let checkpoints = checkpoint::list(&dir.join("checkpoints"))?;
        let modified = |file: &str| std::fs::metadata(dir.join(file)).and_then(|found| found.modified()).ok();
        let written = |files: &[&str]| files.iter().copied().filter_map(modified).max();
        // A copied run has its own times in its log; one that was killed logged no end.
        let ended = match row.run.health {
            health if health.is_alive() => None,
            Health::Reported(_) => {
                log::last_time(dir).or_else(|| written(&["run.json", "operant.log"]).map(dir::utc))
            }
            _ => {
                let files = written(&["run.json", "operant.log", "metrics.csv"]);
                files.max(row.run.ring.as_deref().and_then(heartbeat)).map(dir::utc)
            }
        };
        let there = |path: PathBuf| path.is_file().then_some(path);
        let (log, metrics) = (there(dir.join("operant.log")), there(dir.join("metrics.csv")));
        let output = there(daemon::output_file(dir));
        Ok(Shown { checkpoints, ended, log, metrics, output, row })
    }

    fn json(&self) -> anyhow::Result<ShownJson<'_>> {
        let checkpoint = |saved: &Listed| CheckpointJson {
            env_steps: saved.env_steps,
            path: saved.path.clone(),
            bytes: saved.bytes,
            saved: saved.saved.map(dir::utc),
            eval_return_mean: saved.eval_mean,
        };
        Ok(ShownJson {
            run: self.row.json()?,
            ended: self.ended.clone(),
            checkpoints: self.checkpoints.iter().map(checkpoint).collect(),
            log: &self.log,
            metrics: &self.metrics,
            output: &self.output,
        })
    }

    /// The run on a screen; its state is painted.
    fn text(&self, registry: &Registry, width: usize) -> String {
        let run = &self.row.run;
        let state = paint(of_health(run.health), run.health.name());
        let reason = if run.reason.is_empty() { String::new() } else { format!(" ({})", plain(&run.reason)) };
        let first = format!("run {}: {state}{reason}\n", plain(&run.run));
        first + &printable(&self.lines(registry, width))
    }

    fn lines(&self, registry: &Registry, width: usize) -> String {
        let run = &self.row.run;
        let mut text = String::new();
        let mut lines = |label: &str, values: &[String]| {
            for (at, value) in values.iter().enumerate() {
                let label = if at == 0 { format!("  {label}") } else { String::new() };
                text.push_str(&hanging(&label, COLUMN, value, width));
            }
        };
        lines("environment", &[self.environment()]);
        lines("steps", &[self.steps()]);
        lines("return", &self.mean().into_iter().collect::<Vec<_>>());
        let own: Vec<_> = self.row.result.iter().flat_map(|result| &result.eval_metrics).collect();
        if own.len() > FEW_ENV_METRICS {
            let all: Vec<_> = own.iter().map(|(name, mean)| format!("{name} {mean:.3}")).collect();
            lines("metrics", &[format!("in the last evaluation: {}", all.join(", "))]);
        } else {
            own.iter().for_each(|(name, mean)| lines(name, &[format!("{mean:.3} in the last evaluation")]));
        }
        lines("solved", &self.solved().into_iter().collect::<Vec<_>>());
        lines("time", &self.times());
        lines("note", &self.row.notes.note.lines().map(str::to_owned).collect::<Vec<_>>());
        let tags = Some(self.row.notes.tags.join(", ")).filter(|tags| !tags.is_empty());
        lines("tags", &tags.into_iter().collect::<Vec<_>>());
        lines("directory", &[run_args::near(&run.dir)]);
        lines("files", &self.files());
        lines("settings", &self.settings());
        lines("checkpoints", &self.saved());
        lines("next", &self.next(registry));
        text
    }

    fn environment(&self) -> String {
        let run = &self.row.run;
        let seed = run.seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
        let device = if run.device.is_empty() { String::new() } else { format!(" on {}", run.device) };
        let pid = run.pid.map_or_else(String::new, |pid| format!(", process {pid}"));
        let algorithm = self.row.algorithm().to_uppercase();
        format!("{} with {algorithm}{device}{seed}{pid}", run.env)
    }

    fn steps(&self) -> String {
        let run = &self.row.run;
        let steps = run.env_steps.unwrap_or(0);
        // A run may have been ended by a smaller --steps.
        let total = run.total_steps.filter(|total| *total >= steps.max(1));
        let of = total.map_or_else(String::new, |total| {
            format!(" of {total} ({:.0}%)", 100.0 * steps as f64 / total as f64)
        });
        let speed = run.sps.map_or_else(String::new, |sps| format!(", {} steps/s", short(sps)));
        format!("{steps}{of}{speed}")
    }

    fn mean(&self) -> Option<String> {
        let result = self.row.result.as_ref();
        let greedy =
            result.and_then(|result| Some((result, result.eval_return_mean?, result.eval_return_std?)));
        match greedy {
            Some((result, mean, std)) => {
                let (episodes, distinct) = (result.eval_episodes, result.eval_distinct);
                Some(EvalSummary::shown(mean, std, episodes, distinct, EvalActions::Greedy))
            }
            None => {
                self.row.run.episodic_return.map(|mean| format!("{mean:.2} over recent training episodes"))
            }
        }
    }

    /// None where nothing says when the environment counts as solved.
    fn solved(&self) -> Option<String> {
        match self.row.solved() {
            Some((step, seconds)) => Some(format!("at {step} steps, after {}", duration(seconds))),
            None => self.row.threshold().map(|threshold| match self.row.run.health.is_alive() {
                true => format!("not yet: a mean return of {threshold} is needed"),
                false => format!("no: a mean return of {threshold} is needed"),
            }),
        }
    }

    fn times(&self) -> Vec<String> {
        let started = Some(second(&self.row.run.started)).filter(|started| !started.is_empty());
        let started = started.map(|started| format!("started {started} UTC"));
        let what = if self.row.run.health == Health::Killed { "last sign of life" } else { "ended" };
        let ended = self.ended.as_deref().map(|ended| format!("{what} {} UTC", second(ended)));
        let took = self.row.result.as_ref().map(|result| {
            format!("{} in all, {} of training", duration(result.wall_s), duration(result.train_s))
        });
        let moments: Vec<String> = started.into_iter().chain(ended).collect();
        Some(moments.join(", ")).filter(|text| !text.is_empty()).into_iter().chain(took).collect()
    }

    fn files(&self) -> Vec<String> {
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let about = [
            (&self.log, "its notes and warnings"),
            (&self.metrics, "a row per update"),
            (&self.output, "what it printed"),
        ];
        let parts =
            about.iter().filter_map(|(path, about)| Some(format!("{} ({about})", name(path.as_ref()?)?)));
        let text = parts.collect::<Vec<_>>().join(", ");
        if text.is_empty() { Vec::new() } else { vec![text] }
    }

    fn settings(&self) -> Vec<String> {
        let lines = self.row.changed.iter().map(|it| {
            let (value, preset) = it.shown();
            format!("{} = {value} (preset: {})", it.key, preset.as_deref().unwrap_or("none"))
        });
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() { vec!["those of the preset".to_owned()] } else { lines }
    }

    fn saved(&self) -> Vec<String> {
        let Some(taken) = self.checkpoints.iter().rfind(|saved| saved.is_readable) else {
            return vec![if self.checkpoints.is_empty() { "none yet" } else { "all are damaged" }.to_owned()];
        };
        let bytes = self.checkpoints.iter().map(|saved| saved.bytes).sum();
        let count = self.checkpoints.len();
        let summary = format!("{count} of {}; eval takes {}", size(bytes), taken.env_steps);
        let best = self.checkpoints.iter().filter_map(|saved| saved.eval_mean).max_by(f64::total_cmp);
        let digits =
            self.checkpoints.iter().map(|saved| saved.env_steps.to_string().len()).max().unwrap_or(0);
        let line = |saved: &Listed| {
            let when = saved.saved.map(dir::utc).unwrap_or_default();
            let note = match saved.eval_mean {
                _ if !saved.is_readable => "damaged".to_owned(),
                Some(mean) if saved.eval_mean == best => format!("return {mean:.2}, the best"),
                Some(mean) => format!("return {mean:.2}"),
                None => String::new(),
            };
            format!("{:<digits$}  {:>9}  {} UTC  {note}", saved.env_steps, size(saved.bytes), second(&when))
        };
        let lines = self.checkpoints.iter().rev().take(FEW).map(line);
        let more = (count > FEW).then(|| format!("and {} older ones", count - FEW));
        std::iter::once(summary).chain(lines).chain(more).collect()
    }

    /// The commands that come next.
    fn next(&self, registry: &Registry) -> Vec<String> {
        let run = &self.row.run;
        let word = run_args::word(registry, &run.dir);
        let commands: &[&str] = match run.health {
            Health::Reported(RunState::Finished) => &["eval RUN", "monitor RUN", "resume RUN --steps N"],
            Health::Reported(RunState::Paused) => &["resume RUN", "monitor RUN", "stop RUN"],
            health if health.is_alive() => &["monitor RUN", "pause RUN", "stop RUN"],
            _ => &["resume RUN", "eval RUN", "monitor RUN"],
        };
        let has_policy = !self.checkpoints.is_empty();
        // Commands cannot make the environment.
        let is_local = !run.health.is_alive() && world::is_local(&run.dir);
        let can = |command: &str| match command.split(' ').next() {
            Some("eval") => has_policy && !is_local,
            Some("resume") => !is_local,
            _ => true,
        };
        let commands = commands.iter().filter(|command| can(command));
        let commands = commands.map(|command| format!("operant {}", command.replace("RUN", &word)));
        let in_python = || {
            let run = python_text(&run_args::argument(registry, &run.dir));
            format!("in Python: operant.resume({run}, env=FUNCTION)")
        };
        commands.chain(is_local.then(in_python)).collect()
    }
}

/// The last sign of life in a ring; None where its clock is not this process's.
fn heartbeat(ring: &Path) -> Option<SystemTime> {
    let ring = RingReader::open(ring).ok().filter(RingReader::shares_clock)?;
    SystemTime::now().checked_sub(ring.status().since_alive)
}

/// A text as a literal of Python: JSON's are literals of Python too.
fn python_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `2026-11-21 10:46:36` of `2026-11-21T10:46:36.120Z`.
fn second(timestamp: &str) -> String {
    timestamp.get(..19).unwrap_or_default().replace('T', " ")
}

/// Seconds, in units that leave few digits.
fn duration(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // minutes
    let minutes = (seconds / 60.0) as u64;
    match minutes {
        0 => format!("{seconds:.2} s"),
        1..60 => format!("{minutes} min {:.0} s", seconds % 60.0),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// The object of `--json`.
#[derive(Serialize)]
struct ShownJson<'a> {
    #[serde(flatten)]
    run: Json<'a>,
    ended: Option<String>,
    checkpoints: Vec<CheckpointJson>,
    #[serde(serialize_with = "path_text::serialize_option")]
    log: &'a Option<PathBuf>,
    #[serde(serialize_with = "path_text::serialize_option")]
    metrics: &'a Option<PathBuf>,
    #[serde(serialize_with = "path_text::serialize_option")]
    output: &'a Option<PathBuf>,
}

#[derive(Serialize)]
struct CheckpointJson {
    env_steps: u64,
    #[serde(serialize_with = "path_text::serialize")]
    path: PathBuf,
    bytes: u64,
    saved: Option<String>,
    eval_return_mean: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_literals_of_python() {
        let shown = ["mine", "it's two", "a\"b\\c", "größe"].map(python_text);
        assert_eq!(shown, ["\"mine\"", "\"it's two\"", r#""a\"b\\c""#, "\"größe\""]);
    }

    #[test]
    fn durations_are_short() {
        let shown = [0.5, 59.0, 61.0, 3_599.0, 7_260.0].map(duration);
        assert_eq!(shown, ["0.50 s", "59.00 s", "1 min 1 s", "59 min 59 s", "2 h 1 min"]);
    }
}
