//! Sweeps, as `operant runs` and `operant show` print them.

use std::cmp::Ordering;
use std::path::Path;

use operant_metrics::{SweepState, SweepTrial, natural};
use operant_run::runs::{self, Run};
use operant_sweep::overview;
use operant_sweep::spec::Objective;
use serde_json::{Value, json};

use super::{Sort, run_args};
use crate::table::{self, Column, Row};

/// A sweep, with its trials if its table can be read.
pub struct SweepRow {
    pub run: Run,
    pub state: Result<SweepState, String>,
}

impl SweepRow {
    /// The sweeps in `parent`, in the order of their starts.
    pub fn list(parent: &Path) -> Vec<Self> {
        runs::sweeps(parent).into_iter().map(Self::of).collect()
    }

    pub fn of(run: Run) -> Self {
        let state = overview(&run.dir).map_err(|error| error.what);
        Self { run, state }
    }

    /// The word for its state.
    pub fn word(&self) -> &'static str {
        self.state.as_ref().map_or("damaged", |state| state.health.name())
    }

    /// Settings that vary.
    pub fn keys(&self) -> Vec<String> {
        let first = self.state.as_ref().ok().and_then(|state| state.trials.first());
        first.map(|trial| trial.settings.iter().map(|(key, _)| key.clone()).collect()).unwrap_or_default()
    }

    pub fn matches(&self, filters: &[String]) -> bool {
        let mut texts = vec![self.run.run.clone(), self.run.env.clone(), format!("state={}", self.word())];
        if let Ok(state) = &self.state {
            texts.extend(state.environments.iter().cloned());
            texts.extend(state.trials.iter().map(SweepTrial::label));
        }
        filters.iter().all(|filter| texts.iter().any(|text| text.contains(filter.as_str())))
    }

    /// By start where sweeps have no such value.
    pub(super) fn order(&self, other: &Self, by: Sort) -> Ordering {
        match by {
            Sort::Run => natural(&self.run.run, &other.run.run),
            Sort::Env => self.run.env.cmp(&other.run.env),
            Sort::State => self.word().cmp(other.word()),
            _ => Ordering::Equal,
        }
    }

    /// The object of `--json`; unknown values are null.
    pub fn json(&self) -> anyhow::Result<Value> {
        let Run { run, dir, .. } = &self.run;
        let dir = dir.to_string_lossy();
        let state = match &self.state {
            Ok(state) => state,
            Err(problem) => {
                return Ok(json!({
                    "kind": "sweep", "sweep": run, "state": self.word(), "reason": problem, "dir": dir, "best": [],
                }));
            }
        };
        let best = |env: &String| {
            let of_env = || state.trials.iter().filter(|trial| trial.env == *env);
            let front: Vec<usize> = of_env().filter(|trial| trial.pareto).map(|trial| trial.number).collect();
            state.best(env).map(|trial| {
                let mut object = trial_json(trial);
                object["front"] = json!(front);
                object
            })
        };
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Ok(json!({
            "kind": "sweep",
            "sweep": run,
            "environments": state.environments,
            "state": self.word(),
            "pid": state.pid,
            "started": some(&state.started),
            "dir": dir,
            "reason": some(&state.reason),
            "method": state.method,
            "objective": state.objective,
            "seeds": state.seeds,
            "trials_done": state.trials_done,
            "trials_planned": state.trials_planned,
            "results": state.done,
            "results_planned": state.planned,
            "failed": state.failed,
            "wall_s": state.seconds,
            "left_s": state.left,
            "best": state.environments.iter().filter_map(best).collect::<Vec<_>>(),
        }))
    }
}

/// A trial as JSON.
pub fn trial_json(trial: &SweepTrial) -> Value {
    let value = |text: &String| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()));
    let settings: serde_json::Map<String, Value> =
        trial.settings.iter().map(|(key, text)| (key.clone(), value(text))).collect();
    json!({
        "trial": trial.number,
        "env": trial.env,
        "settings": settings,
        "objective": finite(trial.objective),
        "score": finite(trial.score),
        "runs_done": trial.done,
        "runs": trial.seeds,
        "failed": trial.failed,
        "solved": trial.solved,
        "train_s": finite(trial.seconds),
        "env_steps": finite(trial.steps),
        "pareto": trial.pareto,
    })
}

fn finite(x: f64) -> Option<f64> {
    Some(x).filter(|x| x.is_finite())
}

/// What trials are ranked by, for people: their score or, where the search maximises something else, that.
pub fn ranked_by(state: &SweepState, trial: &SweepTrial) -> String {
    match Objective::try_from(state.objective.clone()) {
        _ if !trial.objective.is_finite() => "-".to_owned(),
        Ok(Objective::EvalReturn) | Err(_) => Objective::EvalReturn.shown(trial.score),
        Ok(objective) => objective.shown(trial.objective),
    }
}

/// A line for each environment of each sweep; None of no sweeps.
pub fn table(sweeps: &[SweepRow]) -> Option<String> {
    let has_several = |sweep: &SweepRow| sweep.state.as_ref().is_ok_and(|state| state.environments.len() > 1);
    let environment = u8::from(!sweeps.iter().any(has_several));
    let columns = [
        Column::name("sweep"),
        Column::left("environment", environment),
        Column::left("state", 0),
        Column::right("trials", 0),
        Column::right("best", 0),
        Column::right("failed", 3),
        Column::left("started (UTC)", 4),
        Column::right("pid", 5),
        Column::left("directory", 6),
        Column::rest("settings", 1 - environment),
    ];
    let mut rows = Vec::new();
    for sweep in sweeps {
        let run = &sweep.run;
        let tail = |failed: String| {
            [
                failed,
                run.started.get(..19).unwrap_or("-").replace('T', " "),
                run.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
                run_args::near(&run.dir),
            ]
        };
        let state = match &sweep.state {
            Ok(state) => state,
            Err(problem) => {
                let start = [&run.run, "-", sweep.word(), "-", "-"].map(str::to_owned);
                let cells = start.into_iter().chain(tail("-".to_owned())).chain([problem.clone()]).collect();
                rows.push(Row { cells, ..Row::default() });
                continue;
            }
        };
        for env in &state.environments {
            let own: Vec<&SweepTrial> = state.trials.iter().filter(|trial| trial.env == *env).collect();
            let done = own.iter().filter(|trial| trial.done == trial.seeds).count();
            // As many are planned for each environment; those of a population become more.
            let each = state.trials_planned / state.environments.len();
            let planned = if state.trials_planned > state.trials.len() { each } else { own.len() };
            let trials = format!("{done} of {}", own.len().max(planned));
            let best = state.best(env);
            let start = [
                run.run.clone(),
                env.clone(),
                sweep.word().to_owned(),
                trials,
                best.map_or_else(|| "-".to_owned(), |trial| ranked_by(state, trial)),
            ];
            let by = best.map_or_else(|| "-".to_owned(), SweepTrial::label);
            let failed = own.iter().map(|trial| trial.failed).sum::<usize>();
            let failed = if failed > 0 { failed.to_string() } else { "-".to_owned() };
            rows.push(Row {
                cells: start.into_iter().chain(tail(failed)).chain([by]).collect(),
                ..Row::default()
            });
        }
    }
    (!rows.is_empty()).then(|| table::text(&columns, "", &rows))
}
