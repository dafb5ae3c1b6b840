//! Files of worlds: JSON with a version. They hold numbers and the names of operations, no code.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Problem, World};

/// The version of the format.
pub const VERSION: u32 = 1;

/// Size limit of a file.
pub const MAX_FILE: u64 = 64 << 20;

/// A world cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// It is not of this format, or damaged.
    #[error("it is not a world: {0}")]
    NoWorld(#[from] serde_json::Error),
    /// It was written by a later version.
    #[error("it has version {0} of the format; this program reads up to {VERSION}, so update operant")]
    Later(u32),
    /// Its content is inconsistent.
    #[error("it is damaged: {0}")]
    Damaged(#[from] Problem),
}

#[derive(Serialize)]
struct Written<'a> {
    operant_world: u32,
    #[serde(flatten)]
    world: &'a World,
}

#[derive(Deserialize)]
struct Version {
    operant_world: u32,
}

impl World {
    /// The text of a file.
    pub fn to_json(&self) -> String {
        let written = Written { operant_world: VERSION, world: self };
        serde_json::to_string(&written).expect("numbers and texts")
    }

    /// The world of the text of a file.
    ///
    /// # Errors
    /// When it is not the text of a world.
    pub fn from_json(text: &[u8]) -> Result<Self, LoadError> {
        let Version { operant_world } = serde_json::from_slice(text)?;
        if operant_world > VERSION {
            return Err(LoadError::Later(operant_world));
        }
        let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(text)?;
        fields.remove("operant_world");
        let world: World = serde_json::from_value(fields.into())?;
        Ok(world.checked()?)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or is not a world.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        Self::from_json(&operant_metrics::read_file(path, MAX_FILE)?)
    }

    /// A hash of what the world computes, which checkpoints hold (FNV-1a). Names and descriptions do not count.
    pub(super) fn content(&self) -> u64 {
        // Metrics change neither the rules nor what a policy sees.
        let World { spec, leaves, reset, ahead, step, observe, legal, .. } = self;
        let [reset, step, observe] = [reset, step, observe].map(|function| function.unnamed());
        let legal = legal.as_ref().map(|function| function.unnamed());
        let parts = (&spec.obs, &spec.actions, leaves, reset, step, observe, legal);
        let mut text = serde_json::to_string(&parts).expect("numbers and texts");
        if *ahead {
            text.push_str("ahead");
        }
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, hash)
    }
}
