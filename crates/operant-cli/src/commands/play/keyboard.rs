//! Maps keys to actions.

use operant_env::keys::{self, Keys};
use operant_env::{ActionSpace, EnvSpec};
use operant_monitor::player::Key;
use operant_run::Error;

/// The key bindings of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Keyboard {
    /// Keys and their actions, arrows first.
    keys: Vec<(Key, f32)>,
    /// The actions that have no arrow key, with their keys, for the bottom lines.
    others: Vec<String>,
    /// The action while no key is pressed; `None` if every step waits for a key.
    pub idle: Option<f32>,
}

/// The key of a terminal.
fn of_terminal(key: keys::Key) -> Key {
    match key {
        keys::Key::Left => Key::Left,
        keys::Key::Right => Key::Right,
        keys::Key::Up => Key::Up,
        keys::Key::Down => Key::Down,
        keys::Key::Number(number) => Key::Number(number),
    }
}

impl Keyboard {
    /// The key bindings for an environment that has [`Keys`]. If it `waits`, every step waits for a key.
    pub fn of(spec: &EnvSpec, waits: bool) -> Result<Self, Error> {
        let keys = Keys::of(spec, waits).map_err(|what| {
            Error::usage(format!("{} cannot be played with the keyboard: {what}", spec.name))
                .remedy("remove --keyboard to show random actions or a run's agent")
        })?;
        let others = match &spec.actions {
            ActionSpace::Box { low, high } => vec![format!("0-9: {} to {}", low[0] as f32, high[0] as f32)],
            ActionSpace::Discrete(choices) => Self::others(choices[0], &spec.action_names, &keys),
        };
        let Keys { actions, idle } = keys;
        let keys = actions.into_iter().map(|(key, action)| (of_terminal(key), action)).collect();
        Ok(Keyboard { keys, others, idle })
    }

    /// The actions that are chosen by a number.
    fn others(count: usize, names: &[String], keys: &Keys) -> Vec<String> {
        let label = |i: usize| Key::Number(i as u8).label(true);
        if names.is_empty() {
            return vec![format!("0-{}", label(count.saturating_sub(1)))];
        }
        let by_number = |i: &usize| !keys.has_arrow(*i as f32) && keys.idle != Some(*i as f32);
        let named = (0..count.min(names.len())).filter(by_number);
        named.map(|i| format!("{} {}", label(i), names[i])).collect()
    }

    /// The action of a key; `None` if the key has no action.
    pub fn action(&self, key: Key) -> Option<f32> {
        self.keys.iter().find(|(known, _)| *known == key).map(|(_, action)| *action)
    }

    /// The arrow keys in use, and the actions that no arrow has: `← → ↑`, `3 pick up`, `4 drop`.
    pub fn shown(&self, unicode: bool) -> Vec<String> {
        let arrows = self.keys.iter().filter(|(key, _)| !matches!(key, Key::Number(_)));
        let arrows: Vec<String> = arrows.map(|(key, _)| key.label(unicode)).collect();
        let shown = [arrows.join(" ")].into_iter().chain(self.others.clone());
        shown.filter(|part| !part.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(actions: ActionSpace, names: &[&str]) -> Result<Keyboard, Error> {
        let action_names = names.iter().map(ToString::to_string).collect();
        Keyboard::of(&EnvSpec { name: "world".into(), actions, action_names, ..EnvSpec::default() }, false)
    }

    fn discrete(count: usize, names: &[&str]) -> Keyboard {
        of(ActionSpace::Discrete(vec![count]), names).expect("keys")
    }

    #[test]
    fn arrows_follow_the_names_and_digits_the_numbers() {
        let shown = |keyboard: &Keyboard, unicode| keyboard.shown(unicode).join("  ");
        let cartpole = discrete(2, &["left", "right"]);
        assert_eq!((shown(&cartpole, true).as_str(), cartpole.idle), ("← →", None));
        assert_eq!(shown(&cartpole, false), "Left Right");
        let taxi = discrete(6, &["south", "north", "east", "west", "pick up", "drop off"]);
        assert_eq!(shown(&taxi, true), "↓ ↑ → ←  4 pick up  5 drop off");
        assert_eq!(
            (taxi.action(Key::Left), taxi.action(Key::Number(5)), taxi.idle),
            (Some(3.0), Some(5.0), None)
        );
        let pong = discrete(3, &["stay", "up", "down"]);
        assert_eq!((pong.action(Key::Up), pong.action(Key::Left), pong.idle), (Some(1.0), None, Some(0.0)));
        let unnamed = discrete(10, &[]);
        assert_eq!((shown(&unnamed, true).as_str(), unnamed.idle), ("0-9", None));
        assert_eq!((unnamed.action(Key::Left), unnamed.action(Key::Number(9))), (None, Some(9.0)));
        let real = of(ActionSpace::Box { low: vec![-2.0], high: vec![2.0] }, &[]).expect("keys");
        assert_eq!(
            (real.action(Key::Left), real.action(Key::Number(9)), real.idle),
            (Some(-2.0), Some(2.0), Some(0.0))
        );
        assert_eq!(shown(&real, true), "← →  0-9: -2 to 2");
    }

    #[test]
    fn every_built_in_environment_with_one_small_choice_has_keys() {
        for spec in operant_env::builtin().specs() {
            let ActionSpace::Discrete(choices) = &spec.actions else { continue };
            let keys = Keyboard::of(&spec, false);
            assert!(choices[0] > Key::NUMBERS || keys.is_ok(), "{}", spec.name);
            let shown = keys.map_or(String::new(), |keys| keys.shown(true).join("  "));
            let lines = if choices[0] > 10 { 3 } else { 1 };
            let length = " q quit  space continue  n next  ".len() + shown.chars().count();
            assert!(length <= 80 * lines, "{}: {shown}", spec.name);
        }
    }

    #[test]
    fn letters_select_actions_from_ten_on() {
        let craftax = operant_env::builtin().find("craftax_classic").expect("built in").spec();
        let keys = Keyboard::of(&craftax, false).expect("keys");
        let shown = keys.shown(true);
        assert_eq!((shown[0].as_str(), shown[1].as_str(), keys.idle), ("← → ↑ ↓", "5 do", Some(0.0)));
        assert_eq!(shown[6..8], ["a place plant", "b make wood pickaxe"]);
        assert_eq!(
            (keys.action(Key::Number(16)), shown.last().map(String::as_str)),
            (Some(16.0), Some("g make iron sword"))
        );
        let turns = Keyboard::of(&craftax, true).expect("keys");
        assert_eq!(
            (turns.idle, turns.shown(true)[1].as_str(), turns.action(Key::Number(0))),
            (None, "0 none", Some(0.0))
        );
        // n and q control the window.
        let many = discrete(Key::NUMBERS, &["x"; Key::NUMBERS]);
        let used: Vec<char> = many.shown(true).iter().filter_map(|key| key.chars().next()).collect();
        assert!(used.len() == 34 && !used.contains(&'n') && !used.contains(&'q'), "{used:?}");
    }

    #[test]
    fn actions_that_keys_cannot_select_are_refused() {
        for actions in [
            ActionSpace::Discrete(vec![Key::NUMBERS + 1]),
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
