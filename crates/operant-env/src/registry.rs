//! The registry: a list of environments that are found by name. [`crate::builtin`] has those of this crate; a program adds its own
//! with [`Registry::with`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::any::AnyEnv;
use crate::spec::{EnvSpec, OptionError, OptionValue};

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
    /// The name or alias that is spelled most like it, if one is near.
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
    /// An option is unknown or out of range.
    #[error(transparent)]
    Option(#[from] OptionError),
}

impl Registry {
    /// The list with one more environment, which replaces one of the same name.
    #[must_use]
    pub fn with(self, env: impl AnyEnv) -> Self {
        self.with_shared(Arc::new(env))
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

    /// A subset that contains every kind of space and rule: classic control, and the first environment of every other
    /// family. For test suites that would take too long with all environments.
    #[must_use]
    pub fn of_each_kind(&self) -> Registry {
        let mut families = BTreeSet::new();
        let is_chosen = |env: &&Arc<dyn AnyEnv>| {
            let family = env.spec().family;
            family == "classic control" || families.insert(family)
        };
        Registry { envs: self.envs.iter().filter(is_chosen).cloned().collect() }
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
    /// When there is none, or an option is unknown or out of range.
    pub fn make(&self, name: &str, options: &EnvOptions) -> Result<Arc<dyn AnyEnv>, EnvError> {
        Ok(self.find(name)?.with_options(options)?)
    }
}
