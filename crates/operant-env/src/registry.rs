//! The registry: a list of environments that are found by name. [`crate::builtin`] has the environments of this crate; a program adds its own
//! with [`Registry::with`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::any::AnyEnv;
use crate::spec::{ActionSpace, EnvSpec, ObsSpace, OptionError, OptionValue};

/// Declares the modules of the environments, and [`crate::builtin`] as the list of them. A module with several
/// environments has a function `family` that registers them.
macro_rules! environments {
    ($($module:ident :: $env:ident),* $(,)?; $($family:ident),* $(,)?) => {
        $(pub mod $module;)*
        $(pub mod $family;)*

        /// The environments of this crate.
        pub fn builtin() -> $crate::Registry {
            let registry = $crate::Registry::default()$(.with($module::$env::default()))*;
            $(let registry = $family::family(registry);)*
            registry
        }
    };
}
pub(crate) use environments;

/// Options of an environment by name.
pub type EnvOptions = BTreeMap<String, OptionValue>;

/// Environments by name.
#[derive(Clone, Default)]
pub struct Registry {
    envs: Vec<Arc<dyn AnyEnv>>,
}

/// No environment has that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no environment \"{name}\"{}", hint(nearest))]
pub struct UnknownEnv {
    /// The requested name.
    pub name: String,
    /// The most similar name or alias, if one is similar enough.
    pub nearest: Option<String>,
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |name| format!(" (did you mean \"{name}\"?)"))
}

/// An environment cannot be created.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EnvError {
    /// There is none of that name.
    #[error(transparent)]
    Unknown(#[from] UnknownEnv),
    /// An option is unknown or out of range, or the specification is invalid.
    #[error(transparent)]
    Option(#[from] OptionError),
}

impl Registry {
    /// The list with one more environment, which replaces one of the same name.
    #[must_use]
    #[cfg(not(test))]
    pub fn with(self, env: impl AnyEnv) -> Self {
        self.with_shared(Arc::new(env))
    }

    /// The list as it is: the unit tests of this crate need no environment, and compile none, which would take minutes.
    #[must_use]
    #[cfg(test)]
    pub fn with(self, _env: impl AnyEnv) -> Self {
        self
    }

    /// As [`Registry::with`].
    #[must_use]
    pub fn with_shared(mut self, env: Arc<dyn AnyEnv>) -> Self {
        let name = env.spec().name;
        self.envs.retain(|known| known.spec().name != name);
        self.envs.push(env);
        self
    }

    /// All environments, in the order in which they were added.
    pub fn envs(&self) -> &[Arc<dyn AnyEnv>] {
        &self.envs
    }

    /// A subset for test suites that would take too long with all environments: classic control and those with their own rules, then
    /// whatever adds a family or a kind of observation, action or mask.
    #[must_use]
    pub fn of_each_kind(&self) -> Registry {
        let is_first =
            |spec: &EnvSpec| spec.family == "classic control" || OWN_RULES.contains(&spec.name.as_str());
        let (first, rest): (Vec<_>, Vec<_>) = self.envs.iter().partition(|env| is_first(&env.spec()));
        let mut known = BTreeSet::new();
        let mut adds = |env: &Arc<dyn AnyEnv>| {
            let kinds = kinds_of(&**env).into_iter().map(str::to_owned).chain([env.spec().family]);
            kinds.filter(|kind| known.insert(kind.clone())).count() > 0
        };
        for env in &first {
            adds(env);
        }
        let rest: Vec<_> = rest.into_iter().filter(|env| adds(env)).collect();
        Registry { envs: first.into_iter().chain(rest).cloned().collect() }
    }

    /// The specifications of all environments.
    pub fn specs(&self) -> Vec<EnvSpec> {
        self.envs.iter().map(|env| env.spec()).collect()
    }

    /// Every name and alias, with the environment's name.
    pub fn known(&self) -> BTreeMap<String, String> {
        let mut known = BTreeMap::new();
        for EnvSpec { name, aliases, .. } in self.specs() {
            known.extend(aliases.into_iter().map(|alias| (alias, name.clone())));
            known.insert(name.clone(), name);
        }
        known
    }

    /// The environment of that name or alias.
    ///
    /// # Errors
    /// When there is none, with the nearest name that there is.
    pub fn find(&self, name: &str) -> Result<&Arc<dyn AnyEnv>, UnknownEnv> {
        let specs = self.specs();
        let of_name = specs.iter().position(|spec| spec.name == name);
        let found = of_name.or_else(|| specs.iter().position(|spec| spec.aliases.iter().any(|a| a == name)));
        if let Some(index) = found {
            return Ok(&self.envs[index]);
        }
        let distance = |known: &str| strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase());
        let nearest = specs
            .iter()
            .flat_map(|spec| std::iter::once(&spec.name).chain(&spec.aliases))
            .min_by_key(|known| distance(known))
            .filter(|known| distance(known) <= 2 + known.len() / 4);
        Err(UnknownEnv { name: name.to_owned(), nearest: nearest.cloned() })
    }

    /// The environment of that name or alias with those options.
    ///
    /// # Errors
    /// When there is none, an option is unknown or out of range, or the observation space is invalid.
    pub fn make(&self, name: &str, options: &EnvOptions) -> Result<Arc<dyn AnyEnv>, EnvError> {
        let env = self.find(name)?.with_options(options)?;
        env.spec().check()?;
        Ok(env)
    }
}

/// Environments that [`Registry::of_each_kind`] always includes for their rules: two MinAtar games, a MiniGrid layout that is drawn
/// room by room, a board with memory, real numbers together with bits, and a mask.
const OWN_RULES: [&str; 6] = [
    "minatar_breakout",
    "minatar_freeway",
    "minigrid_multiroom_n4_s5",
    "game_2048",
    "breakout_large",
    "taxi",
];

/// The kinds of observations, actions and masks of an environment.
fn kinds_of(env: &dyn AnyEnv) -> Vec<&'static str> {
    let spec = env.spec();
    let kind = |part: &ObsSpace| match part {
        ObsSpace::Box { .. } => "reals",
        ObsSpace::Binary { .. } => "bits",
        ObsSpace::Index { below, .. } if below.iter().any(|&below| below > 256) => "indices of 16 bits",
        ObsSpace::Index { .. } => "indices of 8 bits",
        ObsSpace::Bytes { .. } => "bytes",
        ObsSpace::Parts(_) => "nested parts",
    };
    let mut kinds: Vec<&str> = spec.obs.parts().into_iter().map(|(_, part)| kind(part)).collect();
    if let ObsSpace::Parts(parts) = &spec.obs {
        let reals = parts.iter().filter(|(_, part)| part.is_real()).count();
        kinds.push(match reals {
            0 => "parts without reals",
            _ if reals == parts.len() => "parts of reals",
            _ => "parts with and without reals",
        });
    }
    kinds.push(match &spec.actions {
        ActionSpace::Discrete(choices) if choices.len() == 1 => "one choice",
        ActionSpace::Discrete(_) => "several choices",
        ActionSpace::Box { .. } => "real actions",
    });
    kinds.push(if env.masked() { "masked" } else { "unmasked" });
    kinds
}
