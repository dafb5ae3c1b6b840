//! The description of an environment: name, spaces, limits and options.

use crate::registry::EnvOptions;

/// Name, spaces, limits and options of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvSpec {
    /// The name in snake_case.
    pub name: String,
    /// Other names it answers to, Gymnasium's ids among them.
    pub aliases: Vec<String>,
    /// One line for lists.
    pub summary: String,
    /// The observation space.
    pub obs: ObsSpace,
    /// The action space.
    pub actions: ActionSpace,
    /// Steps after which an episode is truncated.
    pub time_limit: u32,
    /// Steps per second at which a person likes to watch it.
    pub fps: f32,
    /// The options.
    pub options: Vec<EnvOption>,
    /// The settings that it is trained with unless others are given, as TOML: hyperparameters, the return from which on it counts
    /// as solved (`solved_at`), and in a table `[gpu]` what differs on a GPU. None for the library's defaults.
    pub preset: Option<String>,
}

/// Observations.
#[derive(Debug, Clone, PartialEq)]
pub enum ObsSpace {
    /// O real numbers between bounds.
    Box {
        /// Least values.
        low: Vec<f64>,
        /// Greatest values.
        high: Vec<f64>,
    },
    /// Bits of a shape, packed 32 to a word, the first lowest.
    Binary {
        /// Extents, outermost first.
        shape: Vec<usize>,
    },
}

impl ObsSpace {
    /// A box that is symmetric around zero.
    pub fn symmetric(high: &[f64]) -> Self {
        ObsSpace::Box { low: high.iter().map(|h| -h).collect(), high: high.to_vec() }
    }

    /// O: how many numbers a policy sees.
    pub fn size(&self) -> usize {
        match self {
            ObsSpace::Box { low, .. } => low.len(),
            ObsSpace::Binary { shape } => shape.iter().product(),
        }
    }

    /// Words of memory per observation: one a number, or one for 32 bits.
    pub fn words(&self) -> usize {
        match self {
            ObsSpace::Box { low, .. } => low.len(),
            ObsSpace::Binary { .. } => self.size().div_ceil(32),
        }
    }
}

/// Actions.
#[derive(Debug, Clone, PartialEq)]
pub enum ActionSpace {
    /// The number of choices of each component; one component is Gymnasium's `Discrete`.
    Discrete(Vec<usize>),
    /// Real numbers between bounds, which the environment's rules may enforce.
    Box {
        /// Least values.
        low: Vec<f64>,
        /// Greatest values.
        high: Vec<f64>,
    },
}

impl ActionSpace {
    /// 32-bit words of an action mask: a bit for each choice of each component.
    pub fn mask_words(&self) -> usize {
        match self {
            ActionSpace::Discrete(choices) => choices.iter().sum::<usize>().div_ceil(32),
            ActionSpace::Box { .. } => 0,
        }
    }

    /// Components of an action.
    pub fn components(&self) -> usize {
        match self {
            ActionSpace::Discrete(choices) => choices.len(),
            ActionSpace::Box { low, .. } => low.len(),
        }
    }
}

/// A number that changes the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvOption {
    /// Its name.
    pub name: String,
    /// Its value unless set.
    pub default: f64,
    /// Least and greatest value.
    pub range: (f64, f64),
    /// Its description.
    pub help: String,
}

/// An option that cannot be set so.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OptionError {
    /// There is no such option.
    #[error("{env} has no option `{name}`")]
    Unknown {
        /// Environment.
        env: String,
        /// The requested option.
        name: String,
        /// The options that there are.
        known: Vec<String>,
    },
    /// The value is out of range.
    #[error("{env}: option `{name}` = {value} is out of range")]
    Range {
        /// Environment.
        env: String,
        /// The option.
        name: String,
        /// The requested value.
        value: f64,
        /// Least value.
        low: f64,
        /// Greatest value.
        high: f64,
    },
}

impl OptionError {
    /// The error for an option that `spec` does not list.
    pub fn unknown(spec: &EnvSpec, name: &str) -> Self {
        let known = spec.options.iter().map(|option| option.name.clone()).collect();
        OptionError::Unknown { env: spec.name.clone(), name: name.to_owned(), known }
    }

    /// The option's name.
    pub fn option(&self) -> &str {
        match self {
            OptionError::Unknown { name, .. } | OptionError::Range { name, .. } => name,
        }
    }

    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            OptionError::Unknown { known, .. } if known.is_empty() => "leave it out: it has none".to_owned(),
            OptionError::Unknown { known, .. } => format!("it has {}", known.join(", ")),
            OptionError::Range { low, high, .. } => format!("give a number from {low} to {high}"),
        }
    }
}

impl EnvSpec {
    /// The sets of options that the suites try: the defaults, and each option alone a tenth into its range, or at its least
    /// value where that is the default.
    pub fn variants(&self) -> Vec<EnvOptions> {
        let other = |option: &EnvOption| {
            let (low, high) = option.range;
            let tenth = low + (high - low) / 10.0;
            let value = if option.default == tenth { low } else { tenth };
            EnvOptions::from([(option.name.clone(), value)])
        };
        std::iter::once(EnvOptions::new()).chain(self.options.iter().map(other)).collect()
    }

    /// The option `name`, if `value` is in its range.
    pub fn check_option(&self, name: &str, value: f64) -> Result<&EnvOption, OptionError> {
        let option =
            self.options.iter().find(|option| option.name == name).ok_or(OptionError::unknown(self, name))?;
        let (low, high) = option.range;
        if (low..=high).contains(&value) {
            Ok(option)
        } else {
            Err(OptionError::Range { env: self.name.clone(), name: option.name.clone(), value, low, high })
        }
    }
}
