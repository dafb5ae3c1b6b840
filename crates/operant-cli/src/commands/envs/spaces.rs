//! Describes spaces in words and as JSON.

use operant_env::{ActionSpace, ObsSpace};
use serde_json::{Value, json};

/// The observation space in a few words.
pub fn observations(space: &ObsSpace) -> String {
    match space {
        ObsSpace::Box { low, .. } if low.len() == 1 => "1 real".to_owned(),
        ObsSpace::Box { low, .. } => format!("{} reals", low.len()),
        ObsSpace::Binary { shape } => format!("{} bits", by(shape)),
        ObsSpace::Bytes { shape } => format!("{} bytes", by(shape)),
        ObsSpace::Index { shape, below } if shape.is_empty() => format!("1 of {}", below[0]),
        ObsSpace::Index { shape, .. } => format!("{} indices", by(shape)),
        ObsSpace::Parts(parts) => {
            let parts: Vec<String> =
                parts.iter().map(|(name, part)| format!("{name} {}", observations(part))).collect();
            parts.join(", ")
        }
    }
}

/// A shape as `10x10x4`.
fn by(shape: &[usize]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

/// The action space in a few words.
pub fn actions(space: &ActionSpace) -> String {
    match space {
        ActionSpace::Discrete(choices) if choices.len() == 1 => format!("{} choices", choices[0]),
        ActionSpace::Discrete(choices) => {
            let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
            format!("{} choices", choices.join("x"))
        }
        ActionSpace::Box { low, high } if low.len() == 1 => format!("1 real, {} to {}", low[0], high[0]),
        ActionSpace::Box { low, .. } => format!("{} reals", low.len()),
    }
}

/// The observation space as JSON. Infinite bounds become null, since JSON has no infinity.
pub fn obs_to_json(space: &ObsSpace) -> Value {
    match space {
        ObsSpace::Box { low, high } => json!({"type": "box", "shape": [low.len()], "low": low, "high": high}),
        ObsSpace::Binary { shape } => json!({"type": "binary", "shape": shape}),
        ObsSpace::Index { shape, below } => json!({"type": "index", "shape": shape, "below": below}),
        ObsSpace::Bytes { shape } => json!({"type": "bytes", "shape": shape}),
        ObsSpace::Parts(parts) => {
            let parts: Vec<Value> =
                parts.iter().map(|(name, part)| json!({"name": name, "space": obs_to_json(part)})).collect();
            json!({"type": "parts", "parts": parts})
        }
    }
}

/// The action space as JSON.
pub fn actions_to_json(space: &ActionSpace) -> Value {
    match space {
        ActionSpace::Discrete(choices) if choices.len() == 1 => json!({"type": "discrete", "n": choices[0]}),
        ActionSpace::Discrete(choices) => json!({"type": "multi_discrete", "n": choices}),
        ActionSpace::Box { low, high } => {
            json!({"type": "box", "shape": [low.len()], "low": low, "high": high})
        }
    }
}
