//! The specifications say what lists and readers need.

use operant_env::{ActionSpace, EnvSpec, ObsSpace, builtin};

#[test]
fn every_world_is_described() {
    let specs = builtin().specs();
    for spec in &specs {
        let texts = [&spec.family, &spec.summary, &spec.rules, &spec.reference];
        assert!(texts.iter().all(|text| !text.is_empty()), "{}", spec.name);
        assert_eq!(spec.check(), Ok(()));
        assert!(spec.obs_names_text().is_some(), "{}: what do observations mean?", spec.name);
        if let Some(base) = &spec.variant_of {
            assert!(specs.iter().any(|other| other.name == *base), "{} is a variant of {base}", spec.name);
        }
        let count = spec.obs_names.len();
        match &spec.obs {
            ObsSpace::Binary { shape } => assert_eq!(Some(&count), shape.last(), "{}", spec.name),
            ObsSpace::Box { low, .. } if spec.family != "flight" => {
                assert_eq!(count, low.len(), "{}", spec.name)
            }
            _ => {}
        }
    }
}

#[test]
fn actions_have_names() {
    for EnvSpec { name, actions, action_names, .. } in builtin().specs() {
        match actions {
            ActionSpace::Discrete(choices) if choices.len() == 1 => {
                let is_unnamed = choices[0] > 10 && action_names.is_empty();
                assert!(is_unnamed || action_names.len() == choices[0], "{name}: {action_names:?}");
            }
            _ => assert!(action_names.is_empty(), "{name}: {action_names:?}"),
        }
    }
}

#[test]
fn time_limits_that_no_episode_reaches_are_not_numbers() {
    let text = |time_limit| EnvSpec { time_limit, ..EnvSpec::default() }.time_limit_text();
    assert_eq!([text(500), text(u32::MAX - 1), text(u32::MAX)], ["500 steps", "none", "none"]);
    assert_eq!(EnvSpec::default().time_limit_text(), "none");
}

#[test]
fn no_two_worlds_share_a_name() {
    let mut seen = std::collections::HashMap::new();
    for spec in builtin().specs() {
        for name in spec.aliases.iter().chain([&spec.name]) {
            let before = seen.insert(name.clone(), spec.name.clone());
            assert_eq!(before, None, "{name} is {} too", spec.name);
        }
    }
}
