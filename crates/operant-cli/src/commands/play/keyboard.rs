//! Maps keys to actions.

use operant_env::{ActionSpace, EnvSpec};
use operant_monitor::player::Key;
use operant_run::Error;

/// The key bindings of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Keyboard {
    /// Keys and their actions, arrows first.
    keys: Vec<(Key, f32)>,
    /// The actions of the digit keys that have no arrow key, for the bottom line.
    digits: String,
    /// The action while no key is pressed; `None` if every step waits for a key.
    pub idle: Option<f32>,
}

/// The arrow key of an action's name.
fn arrow(name: &str) -> Option<Key> {
    Some(match name {
        "left" | "west" => Key::Left,
        "right" | "east" => Key::Right,
        "up" | "north" | "forward" => Key::Up,
        "down" | "south" => Key::Down,
        _ => return None,
    })
}

impl Keyboard {
    /// The key bindings for an environment with one discrete action of at most ten choices, or one real number.
    ///
    /// A digit selects the action with that number. The arrow keys, and the action while no key is pressed, follow from
    /// the names of the actions ([`EnvSpec::action_names`]).
    pub fn of(spec: &EnvSpec) -> Result<Self, Error> {
        let refused = |what: String| {
            Err(Error::usage(format!("{} cannot be played with the keyboard: {what}", spec.name))
                .remedy("remove --keyboard to show random actions or a run's agent"))
        };
        match &spec.actions {
            ActionSpace::Discrete(choices) if choices.len() == 1 && choices[0] <= 10 => {
                Ok(Self::of_choices(choices[0], &spec.action_names))
            }
            ActionSpace::Box { low, high } if low.len() == 1 => {
                let (low, high) = (low[0] as f32, high[0] as f32);
                let nine = (0..10).map(|i| (Key::Digit(i), low + (high - low) * f32::from(i) / 9.0));
                let keys = [(Key::Left, low), (Key::Right, high)].into_iter().chain(nine).collect();
                let digits = format!("0-9: {low} to {high}");
                Ok(Keyboard { keys, digits, idle: Some(0.0f32.clamp(low, high)) })
            }
            ActionSpace::Discrete(choices) if choices.len() == 1 => {
                refused(format!("it has {} actions, more than the ten digit keys", choices[0]))
            }
            ActionSpace::Discrete(choices) => refused(format!("an action has {} components", choices.len())),
            ActionSpace::Box { low, .. } => refused(format!("an action has {} components", low.len())),
        }
    }

    fn of_choices(count: usize, names: &[String]) -> Self {
        let named = || names.iter().take(count).enumerate();
        let is_idle = |name: &str| matches!(name, "none" | "stay");
        let arrows = named().filter_map(|(i, name)| Some((arrow(name)?, i as f32)));
        let all = (0..count).map(|i| (Key::Digit(i as u8), i as f32));
        let others: Vec<String> = named()
            .filter(|(_, name)| arrow(name).is_none() && !is_idle(name))
            .map(|(i, name)| format!("{i} {name}"))
            .collect();
        let digits = match names.is_empty() {
            true => format!("0-{}", count.saturating_sub(1)),
            false => others.join("  "),
        };
        let idle = named().find(|(_, name)| is_idle(name)).map(|(i, _)| i as f32);
        Keyboard { keys: arrows.chain(all).collect(), digits, idle }
    }

    /// The action of a key; `None` if the key has no action.
    pub fn action(&self, key: Key) -> Option<f32> {
        self.keys.iter().find(|(known, _)| *known == key).map(|(_, action)| *action)
    }

    /// The arrow keys in use, and the actions of digits that no arrow has: `← → ↑  3 pick up  4 drop`.
    pub fn shown(&self, unicode: bool) -> String {
        let arrows = self.keys.iter().filter(|(key, _)| !matches!(key, Key::Digit(_)));
        let arrows: Vec<String> = arrows.map(|(key, _)| key.label(unicode)).collect();
        let parts = [arrows.join(" "), self.digits.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(actions: ActionSpace, names: &[&str]) -> Result<Keyboard, Error> {
        let action_names = names.iter().map(ToString::to_string).collect();
        Keyboard::of(&EnvSpec { name: "world".into(), actions, action_names, ..EnvSpec::default() })
    }

    fn discrete(count: usize, names: &[&str]) -> Keyboard {
        of(ActionSpace::Discrete(vec![count]), names).expect("keys")
    }

    #[test]
    fn arrows_follow_the_names_and_digits_the_numbers() {
        let cartpole = discrete(2, &["left", "right"]);
        assert_eq!((cartpole.shown(true).as_str(), cartpole.idle), ("← →", None));
        assert_eq!(cartpole.shown(false), "Left Right");
        let taxi = discrete(6, &["south", "north", "east", "west", "pick up", "drop off"]);
        assert_eq!(taxi.shown(true), "↓ ↑ → ←  4 pick up  5 drop off");
        assert_eq!(
            (taxi.action(Key::Left), taxi.action(Key::Digit(5)), taxi.idle),
            (Some(3.0), Some(5.0), None)
        );
        let pong = discrete(3, &["stay", "up", "down"]);
        assert_eq!((pong.action(Key::Up), pong.action(Key::Left), pong.idle), (Some(1.0), None, Some(0.0)));
        let unnamed = discrete(10, &[]);
        assert_eq!((unnamed.shown(true).as_str(), unnamed.idle), ("0-9", None));
        assert_eq!((unnamed.action(Key::Left), unnamed.action(Key::Digit(9))), (None, Some(9.0)));
        let real = of(ActionSpace::Box { low: vec![-2.0], high: vec![2.0] }, &[]).expect("keys");
        assert_eq!(
            (real.action(Key::Left), real.action(Key::Digit(9)), real.idle),
            (Some(-2.0), Some(2.0), Some(0.0))
        );
        assert_eq!(real.shown(true), "← →  0-9: -2 to 2");
    }

    #[test]
    fn every_built_in_environment_with_one_small_choice_has_keys() {
        for spec in operant_env::builtin().specs() {
            let ActionSpace::Discrete(choices) = &spec.actions else { continue };
            let line = format!(
                " q quit  space continue  n next  {}",
                Keyboard::of(&spec).map_or(String::new(), |keys| keys.shown(true))
            );
            assert!(choices[0] > 10 || Keyboard::of(&spec).is_ok(), "{}", spec.name);
            assert!(line.chars().count() <= 80, "{}: {line}", spec.name);
        }
    }

    #[test]
    fn actions_that_keys_cannot_select_are_refused() {
        for actions in [
            ActionSpace::Discrete(vec![11]),
            ActionSpace::Discrete(vec![2, 2]),
            ActionSpace::Box { low: vec![0.0; 4], high: vec![1.0; 4] },
        ] {
            let error = of(actions, &[]).expect_err("refused");
            assert!(
                error.exit_code() == 2 && error.what.starts_with("world cannot be played with the keyboard")
            );
        }
    }
}
