//! `operant tune`: the search space ([`space`]), trials in turn against the automatic settings ([`search`]), and the result: a
//! report ([`Report`]) and lines in an operant.toml ([`mod@file`]).

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

/// The quantity to optimise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Goal {
    /// Environment steps per second of training; changed learning settings must still solve the environment
    Sps,
    /// Time from the start of training until the environment is solved
    Solve,
}

impl Goal {
    /// Formats a value.
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

#[derive(Debug, Clone, PartialEq)]
pub enum TrialOutcome {
    /// The reference of all comparisons.
    Reference,
    /// The best of its kind, and better than the reference every time.
    Taken,
    /// Not better every time, or not the best.
    Left,
    /// It did not reach the threshold under this seed within its steps, the remaining time, or the time that could still win.
    NotSolved(u64),
    /// No time was left to test whether it still learns.
    NotTried,
    /// The device cannot train with it, for this reason.
    Refused(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct TriedSettings {
    /// The changed settings.
    pub choice: Choice,
    /// Whether `values` are steps per second, as always for machine settings; otherwise they are in the goal's unit.
    pub is_speed: bool,
    /// One value per round.
    pub values: Vec<f64>,
    /// Ratios to the reference, one per round; above 1 is better.
    pub ratios: Vec<f64>,
    /// Seeds that solved the environment; 0 if no learning setting was changed.
    pub solved: usize,
    pub outcome: TrialOutcome,
}

/// The result of tuning.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub env: String,
    /// The device that trained.
    pub device: String,
    /// A description of the device.
    pub machine: String,
    pub goal: Goal,
    pub budget: Duration,
    pub spent: Duration,
    /// The automatic settings in the last comparison.
    pub automatic: Spread,
    /// The best settings in the last comparison; equal to the automatic ones if nothing better was found.
    pub best: Spread,
    /// How many times better the best ones are.
    pub gain: Spread,
    /// Whether the gain exceeds the spread.
    pub verdict: Verdict,
    /// The best choice; empty if the automatic settings are best.
    pub choice: Choice,
    /// Speedup of the chosen machine settings over the automatic ones, with unchanged learning settings.
    pub machine_gain: Option<f64>,
    /// All tried settings, in order.
    pub tried: Vec<TriedSettings>,
    /// What was not tried, and why.
    pub notes: Vec<String>,
}

impl Report {
    /// The report as one JSON object; `file` is the written file.
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
    /// A word for scripts.
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

    /// The reason for a rejection.
    pub fn problem(&self) -> Option<String> {
        match self {
            TrialOutcome::NotSolved(seed) => Some(format!("not solved in time under seed {seed}")),
            TrialOutcome::NotTried => Some("no time was left to test whether it learns".to_owned()),
            TrialOutcome::Refused(reason) => Some(reason.clone()),
            _ => None,
        }
    }
}
