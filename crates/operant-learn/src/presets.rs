//! Presets: hyperparameters for one environment as TOML text, over the defaults of [`crate::Config`]. A preset is part of its environment
//! ([`operant_env::EnvSpec::preset`]); its table `[gpu]` overrides the rest on a GPU, where there are many environments and few
//! updates suffice.

/// Name of the table that overrides a preset when a GPU trains.
pub const GPU_TABLE: &str = "gpu";

/// Whether a preset has overrides for GPUs.
pub fn has_gpu(preset: &str) -> bool {
    preset.lines().any(|line| line.trim() == format!("[{GPU_TABLE}]"))
}
