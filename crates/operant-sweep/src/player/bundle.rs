//! What a page plays: an environment and a policy.

use operant_env::search::Scripted;
use operant_env::{AnyEnv, EnvOptions, OptionValues, builtin};
use operant_page::{Bundle, Norm, World};
use operant_run::{Error, Result, SavedPolicy};

/// An environment and a policy with its weights.
pub struct Packed {
    /// All but the weights.
    pub bundle: Bundle,
    /// The weights, and the statistics of observations: 32-bit floats, little-endian.
    pub numbers: Vec<u8>,
}

impl Packed {
    /// Those of a saved policy.
    ///
    /// # Errors
    /// When a page cannot play its environment.
    pub fn of(saved: &SavedPolicy) -> Result<Self> {
        let policy = &saved.policy.for_playing();
        let mut numbers = policy.params.clone();
        let norm = policy.obs_norm.as_ref().map(|norm| {
            numbers.extend(norm.shift.iter().chain(&norm.scale));
            Norm { features: norm.shift.len(), clip: norm.clip.to_bits() }
        });
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err(Error::usage("the policy has numbers that are not finite")
                .remedy("export an earlier checkpoint: RUN@STEP"));
        }
        if opponent(saved).is_none() && saved.env.spec().players > 1 && policy.network.states > 0 {
            return Err(Error::usage(
                "a page has one memory, and the agent plays both sides of the game, each with its own",
            )
            .remedy(
                "watch it in a terminal with `operant play`, or against another player with --opponent",
            ));
        }
        let bundle = Bundle {
            world: world(&*saved.env, &saved.env_options)?,
            architecture: policy.network.architecture.clone(),
            norm,
            opponent: opponent(saved),
        };
        Ok(Self { bundle, numbers: numbers.iter().flat_map(|number| number.to_le_bytes()).collect() })
    }
}

/// The environment: one that the runtime has, or a recording.
fn world(env: &dyn AnyEnv, options: &EnvOptions) -> Result<World> {
    let spec = env.spec();
    let refused = |why: &str| Error::usage(format!("{} cannot be played in a page: {why}", spec.name));
    if env.leaves().is_empty() {
        return Err(refused("Gymnasium environments run in Python")
            .remedy("record a film in Python; `operant export --onnx` and `--c` write the policy alone"));
    }
    if let Some(text) = env.file() {
        return Ok(World::Recorded(text));
    }
    // A page reads no files.
    let is_path = |name: &String| {
        spec.options.iter().any(|option| option.name == *name && option.values == OptionValues::Path)
    };
    let has_file = options.iter().any(|(name, value)| is_path(name) && !value.text().is_empty());
    let own = builtin().make(&spec.name, options).ok().filter(|_| !has_file);
    let recording = env.world();
    // Another program may have an environment of its own under this name.
    if own.is_some_and(|own| own.world() == recording) {
        return Ok(World::Builtin { name: spec.name.clone(), options: options.clone() });
    }
    recording.map(|world| World::Recorded(world.to_json())).ok_or_else(|| {
        refused("it is part of another program and cannot be recorded")
            .remedy("`operant export --onnx` and `--c` write the policy alone")
    })
}

/// Who plays the other side of a game; a policy of another run does not travel with this one, which then plays all sides.
pub fn opponent(saved: &SavedPolicy) -> Option<String> {
    saved.opponent.clone().filter(|who| who.parse::<Scripted>().is_ok())
}
