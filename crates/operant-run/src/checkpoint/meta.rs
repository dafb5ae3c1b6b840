//! `meta.json`: everything in a checkpoint except its tensors and configuration.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::checksums::{self, Files};
use super::{Checkpoint, CheckpointError, META, SCHEMA, Totals, schema1};

/// The content of `meta.json`; see [`Checkpoint`] for what the fields mean.
#[derive(Debug, Serialize, Deserialize)]
pub struct Meta {
    pub schema: u32,
    /// The version of operant that wrote it.
    operant: String,
    pub env: String,
    pub env_steps: u64,
    pub updates: u64,
    pub train_s: f64,
    pub eval_mean: Option<f64>,
    pub totals: Totals,
    pub counters: BTreeMap<String, u64>,
    /// Names of the snapshot's tensors in their order, which safetensors does not keep.
    pub tensors: Vec<String>,
}

/// The fields that every schema has.
#[derive(Deserialize)]
struct Version {
    schema: u32,
    operant: String,
}

impl Meta {
    pub fn of(checkpoint: &Checkpoint) -> Self {
        Self {
            schema: SCHEMA,
            operant: env!("CARGO_PKG_VERSION").to_owned(),
            env: checkpoint.env.clone(),
            env_steps: checkpoint.env_steps,
            updates: checkpoint.updates,
            train_s: if checkpoint.train_s.is_finite() { checkpoint.train_s } else { 0.0 },
            // NaN and infinities become null, which reads as none.
            eval_mean: checkpoint.eval_mean,
            totals: checkpoint.totals.clone(),
            counters: checkpoint.snapshot.counters.clone(),
            tensors: checkpoint.snapshot.tensors.iter().map(|tensor| tensor.name.clone()).collect(),
        }
    }

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        // Keys are strings and numbers are finite, so this cannot fail.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads it from the files of the checkpoint at `path`.
    pub fn decode(path: &Path, files: &Files) -> Result<Self, CheckpointError> {
        let (path, bytes) = (path.join(META), &files[META]);
        let damaged = |error: serde_json::Error| CheckpointError::damaged(&path, error.to_string());
        let version: Version = serde_json::from_slice(bytes).map_err(damaged)?;
        if version.schema > SCHEMA {
            return Err(CheckpointError::Newer { found: version.schema, operant: version.operant, path });
        }
        if version.schema > 1 {
            return serde_json::from_slice(bytes).map_err(damaged);
        }
        let mut meta: serde_json::Value = serde_json::from_slice(bytes).map_err(damaged)?;
        let totals = serde_json::from_value(meta["totals"].take()).map_err(damaged)?;
        meta["totals"] = serde_json::to_value(schema1::totals(&totals)).map_err(damaged)?;
        serde_json::from_value(meta).map_err(damaged)
    }

    /// Reads it from the checkpoint at `path`, without its other files.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        Self::decode(path, &checksums::read(path, &[META])?)
    }
}
