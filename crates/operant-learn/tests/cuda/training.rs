//! Learning from the kernels' samples: rollouts by the GPU's kernels, updates by the CPU's learner. It shows that what a horizon leaves is all that a learner needs, end to end.

use operant_cuda::Device;
use operant_env::AnyEnv;
use operant_learn::LearnerState;
use operant_learn::cpu::batch::Batch;
use operant_learn::cpu::update::Learner;
use operant_learn::cuda::CudaRollout;
use operant_learn::network::init_params;
use operant_learn::{Config, Precision};

use crate::support::gpu::device;
use crate::support::{python_worlds, world};

/// Environments of a block of the batch.
const LANES: usize = 16;

/// Puts the device's samples, `(T, N)`, where the learner reads them, tile by tile.
fn fill(batch: &mut Batch, samples: &[u32], config: &Config) {
    let stride = batch.layout().stride;
    for (k, tile) in batch.tiles_mut(1).into_iter().enumerate() {
        for t in 0..config.num_steps {
            let from = (t * config.num_envs + k * LANES) * stride;
            let to = t * tile.lanes * stride;
            tile.words[to..to + tile.lanes * stride]
                .copy_from_slice(&samples[from..from + tile.lanes * stride]);
        }
    }
}

struct Learn<'a> {
    device: &'a Device,
    precision: Precision,
    updates: u64,
}

impl Learn<'_> {
    /// Mean return of the episodes of the first update and of the last ten.
    fn visit(self, env: &dyn AnyEnv) -> [f64; 2] {
        let config = Config {
            total_timesteps: self.updates * 32 * 64,
            num_envs: 32,
            num_steps: 64,
            learning_rate: 2.5e-3,
            update_epochs: 10,
            ..Config::default()
        }
        .ppo(|ppo| (ppo.ent_coef, ppo.clip_vloss, ppo.target_kl) = (0.0, false, 0.03));
        let rollout = CudaRollout::new(self.device, env, &config, self.precision).expect("a rollout");
        let network = rollout.network().clone();
        let mut state = LearnerState::new(init_params(&network, config.seed));
        let mut learner = Learner::new(network, rollout.layout().clone(), config.clone());
        let mut batch = Batch::new(rollout.layout().clone(), config.num_envs, config.num_steps);
        let (mut first, mut last) = (None, (0.0, 0.0));
        for update in 0..self.updates {
            rollout.set_params(&state.params).expect("parameters");
            rollout.roll().expect("a horizon");
            let episodes = rollout.episodes().expect("episodes");
            first = first.or((episodes.count > 0.0).then(|| episodes.sum / episodes.count));
            if update + 10 >= self.updates {
                last = (last.0 + episodes.sum, last.1 + episodes.count);
            }
            fill(&mut batch, &rollout.samples().expect("samples"), &config);
            learner.update(&mut state, &mut batch, update).expect("alone");
        }
        [first.expect("an episode ended"), last.0 / last.1]
    }
}

#[test]
#[ignore = "cargo xtask test --all"]
fn cartpole_is_learned_from_the_kernels_samples() {
    for (ordinal, precision) in [(0, Precision::F32), (2, Precision::Bf16)] {
        let Some(device) = device(ordinal) else { return };
        let learn = Learn { device: &device, precision, updates: 60 };
        let [first, last] = learn.visit(&*world("cartpole"));
        assert!(first < 40.0 && last > 150.0, "{precision}: {first} at first, {last} at last");
    }
}

#[test]
fn a_world_from_python_gives_the_samples_of_the_built_in_environment() {
    let Some(device) = device(0) else { return };
    let config = Config { num_envs: 32, num_steps: 64, total_timesteps: 32 * 64 * 3, ..Config::default() };
    let samples = |env: &dyn AnyEnv| {
        let rollout = CudaRollout::new(&device, env, &config, Precision::F32).expect("a rollout");
        rollout.set_params(&init_params(rollout.network(), 5)).expect("parameters");
        let mut all = Vec::new();
        for _ in 0..3 {
            rollout.roll().expect("a horizon");
            all.extend(rollout.samples().expect("samples"));
        }
        let episodes = rollout.episodes().expect("episodes");
        assert!(episodes.count > 20.0, "{} episodes", episodes.count);
        all
    };
    let built_in = samples(&*world("cartpole"));
    assert!(samples(&python_worlds::load("cartpole")) == built_in);
}
