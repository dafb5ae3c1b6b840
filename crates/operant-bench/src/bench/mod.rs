//! What `operant bench` does: a plan of cases from the command line ([`plan`]), series of repetitions of each
//! ([`run`]) on a CPU or a GPU ([`place`]), and rows that are shown, compared with earlier ones and drawn.

pub mod case;
pub mod compare;
mod limits;
pub mod place;
pub mod plan;
pub mod row;
pub mod run;
pub mod verdict;

use std::fmt;

use operant_run::{Error, Result, error};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bench {
    /// Environments alone: random actions, auto-reset, time limit.
    Env,
    /// A horizon with the policy, advantages included; nothing is learned.
    Rollout,
    /// Full PPO.
    Train,
}

impl Bench {
    /// All of them, in order.
    pub const ALL: [Bench; 3] = [Self::Env, Self::Rollout, Self::Train];

    /// As it is called on the command line and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::Rollout => "rollout",
            Self::Train => "train",
        }
    }

    /// The one of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|bench| bench.name() == name).ok_or_else(|| {
            let hint = error::did_you_mean(name, Self::ALL.map(Bench::name));
            Error::usage(format!("there is no bench \"{name}\"{hint}"))
                .at("operant bench")
                .remedy("give any of env, rollout and train, or none for all three")
        })
    }
}

impl fmt::Display for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
