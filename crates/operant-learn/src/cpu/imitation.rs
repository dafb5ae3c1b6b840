//! Behaviour cloning: a policy is fitted to given actions by maximum likelihood.

use operant_env::ActionSpace;
use operant_lane::isa::{f32x16, u32x16};

use crate::LearnerState;
use crate::backend::LearnError;
use crate::config::{Config, LrSchedule};
use crate::cpu::batch::Batch;
use crate::cpu::inference::{Inference, ObsRows, RowBuffers};
use crate::cpu::network::reals::drawn;
use crate::cpu::network::tile::{LANES, Row, TILE, TILE_VECTORS, row_sum, splat};
use crate::cpu::update::{Learner, Loss, LossTile, SUMS, Sums};
use crate::network::Outputs;
use crate::sample::SampleLayout;
use crate::trained::TrainedPolicy;

/// Observations, and the action that the policy is to take at each.
#[derive(Debug, Clone, Copy)]
pub struct Examples<'a> {
    /// S rows.
    pub obs: ObsRows<'a>,
    /// `(S, components)`: indices of choices, or real numbers.
    pub actions: &'a [f32],
    /// `(S, choices)`, not 0 where a choice is legal; None where all are.
    pub legal: Option<&'a [i8]>,
}

/// How a policy is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitSettings {
    /// Passes over the examples.
    pub epochs: usize,
    /// Examples of a minibatch.
    pub batch_size: usize,
    /// Step size of Adam.
    pub learning_rate: f64,
    /// Norm to which gradients are clipped.
    pub max_grad_norm: f64,
    /// Seed of the order of examples.
    pub seed: u64,
}

/// The loss of a minibatch, `-ln pi(action | observation)`, averaged over it. It does not depend on values.
struct NegativeLogLikelihood {
    /// 1 / M.
    scale: f32,
}

impl Loss for NegativeLogLikelihood {
    fn tile(&self, tile: LossTile<'_>) -> Sums {
        let LossTile { actions, weight, outputs, log_std, head, deltas, d_log_std, .. } = tile;
        let (logprob, _) = head.evaluate(outputs.policy(), log_std, actions);
        let scale = f32x16::splat(-self.scale);
        let by_logprob: Row<TILE_VECTORS> = core::array::from_fn(|v| weight[v] * scale);
        deltas.values_mut().fill(splat(0.0));
        deltas.value_logits_mut().fill(splat(0.0));
        head.gradient(log_std, actions, &by_logprob, &splat(0.0), deltas.policy_mut(), d_log_std);
        let mut sums = [0.0; SUMS];
        sums[0] = -row_sum::<TILE_VECTORS>(&core::array::from_fn(|v| weight[v] * logprob[v]));
        sums
    }
}

impl Inference {
    /// The policy fitted to examples, on the threads of `pool`: its normalisation of observations stays. `on_epoch` gets the mean loss of an
    /// epoch in nats, on the calling thread; fitting ends where it returns false. The result does not depend on the number of threads.
    ///
    /// # Errors
    /// When the policy has memory or computes action values, an example has an illegal action, or the loss is not finite.
    pub fn fitted(
        &self,
        pool: &rayon::ThreadPool,
        examples: &Examples<'_>,
        settings: &FitSettings,
        on_epoch: &mut dyn FnMut(f64) -> bool,
    ) -> Result<TrainedPolicy, LearnError> {
        let trained = self.trained();
        let refused = |key, problem: String, remedy: &str| LearnError::Config {
            key,
            problem,
            remedy: remedy.to_owned(),
        };
        let architecture = &trained.network.architecture;
        if architecture.outputs != Outputs::PolicyAndValue {
            let problem = "the network computes values of actions".to_owned();
            return Err(refused("algorithm", problem, "fit a policy that PPO trains"));
        }
        if self.states() > 0 {
            let problem = "a policy with memory cannot be fitted to single steps".to_owned();
            return Err(refused("core", problem, "fit a policy without memory (core = \"mlp\")"));
        }
        let count = examples.obs.rows(&trained.obs);
        if let Some(row) = self.illegal(examples, count) {
            let problem = format!("the action of row {row} is illegal by its mask");
            return Err(refused("actions", problem, "correct the row or its mask"));
        }
        let config = Config {
            num_envs: count,
            num_steps: 1,
            num_minibatches: count.div_ceil(settings.batch_size),
            learning_rate: settings.learning_rate,
            lr_schedule: LrSchedule::Constant,
            max_grad_norm: settings.max_grad_norm,
            seed: settings.seed,
            ..Config::default()
        };
        let layout = SampleLayout::new(architecture, trained.masked);
        let mut batch = self.batch(examples, layout.clone(), count);
        let mut learner = Learner::new(trained.network.clone(), layout, config);
        let mut state = LearnerState::new(trained.params.clone());
        let loss = |samples: usize| -> Box<dyn Loss> {
            Box::new(NegativeLogLikelihood { scale: 1.0 / samples as f32 })
        };
        for number in 0..settings.epochs {
            let stats = pool
                .install(|| learner.update_by(|it| it.pass(&loss), &mut state, &mut batch, number as u64))?;
            if stats.nonfinite > 0 {
                let (rate, number) = (settings.learning_rate, number + 1);
                let problem = format!("with {rate} the loss of epoch {number} is not finite");
                return Err(refused(
                    "learning_rate",
                    problem,
                    "use a smaller one, or correct actions that are very large",
                ));
            }
            if !on_epoch(stats.metrics.policy_loss) {
                break;
            }
        }
        Ok(TrainedPolicy { params: state.params, ..trained.clone() })
    }

    /// The first row whose action has an illegal choice.
    fn illegal(&self, examples: &Examples<'_>, count: usize) -> Option<usize> {
        let (Some(legal), ActionSpace::Discrete(choices)) = (examples.legal, &self.trained().actions) else {
            return None;
        };
        let (components, logits) = (choices.len(), choices.iter().sum::<usize>());
        (0..count).find(|row| {
            let (actions, legal) = (&examples.actions[row * components..], &legal[row * logits..]);
            let firsts = choices.iter().scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count)));
            firsts.zip(actions).any(|(first, action)| legal[first + *action as usize] == 0)
        })
    }

    /// The examples as samples.
    fn batch(&self, examples: &Examples<'_>, layout: SampleLayout, count: usize) -> Batch {
        let components = layout.components;
        let choices = self.trained().network.policy_outputs();
        let mut batch = Batch::new(layout, count, 1);
        let mut rows = RowBuffers::<TILE_VECTORS>::new(self.trained());
        let head = &self.trained().network.architecture.head;
        for (part, mut samples) in batch.tiles_mut(TILE_VECTORS).into_iter().enumerate() {
            let range = part * TILE..count.min((part + 1) * TILE);
            self.read_normalised(&mut rows, examples.obs, range.clone());
            match examples.legal {
                Some(legal) => rows.read_legal(&legal[range.start * choices..range.end * choices], choices),
                None => rows.legal.fill([u32x16::MAX; TILE_VECTORS]),
            }
            let layout = samples.layout;
            for (word, row) in rows.obs.iter().enumerate() {
                samples.put(0, layout.obs + word, row);
            }
            for (word, row) in rows.legal.iter().enumerate() {
                samples.put_bits(0, layout.mask + word, row);
            }
            let actions = &examples.actions[range.start * components..range.end * components];
            for component in 0..components {
                let mut row: Row<TILE_VECTORS> = splat(0.0);
                for (at, action) in actions.iter().skip(component).step_by(components).enumerate() {
                    let action = drawn(head, &self.trained().actions, component, *action);
                    row[at / LANES].as_mut_array()[at % LANES] = action;
                }
                samples.put(0, layout.actions + component, &row);
            }
        }
        batch
    }
}
