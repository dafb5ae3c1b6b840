//! The keys with which a person plays an environment.

use crate::spec::{ActionSpace, EnvSpec};

/// A key, whatever its name on a keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// An arrow.
    Left,
    /// An arrow.
    Right,
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// The key of the action with this number: one of [`Keys::NUMBERS`].
    Number(u8),
}

/// The keys of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Keys {
    /// Keys and their actions, arrows first.
    pub actions: Vec<(Key, f32)>,
    /// The action while no key is pressed; None if every step waits for a key.
    pub idle: Option<f32>,
}

/// The arrow of an action's name.
fn arrow(name: &str) -> Option<Key> {
    Some(match name {
        "left" | "west" => Key::Left,
        "right" | "east" => Key::Right,
        "up" | "north" | "forward" => Key::Up,
        "down" | "south" => Key::Down,
        _ => return None,
    })
}

impl Keys {
    /// The keys of numbers: digits, then letters without n and q, which have other meanings.
    pub const NUMBERS: &str = "0123456789abcdefghijklmoprstuvwxyz";

    /// The keys of an environment with one discrete action of at most as many choices as [`Keys::NUMBERS`], or with one real number.
    ///
    /// A digit selects the action with that number, a letter one from 10 on. The arrow keys, and the action while no key is pressed, follow
    /// from the names of the actions ([`EnvSpec::action_names`]). If it `waits`, there is no such action: every step waits for a key.
    ///
    /// # Errors
    /// Why it has none.
    pub fn of(spec: &EnvSpec, waits: bool) -> Result<Self, String> {
        match &spec.actions {
            ActionSpace::Discrete(choices) if choices.len() == 1 && choices[0] <= Self::NUMBERS.len() => {
                Ok(Self::of_choices(choices[0], &spec.action_names, waits))
            }
            ActionSpace::Box { low, high } if low.len() == 1 => {
                let (low, high) = (low[0] as f32, high[0] as f32);
                let nine = (0..10).map(|i| (Key::Number(i), low + (high - low) * f32::from(i) / 9.0));
                let actions = [(Key::Left, low), (Key::Right, high)].into_iter().chain(nine).collect();
                Ok(Keys { actions, idle: (!waits).then_some(0.0f32.clamp(low, high)) })
            }
            ActionSpace::Discrete(choices) if choices.len() == 1 => {
                Err(format!("it has {} actions, more than the {} keys", choices[0], Self::NUMBERS.len()))
            }
            ActionSpace::Discrete(choices) => Err(format!("an action has {} components", choices.len())),
            ActionSpace::Box { low, .. } => Err(format!("an action has {} components", low.len())),
        }
    }

    fn of_choices(count: usize, names: &[String], waits: bool) -> Self {
        let named = || names.iter().take(count).enumerate();
        let arrows = named().filter_map(|(i, name)| Some((arrow(name)?, i as f32)));
        let all = (0..count).map(|i| (Key::Number(i as u8), i as f32));
        let idle = named().find(|(_, name)| !waits && matches!(name.as_str(), "none" | "stay"));
        Keys { actions: arrows.chain(all).collect(), idle: idle.map(|(i, _)| i as f32) }
    }

    /// Whether an arrow has the action.
    pub fn has_arrow(&self, action: f32) -> bool {
        self.actions.iter().any(|(key, of)| *of == action && !matches!(key, Key::Number(_)))
    }
}
