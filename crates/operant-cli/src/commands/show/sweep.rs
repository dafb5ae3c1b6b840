//! `operant show SWEEP`: one sweep on one screen.

use std::fmt::Write as _;

use operant_env::Registry;
use operant_metrics::{Health, RunState, SweepState, SweepTrial, plain};
use operant_run::path_text::quoted;
use operant_run::runs::Run;
use operant_sweep::report::counted;
use operant_sweep::sweep::About;
use serde_json::{Value, json};

use super::{COLUMN, duration, run_args, second};
use crate::commands::runs::sweeps::{SweepRow, ranked_by, trial_json};
use crate::commands::sweep::about;
use crate::daemon;
use crate::table::hanging;

/// Trials of an environment that are listed, at most; the others are counted.
const FEW: usize = 8;

/// A sweep and what its table has of it.
pub struct Shown {
    row: SweepRow,
    about: About,
}

impl Shown {
    pub fn of(run: Run) -> operant_run::Result<Self> {
        // The error of a damaged table, with its remedy.
        operant_sweep::overview(&run.dir)?;
        Ok(Shown { about: About::read(&run.dir)?, row: SweepRow::of(run) })
    }

    fn state(&self) -> &SweepState {
        self.row.state.as_ref().expect("it was read")
    }

    pub fn json(&self, registry: &Registry) -> anyhow::Result<Value> {
        let mut object = self.row.json()?;
        object["vary"] = json!(self.about.vary);
        object["set"] = json!(self.about.set);
        object["command"] = json!(Some(&self.about.command).filter(|command| !command.is_empty()));
        object["resume"] = json!(run_args::resume_command(registry, &self.row.run.dir));
        object["trials"] = self.state().trials.iter().map(trial_json).collect();
        Ok(object)
    }

    pub fn text(&self, registry: &Registry, width: usize) -> String {
        let (run, state) = (&self.row.run, self.state());
        let mut text = format!("{}: {}", run.title(), self.row.word());
        if !state.reason.is_empty() {
            let _ = write!(text, " ({})", plain(&state.reason));
        }
        text.push('\n');
        let mut lines = |label: &str, values: &[String]| {
            for (at, value) in values.iter().enumerate() {
                let label = if at == 0 { format!("  {label}") } else { String::new() };
                text.push_str(&hanging(&label, COLUMN, &plain(value), width));
            }
        };
        let pid = state.pid.map_or_else(String::new, |pid| format!(", process {pid}"));
        lines("environment", &[format!("{} on {}{pid}", state.environments.join(", "), run.device)]);
        lines("search", &[self.search()]);
        lines("progress", &[self.progress()]);
        lines("time", &self.times());
        lines("directory", &[run_args::near(&run.dir)]);
        if daemon::output_file(&run.dir).is_file() {
            lines("output", &[run_args::near(&daemon::output_file(&run.dir))]);
        }
        lines(
            "varied",
            &self.about.vary.iter().map(|(key, values)| format!("{key}: {values}")).collect::<Vec<_>>(),
        );
        lines(
            "set",
            &self.about.set.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>(),
        );
        for env in &state.environments {
            let several = state.environments.len() > 1;
            lines(if several { env } else { "trials" }, &self.trials(env, width));
        }
        lines("next", &self.next(registry));
        text
    }

    fn search(&self) -> String {
        let state = self.state();
        let trials = state.trials_planned / state.environments.len().max(1);
        let each = if state.environments.len() > 1 { " an environment" } else { "" };
        format!(
            "{}, {}{each}, {}, by {}",
            state.method,
            counted(trials, "trial"),
            counted(state.seeds, "seed"),
            state.objective
        )
    }

    fn progress(&self) -> String {
        let state = self.state();
        let failed = if state.failed > 0 { format!(", {} failed", state.failed) } else { String::new() };
        let left = state.left.filter(|_| state.health.is_alive());
        let left = left.map_or_else(String::new, |left| format!(", about {} left", about(left)));
        format!(
            "{} of {} trials, {} of {} results{failed}{left}",
            state.trials_done, state.trials_planned, state.done, state.planned
        )
    }

    fn times(&self) -> Vec<String> {
        let began = Some(second(&self.about.created)).filter(|began| !began.is_empty());
        let began = began.map(|began| format!("began {began} UTC, "));
        vec![format!("{}{} of training", began.unwrap_or_default(), duration(self.state().seconds))]
    }

    /// The trials of an environment, the best first.
    fn trials(&self, env: &str, width: usize) -> Vec<String> {
        let state = self.state();
        let own: Vec<&SweepTrial> = state.trials.iter().filter(|trial| trial.env == env).collect();
        if own.is_empty() {
            return vec!["none has begun".to_owned()];
        }
        let shown = || own.iter().take(FEW);
        let labels: Vec<String> =
            shown().map(|trial| trial.label() + if trial.pareto { " *" } else { "" }).collect();
        let room = width.saturating_sub(COLUMN + 32).max(20);
        let widest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).min(room);
        let line = |(trial, label): (&&SweepTrial, &String)| {
            let value = ranked_by(state, trial);
            let seconds = if trial.seconds.is_finite() { duration(trial.seconds) } else { "-".to_owned() };
            let runs = match trial.failed {
                0 => format!("{}/{} runs", trial.done, trial.seeds),
                failed => format!("{}/{} runs, {failed} failed", trial.done, trial.seeds),
            };
            format!("{label:<widest$}  {value:>9}  {seconds:>9}  {runs}")
        };
        let lines = shown().zip(&labels).map(line);
        let more = (own.len() > FEW).then(|| format!("and {}", counted(own.len() - FEW, "more trial")));
        let front = shown().any(|trial| trial.pareto) && own.len() > 1;
        let note = front.then(|| "* on the Pareto front of score and training time".to_owned());
        lines.chain(more).chain(note).collect()
    }

    /// The commands that come next.
    fn next(&self, registry: &Registry) -> Vec<String> {
        let dir = &self.row.run.dir;
        let word = run_args::word(registry, dir);
        let report = format!("operant report {word} --html {}.html", plain(&self.row.run.run));
        let commands = match self.state().health {
            Health::Reported(RunState::Finished) => vec![report, format!("operant monitor {word}")],
            Health::Reported(RunState::Paused) => {
                vec![
                    format!("operant resume {word}"),
                    format!("operant monitor {word}"),
                    format!("operant stop {word}"),
                ]
            }
            health if health.is_alive() => {
                vec![
                    format!("operant monitor {word}"),
                    format!("operant pause {word}"),
                    format!("operant stop {word}"),
                ]
            }
            _ => vec![run_args::resume_command(registry, dir), report],
        };
        let best = self.state().environments.iter().find_map(|env| self.state().best(env));
        let best = best.and_then(|trial| trial.runs.first()).filter(|run| run.join("checkpoints").is_dir());
        let play = best.map(|run| format!("operant play {}", quoted(&run_args::near(run))));
        commands.into_iter().chain(play).collect()
    }
}
