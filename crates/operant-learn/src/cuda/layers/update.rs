//! An update of a network made of products: every minibatch a forward and a backward pass between the phases that all updates have,
//! as one graph.

use operant_cuda::kernels::{
    LayerMath, LayersUpdate, LayersUpdateBuffers, Phases, UpdateBuffers, UpdateNumbers, UpdateShape,
};
use operant_cuda::{Buffer, Stream};
use operant_env::AnyEnv;

use super::products::{Backward, Forward, Numbers, Weights};
use super::{Form, form, math};
use crate::LearnError;
use crate::config::Config;
use crate::cuda::memory::Room;
use crate::cuda::program::layers_update_program;
use crate::network::Network;
use crate::precision::Precision;
use crate::sample::SampleLayout;

/// The products of an update and what lies between them.
#[derive(Debug)]
pub struct LayersEngine {
    form: Form,
    math: LayerMath,
    kernels: LayersUpdate,
    forward: Forward,
    backward: Backward,
    obs: Numbers,
    rows: usize,
}

impl LayersEngine {
    /// For minibatches of N T / `num_minibatches` samples.
    ///
    /// # Errors
    /// When cuBLASLt is missing, or the device has no room or fails.
    pub(in crate::cuda) fn new(
        room: &Room,
        env: &dyn AnyEnv,
        network: &Network,
        config: &Config,
        precision: Precision,
    ) -> Result<Self, LearnError> {
        let device = room.device();
        let form = Form::new(network, precision);
        let layout = SampleLayout::new(&network.architecture, env.masked());
        let blas = device.blas()?;
        let samples = config.num_envs * config.num_steps;
        let rows = samples.div_ceil(config.num_minibatches.clamp(1, samples));
        let shape = Self::shape(&form, network, &layout);
        let blocks = Self::blocks(network, rows, device.properties().multiprocessors as usize);
        let module = device.load(&layers_update_program(env, network, &form)?)?;
        Ok(Self {
            math: math(device, &form)?,
            kernels: LayersUpdate::new(&module, shape, blocks)?,
            forward: Forward::new(room, &blas, &form, rows)?,
            backward: Backward::new(room, &blas, &form, rows)?,
            obs: Numbers::new(room, &form, rows * form.obs_row())?,
            rows,
            form,
        })
    }

    /// The sizes of its buffers.
    pub fn shape(form: &Form, network: &Network, layout: &SampleLayout) -> UpdateShape {
        UpdateShape {
            parameters: network.len(),
            packed_words: form.words(form.matrix_elements),
            transposed_words: form.biases,
            partial_words: form.partial_words(network),
            sample_stride: layout.stride,
            threads: form::THREADS as u32,
            shared: form.update_shared() as u32,
        }
    }

    /// Blocks of its launches: two a multiprocessor, but none without a sample or a parameter.
    pub fn blocks(network: &Network, rows: usize, multiprocessors: usize) -> usize {
        (2 * multiprocessors).clamp(1, rows.max(network.len()).div_ceil(form::THREADS))
    }

    /// What it shares with every update.
    pub fn phases(&self) -> &Phases {
        self.kernels.phases()
    }

    /// Lets the library load its kernels before anything is captured; what comes out goes nowhere.
    ///
    /// # Errors
    /// When a launch fails.
    pub fn warm(
        &self,
        stream: &Stream,
        matrices: &Buffer<f32>,
        biases: &Buffer<f32>,
        gradient: &Buffer<f32>,
    ) -> Result<(), LearnError> {
        let weights = Weights::of(matrices, biases)?;
        self.forward.run(stream, &self.math, &weights, &self.obs, 0)?;
        self.backward.run(stream, &self.math, &weights, &self.forward, &self.obs, gradient)
    }

    /// Does an update in a stream that is being captured.
    ///
    /// # Errors
    /// When a launch fails.
    pub fn update(
        &self,
        stream: &Stream,
        buffers: &UpdateBuffers<'_>,
        numbers: &UpdateNumbers,
    ) -> Result<(), LearnError> {
        let [policy, value] = self.forward.outputs();
        let [policy_row, value_row] = self.form.output_rows();
        let gradients = &self.backward.outputs;
        let layers = LayersUpdateBuffers {
            rows: self.rows,
            obs_words: self.form.words(self.form.obs_row()),
            policy_row,
            value_row,
            value_at: self.form.value_at(),
            halves: self.form.halves(),
            obs: &self.obs.words,
            policy,
            value,
            policy_gradient: &gradients[0].words,
            value_gradient: &gradients[gradients.len() - 1].words,
        };
        let weights = Weights::of(buffers.packed, buffers.transposed)?;
        layers.keep_in(stream);
        self.kernels.launch(
            stream,
            buffers,
            &layers,
            numbers,
            || self.forward.run(stream, &self.math, &weights, &self.obs, 0),
            || {
                let (forward, obs) = (&self.forward, &self.obs);
                self.backward.run(stream, &self.math, &weights, forward, obs, buffers.partials)
            },
        )
    }
}
