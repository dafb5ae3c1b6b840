//! Maps keys to actions.

use operant_env::{ActionSpace, EnvSpec};
use operant_monitor::player::Key;
use operant_run::Error;

/// The key bindings of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Keyboard {
    /// Keys and their actions, arrows first.
    keys: Vec<(Key, f32)>,
    /// The action while no key is pressed; `None` if every step waits for a key.
    pub idle: Option<f32>,
}

impl Keyboard {
    /// The key bindings for an environment with one discrete action of at most ten choices, or one real number.
    ///
    /// Environments do not name their actions. The arrow keys follow the action orders of Gymnasium's and MinAtar's
    /// environments. Two actions: left, right. Three: left, none, right. Four: left, down, right, up. Five and six:
    /// none, left, up, right, down. Seven: left, right, up, as in MiniGrid. A digit selects the action with that
    /// number.
    ///
    /// # Errors
    /// When the keyboard cannot select the actions of the environment.
    pub fn of(spec: &EnvSpec) -> Result<Self, Error> {
        use Key::{Down, Left, Right, Up};
        let digits = |count: usize| (0..count).map(|i| (Key::Digit(i as u8), i as f32));
        let refused = |what: String| {
            Err(Error::usage(format!("{} cannot be played with keys: {what}", spec.name))
                .remedy("leave --keyboard out, and random actions or a run's agent play it"))
        };
        match &spec.actions {
            ActionSpace::Discrete(choices) if choices.len() == 1 && choices[0] <= 10 => {
                let count = choices[0];
                let arrows: &[(Key, f32)] = match count {
                    2 => &[(Left, 0.0), (Right, 1.0)],
                    3 => &[(Left, 0.0), (Down, 1.0), (Right, 2.0)],
                    4 => &[(Left, 0.0), (Down, 1.0), (Right, 2.0), (Up, 3.0)],
                    5 | 6 => &[(Left, 1.0), (Up, 2.0), (Right, 3.0), (Down, 4.0)],
                    7 => &[(Left, 0.0), (Right, 1.0), (Up, 2.0)],
                    _ => &[],
                };
                let idle = match count {
                    3 => Some(1.0),
                    5 | 6 => Some(0.0),
                    _ => None,
                };
                Ok(Keyboard { keys: arrows.iter().copied().chain(digits(count)).collect(), idle })
            }
            ActionSpace::Box { low, high } if low.len() == 1 => {
                let (low, high) = (low[0] as f32, high[0] as f32);
                let nine = (0..10).map(|i| (Key::Digit(i), low + (high - low) * f32::from(i) / 9.0));
                let keys = [(Left, low), (Right, high)].into_iter().chain(nine).collect();
                Ok(Keyboard { keys, idle: Some(0.0f32.clamp(low, high)) })
            }
            ActionSpace::Discrete(choices) if choices.len() == 1 => {
                refused(format!("it has {} actions, and there are ten digits", choices[0]))
            }
            ActionSpace::Discrete(choices) => {
                refused(format!("an action is {} choices at once", choices.len()))
            }
            ActionSpace::Box { low, .. } => refused(format!("an action is {} numbers at once", low.len())),
        }
    }

    /// The action of a key; `None` if the key has no action.
    pub fn action(&self, key: Key) -> Option<f32> {
        self.keys.iter().find(|(known, _)| *known == key).map(|(_, action)| *action)
    }

    /// `← 0  → 1  0-1`, with the numbers of the actions.
    pub fn shown(&self, unicode: bool) -> String {
        let is_digit = |key: &Key| matches!(key, Key::Digit(_));
        let arrows = self.keys.iter().filter(|(key, _)| !is_digit(key));
        let mut parts: Vec<String> =
            arrows.map(|(key, action)| format!("{} {action}", key.label(unicode))).collect();
        let digits: Vec<&(Key, f32)> = self.keys.iter().filter(|(key, _)| is_digit(key)).collect();
        if let (Some((_, low)), Some((_, high))) = (digits.first(), digits.last()) {
            let last = digits.len() - 1;
            let same = (*low, *high) == (0.0, last as f32);
            parts.push(if same { format!("0-{last}") } else { format!("0-{last}: {low} to {high}") });
        }
        parts.join("  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(actions: ActionSpace) -> Result<Keyboard, Error> {
        Keyboard::of(&EnvSpec { name: "world".into(), actions, ..EnvSpec::default() })
    }

    #[test]
    fn arrows_and_digits_are_actions_and_say_so() {
        let discrete = |count| of(ActionSpace::Discrete(vec![count])).expect("keys");
        assert_eq!(discrete(2).shown(true), "← 0  → 1  0-1");
        assert_eq!(discrete(2).shown(false), "Left 0  Right 1  0-1");
        assert_eq!((discrete(2).idle, discrete(3).idle, discrete(6).idle), (None, Some(1.0), Some(0.0)));
        assert_eq!(discrete(6).action(Key::Up), Some(2.0));
        assert_eq!((discrete(6).action(Key::Digit(5)), discrete(6).action(Key::Digit(6))), (Some(5.0), None));
        assert_eq!(discrete(10).shown(true), "0-9");
        let real = of(ActionSpace::Box { low: vec![-2.0], high: vec![2.0] }).expect("keys");
        assert_eq!(
            (real.action(Key::Left), real.action(Key::Digit(9)), real.idle),
            (Some(-2.0), Some(2.0), Some(0.0))
        );
        assert_eq!(real.shown(true), "← -2  → 2  0-9: -2 to 2");
    }

    #[test]
    fn actions_that_keys_cannot_give_are_refused() {
        for actions in [
            ActionSpace::Discrete(vec![11]),
            ActionSpace::Discrete(vec![2, 2]),
            ActionSpace::Box { low: vec![0.0; 4], high: vec![1.0; 4] },
        ] {
            let error = of(actions).expect_err("refused");
            assert!(error.exit_code() == 2 && error.what.starts_with("world cannot be played with keys"));
        }
    }
}
