//! A trained policy without its training: weights, observation statistics and spaces, as a checkpoint holds them.

use operant_env::{ActionSpace, AnyEnv, EnvSpec, ObsSpace};

use crate::backend::LearnError;
use crate::config::Config;
use crate::network::{Architecture, Network};
use crate::snapshot::Snapshot;
use crate::state::{check_content, read_norm, read_params};

/// A policy and value network with the statistics and bounds that it is used with.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainedPolicy {
    /// The environment's name.
    pub env: String,
    /// Its observation space.
    pub obs: ObsSpace,
    /// Its action space; the bounds of a box clip the actions.
    pub actions: ActionSpace,
    /// Whether the environment has action masks.
    pub masked: bool,
    /// The layers.
    pub network: Network,
    /// Flat parameters, laid out by `network`.
    pub params: Vec<f32>,
    /// Normalisation of observations; None without it.
    pub obs_norm: Option<ObsNorm>,
}

/// A normalised feature is `(x - shift) * scale`, clipped to `[-clip, clip]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ObsNorm {
    /// `(O)`: means.
    pub shift: Vec<f32>,
    /// `(O)`: reciprocal standard deviations.
    pub scale: Vec<f32>,
    /// The bound.
    pub clip: f32,
}

/// A named array of floats of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyTensor {
    /// Such as `actor.0.weight`, `log_std`, `obs_norm.shift` or `action_low`.
    pub name: String,
    /// Extents, outermost first; weights are `(outputs, inputs)`.
    pub shape: Vec<usize>,
    /// The elements, row-major.
    pub values: Vec<f32>,
}

impl TrainedPolicy {
    /// The policy of a snapshot that was trained under `config` in `env`.
    ///
    /// # Errors
    /// When the snapshot does not fit the environment or the configuration.
    pub fn from_snapshot(env: &dyn AnyEnv, config: &Config, snapshot: &Snapshot) -> Result<Self, LearnError> {
        let spec = env.spec();
        let network = Network::new(Architecture::of(&spec, config)?);
        check_content(snapshot, env)?;
        let params = read_params(snapshot, "params", &network)?;
        let obs_norm = if config.norm_obs {
            let norm = read_norm(snapshot, "norm_obs", spec.obs.size())?;
            let (shift, scale) = norm.shift_scale().into_iter().unzip();
            Some(ObsNorm { shift, scale, clip: config.clip_obs as f32 })
        } else {
            None
        };
        let EnvSpec { name, obs, actions, .. } = spec;
        Ok(Self { env: name, obs, actions, masked: env.masked(), network, params, obs_norm })
    }

    /// Every array that computes an action, under the names of PyTorch's `state_dict`: the network's parameters, and
    /// `obs_norm.shift`, `obs_norm.scale`, `action_low` and `action_high` where the policy has them.
    pub fn tensors(&self) -> Vec<PolicyTensor> {
        let params = self.network.tensors.iter().map(|spec| PolicyTensor {
            name: spec.name.clone(),
            shape: spec.shape.clone(),
            values: self.params[spec.range()].to_vec(),
        });
        let vector = |name: &str, values: Vec<f32>| PolicyTensor {
            name: name.to_owned(),
            shape: vec![values.len()],
            values,
        };
        let mut tensors: Vec<_> = params.collect();
        if let Some(ObsNorm { shift, scale, .. }) = &self.obs_norm {
            tensors.push(vector("obs_norm.shift", shift.clone()));
            tensors.push(vector("obs_norm.scale", scale.clone()));
        }
        if let Some((low, high)) = self.action_bounds() {
            tensors.push(vector("action_low", low));
            tensors.push(vector("action_high", high));
        }
        tensors
    }

    /// `(A)` minimum and maximum actions of a continuous action space.
    pub fn action_bounds(&self) -> Option<(Vec<f32>, Vec<f32>)> {
        let floats = |values: &[f64]| values.iter().map(|&x| x as f32).collect();
        match &self.actions {
            ActionSpace::Box { low, high } => Some((floats(low), floats(high))),
            ActionSpace::Discrete(_) => None,
        }
    }
}
