//! Random network distillation (docs/exploration.md): a predictor learns the outputs of a target, a network with random weights that never
//! change. Its error at an observation says how new that is.

use std::sync::{Arc, Mutex, PoisonError};

use operant_lane::isa::f32x16;
use operant_lane::{Float, Mask};

use crate::backend::LearnError;
use crate::config::{Activation, Config, Intrinsic, Optimizer, WeightInit};
use crate::cpu::batch::Batch;
use crate::cpu::network::policy::{Activations, Observation, Policy};
use crate::cpu::network::tile::{Row, TILE_VECTORS, first_lanes, fma, row_sum, splat};
use crate::cpu::update::{Learner, Loss, LossTile, SUMS, Sums};
use crate::network::{Architecture, Head, Network, Outputs, init_params};
use crate::normalise::{NormSums, RunningNorm};
use crate::state::LearnerState;

/// Numbers that both networks compute.
pub const OUTPUTS: usize = 64;

/// Rollouts over which the variance of errors is averaged.
pub const AVERAGED: f64 = 10.0;

/// The largest discount of errors in the sums whose deviation is their unit.
const MOST_DISCOUNT: f64 = 0.99;

/// Offsets of the seed, so that the initial weights of target, predictor and policy differ.
const STREAMS: [u64; 2] = [0x7461_7267_6574, 0x7072_6564_6963_746f];

/// The discount of errors in the sums whose deviation is their unit: that of their rewards, up to a limit.
pub fn discount(config: &Config) -> f32 {
    let gamma = if config.intrinsic_gamma > 0.0 { config.intrinsic_gamma } else { config.gamma };
    gamma.min(MOST_DISCOUNT) as f32
}

/// Target and predictor for the inputs of this network; None without them.
pub fn networks(architecture: &Architecture, config: &Config) -> Option<[Network; 2]> {
    let of = |deeper: bool| {
        let mut hidden = architecture.hidden.clone();
        if deeper {
            hidden.extend(architecture.hidden.last().or(Some(&OUTPUTS)));
        }
        Network::new(Architecture {
            hidden,
            items: None,
            layer_norm: false,
            residual_blocks: 0,
            core: None,
            activation: Activation::Relu,
            shared_trunk: true,
            dueling: false,
            bins: None,
            intrinsic_value: false,
            head: Head::MultiDiscrete(vec![OUTPUTS]),
            outputs: Outputs::ActionValues,
            init: WeightInit::Orthogonal,
            temperature: None,
            ..architecture.clone()
        })
    };
    (config.intrinsic == Intrinsic::Rnd).then(|| [false, true].map(of))
}

/// What a checkpoint holds of it.
#[derive(Debug, Clone, PartialEq)]
pub struct RndState {
    /// The predictor; its targets are the parameters of the target.
    pub learner: LearnerState,
    /// The variance of the discounted errors, averaged over as many rollouts as its count says.
    pub returns: RunningNorm,
}

impl RndState {
    /// The state at the start of a run with these networks, target and predictor.
    pub fn new([target, predictor]: &[Network; 2], seed: u64) -> Self {
        let [targets, params] = [(target, STREAMS[0]), (predictor, STREAMS[1])]
            .map(|(network, stream)| init_params(network, seed ^ stream));
        Self {
            learner: LearnerState { targets, ..LearnerState::new(params) },
            returns: RunningNorm { count: 0.0, ..RunningNorm::new(1) },
        }
    }
}

/// Target, predictor, and what trains it.
pub struct Rnd {
    pub state: RndState,
    target: Arc<Target>,
    predictor: Policy,
    learner: Learner,
}

/// The target, and the scratch space of as many threads as use it at a time.
struct Target {
    policy: Policy,
    scratch: Mutex<Vec<Activations<TILE_VECTORS>>>,
}

impl Target {
    fn new(network: &Network, params: &[f32]) -> Arc<Self> {
        let mut policy = Policy::new(network);
        policy.pack(params);
        Arc::new(Self { policy, scratch: Mutex::default() })
    }
}

impl Rnd {
    /// Both networks at the start, if the configuration needs them; `learner` makes what trains a network.
    pub fn new(
        architecture: &Architecture,
        config: &Config,
        learner: impl Fn(Network, Config) -> Learner,
    ) -> Option<Self> {
        let networks = networks(architecture, config)?;
        let state = RndState::new(&networks, config.seed);
        let [target, predictor] = networks;
        let config = Config { optimizer: Optimizer::Adam, weight_decay: 0.0, ..config.clone() };
        Some(Self {
            target: Target::new(&target, &state.learner.targets),
            predictor: Policy::new(&predictor),
            learner: learner(predictor, config.ppo(|ppo| ppo.rpo_alpha = 0.0)),
            state,
        })
    }

    /// Replaces the state.
    pub fn restore(&mut self, state: RndState) {
        self.target = Target::new(self.target.policy.network(), &state.learner.targets);
        self.state = state;
    }

    /// What a rollout measures errors with.
    pub fn judge(&mut self) -> Judge<'_> {
        self.predictor.pack(&self.state.learner.params);
        let RndState { returns, .. } = &self.state;
        let scale = if returns.count == 0.0 { 0.0 } else { returns.scale() };
        Judge { networks: [&self.target.policy, &self.predictor], scale }
    }

    /// Takes the variance within a rollout from its sums of discounted errors, in the order of environments. Between rollouts the mean falls as
    /// the predictor learns, which says nothing about how much errors differ.
    pub fn merge(&mut self, sums: &[NormSums]) {
        let mut rollout = RunningNorm { count: 0.0, ..RunningNorm::new(1) };
        rollout.merge(sums);
        if rollout.count > 0.0 && rollout.var[0].is_finite() {
            let RunningNorm { var, count, .. } = &mut self.state.returns;
            *count = AVERAGED.min(*count + 1.0);
            var[0] += (rollout.var[0] - var[0]) / *count;
        }
    }

    /// Its learner, which has timers.
    pub fn learner(&mut self) -> &mut Learner {
        &mut self.learner
    }

    /// One pass of the predictor over the samples of update number `update`. Returns the minibatches that were not finite.
    ///
    /// # Errors
    /// When another process of the group is lost.
    pub fn learn(&mut self, batch: &mut Batch, update: u64) -> Result<u64, LearnError> {
        let Self { target, learner, state, .. } = self;
        let loss = |samples: usize| -> Box<dyn Loss> {
            Box::new(Distillation { target: Arc::clone(target), scale: 2.0 / (samples * OUTPUTS) as f32 })
        };
        let stats = learner.update_by(|learning| learning.pass(&loss), &mut state.learner, batch, update)?;
        Ok(stats.nonfinite)
    }
}

/// The networks of a rollout.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    networks: [&'a Policy; 2],
    /// 1 / deviation of the discounted errors, as it was before this rollout; 0 while there is none.
    scale: f32,
}

/// The errors of a tile of V x 16 environments.
pub struct Novelty<const V: usize> {
    outputs: [Activations<V>; 2],
    /// Discounted errors of each environment. They go on where episodes end.
    pub discounted: Row<V>,
    /// Sums of those in this rollout, by 16 environments.
    pub sums: Vec<NormSums>,
}

impl<const V: usize> Novelty<V> {
    /// Before the first step, if the configuration needs it.
    pub fn new(architecture: &Architecture, config: &Config) -> Option<Self> {
        let outputs = networks(architecture, config)?.each_ref().map(Activations::new);
        Some(Self { outputs, discounted: splat(0.0), sums: vec![NormSums::new(1); V] })
    }

    /// The errors of what the first `count` environments observed after a step, in units of the deviation; 0 where an episode begins.
    pub fn rewards(
        &mut self,
        judge: Judge<'_>,
        observation: Observation<'_, V>,
        (count, discount): (usize, f32),
        done: &Row<V>,
    ) -> Row<V> {
        let gamma = f32x16::splat(discount);
        for (policy, outputs) in judge.networks.iter().zip(&mut self.outputs) {
            policy.forward(observation, first_lanes(count), &[], outputs);
        }
        let [target, predictor] = &self.outputs;
        let errors = squared_errors(target.policy(), predictor.policy());
        let errors: Row<V> = core::array::from_fn(|v| errors[v] * (f32x16::ONE - done[v]));
        let sums: Row<V> = core::array::from_fn(|v| fma(self.discounted[v], gamma, errors[v]));
        // A number that is not finite would stay in the sum.
        let is_finite = |sum: f32x16| Float::lt(sum * sum, f32x16::splat(f32::MAX));
        self.discounted = sums.map(|sum| is_finite(sum).select(sum, f32x16::ZERO));
        for (v, sums) in self.sums.iter_mut().enumerate() {
            sums.add(super::rollout::in_block(count, v), |_| self.discounted[v].as_array());
        }
        errors.map(|error| error * f32x16::splat(judge.scale))
    }
}

/// The mean over outputs of their squared differences.
fn squared_errors<const V: usize>(a: &[Row<V>], b: &[Row<V>]) -> Row<V> {
    let mut sums = splat::<V>(0.0);
    for (a, b) in a.iter().zip(b) {
        for v in 0..V {
            let difference = a[v] - b[v];
            sums[v] = fma(difference, difference, sums[v]);
        }
    }
    sums.map(|sum| sum * f32x16::splat(1.0 / OUTPUTS as f32))
}

/// The squared errors, averaged over a minibatch.
struct Distillation {
    target: Arc<Target>,
    /// 2 / (M outputs).
    scale: f32,
}

impl Loss for Distillation {
    fn is_of_actions(&self) -> bool {
        false
    }

    fn tile(&self, tile: LossTile<'_>) -> Sums {
        let LossTile { samples, weight, outputs, deltas, .. } = tile;
        let Target { policy, scratch } = &*self.target;
        let lock = || scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = lock().pop();
        let mut target = unused.unwrap_or_else(|| Activations::new(policy.network()));
        policy.chain(0, samples.observation(), TILE_VECTORS, &mut target);
        let scale: Row<TILE_VECTORS> = weight.map(|weight| weight * f32x16::splat(self.scale));
        let both = outputs.policy().iter().zip(target.policy());
        for (to, (own, target)) in deltas.policy_mut().iter_mut().zip(both) {
            *to = core::array::from_fn(|v| (own[v] - target[v]) * scale[v]);
        }
        let errors = squared_errors(outputs.policy(), target.policy());
        lock().push(target);
        let mut sums = [0.0; SUMS];
        sums[0] = row_sum::<TILE_VECTORS>(&core::array::from_fn(|v| weight[v] * errors[v]));
        sums
    }
}
