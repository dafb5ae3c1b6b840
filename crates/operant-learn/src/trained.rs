//! A trained policy without its training: weights, observation statistics and spaces, as a checkpoint holds them.

use operant_env::{ActionSpace, AnyEnv, EnvSpec, ObsSpace};

use crate::backend::LearnError;
use crate::config::Config;
use crate::network::{Architecture, Network, init_params};
use crate::normalise::RunningNorm;
use crate::snapshot::{Dtype, Snapshot, Tensor};
use crate::state::{check_content, norm_tensors, read_norm, read_params, read_value_norm, words};

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

/// The names of the arrays of an [`ObsNorm`].
const SHIFT: &str = "obs_norm.shift";
const SCALE: &str = "obs_norm.scale";

/// What is wrong with an array that is to replace `own`.
fn problem_of(own: &PolicyTensor, new: &PolicyTensor) -> Option<String> {
    if own.shape != new.shape || own.values.len() != new.values.len() {
        return Some(format!("expected shape {:?}, got {:?}", own.shape, new.shape));
    }
    if let Some(number) = new.values.iter().find(|number| !number.is_finite()) {
        return Some(format!("expected finite numbers, got {number}"));
    }
    if own.name == SCALE && new.values.iter().any(|scale| *scale <= 0.0) {
        return Some("expected reciprocals of standard deviations, above 0".to_owned());
    }
    let is_bound = ["action_low", "action_high"].contains(&&*own.name);
    (is_bound && own.values != new.values).then(|| "the bounds of actions are the environment's".to_owned())
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
        let params = network.with_values(&params, &read_value_norm(snapshot)?).into_owned();
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

    /// The policy with which training in `env` under `config` begins, without normalisation.
    ///
    /// # Errors
    /// When the configuration cannot be trained in the environment.
    pub fn untrained(env: &dyn AnyEnv, config: &Config) -> Result<Self, LearnError> {
        let spec = env.spec();
        let network = Network::new(Architecture::of(&spec, config)?);
        let params = init_params(&network, config.seed);
        let EnvSpec { name, obs, actions, .. } = spec;
        Ok(Self { env: name, obs, actions, masked: env.masked(), network, params, obs_norm: None })
    }

    /// The same policy without the value of rewards for exploring, which only training reads.
    #[must_use]
    pub fn for_playing(&self) -> Self {
        let architecture = Architecture { intrinsic_value: false, ..self.network.architecture.clone() };
        let network = Network::new(architecture);
        let own =
            self.network.tensors.iter().filter(|own| network.tensors.iter().any(|it| it.name == own.name));
        let params = own.flat_map(|own| &self.params[own.range()]).copied().collect();
        Self { network, params, ..self.clone() }
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
            tensors.push(vector(SHIFT, shift.clone()));
            tensors.push(vector(SCALE, scale.clone()));
        }
        if let Some((low, high)) = self.action_bounds() {
            tensors.push(vector("action_low", low));
            tensors.push(vector("action_high", high));
        }
        tensors
    }

    /// The same policy with other values of all its [`TrainedPolicy::tensors`].
    ///
    /// # Errors
    /// What is wrong with each: arrays that are missing, unknown or of another shape, and values that no policy has.
    pub fn with_tensors(&self, given: &[PolicyTensor]) -> Result<Self, String> {
        let own = self.tensors();
        let unknown = given.iter().filter(|given| own.iter().all(|own| own.name != given.name));
        let mut problems: Vec<String> =
            unknown.map(|given| format!("{} is not one of the policy's arrays", given.name)).collect();
        let mut policy = self.clone();
        for own in &own {
            let Some(new) = given.iter().find(|given| given.name == own.name) else {
                problems.push(format!("{} is missing", own.name));
                continue;
            };
            match problem_of(own, new) {
                Some(problem) => problems.push(format!("{}: {problem}", own.name)),
                None => policy.set(new),
            }
        }
        if problems.is_empty() { Ok(policy) } else { Err(problems.join("; ")) }
    }

    /// Replaces an array by one of its name and shape.
    fn set(&mut self, new: &PolicyTensor) {
        if let Some(spec) = self.network.tensors.iter().find(|spec| spec.name == new.name) {
            self.params[spec.range()].copy_from_slice(&new.values);
        }
        if let Some(norm) = &mut self.obs_norm {
            match &*new.name {
                SHIFT => norm.shift.clone_from(&new.values),
                SCALE => norm.scale.clone_from(&new.values),
                _ => {}
            }
        }
    }

    /// Its tensors as a snapshot has them: parameters, and the statistics of observations, which are `statistics` (`norm_obs.*` of its
    /// checkpoint) unless they give other arrays than the policy has.
    pub fn snapshot_tensors(&self, statistics: &[Tensor]) -> Vec<Tensor> {
        let params = self.network.tensors.iter().map(|spec| {
            let bits = self.params[spec.range()].iter().map(|x| x.to_bits());
            words(format!("params.{}", spec.name), Dtype::F32, spec.shape.clone(), bits)
        });
        let mut tensors: Vec<Tensor> = params.collect();
        let Some(ObsNorm { shift, scale, .. }) = &self.obs_norm else { return tensors };
        let snapshot = Snapshot { tensors: statistics.to_vec(), ..Snapshot::default() };
        let norm = read_norm(&snapshot, "norm_obs", shift.len());
        let norm = norm.unwrap_or_else(|_| RunningNorm::new(shift.len()));
        let own = norm.shift_scale().into_iter();
        let is_own = own.eq(shift.iter().copied().zip(scale.iter().copied()));
        let norm = if is_own { norm } else { RunningNorm::of_shift_scale(shift, scale, norm.count) };
        tensors.extend(norm_tensors("norm_obs", &norm));
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
