//! The registry: every environment by name. Adding one is its file and its line here.

use std::collections::BTreeMap;

use crate::env::Env;
use crate::spec::{EnvSpec, OptionError};

macro_rules! registry {
    ($($module:ident :: $env:ident),* $(,)?) => {
        /// Every environment, as a specification.
        pub fn specs() -> Vec<EnvSpec> {
            vec![$($crate::$module::$env::default().spec()),*]
        }

        /// Calls `visitor` with the environment of that name or alias and those options.
        pub fn with_env<V: Visitor>(name: &str, options: &EnvOptions, visitor: V) -> Result<V::Output, EnvError> {
            let name = canonical(name)?;
            $(
                let mut env = $crate::$module::$env::default();
                if env.spec().name == name {
                    for (option, value) in options {
                        env.set_option(option, *value)?;
                    }
                    return Ok(visitor.visit(env));
                }
            )*
            unreachable!("a canonical name is registered")
        }
    };
}

registry! {
    cartpole::CartPole,
    mountain_car::MountainCar,
    mountain_car_continuous::MountainCarContinuous,
    pendulum::Pendulum,
    acrobot::Acrobot,
    minatar_breakout::MinatarBreakout,
}

/// Options of an environment by name.
pub type EnvOptions = BTreeMap<String, f64>;

/// Receives an environment whose type is known only at run time.
pub trait Visitor {
    /// What the visit gives.
    type Output;
    /// Does its work with the environment.
    fn visit<E: Env>(self, env: E) -> Self::Output;
}

/// No environment has that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown environment `{name}`; {hint}`operant envs` lists all")]
pub struct UnknownEnv {
    /// The name asked for.
    pub name: String,
    /// A suggestion, or nothing.
    pub hint: String,
}

/// An environment cannot be made as asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EnvError {
    /// There is none of that name.
    #[error(transparent)]
    Unknown(#[from] UnknownEnv),
    /// An option is unknown or out of range.
    #[error(transparent)]
    Option(#[from] OptionError),
}

/// Names of all environments, in the registry's order.
pub fn names() -> impl Iterator<Item = &'static str> {
    specs().into_iter().map(|spec| spec.name)
}

/// The name in snake_case of an environment called by it or by an alias.
pub fn canonical(name: &str) -> Result<&'static str, UnknownEnv> {
    let specs = specs();
    if let Some(spec) = specs.iter().find(|spec| spec.name == name || spec.aliases.contains(&name)) {
        return Ok(spec.name);
    }
    let distance = |known: &str| strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase());
    let nearest = specs
        .iter()
        .flat_map(|spec| std::iter::once(&spec.name).chain(spec.aliases))
        .min_by_key(|known| distance(known))
        .filter(|known| distance(known) <= 2 + known.len() / 4);
    let hint = nearest.map_or(String::new(), |known| format!("did you mean `{known}`? "));
    Err(UnknownEnv { name: name.to_owned(), hint })
}

/// The specification of an environment called by name or alias.
pub fn spec(name: &str) -> Result<EnvSpec, UnknownEnv> {
    let name = canonical(name)?;
    Ok(specs().into_iter().find(|spec| spec.name == name).expect("a canonical name is registered"))
}
