//! The learning algorithms, a folder each. The folder holds what the algorithm alone has: its settings, its loss and its update. Its
//! line below makes it known to configurations, commands and backends.

pub mod ppo;
pub mod pqn;

use crate::choice;
use crate::config::Config;
use crate::cpu::update::Update;
use crate::network::Outputs;
use crate::setting::Key;

/// What an algorithm declares.
pub struct Declaration {
    /// The settings that it alone has.
    pub keys: &'static [Key],
    /// What it sets, as TOML, where neither a preset nor the user sets anything else.
    pub preset: &'static str,
    /// The metrics of its updates, which a monitor shows as losses.
    pub losses: &'static [&'static str],
    /// What its network computes.
    pub outputs: Outputs,
    /// Share of random actions in the rollout of an update. Only where the network computes action values.
    pub exploration: fn(&Config, u64) -> f64,
    /// Lambda of its returns.
    pub return_lambda: fn(&Config) -> f64,
    /// Whether each epoch begins with a pass over a field of all samples, of which `operant bench` counts the bytes.
    pub has_statistics: fn(&Config) -> bool,
    /// A configuration that would learn nothing: the key, what is wrong with it, and what to do.
    pub problem: fn(&Config) -> Option<(&'static str, String, &'static str)>,
    /// Its update on the CPU.
    pub(crate) update: Update,
}

/// An enum, its settings and its declarations, from a line for each algorithm: its name in configurations, and its folder.
macro_rules! algorithms {
    ($($(#[doc = $doc:literal])+ $variant:ident = $word:literal in $folder:ident;)+) => {
        choice! {
            /// The learning algorithm.
            pub enum Algorithm {
                $($(#[doc = $doc])+ $variant = $word,)+
            }
        }

        /// The settings of every algorithm.
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        pub struct Settings {
            $($(#[doc = $doc])+ #[serde(flatten)] pub $folder: $folder::Settings,)+
        }

        impl Algorithm {
            /// What it declares.
            pub fn declaration(self) -> &'static Declaration {
                match self {
                    $(Algorithm::$variant => &$folder::DECLARATION,)+
                }
            }
        }
    };
}

algorithms! {
    /// Proximal policy optimisation.
    Ppo = "ppo" in ppo;
    /// Parallelised Q-network.
    Pqn = "pqn" in pqn;
}
