//! Every configuration key: its name, what values it takes, and what it means.

use operant_learn::cpu::{LANE_WIDTHS, ROLLOUT_TILES};
use toml::Value;

/// What values a key takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A whole number from `least` to `most`.
    Count {
        /// Least allowed.
        least: i64,
        /// Greatest allowed.
        most: i64,
    },
    /// The same, or `auto`, which the device turns into a number.
    CountOrAuto {
        /// Least allowed.
        least: i64,
        /// Greatest allowed.
        most: i64,
    },
    /// One of these numbers, or 0, which leaves it to the plan for the machine.
    Size(&'static [usize]),
    /// A finite real number in a range.
    Real(Range),
    /// true or false.
    Switch,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// A list of layer widths.
    Widths,
}

/// A range of finite real numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// Any finite number.
    Any,
    /// x > 0.
    Positive,
    /// x >= 0.
    NotNegative,
    /// 0 <= x <= 1.
    Unit,
    /// 0 <= x < 1.
    BelowOne,
}

impl Range {
    /// Whether a number lies in the range; NaN and infinities never do.
    pub fn contains(self, x: f64) -> bool {
        x.is_finite()
            && match self {
                Range::Any => true,
                Range::Positive => x > 0.0,
                Range::NotNegative => x >= 0.0,
                Range::Unit => (0.0..=1.0).contains(&x),
                Range::BelowOne => (0.0..1.0).contains(&x),
            }
    }
}

/// Where a key's value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// `operant_learn::Config`: decides what training computes.
    Learner,
    /// [`super::RunConfig`]: decides how the run is carried out.
    Run,
}

/// One configuration key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// The name, as in TOML; upper-cased after `OPERANT_` it names the environment variable.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Where the value goes.
    pub group: Group,
}

const fn learner(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, group: Group::Learner }
}

const fn run(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, group: Group::Run }
}

const fn count(least: i64, most: i64) -> Kind {
    Kind::Count { least, most }
}

/// Most environments accepted.
pub(super) const MOST_ENVS: i64 = 1 << 22;

/// Stands for a number that the device decides.
pub(super) const AUTO: &str = "auto";

/// Widest hidden layer accepted.
const WIDEST: i64 = 1 << 14;

/// Every key, in the order in which they are shown. Meanings stand at the fields of `operant_learn::Config` and
/// [`super::RunConfig`].
pub const KEYS: &[Key] = &[
    learner("seed", count(0, i64::MAX)),
    learner("total_timesteps", count(1, i64::MAX)),
    learner("num_envs", Kind::CountOrAuto { least: 1, most: MOST_ENVS }),
    learner("num_steps", count(1, 1 << 20)),
    learner("learning_rate", Kind::Real(Range::Positive)),
    learner("anneal_lr", Kind::Switch),
    learner("gamma", Kind::Real(Range::Unit)),
    learner("gae_lambda", Kind::Real(Range::Unit)),
    learner("num_minibatches", count(1, i64::MAX)),
    learner("update_epochs", count(1, 10_000)),
    learner("norm_adv", Kind::Switch),
    learner("clip_coef", Kind::Real(Range::Positive)),
    learner("clip_vloss", Kind::Switch),
    learner("ent_coef", Kind::Real(Range::NotNegative)),
    learner("vf_coef", Kind::Real(Range::NotNegative)),
    learner("max_grad_norm", Kind::Real(Range::Positive)),
    learner("target_kl", Kind::Real(Range::NotNegative)),
    learner("adam_eps", Kind::Real(Range::Positive)),
    learner("adam_beta1", Kind::Real(Range::BelowOne)),
    learner("adam_beta2", Kind::Real(Range::BelowOne)),
    learner("hidden", Kind::Widths),
    learner("activation", Kind::Choice(&["tanh", "relu"])),
    learner("shared_trunk", Kind::Switch),
    learner("log_std_init", Kind::Real(Range::Any)),
    learner("norm_obs", Kind::Switch),
    learner("norm_reward", Kind::Switch),
    learner("clip_obs", Kind::Real(Range::Positive)),
    learner("clip_reward", Kind::Real(Range::Positive)),
    learner("max_nonfinite_updates", count(1, i64::MAX)),
    run("threads", count(0, 4096)),
    run("optimize_perf", Kind::Switch),
    run("pin", Kind::Switch),
    run("waiting", Kind::Choice(&["auto", "spin", "yield", "sleep"])),
    run("rollout_tile", Kind::Size(&ROLLOUT_TILES)),
    run("lane_width", Kind::Size(&LANE_WIDTHS)),
    run("device", Kind::Text),
    run("precision", Kind::Choice(&["f32", "tf32", "bf16"])),
    run("kernels", Kind::Choice(&["auto", "fused", "layers"])),
    run("memory_fraction", Kind::Real(Range::Unit)),
    run("overlap", Kind::Switch),
    run("cache_dir", Kind::Text),
    run("run_dir", Kind::Text),
    run("name", Kind::Text),
    run("checkpoint_interval", count(0, i64::MAX)),
    run("keep_checkpoints", count(1, 10_000)),
    run("eval_episodes", count(1, 1_000_000)),
    run("eval_interval", count(1, i64::MAX)),
    run("solved_at", Kind::Real(Range::Any)),
    run("stop_when_solved", Kind::Switch),
    run("csv", Kind::Switch),
    run("tensorboard", Kind::Switch),
    run("ring", Kind::Switch),
    run("ring_group", Kind::Switch),
];

/// The key of this name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

impl Key {
    /// The value in this key's own type, or what is wrong with it: `(problem, remedy)`.
    ///
    /// Whole numbers are accepted where reals are expected, whole reals such as `2e5` where counts are, and one width
    /// where a list is.
    pub fn accept(&self, value: Value) -> std::result::Result<Value, (String, String)> {
        let shown = value.to_string();
        let refuse =
            |problem: &str, remedy: String| Err((format!("{} = {shown} {problem}", self.name), remedy));
        match (self.kind, value) {
            (Kind::Count { least, most }, Value::Float(x)) if x.fract() == 0.0 && x.abs() < 9e15 => {
                #[allow(clippy::cast_possible_truncation)] // whole and below 2^53
                Key { kind: count(least, most), ..*self }.accept(Value::Integer(x as i64))
            }
            (Kind::Count { least, most }, Value::Integer(n)) => {
                if (least..=most).contains(&n) {
                    Ok(Value::Integer(n))
                } else if n < least {
                    refuse("is too small", format!("give a whole number of at least {least}"))
                } else {
                    refuse("is too large", format!("give a whole number of at most {most}"))
                }
            }
            (Kind::CountOrAuto { .. }, Value::String(word)) if word == AUTO => Ok(Value::String(word)),
            (Kind::CountOrAuto { least, most }, value @ (Value::Integer(_) | Value::Float(_))) => {
                Key { kind: count(least, most), ..*self }.accept(value)
            }
            (Kind::CountOrAuto { .. }, _) => {
                refuse("is not a whole number", "give a whole number such as 64, or auto".into())
            }
            (Kind::Count { .. }, _) => {
                refuse("is not a whole number", "give a whole number such as 64".into())
            }
            (Kind::Size(sizes), Value::Integer(n))
                if n == 0 || usize::try_from(n).is_ok_and(|n| sizes.contains(&n)) =>
            {
                Ok(Value::Integer(n))
            }
            (Kind::Size(sizes), _) => {
                let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
                refuse(
                    "is not one of the sizes",
                    format!("give 0 for the plan's, or one of: {}", sizes.join(", ")),
                )
            }
            #[allow(clippy::cast_precision_loss)] // a real was asked for
            (Kind::Real(range), Value::Integer(n)) => {
                Key { kind: Kind::Real(range), ..*self }.accept(Value::Float(n as f64))
            }
            (Kind::Real(range), Value::Float(x)) => {
                if range.contains(x) {
                    return Ok(Value::Float(x));
                }
                match range {
                    Range::Any => refuse("is not a finite number", "give a finite number".into()),
                    Range::Positive => {
                        refuse("is not a finite number above 0", "give a finite number above 0".into())
                    }
                    Range::NotNegative => refuse(
                        "is not a finite number of at least 0",
                        "give a finite number of at least 0".into(),
                    ),
                    Range::Unit => refuse("is outside [0, 1]", "give a number from 0 to 1".into()),
                    Range::BelowOne => {
                        refuse("is outside [0, 1)", "give a number from 0 to just below 1".into())
                    }
                }
            }
            (Kind::Real(_), _) => refuse("is not a number", "give a number such as 0.5".into()),
            (Kind::Switch, Value::Boolean(on)) => Ok(Value::Boolean(on)),
            (Kind::Switch, _) => refuse("is neither true nor false", "give true or false".into()),
            (Kind::Choice(words), Value::String(word)) if words.contains(&word.as_str()) => {
                Ok(Value::String(word))
            }
            (Kind::Choice(words), _) => {
                refuse("is not one of the choices", format!("give one of: {}", words.join(", ")))
            }
            (Kind::Text, Value::String(text)) if !text.is_empty() => Ok(Value::String(text)),
            (Kind::Text, _) => refuse("is not a text", "give a non-empty text in quotes".into()),
            (Kind::Widths, Value::Integer(n)) => self.accept(Value::Array(vec![Value::Integer(n)])),
            (Kind::Widths, Value::Array(widths)) => {
                let remedy = || format!("give a list of 1 to 16 widths from 1 to {WIDEST}, such as [64, 64]");
                if widths.is_empty() || widths.len() > 16 {
                    return refuse("is not a list of 1 to 16 layer widths", remedy());
                }
                for width in &widths {
                    match width {
                        Value::Integer(n) if (1..=WIDEST).contains(n) => {}
                        other => return refuse(&format!("has a layer of width {other}"), remedy()),
                    }
                }
                Ok(Value::Array(widths))
            }
            (Kind::Widths, _) => refuse("is not a list of widths", "give a list such as [64, 64]".into()),
        }
    }

    /// The value written as text in a variable or on the command line: TOML where it parses, a bare word otherwise,
    /// and a comma-separated list for widths.
    pub fn parse(&self, text: &str) -> Value {
        let text = text.trim();
        if self.kind == Kind::Text {
            return Value::String(text.trim_matches('"').to_string());
        }
        if self.kind == Kind::Widths && !text.starts_with('[') {
            return parse_value(&format!("[{text}]"));
        }
        parse_value(text)
    }
}

/// A TOML value, or the text itself as a string where it is none.
pub fn parse_value(text: &str) -> Value {
    // A newline would let further lines of TOML in.
    if !text.contains('\n')
        && let Ok(mut table) = format!("value = {text}").parse::<toml::Table>()
        && let Some(value) = table.remove("value")
    {
        return value;
    }
    Value::String(text.to_string())
}
