//! The registry: options, the subset for slow suites, and spaces that are refused.

use std::sync::Arc;

use operant_env::{
    ActionSpace, AnyEnv, Env, EnvError, EnvOption, EnvOptions, EnvSpec, ObsSpace, OptionError, OptionValue,
    Registry, Scene, Step, builtin,
};
use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::bounds;

#[test]
fn a_name_and_its_options_make_the_same_environment_again() {
    let registry = builtin();
    for spec in registry.specs() {
        for options in spec.variants() {
            let made = registry.make(&spec.name, &options).expect("options of the environment").spec();
            let again = registry.make(&made.name, &options);
            let again = again.unwrap_or_else(|error| panic!("{} with {options:?}: {error}", made.name));
            assert_eq!(again.spec(), made, "{} with {options:?}", spec.name);
        }
    }
}

#[test]
fn observations_stay_in_their_spaces() {
    let registry = builtin();
    for spec in registry.specs() {
        for options in spec.variants() {
            bounds::observations_stay_in_bounds(&*registry.make(&spec.name, &options).expect("options"), 300);
        }
    }
}

/// The error for `name = value`, with its remedy.
fn refused(env: &str, name: &str, value: impl Into<OptionValue>) -> String {
    let options = EnvOptions::from([(name.to_owned(), value.into())]);
    match builtin().make(env, &options).expect_err("a value that is refused") {
        EnvError::Option(error) => format!("{error}; {}", error.remedy()),
        EnvError::Unknown(error) => panic!("{error}"),
    }
}

#[test]
fn whole_numbers_and_flags_refuse_other_numbers() {
    let whole = [
        ("t_maze", "length", "2 to 1000"),
        ("repeat_previous", "k", "1 to 64"),
        ("quadrotor_hover", "substeps", "1 to 16"),
        ("snake", "size", "10 to 20"),
        ("prover", "max_depth", "1 to 100"),
    ];
    for (env, name, range) in whole {
        let start = format!("{env}: option `{name}` =");
        let end = format!("give a whole number from {range}");
        assert_eq!(refused(env, name, 12.5), format!("{start} 12.5 is not a whole number; {end}"));
        assert_eq!(refused(env, name, 2000.0), format!("{start} 2000 is out of range; {end}"));
        assert_eq!(refused(env, name, f64::NAN), format!("{start} NaN is not a whole number; {end}"));
        assert_eq!(refused(env, name, "many"), format!("{start} \"many\" is not a number; {end}"));
    }
    for (env, name) in [("minatar_seaquest", "difficulty_ramping"), ("taxi", "is_rainy")] {
        let start = format!("{env}: option `{name}` =");
        assert_eq!(refused(env, name, 0.5), format!("{start} 0.5 is not a whole number; give 0 or 1"));
        assert_eq!(refused(env, name, 2.0), format!("{start} 2 is out of range; give 0 or 1"));
    }
    assert!(refused("cartpole", "hide", 1.0).contains("must be a word or a path"));
    assert!(refused("cartpole_no_velocity", "hide", "nothing").contains("is not an allowed value"));
}

#[test]
fn variants_change_each_option_to_another_allowed_value() {
    for spec in builtin().specs().iter().filter(|spec| spec.variant_of.is_none()) {
        let variants = spec.variants();
        for options in &variants {
            for (name, value) in options {
                let option = spec.check_option(name, value).expect("an allowed value");
                assert_ne!(option.default, *value, "{} {name}", spec.name);
            }
        }
        for EnvOption { name, values, .. } in &spec.options {
            let is_path = *values == operant_env::OptionValues::Path;
            assert!(
                is_path || variants.iter().any(|options| options.contains_key(name)),
                "{} {name}",
                spec.name
            );
        }
    }
}

#[test]
fn the_subset_has_each_kind() {
    let (all, subset) = (builtin(), builtin().of_each_kind());
    let specs = subset.specs();
    assert!(specs.len() <= 17, "{} environments", specs.len());
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    for name in [
        "cartpole",
        "pendulum",
        "breakout_large",
        "game_2048",
        "minatar_breakout",
        "minatar_freeway",
        "minigrid_multiroom_n4_s5",
        "taxi",
        "quadrotor_hover",
    ] {
        assert!(names.contains(&name), "{name} is not one of {names:?}");
    }
    for spec in all.specs() {
        assert!(specs.iter().any(|other| other.family == spec.family), "the family {}", spec.family);
    }

    // Every property that some environment has.
    let flat =
        |spec: &EnvSpec, is: &dyn Fn(&ObsSpace) -> bool| spec.obs.parts().iter().any(|(_, part)| is(part));
    let is_wide = |space: &ObsSpace| space.bounds().any(|below| below > 256);
    let is_index = |space: &ObsSpace| matches!(space, ObsSpace::Index { .. });
    let reals = |spec: &EnvSpec| spec.obs.parts().iter().filter(|(_, part)| part.is_real()).count();
    let has_parts = |spec: &EnvSpec| matches!(spec.obs, ObsSpace::Parts(_));
    type Property<'a> = (&'a str, &'a dyn Fn(&dyn AnyEnv) -> bool);
    let properties: [Property; 11] = [
        ("reals", &|env| matches!(env.spec().obs, ObsSpace::Box { .. })),
        ("bits", &|env| flat(&env.spec(), &|part| matches!(part, ObsSpace::Binary { .. }))),
        ("indices of 8 bits", &|env| flat(&env.spec(), &|part| is_index(part) && !is_wide(part))),
        ("indices of 16 bits", &|env| flat(&env.spec(), &is_wide)),
        ("bytes", &|env| flat(&env.spec(), &|part| matches!(part, ObsSpace::Bytes { .. }))),
        ("parts without reals", &|env| has_parts(&env.spec()) && reals(&env.spec()) == 0),
        ("parts with and without reals", &|env| {
            let spec = env.spec();
            has_parts(&spec) && (1..spec.obs.parts().len()).contains(&reals(&spec))
        }),
        ("one choice", &|env| matches!(&env.spec().actions, ActionSpace::Discrete(n) if n.len() == 1)),
        ("several choices", &|env| matches!(&env.spec().actions, ActionSpace::Discrete(n) if n.len() > 1)),
        ("real actions", &|env| matches!(env.spec().actions, ActionSpace::Box { .. })),
        ("masks", &|env| env.masked()),
    ];
    let some = |registry: &Registry, has: &dyn Fn(&dyn AnyEnv) -> bool| {
        registry.envs().iter().any(|env: &Arc<dyn AnyEnv>| has(&**env))
    };
    for (what, has) in properties {
        assert_eq!(some(&subset, has), some(&all, has), "{what}");
    }
}

bundle! {
    /// Nothing but a counter.
    pub struct State {
        /// Steps.
        steps: Uint,
    }
}

/// An environment with any observation space.
#[derive(Debug, Clone)]
struct Shown(ObsSpace);

impl Env for Shown {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        let (name, actions) = ("shown".into(), ActionSpace::Discrete(vec![2]));
        EnvSpec { name, obs: self.0.clone(), actions, ..EnvSpec::default() }
    }

    fn reset<L: Lane>(&self, _: &mut Draws<L>) -> State<L> {
        State { steps: L::Uint::splat(0) }
    }

    fn step<L: Lane>(&self, s: &State<L>, _: &L::Uint, _: &mut Draws<L>) -> Step<L, State<L>> {
        let steps = s.steps + L::Uint::splat(1);
        Step { state: State { steps }, reward: L::Float::splat(0.0), terminated: L::Mask::splat(false) }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 1] {
        [s.steps]
    }

    fn draw(&self, _: &State<f32>) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }
}

#[test]
fn invalid_spaces_are_refused_with_the_reason() {
    let part = |name: &str, space: ObsSpace| (name.to_owned(), space);
    let parts = |parts: &[(String, ObsSpace)]| ObsSpace::Parts(parts.to_vec());
    let index =
        |shape: &[usize], below: &[u32]| ObsSpace::Index { shape: shape.to_vec(), below: below.to_vec() };
    let boxed = |low: &[f64], high: &[f64]| ObsSpace::Box { low: low.to_vec(), high: high.to_vec() };
    let one = || ObsSpace::index(4);
    let bad = [
        (boxed(&[0.0], &[]), "a box has 1 lower and 0 upper bounds"),
        (boxed(&[], &[]), "a box has no numbers"),
        (boxed(&[1.0], &[0.5]), "a box has the lower bound 1 and the upper bound 0.5"),
        (boxed(&[f64::NAN], &[0.5]), "a box has the lower bound NaN and the upper bound 0.5"),
        (ObsSpace::Binary { shape: vec![4, 0] }, "the shape [4, 0] has an extent of 0"),
        (index(&[3], &[4, 0, 4]), "the index bound 0 is not from 1 to 65536"),
        (index(&[], &[65_537]), "the index bound 65537 is not from 1 to 65536"),
        (
            index(&[2, 3], &[4, 5]),
            "indices of shape [2, 3] have 2 bounds; give one, one per element of the last axis, or one per index",
        ),
        (parts(&[]), "the observation has no parts"),
        (parts(&[part("a.b", one())]), "the part \"a.b\" has a name with a dot"),
        (parts(&[part("", one())]), "the part \"\" has no name"),
        (parts(&[part("a", one()), part("a", one())]), "the part \"a\" has the name of another part"),
        (parts(&[part("a", parts(&[part("b", one())]))]), "the part \"a\" has parts, which cannot be nested"),
        (
            parts(&[part("a", ObsSpace::index(0))]),
            "the part \"a\" is invalid: the index bound 0 is not from 1 to 65536",
        ),
    ];
    for (space, expected) in bad {
        let error = builtin().with(Shown(space.clone())).make("shown", &EnvOptions::new());
        let EnvError::Option(error) = error.expect_err("an invalid space") else { panic!("{space:?}") };
        assert_eq!(error, OptionError::Spec { env: "shown".into(), problem: expected.into() });
        assert!(error.to_string().starts_with("shown: ") && error.remedy().contains("`spec`"));
    }
    for space in [one(), index(&[2, 3], &[4, 5, 65_536]), index(&[2], &[1]), index(&[2, 2], &[1, 2, 3, 4])] {
        assert_eq!(space.check(), Ok(()));
    }
}
