//! `operant bench`: a plan of cases from the command line ([`plan`]), series of repetitions of each
//! ([`run`]) on a CPU or a GPU ([`device`]), and rows that are printed, compared with earlier ones and plotted.

pub mod case;
pub mod compare;
pub mod device;
mod limits;
pub mod plan;
pub mod row;
pub mod run;
pub mod verdict;

use std::fmt;

use operant_run::{Error, Result, error};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bench {
    /// Environments alone: random actions, auto-reset, time limit.
    Env,
    /// A rollout with the policy, advantages included, without updates.
    Rollout,
    /// Whole updates of training.
    Train,
}

impl Bench {
    /// All benches, in order.
    pub const ALL: [Bench; 3] = [Self::Env, Self::Rollout, Self::Train];

    /// Its name on the command line and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::Rollout => "rollout",
            Self::Train => "train",
        }
    }

    /// Finds a bench by name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|bench| bench.name() == name).ok_or_else(|| {
            let hint = error::did_you_mean(name, Self::ALL.map(Bench::name));
            Error::usage(format!("there is no bench \"{name}\"{hint}"))
                .at("operant bench")
                .remedy("use any of env, rollout and train, or none for all three")
        })
    }
}

impl fmt::Display for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
