//! What `operant tune` does: what may be tried ([`space`]), trials in turn against the automatic settings ([`search`]), and what
//! becomes of the best of them: a report ([`Report`]) and lines in an operant.toml ([`mod@file`]).

pub mod choice;
pub mod file;
mod learning;
pub mod search;
pub mod space;

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use choice::{Choice, to_json};

use crate::bench::verdict::Verdict;
use crate::measure::Spread;

/// What the settings are to be best at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Goal {
    /// Environment steps per second of training; changed learning settings must still solve the environment
    Sps,
    /// Time from the start of training until the environment is solved
    Solve,
}

impl Goal {
    /// A figure of it, for a person.
    pub fn shown(self, value: f64) -> String {
        match self {
            Goal::Sps => operant_run::progress::short(value),
            Goal::Solve => format!("{value:.3} s"),
        }
    }

    /// How many times better `new` is than `old`.
    pub fn ratio(self, old: f64, new: f64) -> f64 {
        match self {
            Goal::Sps => new / old,
            Goal::Solve => old / new,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Goal::Sps => "steps/s",
            Goal::Solve => "time to solve",
        })
    }
}

/// What became of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialOutcome {
    /// What all are compared with.
    Reference,
    /// The best of its kind, and better than the reference every time.
    Taken,
    /// Not better every time, or not the best.
    Left,
    /// It does not reach the threshold under this seed: not in its steps, in the time that was left, or in any that could win.
    NotSolved(u64),
    /// No time was left to see whether it still learns.
    NotTried,
    /// No device trains under it, for this reason.
    Refused(String),
}

/// Settings that were tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// What was changed.
    pub choice: Choice,
    /// Whether its figures are steps per second, as those of settings of the machine are whatever the goal; else they are the
    /// goal's.
    pub is_speed: bool,
    /// Figures of the goal, one a round.
    pub values: Vec<f64>,
    /// How many times better than the reference, a round each.
    pub ratios: Vec<f64>,
    /// Seeds that solved the environment, of those tried; none where nothing of learning was changed.
    pub solved: usize,
    /// What became of it.
    pub outcome: TrialOutcome,
}

/// All that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The environment.
    pub env: String,
    /// What trained.
    pub device: String,
    /// It, in words.
    pub machine: String,
    /// What was sought.
    pub goal: Goal,
    /// The time that was given.
    pub budget: Duration,
    /// The time that it took.
    pub spent: Duration,
    /// The automatic settings in the last comparison.
    pub automatic: Spread,
    /// The best settings in the last comparison; the same where nothing better was found.
    pub best: Spread,
    /// How many times better the best ones are.
    pub gain: Spread,
    /// Whether that is more than the spread.
    pub verdict: Verdict,
    /// What makes the best settings; empty where the automatic ones are.
    pub choice: Choice,
    /// How many times faster the settings of the machine that were taken are than the automatic ones, learning unchanged.
    pub machine_gain: Option<f64>,
    /// Everything that was tried, in order.
    pub tried: Vec<Tried>,
    /// What was not tried, and why.
    pub notes: Vec<String>,
}

impl Report {
    /// As one JSON object; `file` has been written.
    pub fn to_json(&self, file: Option<&str>) -> Value {
        let spread =
            |Spread { median, min, max }: Spread| json!({ "median": median, "min": min, "max": max });
        let tried = self.tried.iter().map(|tried| {
            let values = Spread::of(tried.values.clone());
            json!({
                "settings": to_json(&tried.choice),
                "unit": if tried.is_speed { "steps/s" } else { "s" },
                "value": spread(values),
                "ratio": spread(Spread::of(tried.ratios.clone())),
                "rounds": tried.values.len(),
                "solved": tried.solved,
                "outcome": tried.outcome.word(),
                "problem": tried.outcome.problem(),
            })
        });
        json!({
            "env": self.env,
            "device": self.device,
            "machine": self.machine,
            "for": match self.goal { Goal::Sps => "sps", Goal::Solve => "solve" },
            "budget_s": self.budget.as_secs_f64(),
            "spent_s": self.spent.as_secs_f64(),
            "automatic": spread(self.automatic),
            "best": spread(self.best),
            "gain": spread(self.gain),
            "verdict": self.verdict.name(),
            "settings": to_json(&self.choice),
            "machine_gain": self.machine_gain,
            "tried": tried.collect::<Vec<_>>(),
            "notes": self.notes,
            "file": file,
        })
    }
}

impl TrialOutcome {
    /// In a word, for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            TrialOutcome::Reference => "reference",
            TrialOutcome::Taken => "taken",
            TrialOutcome::Left => "left",
            TrialOutcome::NotSolved(_) => "not_solved",
            TrialOutcome::NotTried => "not_tried",
            TrialOutcome::Refused(_) => "refused",
        }
    }

    /// What stood in its way.
    pub fn problem(&self) -> Option<String> {
        match self {
            TrialOutcome::NotSolved(seed) => Some(format!("not solved in time under seed {seed}")),
            TrialOutcome::NotTried => Some("no time was left to see whether it learns".to_owned()),
            TrialOutcome::Refused(reason) => Some(reason.clone()),
            _ => None,
        }
    }
}
