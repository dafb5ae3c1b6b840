//! Environments without velocities in their observations: a policy needs memory to estimate them.
//!
//! The option `hide = "velocity"` of an environment selects its [`Hidden`] form, which is also registered under a
//! separate name.

use std::sync::Arc;

use operant_lane::{Bundle, Draws, Float, Lane, Sink};

use crate::spec::{OptionError, OptionValue};
use crate::{AnyEnv, Env, EnvOption, EnvOptions, EnvSpec, ObsSpace, Registry, Scene, Step};

const OPTION: &str = "hide";
const VELOCITY: &str = "velocity";

/// The option of environments that can hide velocities.
pub(crate) fn option() -> EnvOption {
    EnvOption::word(
        OPTION,
        "nothing",
        &["nothing", VELOCITY],
        "what to remove from observations; without velocities a policy needs memory",
    )
}

/// Whether `name = value` hides the velocities. Checks the option against `spec`.
pub(crate) fn hides(spec: &EnvSpec, name: &str, value: &OptionValue) -> Result<bool, OptionError> {
    spec.check_option(name, value)?;
    Ok(value.text() == VELOCITY)
}

/// The methods of an [`Env`] with the option and a field `hides_velocity`; `seen` are the numbers that remain.
macro_rules! hides_velocity {
    ($seen:expr) => {
        fn set_option(&mut self, name: &str, value: &$crate::OptionValue) -> Result<(), $crate::OptionError> {
            self.hides_velocity = $crate::hidden::hides(&$crate::Env::spec(self), name, value)?;
            Ok(())
        }

        fn resolve(self) -> std::sync::Arc<dyn $crate::AnyEnv> {
            $crate::hidden::resolve(self.hides_velocity, self, $seen)
        }
    };
}
pub(crate) use hides_velocity;

/// The environment, or, if `hides`, the environment whose observations have only the numbers `seen`.
pub(crate) fn resolve<E: Env, const N: usize>(hides: bool, base: E, seen: [usize; N]) -> Arc<dyn AnyEnv> {
    if hides { Arc::new(Hidden { base, seen }) } else { Arc::new(base) }
}

/// Registers the hidden form of every environment that has the option.
pub fn family(registry: Registry) -> Registry {
    let options = EnvOptions::from([(OPTION.to_owned(), VELOCITY.into())]);
    let hidden = |env: &Arc<dyn AnyEnv>| {
        let has = env.spec().options.iter().any(|option| option.name == OPTION);
        has.then(|| env.with_options(&options).expect("a value of the option"))
    };
    let all: Vec<_> = registry.envs().iter().filter_map(hidden).collect();
    all.into_iter().fold(registry, Registry::with_shared)
}

/// The preset: one with memory, or the settings of the base without its threshold and the comment about it.
fn preset(base: &str, preset: &str) -> String {
    let own = match base {
        "cartpole" => include_str!("../presets/cartpole_no_velocity.toml"),
        "mountain_car_continuous" => include_str!("../presets/mountain_car_continuous_no_velocity.toml"),
        "pendulum" => include_str!("../presets/pendulum_no_velocity.toml"),
        _ => "",
    };
    if !own.is_empty() {
        return own.to_owned();
    }
    let settings = preset.lines().skip_while(|line| line.starts_with('#') || line.starts_with("solved_at"));
    let settings: String = settings.map(|line| format!("{line}\n")).collect();
    format!("# The settings of {base}. Solving it requires a policy with memory.\n{settings}")
}

/// An environment with N of the real numbers that the observations of `base` have.
#[derive(Debug, Clone)]
pub struct Hidden<E, const N: usize> {
    base: E,
    seen: [usize; N],
}

/// A sink that keeps only the floats at certain indices.
struct Pick<'a, L: Lane, const N: usize> {
    seen: &'a [usize; N],
    kept: [L::Float; N],
    place: usize,
}

impl<L: Lane, const N: usize> Sink<L> for Pick<'_, L, N> {
    #[inline(always)]
    fn float(&mut self, value: L::Float) {
        for (kept, &place) in self.kept.iter_mut().zip(self.seen) {
            if place == self.place {
                *kept = value;
            }
        }
        self.place += 1;
    }
    fn uint(&mut self, _: L::Uint) {
        unreachable!("the observation is real")
    }
    fn int(&mut self, _: L::Int) {
        unreachable!("the observation is real")
    }
    fn mask(&mut self, _: L::Mask) {
        unreachable!("the observation is real")
    }
}

impl<E: Env, const N: usize> Env for Hidden<E, N> {
    type State<L: Lane> = E::State<L>;
    type Obs<L: Lane> = [L::Float; N];
    type Action<L: Lane> = E::Action<L>;

    const MASKED: bool = E::MASKED;

    fn spec(&self) -> EnvSpec {
        let base = Env::spec(&self.base);
        let ObsSpace::Box { low, high } = &base.obs else { unreachable!("the observation is real") };
        let obs =
            ObsSpace::Box { low: self.seen.map(|k| low[k]).into(), high: self.seen.map(|k| high[k]).into() };
        let id = &base.aliases[0];
        let option =
            EnvOption::word(OPTION, VELOCITY, &[VELOCITY], "velocities are removed from observations");
        EnvSpec {
            name: format!("{}_no_velocity", base.name),
            aliases: vec![id.replace("-v", "NoVel-v")],
            family: "memory".into(),
            summary: format!("{}; velocities are hidden", base.summary),
            rules: format!("{} Solving it requires a policy with memory.", base.rules),
            reference: format!(
                "{} without velocities, like rl-zoo's velocity mask, which sets them to zero instead of removing them.",
                base.name
            ),
            preset: base.preset.as_deref().map(|settings| preset(&base.name, settings)),
            variant_of: Some(base.name),
            obs,
            obs_names: self.seen.map(|k| base.obs_names[k].clone()).into(),
            options: vec![option],
            ..base
        }
    }

    /// Accepts `hide = "velocity"`, which has no effect here, so that a run's name and options recreate the environment.
    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        Env::spec(self).check_option(name, value)?;
        Ok(())
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> E::State<L> {
        self.base.reset(draws)
    }

    #[inline(always)]
    fn step<L: Lane>(
        &self,
        state: &E::State<L>,
        action: &E::Action<L>,
        draws: &mut Draws<L>,
    ) -> Step<L, E::State<L>> {
        self.base.step(state, action, draws)
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, state: &E::State<L>) -> [L::Float; N] {
        let mut pick = Pick::<L, N> { seen: &self.seen, kept: [L::Float::splat(0.0); N], place: 0 };
        self.base.observe(state).store(&mut pick);
        pick.kept
    }

    #[inline(always)]
    fn legal<L: Lane>(&self, state: &E::State<L>, component: usize, choice: usize) -> L::Mask {
        self.base.legal(state, component, choice)
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, E::State<L>>, index: usize) -> L::Float {
        self.base.metric(last, index)
    }

    fn draw(&self, state: &E::State<f32>) -> Scene {
        self.base.draw(state)
    }

    fn unpack(&self, public: &[f64]) -> Vec<f64> {
        self.base.unpack(public)
    }

    fn pack(&self, leaves: &[f64]) -> Vec<f64> {
        self.base.pack(leaves)
    }
}
