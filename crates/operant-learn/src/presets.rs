//! The hyperparameters that ship with operant, as TOML text: one file per environment over the defaults of [`crate::Config`]. Its
//! table `[gpu]` holds what replaces the rest of the file on a GPU, where environments are many and few updates suffice.

/// Every preset by the environment's name.
const PRESETS: &[(&str, &str)] = &[
    ("cartpole", include_str!("../presets/cartpole.toml")),
    ("mountain_car", include_str!("../presets/mountain_car.toml")),
    ("mountain_car_continuous", include_str!("../presets/mountain_car_continuous.toml")),
    ("pendulum", include_str!("../presets/pendulum.toml")),
    ("acrobot", include_str!("../presets/acrobot.toml")),
    ("minatar_breakout", include_str!("../presets/minatar_breakout.toml")),
];

/// Name of the table that lies over a preset when a GPU trains.
pub const GPU_TABLE: &str = "gpu";

/// The preset of an environment, if it ships with one.
pub fn preset(env_name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(name, _)| *name == env_name).map(|(_, text)| *text)
}

/// The environments that ship with a preset.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The environments whose preset has a part for GPUs.
pub fn names_with_gpu() -> impl Iterator<Item = &'static str> {
    let has_table = |text: &str| text.lines().any(|line| line.trim() == format!("[{GPU_TABLE}]"));
    PRESETS.iter().filter(move |(_, text)| has_table(text)).map(|(name, _)| *name)
}
