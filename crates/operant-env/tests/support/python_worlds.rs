//! Worlds that were recorded from examples/worlds/*.py; a test of the Python package keeps the files up to date.

use std::path::Path;

use operant_env::world::{World, WorldEnv};

/// The names of the files, which are names or aliases of the built-in environments that they equal.
#[allow(dead_code)] // not every test needs all
pub const NAMES: [&str; 4] = ["cartpole", "pendulum", "snake", "breakout"];

/// The text of tests/data/NAME.world of operant-env.
pub fn text(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../operant-env/tests/data/{name}.world"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The environment.
pub fn load(name: &str) -> WorldEnv {
    WorldEnv::new(World::from_json(&text(name)).expect("a world"))
}
