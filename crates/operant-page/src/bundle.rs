//! What a page holds beside the program: an environment and a policy.

use std::sync::Arc;

use operant_env::search::Scripted;
use operant_env::world::WorldEnv;
use operant_env::{AnyEnv, EnvOptions, Versus, builtin};
use operant_learn::cpu::inference::Inference;
use operant_learn::network::{Architecture, Network};
use operant_learn::{ObsNorm, TrainedPolicy};
use serde::{Deserialize, Serialize};

/// An environment and a policy, without the weights.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// The environment.
    pub world: World,
    /// The network.
    pub architecture: Architecture,
    /// Normalisation of observations; None without it.
    pub norm: Option<Norm>,
    /// In a game, who plays the other side: `random`, `minimax:DEPTH` or `mcts:PLAYOUTS`; None if the agent plays all sides.
    pub opponent: Option<String>,
}

/// An environment.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum World {
    /// One that is compiled into the program.
    Builtin {
        /// Its name.
        name: String,
        /// Its options.
        options: EnvOptions,
    },
    /// A recorded one, as the text of its file.
    Recorded(String),
}

/// Normalisation of observations. Its numbers follow the weights: shifts, then scales.
#[derive(Debug, Serialize, Deserialize)]
pub struct Norm {
    /// O: real numbers of an observation.
    pub features: usize,
    /// The bits of the bound of a normalised number.
    pub clip: u32,
}

impl World {
    /// The environment.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn make(&self) -> Result<Arc<dyn AnyEnv>, String> {
        match self {
            World::Builtin { name, options } => {
                builtin().make(name, options).map_err(|error| error.to_string())
            }
            World::Recorded(text) => {
                let world = operant_env::world::World::from_json(text.as_bytes());
                Ok(Arc::new(WorldEnv::new(world.map_err(|error| error.to_string())?)))
            }
        }
    }
}

impl Bundle {
    /// The policy with these weights, with which `env` is played.
    ///
    /// # Errors
    /// When there are not as many numbers as the network has.
    pub fn policy(&self, env: &dyn AnyEnv, numbers: &[f32]) -> Result<Inference, String> {
        let spec = env.spec();
        let architecture = Architecture { packing: spec.obs.packing(), ..self.architecture.clone() };
        let network = Network::new(architecture);
        let (weights, features) = (network.len(), self.norm.as_ref().map_or(0, |norm| norm.features));
        if numbers.len() != weights + 2 * features {
            return Err(format!("{} numbers for {weights} weights and {features} features", numbers.len()));
        }
        let (params, statistics) = numbers.split_at(weights);
        let (shift, scale) = statistics.split_at(features);
        let obs_norm = self.norm.as_ref().map(|norm| ObsNorm {
            shift: shift.to_vec(),
            scale: scale.to_vec(),
            clip: f32::from_bits(norm.clip),
        });
        Ok(Inference::new(TrainedPolicy {
            env: spec.name,
            obs: spec.obs,
            actions: spec.actions,
            masked: env.masked(),
            network,
            params: params.to_vec(),
            obs_norm,
        }))
    }

    /// What the agent plays: the environment, or a game against its opponent.
    ///
    /// # Errors
    /// When there is no opponent of that name.
    pub fn opposed(&self, env: &Arc<dyn AnyEnv>) -> Result<Arc<dyn AnyEnv>, String> {
        let Some(who) = &self.opponent else { return Ok(Arc::clone(env)) };
        let scripted: Scripted = who.parse().map_err(|()| format!("there is no opponent \"{who}\""))?;
        Ok(Arc::new(Versus::new(Arc::clone(env), scripted.opponent())))
    }
}
