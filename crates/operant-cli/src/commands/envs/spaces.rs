//! Describes spaces in words and as JSON.

use operant_env::{ActionSpace, ObsSpace};
use serde_json::{Value, json};

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
