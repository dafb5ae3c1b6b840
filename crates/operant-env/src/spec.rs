//! The description of an environment: name, spaces, limits and options.

use operant_metrics::{MAX_ENV_METRICS, RunMetrics, unusable};
use serde::{Deserialize, Serialize};

use crate::registry::EnvOptions;

/// Name, spaces, limits and options of an environment. Files of worlds hold what can differ between them: no options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EnvSpec {
    /// The name in snake_case.
    pub name: String,
    /// Other names it answers to, Gymnasium's ids among them.
    pub aliases: Vec<String>,
    /// The family under which lists group the environment; empty for user-defined environments.
    #[serde(skip)]
    pub family: String,
    /// One line for lists.
    pub summary: String,
    /// The rules in about two lines.
    pub rules: String,
    /// The reference that it reproduces, and the differences, in one line.
    #[serde(skip)]
    pub reference: String,
    /// The base environment if this is a variant, usually of another size. A variant without a preset uses the preset
    /// of its base.
    #[serde(skip)]
    pub variant_of: Option<String>,
    /// The observation space.
    pub obs: ObsSpace,
    /// The meaning of the numbers of an observation, in order and with units, for people: one entry per real number or channel of
    /// bits if possible, otherwise phrases that name their subject. May be empty.
    pub obs_names: Vec<String>,
    /// The action space.
    pub actions: ActionSpace,
    /// The names of the choices, if an action is one choice. `operant play` gives the arrow keys to `left`, `right`, `up`, `down`
    /// and their synonyms (`west`, `east`, `north`, `south`, `forward`), and takes `none` or `stay` while no key is pressed. May be
    /// empty.
    pub action_names: Vec<String>,
    /// K: players, 1 unless it is a game. They move in turn: the field `player` of a state, a Uint, is the number of the one who moves next,
    /// to whom the observation and the legal choices belong. Players with even numbers are on one side, the others on the other: the reward is that of the
    /// even ones, and its negative that of the odd ones.
    #[serde(skip_serializing_if = "is_one")]
    pub players: u32,
    /// Whether the players of a game see different things, such as their own cards. Opponents that search the states of a game cannot play it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Whether the players of a game choose at once: they still move in turn, the state keeps their choices, which the others do not see, and the game goes on after
    /// that of the last player. Opponents that search cannot play it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub simultaneous: bool,
    /// Its own metrics, measured where an episode ends, then scores of them: at most [`operant_metrics::MAX_ENV_METRICS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<EnvMetric>,
    /// Steps after which an episode is truncated.
    pub time_limit: u32,
    /// Steps per second at which a person likes to watch it.
    pub fps: f32,
    /// The options.
    #[serde(skip)]
    pub options: Vec<EnvOption>,
    /// The default settings for training it, as TOML: hyperparameters, the return from which on it counts
    /// as solved (`solved_at`), and in a table `[gpu]` the differences on a GPU. None for the library's defaults.
    pub preset: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's interface
fn is_one(players: &u32) -> bool {
    *players == 1
}

/// A number that an environment measures where an episode ends, such as whether a goal was reached. Its mean over the episodes of an update
/// is a metric of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvMetric {
    /// The name in snake_case, which no metric of every run has ([`operant_metrics::unusable`]).
    pub name: String,
    /// Its meaning in one sentence.
    #[serde(default)]
    pub help: String,
    /// The rates of which it is the score; empty if it is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub score_of: Vec<String>,
}

impl EnvMetric {
    /// A metric that [`crate::Env::metric`] measures, with its meaning.
    pub fn new(name: &str, help: &str) -> Self {
        Self { name: name.to_owned(), help: help.to_owned(), score_of: Vec::new() }
    }

    /// A metric that is not measured, but the score of others that are 0 or 1 for an episode: exp(mean of ln(1 + rate in percent)) - 1
    /// over their means, as in Crafter. Scores follow all metrics that are measured.
    pub fn score<'a>(name: &str, help: &str, of: impl IntoIterator<Item = &'a str>) -> Self {
        Self { score_of: of.into_iter().map(str::to_owned).collect(), ..Self::new(name, help) }
    }
}

impl EnvSpec {
    /// The metrics of a run in this environment.
    pub fn run_metrics(&self) -> RunMetrics {
        let place = |of: &String| self.metrics.iter().position(|metric| metric.name == *of);
        RunMetrics::with_scores(self.metrics.iter().map(|EnvMetric { name, help, score_of }| {
            (name.as_str(), help.as_str(), score_of.iter().filter_map(place).collect())
        }))
    }

    /// How many of its metrics are measured: the first ones.
    pub fn measured(&self) -> usize {
        self.metrics.iter().take_while(|metric| metric.score_of.is_empty()).count()
    }

    /// The fault of its metrics, if they have one.
    pub fn metrics_fault(&self) -> Option<String> {
        if self.metrics.len() > MAX_ENV_METRICS {
            return Some(format!("it has {} metrics; {MAX_ENV_METRICS} are possible", self.metrics.len()));
        }
        let measured = self.measured();
        let rates = &self.metrics[..measured];
        let is_repeated =
            |(at, metric): (usize, &EnvMetric)| self.metrics[..at].iter().any(|it| it.name == metric.name);
        let fault = |(at, metric): (usize, &EnvMetric)| {
            let what = if is_repeated((at, metric)) {
                "two metrics have that name"
            } else if metric.help.contains(char::is_control) {
                "its meaning is not one line"
            } else if metric.score_of.is_empty() && at > measured {
                "it is measured, and stands after a score"
            } else if let Some(of) = metric.score_of.iter().find(|of| !rates.iter().any(|it| it.name == **of))
            {
                return Some(format!(
                    "the metric {:?}: it is the score of {of:?}, which is not measured",
                    metric.name
                ));
            } else {
                unusable(&metric.name)?
            };
            Some(format!("the metric {:?}: {what}", metric.name))
        };
        self.metrics.iter().enumerate().find_map(fault)
    }
}

/// Empty name and spaces. Use it with `..` for the fields that an environment does not set.
impl Default for EnvSpec {
    fn default() -> Self {
        EnvSpec {
            name: String::new(),
            aliases: Vec::new(),
            family: String::new(),
            summary: String::new(),
            rules: String::new(),
            reference: String::new(),
            variant_of: None,
            obs: ObsSpace::Box { low: Vec::new(), high: Vec::new() },
            obs_names: Vec::new(),
            actions: ActionSpace::Discrete(Vec::new()),
            action_names: Vec::new(),
            players: 1,
            hidden: false,
            simultaneous: false,
            metrics: Vec::new(),
            time_limit: u32::MAX - 1,
            fps: 15.0,
            options: Vec::new(),
            preset: None,
        }
    }
}

/// Bounds in files: numbers, or words for values that JSON numbers cannot express.
pub(crate) mod bounds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Bound<'a> {
        Number(f64),
        Word(std::borrow::Cow<'a, str>),
    }

    pub(crate) fn serialize<S: Serializer>(bounds: &[f64], to: S) -> Result<S::Ok, S::Error> {
        let bound = |bound: &f64| match bound {
            bound if bound.is_finite() => Bound::Number(*bound),
            bound => Bound::Word(if *bound > 0.0 { "inf" } else { "-inf" }.into()),
        };
        to.collect_seq(bounds.iter().map(bound))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let bound = |bound: Bound<'_>| match &bound {
            Bound::Number(bound) => Ok(*bound),
            Bound::Word(word) => match &**word {
                "inf" => Ok(f64::INFINITY),
                "-inf" => Ok(f64::NEG_INFINITY),
                other => Err(D::Error::custom(format!("a bound is a number, inf or -inf, not {other}"))),
            },
        };
        Vec::<Bound<'_>>::deserialize(from)?.into_iter().map(bound).collect()
    }
}

/// The maximum of an index bound: an index takes at most 16 bits.
const MAX_BELOW: u32 = 1 << 16;

/// Observations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObsSpace {
    /// O real numbers between bounds.
    Box {
        /// Least values.
        #[serde(with = "bounds")]
        low: Vec<f64>,
        /// Maximum values.
        #[serde(with = "bounds")]
        high: Vec<f64>,
    },
    /// Bits of a shape, packed 32 to a word, the first lowest.
    Binary {
        /// Extents, outermost first.
        shape: Vec<usize>,
    },
    /// Indices with a shape, each below a bound: symbols of a vocabulary, kinds of cells, the number of a state. Packed
    /// as bytes, four per word, or two per word if a bound is above 256; the first index is in the lowest bits.
    Index {
        /// Dimensions, outermost first; empty for a single index.
        shape: Vec<usize>,
        /// The exclusive upper bounds, from 1 to 65,536, which repeat over the indices: one for all, one per element of the
        /// last axis, or one per index.
        below: Vec<u32>,
    },
    /// Bytes with a shape, such as a small image: 0 ..= 255, packed four per word, the first in the lowest bits.
    Bytes {
        /// Dimensions, outermost first.
        shape: Vec<usize>,
    },
    /// Named observations, one after the other. Each part starts at a new word. A part cannot have parts.
    Parts(Vec<(String, ObsSpace)>),
}

impl ObsSpace {
    /// A box that is symmetric around zero.
    pub fn symmetric(high: &[f64]) -> Self {
        ObsSpace::Box { low: high.iter().map(|h| -h).collect(), high: high.to_vec() }
    }

    /// A single index below a bound, such as the number of a state.
    pub fn index(below: u32) -> Self {
        ObsSpace::Index { shape: Vec::new(), below: vec![below] }
    }

    /// Whether the space is valid.
    ///
    /// # Errors
    /// A description of the problem.
    pub fn check(&self) -> Result<(), String> {
        let has_extents = |shape: &[usize]| {
            if shape.contains(&0) { Err(format!("the shape {shape:?} has an extent of 0")) } else { Ok(()) }
        };
        match self {
            ObsSpace::Box { low, high } if low.len() != high.len() => {
                Err(format!("a box has {} lower and {} upper bounds", low.len(), high.len()))
            }
            ObsSpace::Box { low, .. } if low.is_empty() => Err("a box has no numbers".into()),
            ObsSpace::Box { low, high } => match low.iter().zip(high).find(|(low, high)| !low.le(high)) {
                Some((low, high)) => {
                    Err(format!("a box has the lower bound {low} and the upper bound {high}"))
                }
                None => Ok(()),
            },
            ObsSpace::Binary { shape } | ObsSpace::Bytes { shape } => has_extents(shape),
            ObsSpace::Index { shape, below } => {
                has_extents(shape)?;
                if let Some(bound) = below.iter().find(|bound| !(1..=MAX_BELOW).contains(*bound)) {
                    return Err(format!("the index bound {bound} is not from 1 to {MAX_BELOW}"));
                }
                if ![1, shape.last().copied().unwrap_or(1), self.size()].contains(&below.len()) {
                    return Err(format!(
                        "indices of shape {shape:?} have {} bounds; give one, one per element of the last axis, or one per index",
                        below.len()
                    ));
                }
                Ok(())
            }
            ObsSpace::Parts(parts) => {
                if parts.is_empty() {
                    return Err("the observation has no parts".into());
                }
                for (place, (name, part)) in parts.iter().enumerate() {
                    let problem = match part {
                        _ if name.is_empty() => Some("has no name".to_owned()),
                        _ if name.contains('.') => Some("has a name with a dot".to_owned()),
                        _ if parts[..place].iter().any(|(other, _)| other == name) => {
                            Some("has the name of another part".to_owned())
                        }
                        ObsSpace::Parts(_) => Some("has parts, which cannot be nested".to_owned()),
                        _ => part.check().err().map(|problem| format!("is invalid: {problem}")),
                    };
                    if let Some(problem) = problem {
                        return Err(format!("the part \"{name}\" {problem}"));
                    }
                }
                Ok(())
            }
        }
    }

    /// How many numbers an observation has.
    pub fn size(&self) -> usize {
        match self {
            ObsSpace::Box { low, .. } => low.len(),
            ObsSpace::Binary { shape } | ObsSpace::Index { shape, .. } | ObsSpace::Bytes { shape } => {
                shape.iter().product()
            }
            ObsSpace::Parts(parts) => parts.iter().map(|(_, part)| part.size()).sum(),
        }
    }

    /// O: the number of input features of a network. An index below n becomes n one-hot features.
    pub fn features(&self) -> usize {
        match self {
            ObsSpace::Index { .. } => self.bounds().map(|below| below as usize).sum(),
            ObsSpace::Parts(parts) => parts.iter().map(|(_, part)| part.features()).sum(),
            _ => self.size(),
        }
    }

    /// Words of memory per observation.
    pub fn words(&self) -> usize {
        match self {
            ObsSpace::Box { low, .. } => low.len(),
            ObsSpace::Binary { .. } => self.size().div_ceil(32),
            ObsSpace::Index { below, .. } => self.size().div_ceil(indices_per_word(below)),
            ObsSpace::Bytes { .. } => self.size().div_ceil(4),
            ObsSpace::Parts(parts) => parts.iter().map(|(_, part)| part.words()).sum(),
        }
    }

    /// The bound of each index, in order; empty if the space has no indices.
    pub fn bounds(&self) -> impl Iterator<Item = u32> + '_ {
        let below: &[u32] = if let ObsSpace::Index { below, .. } = self { below } else { &[] };
        below.iter().copied().cycle().take(if below.is_empty() { 0 } else { self.size() })
    }

    /// Whether all numbers are real, so that they can be normalised.
    pub fn is_real(&self) -> bool {
        match self {
            ObsSpace::Box { .. } => true,
            ObsSpace::Parts(parts) => parts.iter().all(|(_, part)| part.is_real()),
            _ => false,
        }
    }

    /// Whether every feature is 0 or 1: bits and indices.
    pub fn is_binary(&self) -> bool {
        match self {
            ObsSpace::Binary { .. } | ObsSpace::Index { .. } => true,
            ObsSpace::Parts(parts) => parts.iter().all(|(_, part)| part.is_binary()),
            _ => false,
        }
    }

    /// The parts with their names, in order. A space without parts counts as a single part with an empty name.
    pub fn parts(&self) -> Vec<(&str, &ObsSpace)> {
        match self {
            ObsSpace::Parts(parts) => parts.iter().map(|(name, part)| (name.as_str(), part)).collect(),
            other => vec![("", other)],
        }
    }

    /// The numbers of an observation, unpacked from its words.
    pub fn unpack(&self, words: &[u32]) -> Vec<f64> {
        let fields = |bits: usize| {
            let mask = u32::MAX >> (32 - bits);
            let per_word = 32 / bits;
            (0..self.size()).map(|i| f64::from(words[i / per_word] >> (i % per_word * bits) & mask)).collect()
        };
        match self {
            ObsSpace::Box { .. } => words.iter().map(|&word| f64::from(f32::from_bits(word))).collect(),
            ObsSpace::Binary { .. } => fields(1),
            ObsSpace::Index { below, .. } => fields(32 / indices_per_word(below)),
            ObsSpace::Bytes { .. } => fields(8),
            ObsSpace::Parts(parts) => {
                let mut rest = words;
                let mut all = Vec::with_capacity(self.size());
                for (_, part) in parts {
                    let (own, after) = rest.split_at(part.words());
                    all.extend(part.unpack(own));
                    rest = after;
                }
                all
            }
        }
    }
}

/// Such as `4 reals`, `10x10x4 bits`, `1 index below 16`, or for parts `image: 7x7x3 indices, direction: 1 index below 4`.
impl std::fmt::Display for ObsSpace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ObsSpace::Box { low, .. } if low.len() == 1 => formatter.write_str("1 real"),
            ObsSpace::Box { low, .. } => write!(formatter, "{} reals", low.len()),
            ObsSpace::Binary { shape } => write!(formatter, "{} bits", by(shape)),
            ObsSpace::Index { below, .. } if self.size() == 1 => {
                write!(formatter, "1 index below {}", below[0])
            }
            ObsSpace::Index { shape, .. } => write!(formatter, "{} indices", by(shape)),
            ObsSpace::Bytes { shape } => write!(formatter, "{} bytes", by(shape)),
            ObsSpace::Parts(parts) => {
                let parts: Vec<String> = parts.iter().map(|(name, part)| format!("{name}: {part}")).collect();
                formatter.write_str(&parts.join(", "))
            }
        }
    }
}

/// Such as `2 choices`, `3x4 choices`, `2 reals`; for one real number, the bounds are added.
impl std::fmt::Display for ActionSpace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ActionSpace::Discrete(choices) => write!(formatter, "{} choices", by(choices)),
            ActionSpace::Box { low, high } if low.len() == 1 => {
                write!(formatter, "1 real, {} to {}", low[0], high[0])
            }
            ActionSpace::Box { low, .. } => write!(formatter, "{} reals", low.len()),
        }
    }
}

pub fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// A shape such as `10x10x4`.
fn by(extents: &[usize]) -> String {
    extents.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

/// How many indices with these bounds fit in a word.
pub fn indices_per_word(below: &[u32]) -> usize {
    if below.iter().all(|&below| below <= 256) { 4 } else { 2 }
}

/// Actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionSpace {
    /// The number of choices of each component; one component is Gymnasium's `Discrete`.
    Discrete(Vec<usize>),
    /// Real numbers between bounds, which the environment's rules may enforce.
    Box {
        /// Least values.
        #[serde(with = "bounds")]
        low: Vec<f64>,
        /// Maximum values.
        #[serde(with = "bounds")]
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

/// A setting of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvOption {
    /// Its name.
    pub name: String,
    /// Its value unless set.
    pub default: OptionValue,
    /// The allowed values.
    pub values: OptionValues,
    /// Its description.
    pub help: String,
    /// Whether it changes the rules, and not only how the environment is run.
    pub is_rule: bool,
}

impl EnvOption {
    /// The option, which changes only how the environment is run.
    #[must_use]
    pub fn without_effect_on_rules(self) -> Self {
        EnvOption { is_rule: false, ..self }
    }

    /// An option with a number in a range.
    pub fn number(name: &str, default: f64, low: f64, high: f64, help: &str) -> Self {
        Self::new(name, default.into(), OptionValues::Range(low, high), help)
    }

    /// An option with a whole number in a range, which includes `high`.
    pub fn whole(name: &str, default: u32, low: u32, high: u32, help: &str) -> Self {
        Self::new(name, f64::from(default).into(), OptionValues::Whole(low, high), help)
    }

    /// An option that is on (1) or off (0).
    pub fn flag(name: &str, default: bool, help: &str) -> Self {
        Self::whole(name, default.into(), 0, 1, help)
    }

    /// An option with one of a list of words.
    pub fn word(name: &str, default: &str, words: &[&str], help: &str) -> Self {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Self::new(name, default.into(), OptionValues::Words(words), help)
    }

    /// An option with a file path, which may be empty.
    pub fn path(name: &str, help: &str) -> Self {
        Self::new(name, "".into(), OptionValues::Path, help)
    }

    /// An option with names of metrics, which may be empty.
    pub fn metrics(name: &str, help: &str) -> Self {
        Self::new(name, "".into(), OptionValues::Metrics, help)
    }

    fn new(name: &str, default: OptionValue, values: OptionValues, help: &str) -> Self {
        EnvOption { name: name.into(), default, values, help: help.into(), is_rule: true }
    }
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// A number; flags are 0 or 1.
    Number(f64),
    /// A word or a path.
    Word(String),
}

impl OptionValue {
    /// Whether a flag is on.
    ///
    /// # Panics
    /// If the value is a word.
    pub fn is_on(&self) -> bool {
        self.number() != 0.0
    }

    /// The number.
    ///
    /// # Panics
    /// If the value is a word; [`EnvSpec::check_option`] rejects words for options that are numbers.
    pub fn number(&self) -> f64 {
        match self {
            OptionValue::Number(number) => *number,
            OptionValue::Word(word) => panic!("\"{word}\" is not a number"),
        }
    }

    /// The number as an integer.
    ///
    /// # Panics
    /// If the value is a word.
    pub fn whole(&self) -> u32 {
        self.number() as u32
    }

    /// The word; empty if the value is a number.
    pub fn text(&self) -> &str {
        match self {
            OptionValue::Number(_) => "",
            OptionValue::Word(word) => word,
        }
    }
}

impl From<f64> for OptionValue {
    fn from(number: f64) -> Self {
        OptionValue::Number(number)
    }
}

impl From<&str> for OptionValue {
    fn from(word: &str) -> Self {
        OptionValue::Word(word.to_owned())
    }
}

impl std::fmt::Display for OptionValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OptionValue::Number(number) => write!(formatter, "{number}"),
            OptionValue::Word(word) => write!(formatter, "\"{word}\""),
        }
    }
}

/// The allowed values of an option.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValues {
    /// Numbers in a closed range.
    Range(f64, f64),
    /// Whole numbers in a closed range; 0 to 1 for a flag.
    Whole(u32, u32),
    /// One of these words.
    Words(Vec<String>),
    /// A file path; empty for none.
    Path,
    /// Names of metrics, separated by commas; empty for none.
    Metrics,
}

impl std::fmt::Display for OptionValues {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OptionValues::Range(low, high) => write!(formatter, "a number from {low} to {high}"),
            OptionValues::Whole(0, 1) => write!(formatter, "0 or 1"),
            OptionValues::Whole(low, high) => write!(formatter, "a whole number from {low} to {high}"),
            OptionValues::Words(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                write!(formatter, "{}", quoted.join(" or "))
            }
            OptionValues::Path => write!(formatter, "the path of a file"),
            OptionValues::Metrics => write!(formatter, "names separated by commas"),
        }
    }
}

/// An environment cannot be made with these options.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields are")]
pub enum OptionError {
    /// There is no such option.
    #[error("{env} has no option `{name}`")]
    Unknown {
        env: String,
        /// The requested option.
        name: String,
        /// The options that there are.
        known: Vec<String>,
    },
    /// The option does not allow the value.
    #[error("{env}: option `{name}` = {value} {problem}")]
    Value {
        env: String,
        name: String,
        value: OptionValue,
        /// Why the value is rejected.
        problem: String,
        /// How to fix it.
        remedy: String,
    },
    /// The specification of the environment is invalid.
    #[error("{env}: {problem}")]
    Spec { env: String, problem: String },
}

impl OptionError {
    /// The error for an option that `spec` does not list.
    pub fn unknown(spec: &EnvSpec, name: &str) -> Self {
        let known = spec.options.iter().map(|option| option.name.clone()).collect();
        OptionError::Unknown { env: spec.name.clone(), name: name.to_owned(), known }
    }

    /// The option's name; empty if the error does not depend on an option.
    pub fn option(&self) -> &str {
        match self {
            OptionError::Spec { .. } => "",
            OptionError::Unknown { name, .. } | OptionError::Value { name, .. } => name,
        }
    }

    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            OptionError::Unknown { known, .. } if known.is_empty() => "leave it out: it has none".to_owned(),
            OptionError::Unknown { known, .. } => format!("it has {}", known.join(", ")),
            OptionError::Value { remedy, .. } => remedy.clone(),
            OptionError::Spec { .. } => "correct the environment's `spec`".to_owned(),
        }
    }
}

impl EnvSpec {
    /// Whether the observation space and the metrics are valid. [`crate::AnyEnv::with_options`] of an [`crate::Env`] and
    /// [`crate::Registry::make`] check it.
    ///
    /// # Errors
    /// When it is not, with a description of the problem.
    pub fn check(&self) -> Result<(), OptionError> {
        let fault = self.obs.check().err().or_else(|| self.metrics_fault());
        fault.map_or(Ok(()), |problem| Err(OptionError::Spec { env: self.name.clone(), problem }))
    }

    /// The meaning of the numbers of an observation, for people; `None` without a description.
    pub fn obs_names_text(&self) -> Option<String> {
        let is_list = self.obs_names.iter().all(|name| !name.contains([',', ':']));
        (!self.obs_names.is_empty()).then(|| self.obs_names.join(if is_list { ", " } else { "; " }))
    }

    /// The time limit for people: `500 steps`, or `none` if no episode can reach it.
    pub fn time_limit_text(&self) -> String {
        if self.has_time_limit() { format!("{} steps", self.time_limit) } else { "none".into() }
    }

    /// Whether episodes are truncated: a limit that no episode reaches does not count.
    pub fn has_time_limit(&self) -> bool {
        self.time_limit < u32::MAX - 1
    }

    /// The option sets that the test suites run: the defaults, and each option changed alone. A number changes to the
    /// value at a tenth of its range (rounded down if it is whole), or to its minimum if that value is the default; a flag
    /// is flipped; a word takes every other value. Paths are omitted. A variant is tested with the defaults only, because its base has the same
    /// options.
    pub fn variants(&self) -> Vec<EnvOptions> {
        if self.variant_of.is_some() {
            return vec![EnvOptions::new()];
        }
        let others = |option: &EnvOption| -> Vec<OptionValue> {
            let values = match &option.values {
                OptionValues::Whole(0, 1) => vec![f64::from(u8::from(!option.default.is_on())).into()],
                OptionValues::Whole(low, high) => {
                    let tenth = f64::from(low + (high - low) / 10);
                    vec![if option.default == tenth.into() { f64::from(*low) } else { tenth }.into()]
                }
                OptionValues::Range(low, high) => {
                    let tenth = low + (high - low) / 10.0;
                    vec![if option.default == tenth.into() { *low } else { tenth }.into()]
                }
                OptionValues::Words(words) => words.iter().map(|word| word.as_str().into()).collect(),
                OptionValues::Path | OptionValues::Metrics => Vec::new(),
            };
            values.into_iter().filter(|value| *value != option.default).collect()
        };
        let set = |option: &EnvOption, value| EnvOptions::from([(option.name.clone(), value)]);
        let all = self.options.iter().flat_map(|option| {
            others(option).into_iter().map(|value| set(option, value)).collect::<Vec<_>>()
        });
        std::iter::once(EnvOptions::new()).chain(all).collect()
    }

    /// Returns the option `name` if it allows `value`.
    ///
    /// # Errors
    /// When there is no such option, or it does not allow the value.
    pub fn check_option(&self, name: &str, value: &OptionValue) -> Result<&EnvOption, OptionError> {
        let option =
            self.options.iter().find(|option| option.name == name).ok_or(OptionError::unknown(self, name))?;
        let refused =
            |problem: &str| Err(self.refuse_option(name, value, problem, &format!("give {}", option.values)));
        match (&option.values, value) {
            (OptionValues::Range(low, high), OptionValue::Number(number))
                if !(*low..=*high).contains(number) =>
            {
                refused("is out of range")
            }
            (OptionValues::Whole(..), OptionValue::Number(number)) if number.fract() != 0.0 => {
                refused("is not a whole number")
            }
            (OptionValues::Whole(low, high), OptionValue::Number(number))
                if !(f64::from(*low)..=f64::from(*high)).contains(number) =>
            {
                refused("is out of range")
            }
            (OptionValues::Range(..) | OptionValues::Whole(..), OptionValue::Word(_)) => {
                refused("is not a number")
            }
            (OptionValues::Metrics, OptionValue::Number(_)) => refused("is not a list of names"),
            (OptionValues::Words(_) | OptionValues::Path, OptionValue::Number(_)) => {
                refused("must be a word or a path")
            }
            (OptionValues::Words(words), OptionValue::Word(word)) if !words.contains(word) => {
                refused("is not an allowed value")
            }
            _ => Ok(option),
        }
    }

    /// The error for a value that is invalid for another reason, such as a file that cannot be read.
    pub fn refuse_option(&self, name: &str, value: &OptionValue, problem: &str, remedy: &str) -> OptionError {
        OptionError::Value {
            env: self.name.clone(),
            name: name.to_owned(),
            value: value.clone(),
            problem: problem.to_owned(),
            remedy: remedy.to_owned(),
        }
    }
}
