//! One row for each setting: name, type, values, default, meaning, flag. [`settings!`](crate::settings) makes a struct and the table of
//! its keys from the rows, so that every property of a setting is declared once.

use std::fmt;
use std::path::PathBuf;

use crate::algorithms::Algorithm;

/// The type and valid values of a key.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A whole number from `least` to `most`.
    Count {
        /// Minimum.
        least: i64,
        /// Maximum.
        most: i64,
    },
    /// The same, or a word.
    CountOr {
        /// The word.
        word: &'static str,
        /// Minimum.
        least: i64,
        /// Maximum.
        most: i64,
    },
    /// One of these numbers, or 0, which leaves it to the machine's plan.
    Size(&'static [usize]),
    /// A finite real number in a range.
    Real(Range),
    /// true or false.
    Switch,
    /// One of a few words.
    Choice {
        /// The words.
        words: &'static [&'static str],
        /// Words of earlier versions that are still accepted, each with its current word; also `true` and `false`.
        earlier: &'static [(&'static str, &'static str)],
    },
    /// Text with this syntax.
    Text(&'static Syntax),
    /// A list of 1 to [`MAX_LAYERS`] layer widths from 1 to [`MAX_WIDTH`].
    Widths,
    /// A list of up to [`MAX_LAYERS`] convolutions: channels up to [`MAX_WIDTH`], kernel and stride up to [`MAX_KERNEL`].
    Convs,
}

/// Maximum number of hidden layers, and of convolutions.
pub const MAX_LAYERS: usize = 16;

/// Maximum width of a hidden layer.
pub const MAX_WIDTH: i64 = 1 << 14;

/// Maximum kernel and stride of a convolution.
pub const MAX_KERNEL: i64 = 64;

/// A range of finite real numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Range::Any => "a finite number",
            Range::Positive => "a finite number above 0",
            Range::NotNegative => "a finite number of at least 0",
            Range::Unit => "a number from 0 to 1",
            Range::BelowOne => "a number from 0 to just below 1",
        })
    }
}

/// The syntax of a text value.
#[derive(Debug)]
pub struct Syntax {
    /// Its description in the documentation.
    pub about: &'static str,
    /// Checks a text; the error is the problem.
    pub check: fn(&str) -> Result<(), Refusal>,
}

/// The reason for refusing a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The problem, as the continuation of a sentence that begins with `key = value`.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

impl Refusal {
    /// A refusal with this problem and remedy.
    pub fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Refusal { problem: problem.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Kind {
    /// Describes the values, for the documentation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Count { least, most: i64::MAX } => write!(f, "{least} or more"),
            Kind::Count { least, most } => write!(f, "{least} to {most}"),
            Kind::CountOr { word, least, most } => write!(f, "{least} to {most}, or `{word}`"),
            Kind::Size(sizes) => {
                sizes.iter().try_fold(write!(f, "0"), |_, size| Ok(write!(f, ", {size}")))?
            }
            Kind::Real(range) => write!(f, "{range}"),
            Kind::Switch => write!(f, "`true`, `false`"),
            Kind::Choice { words, .. } => write!(f, "`{}`", words.join("`, `")),
            Kind::Text(syntax) => f.write_str(syntax.about),
            Kind::Widths => write!(f, "1 to {MAX_LAYERS} widths from 1 to {MAX_WIDTH}"),
            Kind::Convs => write!(
                f,
                "up to {MAX_LAYERS} lists of channels (1 to {MAX_WIDTH}), kernel and stride (1 to {MAX_KERNEL})"
            ),
        }
    }
}

/// The group of a key, in the order in which groups are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyGroup {
    /// Hyperparameters of every algorithm: what is trained, and the optimiser.
    Training,
    /// How environments are played and samples are collected.
    Collecting,
    /// The replay of algorithms that learn from one.
    Replay,
    /// Acting by action values.
    ActionValues,
    /// The network.
    Network,
    /// Hyperparameters of one algorithm.
    Algorithm(Algorithm),
    /// Execution of a run.
    Run,
}

impl KeyGroup {
    /// Whether its keys are hyperparameters: [`crate::Config`].
    pub fn is_learned(self) -> bool {
        self != KeyGroup::Run
    }

    /// The title of its keys in the documentation.
    pub fn title(self) -> String {
        match self {
            KeyGroup::Training => "Training".to_owned(),
            KeyGroup::Collecting => "Collecting samples".to_owned(),
            KeyGroup::Replay => "Learning from a replay".to_owned(),
            KeyGroup::ActionValues => "Acting by action values".to_owned(),
            KeyGroup::Network => "Network".to_owned(),
            KeyGroup::Algorithm(algorithm) => format!("Only `algorithm = \"{algorithm}\"`"),
            KeyGroup::Run => "How a run is carried out".to_owned(),
        }
    }
}

/// A flag of the command line that sets a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// A flag with a value; the second word is the value's name in the help.
    Value(&'static str, &'static str),
    /// A flag without a value, which sets a switch to true.
    Switch(&'static str),
    /// A flag without a value, which sets a switch to false; the second text describes the flag in the help.
    SwitchOff(&'static str, &'static str),
}

impl Flag {
    /// The flag itself, such as `--seed`.
    pub fn name(self) -> &'static str {
        match self {
            Flag::Value(name, _) | Flag::Switch(name) | Flag::SwitchOff(name, _) => name,
        }
    }
}

/// One configuration key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The name, as in TOML; upper-cased after `OPERANT_` it names the environment variable.
    pub name: &'static str,
    /// Its name in earlier versions, which is still read.
    pub earlier: Option<&'static str>,
    /// Its description, by lines.
    pub doc: &'static [&'static str],
    /// Its type and valid values.
    pub kind: Kind,
    /// Its group.
    pub group: KeyGroup,
    /// Its flag, if it has one.
    pub flag: Option<Flag>,
    /// Why a run cannot be resumed with another value, if so.
    pub fixed: Option<&'static str>,
    /// Whether it is specific to this machine, and so not saved with a run's configuration.
    pub is_local: bool,
    /// When this one means something, if that depends on another setting.
    pub needs: Option<Need>,
}

/// What a setting needs of another one to mean something.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// The other setting.
    pub other: &'static str,
    /// A value of it; a number or a switch as TOML writes it.
    pub value: &'static str,
    /// Whether it has to have that value, or any other one.
    pub equal: bool,
}

impl Key {
    /// A key without a flag, which may change when a run is resumed.
    pub const fn new(name: &'static str, doc: &'static [&'static str], kind: Kind, group: KeyGroup) -> Self {
        Key { name, earlier: None, doc, kind, group, flag: None, fixed: None, is_local: false, needs: None }
    }

    /// Adds a flag that takes a value.
    #[must_use]
    pub const fn flag(self, flag: &'static str, value_name: &'static str) -> Self {
        Key { flag: Some(Flag::Value(flag, value_name)), ..self }
    }

    /// Adds a flag that sets the key to true.
    #[must_use]
    pub const fn switch(self, flag: &'static str) -> Self {
        Key { flag: Some(Flag::Switch(flag)), ..self }
    }

    /// Adds a flag that sets the key to false, with its own description, since the key's describes the opposite.
    #[must_use]
    pub const fn switch_off(self, flag: &'static str, help: &'static str) -> Self {
        Key { flag: Some(Flag::SwitchOff(flag, help)), ..self }
    }

    /// Adds its name in earlier versions.
    #[must_use]
    pub const fn earlier(self, name: &'static str) -> Self {
        Key { earlier: Some(name), ..self }
    }

    /// Fixed for a run, for this reason.
    #[must_use]
    pub const fn fixed(self, reason: &'static str) -> Self {
        Key { fixed: Some(reason), ..self }
    }

    /// Marks it as specific to this machine.
    #[must_use]
    pub const fn local(self) -> Self {
        Key { is_local: true, ..self }
    }

    /// It means nothing without this value of another setting.
    #[must_use]
    pub const fn needs(self, other: &'static str, value: &'static str) -> Self {
        Key { needs: Some(Need { other, value, equal: true }), ..self }
    }

    /// It means nothing with this value of another setting.
    #[must_use]
    pub const fn unless(self, other: &'static str, value: &'static str) -> Self {
        Key { needs: Some(Need { other, value, equal: false }), ..self }
    }

    /// Its description in one line.
    pub fn meaning(&self) -> String {
        self.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }

    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("OPERANT_{}", self.name.to_uppercase())
    }
}

/// A type that determines the valid values of a key.
pub trait Setting {
    /// The valid values.
    const KIND: Kind;
}

impl Setting for bool {
    const KIND: Kind = Kind::Switch;
}

impl Setting for Vec<usize> {
    const KIND: Kind = Kind::Widths;
}

impl Setting for Vec<[usize; 3]> {
    const KIND: Kind = Kind::Convs;
}

impl Setting for PathBuf {
    const KIND: Kind = Kind::Text(&Syntax { about: "a path", check: |_| Ok(()) });
}

impl<T: Setting> Setting for Option<T> {
    const KIND: Kind = T::KIND;
}

/// A struct with a field for each setting, its defaults, and the table of its keys, from one row for each:
///
/// ```
/// operant_learn::settings! {
///     /// How fast.
///     pub struct Speed;
///     in KeyGroup::Run;
///     /// Threads that work; 0 is all.
///     threads: usize [Kind::Count { least: 0, most: 64 }] = 0, flag("--threads", "N");
///     /// Whether to hurry.
///     hurry: bool = true;
/// }
/// let key = &Speed::KEYS[0];
/// assert_eq!((key.name, key.variable().as_str(), Speed::default().hurry), ("threads", "OPERANT_THREADS", true));
/// ```
///
/// The kind is given in brackets if the type does not determine it ([`Setting`]). Methods of [`Key`] follow the default. Rows stand under
/// their group. With `with field: Type;` the struct has the settings of another one, too.
#[macro_export]
macro_rules! settings {
    (@kind $ty:ty) => { <$ty as $crate::setting::Setting>::KIND };
    (@kind $ty:ty [$kind:expr]) => { $kind };
    (
        $(#[$meta:meta])*
        pub struct $name:ident;
        $($(#[doc = $nested_doc:literal])+ with $nested:ident: $nested_type:ty;)?
        $(
            in $group:expr;
            $(
                $(#[doc = $doc:literal])+
                $key:ident: $ty:ty $([$kind:expr])? = $default:expr $(, $attribute:ident($($value:tt)*))*;
            )*
        )+
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $($($(#[doc = $doc])+ pub $key: $ty,)*)+
            $($(#[doc = $nested_doc])+ #[serde(flatten)] pub $nested: $nested_type,)?
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($($key: $default,)*)+ $($nested: <$nested_type>::default(),)? }
            }
        }

        impl $name {
            /// The key of each row, in the order in which they are shown.
            pub const KEYS: &'static [$crate::setting::Key] = {
                #[allow(unused_imports)] // unused if the types determine all kinds
                use $crate::setting::{KeyGroup, Key, Kind, Range};
                &[$($(
                    Key::new(stringify!($key), &[$($doc),+], $crate::settings!(@kind $ty $([$kind])?), $group)
                        $(.$attribute($($value)*))*,
                )*)+]
            };
        }
    };
}

/// An enum whose variants each have a word in configurations, as which they are read, shown and saved.
#[macro_export]
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$of_variant:meta])* $variant:ident = $word:literal $(| $earlier:literal)?,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$of_variant])* #[serde(rename = $word $(, alias = $earlier)?)] $variant,)+
        }

        impl $name {
            /// All variants.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word in configurations.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::setting::Setting for $name {
            const KIND: $crate::setting::Kind = $crate::setting::Kind::Choice {
                words: &[$($word),+],
                earlier: &[$($(($earlier, $word),)?)+],
            };
        }
    };
}
