//! The defaults under every environment's preset, as TOML text. A preset is part of its environment
//! ([`operant_env::EnvSpec::preset`]); its table `[gpu]` holds what replaces the rest of it on a GPU, where environments are many
//! and few updates suffice.

/// CleanRL's defaults, which lie under every preset and serve environments that have none.
pub const DEFAULTS: &str = include_str!("../presets/defaults.toml");

/// Name of the table that lies over a preset when a GPU trains.
pub const GPU_TABLE: &str = "gpu";

/// Whether a preset has a part for GPUs.
pub fn has_gpu(preset: &str) -> bool {
    preset.lines().any(|line| line.trim() == format!("[{GPU_TABLE}]"))
}
