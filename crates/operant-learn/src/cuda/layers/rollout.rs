//! A horizon of a network made of products: T times a forward pass and a step, as one graph.

use operant_cuda::kernels::{
    Horizon, LayerMath, LayersBuffers, LayersRollout, LayersRolloutShape, RolloutBuffers,
};
use operant_cuda::{Buffer, Stream};
use operant_env::AnyEnv;

use super::products::{Forward, Numbers, Weights};
use super::{Form, form, math};
use crate::LearnError;
use crate::config::Config;
use crate::cuda::graphs::Graphs;
use crate::cuda::memory::Room;
use crate::cuda::program::layers_rollout_program;
use crate::network::Network;
use crate::precision::Precision;
use crate::sample::SampleLayout;

/// The policy of a rollout, and what is kept between two of its kernels.
#[derive(Debug)]
pub struct LayersPolicy {
    math: LayerMath,
    kernels: LayersRollout,
    forward: Forward,
    weights: Weights,
    obs: Numbers,
    final_obs: Buffer<f32>,
    /// The same for each time that an environment can be cut short in a horizon.
    cuts: Vec<Numbers>,
    cut_at: Buffer<u32>,
    episodes: Buffer<u32>,
    sums: Buffer<f32>,
    graphs: Graphs,
}

impl LayersPolicy {
    /// For N environments and quantities normalised by running statistics, with these weights or its own.
    ///
    /// # Errors
    /// When cuBLASLt is missing, or the device has no room or fails.
    pub(in crate::cuda) fn new(
        room: &Room,
        stream: &Stream,
        env: &dyn AnyEnv,
        (network, config, precision): (&Network, &Config, Precision),
        [norms, running_words]: [usize; 2],
        weights: Option<[Buffer<f32>; 2]>,
    ) -> Result<Self, LearnError> {
        let (device, n) = (room.device(), config.num_envs);
        let form = Form::new(network, precision);
        let layout = SampleLayout::new(&network.architecture, env.masked());
        let blas = device.blas()?;
        // Time limits that fit into a horizon, one begun before it included.
        let cuts = config.num_steps.div_ceil((env.spec().time_limit as usize).max(1));
        let obs_words = form.words(form.obs_row());
        let [policy_row, value_row] = form.output_rows();
        let shape = LayersRolloutShape {
            parameters: network.len(),
            matrix_words: form.words(form.matrix_elements),
            biases: form.biases,
            log_std: network.log_std.map_or(0, |_| network.policy_outputs()),
            running_words,
            sample_stride: layout.stride,
            obs_words,
            policy_row,
            value_at: form.value_at(),
            value_row,
            norms,
            norm_reward: config.norm_reward,
            cuts,
            threads: form::THREADS as u32,
            shared: form.rollout_shared(norms) as u32,
        };
        let module = device.load(&layers_rollout_program(env, network, config, &form, norms)?)?;
        let [episode_words, sum_words] = shape.sum_words();
        let final_obs = room.alloc::<f32>(cuts * n * obs_words)?;
        let weights = match weights {
            Some([matrices, biases]) => Weights { matrices, biases },
            None => {
                let own =
                    Weights { matrices: room.alloc(shape.matrix_words)?, biases: room.alloc(shape.biases)? };
                // Padding is zero.
                own.matrices.fill(stream, 0)?;
                own.biases.fill(stream, 0)?;
                own
            }
        };
        let made = Self {
            math: math(device, &form)?,
            kernels: LayersRollout::new(&module, shape)?,
            forward: Forward::new(room, &blas, &form, n)?,
            obs: Numbers::new(room, &form, n * form.obs_row())?,
            cuts: (0..cuts)
                .map(|cut| {
                    Numbers::of(final_obs.part(cut * n * obs_words..(cut + 1) * n * obs_words)?, &form)
                })
                .collect::<Result<_, _>>()?,
            final_obs,
            cut_at: room.alloc(cuts * n)?,
            episodes: room.alloc(n * episode_words)?,
            sums: room.alloc(n * sum_words)?,
            weights,
            graphs: Graphs::default(),
        };
        // The library loads its kernels before anything is captured; what comes out goes nowhere.
        made.forward.run(stream, &made.math, &made.weights, &made.obs, 0)?;
        Ok(made)
    }

    /// The weights, as products read them.
    pub(in crate::cuda) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Blocks of a launch over N environments.
    pub fn blocks(&self, num_envs: usize) -> usize {
        self.kernels.shape().blocks(num_envs)
    }

    /// Takes parameters over.
    ///
    /// # Errors
    /// When the device fails.
    pub fn pack(&self, stream: &Stream, parameters: &Buffer<f32>) -> Result<(), LearnError> {
        Ok(self.kernels.pack(stream, parameters, &self.weights.matrices, &self.weights.biases)?)
    }

    /// Enqueues a horizon.
    ///
    /// # Errors
    /// When a launch fails.
    pub fn roll(
        &self,
        stream: &Stream,
        rollout: &RolloutBuffers<'_>,
        horizon: &Horizon,
    ) -> Result<(), LearnError> {
        let [policy, value] = self.forward.outputs();
        let buffers = LayersBuffers {
            rollout: *rollout,
            episodes: &self.episodes,
            sums: &self.sums,
            obs: &self.obs.words,
            final_obs: &self.final_obs,
            cut_at: &self.cut_at,
            policy,
            value,
        };
        let of = [rollout.samples.pointer(), rollout.scene.map_or(0, Buffer::pointer)];
        let critic = if self.kernels.shape().value_at.is_none() { 1 } else { 0 };
        self.graphs.launch(stream, &of, |stream| {
            buffers.keep_in(stream);
            self.kernels.launch(
                stream,
                &buffers,
                horizon,
                || self.forward.run(stream, &self.math, &self.weights, &self.obs, 0),
                |cut| self.forward.run(stream, &self.math, &self.weights, &self.cuts[cut], critic),
            )
        })
    }
}
