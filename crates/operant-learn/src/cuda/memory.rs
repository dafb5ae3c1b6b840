//! Device memory of training: how much it takes, and the most environments that fit, told before anything is allocated; and the
//! one arena that all of it is cut from.

use std::cell::RefCell;

use operant_cuda::kernels::{Episodes, Progress, RunningNorm, SUMS, UpdateReport};
use operant_cuda::{Arena, Buffer, CudaError, Device, DeviceProperties, Memory, Plain};
use operant_env::{AnyEnv, running_words};

use super::backend::{GpuOptions, SLOTS};
use super::layers::{Form, Kernels, LayersEngine, THREADS};
use super::rollout::norms_of;
use super::specialise::{Limits, Specialisation, TILE, UpdateSpecialisation};
use crate::LearnError;
use crate::config::Config;
use crate::network::{Architecture, Network};
use crate::precision::Precision;
use crate::sample::SampleLayout;

/// Bytes beside what is counted: the driver's and the kernels' code.
const MARGIN: usize = 32 << 20;

/// Bytes of shared memory that the system takes of each block, and blocks that a multiprocessor holds at most, on every GPU that
/// the kernels run on.
const RESERVED: usize = 1024;
const MOST_BLOCKS: usize = 32;

/// Environments that kernels can count.
const MOST_ENVIRONMENTS: usize = 1 << 30;

/// Updates that a chosen number of environments leaves within `total_timesteps`: with fewer, little would be learned.
const UPDATES: u64 = 100;

/// Where buffers come from: one arena, or the device, each by itself.
pub(super) struct Room {
    device: Device,
    arena: Option<RefCell<Arena>>,
}

impl Room {
    /// Every buffer by itself.
    pub fn of(device: &Device) -> Self {
        Self { device: device.clone(), arena: None }
    }

    /// An arena of so many bytes.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn arena(device: &Device, bytes: usize) -> Result<Self, LearnError> {
        let arena = Some(RefCell::new(device.arena(bytes)?));
        Ok(Self { device: device.clone(), arena })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Room for `len` elements, whose contents are undefined.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<Buffer<T>, CudaError> {
        match self.arena.as_ref().map(|arena| arena.borrow_mut().take(len)) {
            // A size that falls short is no reason not to train; the tests hold that none does.
            None | Some(Err(CudaError::ArenaFull { .. })) => self.device.alloc(len),
            Some(taken) => taken,
        }
    }
}

/// Adds up the buffers of an arena.
#[derive(Default)]
struct Sum(usize);

impl Sum {
    fn add<T: Plain>(&mut self, len: usize) {
        // What memory cannot hold at all fits nowhere.
        self.0 = self.0.saturating_add(Arena::bytes_for::<T>(len).unwrap_or(usize::MAX));
    }
}

/// What a way of running the network decides, in elements.
struct Parts {
    /// Blocks of an update's launches, and their shares of a gradient.
    blocks: usize,
    partials: usize,
    /// Both forms of the learner's weights.
    weights: [usize; 2],
    rollout_blocks: usize,
    /// Weights of a rollout that has its own.
    own_weights: Vec<usize>,
}

/// What decides how much device memory training takes.
#[derive(Debug, Clone)]
pub struct Footprint {
    network: Network,
    layout: SampleLayout,
    config: Config,
    kernels: Kernels,
    precision: Precision,
    overlap: bool,
    running_words: usize,
    time_limit: usize,
    properties: DeviceProperties,
}

impl Footprint {
    /// Of training in environments `env`, with kernels that were chosen.
    ///
    /// # Errors
    /// When the environment has no policy of a kind that can be trained.
    pub fn new(
        env: &dyn AnyEnv,
        config: &Config,
        options: GpuOptions,
        properties: &DeviceProperties,
    ) -> Result<Self, LearnError> {
        let spec = env.spec();
        let network = Network::new(Architecture::of(&spec, config)?);
        let layout = SampleLayout::new(&network.architecture, env.masked());
        let running_words = running_words(env);
        Ok(Self {
            network,
            layout,
            config: config.clone(),
            kernels: options.network.kernels,
            precision: options.network.precision,
            overlap: options.overlap,
            running_words,
            time_limit: spec.time_limit as usize,
            properties: properties.clone(),
        })
    }

    /// Bytes of the arena for N environments: what the rollout, the learner and the reports take. Where registers let fewer blocks
    /// run at once than shared memory does it is a little more than that.
    ///
    /// # Errors
    /// When no kernel fits the network.
    pub fn of(&self, num_envs: usize) -> Result<usize, LearnError> {
        let config = Config { num_envs, ..self.config.clone() };
        let (parameters, samples) = (self.network.len(), num_envs.saturating_mul(config.num_steps));
        let minibatches = config.num_minibatches.clamp(1, samples.max(1));
        let scene = config.num_steps.saturating_mul(self.running_words + 2);
        let mut sum = Sum::default();
        let parts = match self.kernels {
            Kernels::Layers => self.layers(&config, samples.div_ceil(minibatches), &mut sum),
            _ => self.fused(&config, samples.div_ceil(minibatches))?,
        };

        // The learner: parameters, moments, gradient, and what updates leave between their phases.
        for _ in 0..4 {
            sum.add::<f32>(parameters);
        }
        sum.add::<f32>(parts.weights[0]);
        sum.add::<f32>(parts.weights[1].max(1));
        sum.add::<f32>(parts.partials);
        sum.add::<f64>(SUMS * parts.blocks);
        sum.add::<f64>(2 * minibatches * (parts.blocks / minibatches).max(1));
        sum.add::<UpdateReport>(1);
        sum.add::<Progress>(1);
        sum.add::<u32>(1);

        // The rollout: weights of its own, samples, environments, what GAE reads, norms, episodes.
        if self.overlap {
            sum.add::<f32>(parameters);
            parts.own_weights.iter().for_each(|words| sum.add::<f32>(*words));
        }
        for _ in 0..if self.overlap { 2 } else { 1 } {
            sum.add::<u32>(samples.saturating_mul(self.layout.stride));
        }
        sum.add::<u32>(num_envs.saturating_mul(self.running_words));
        sum.add::<f32>(samples);
        sum.add::<f32>(samples);
        sum.add::<u8>(samples);
        sum.add::<f32>(num_envs);
        let norms = norms_of(&self.network, &config);
        if norms > 0 {
            sum.add::<f32>(2 * norms);
            sum.add::<RunningNorm>(norms);
            sum.add::<f64>(2 * norms * parts.rollout_blocks);
        }
        if config.norm_reward {
            sum.add::<f32>(num_envs);
        }
        sum.add::<Episodes>(parts.rollout_blocks);
        sum.add::<Episodes>(1);
        sum.add::<u64>(1);
        sum.add::<u32>(1);
        sum.add::<u32>(scene);

        // Reports on their way to the host.
        for _ in 0..SLOTS {
            sum.add::<UpdateReport>(1);
            sum.add::<Episodes>(1);
            sum.add::<u32>(scene);
        }
        Ok(sum.0)
    }

    /// What kernels with the network inside take.
    fn fused(&self, config: &Config, minibatch: usize) -> Result<Parts, LearnError> {
        let (network, limits) = (&self.network, Limits::from(&self.properties));
        let rollout = Specialisation::new(network, config, self.precision, limits)?;
        let update = UpdateSpecialisation::new(network, config, self.precision, limits)?;
        let blocks =
            update.blocks(network, minibatch, self.resident(update.threads() as usize, update.shared));
        Ok(Parts {
            blocks,
            partials: network.len().saturating_mul(blocks),
            weights: [update.forward.packed_words, update.transposed_words],
            rollout_blocks: config.num_envs.div_ceil(rollout.warps * TILE),
            own_weights: vec![rollout.packed_words],
        })
    }

    /// What matrix products take, and what lies between them: activations of N environments and of a minibatch.
    fn layers(&self, config: &Config, minibatch: usize, sum: &mut Sum) -> Parts {
        let (n, form) = (config.num_envs, Form::new(&self.network, self.precision));
        let times = |rows: usize, each: usize| rows.saturating_mul(each);
        let numbers = |count: usize| form.words(count);
        for rows in [n, minibatch] {
            sum.add::<f32>(numbers(times(rows, form.obs_row())));
            for layer in form.chains.iter().flatten() {
                let count = times(rows, layer.outputs);
                sum.add::<f32>(if layer.hidden { numbers(count) } else { count });
            }
            if form.halves() {
                sum.add::<f32>(times(rows, form.widest()));
            }
        }
        // The backward pass.
        for chain in &form.chains {
            sum.add::<f32>(numbers(times(minibatch, chain.last().map_or(0, |layer| layer.outputs))));
        }
        let widest = times(minibatch, form.widest());
        sum.add::<f32>(numbers(widest));
        sum.add::<f32>(numbers(widest));
        if form.halves() {
            sum.add::<f32>(widest);
        }
        // Environments that a time limit cuts short, and their sums.
        let cuts = config.num_steps.div_ceil(self.time_limit.max(1));
        sum.add::<f32>(times(cuts * n, form.words(form.obs_row())));
        sum.add::<u32>(times(cuts, n));
        sum.add::<u32>(times(n, 6));
        sum.add::<f32>(times(n, 2 * norms_of(&self.network, config).max(1)));

        let multiprocessors = self.properties.multiprocessors as usize;
        let blocks = LayersEngine::blocks(&self.network, minibatch, multiprocessors);
        let [each, all] = form.partial_words(&self.network);
        let weights = [form.words(form.matrix_elements), form.biases];
        Parts {
            blocks,
            partials: each * blocks + all,
            weights,
            rollout_blocks: n.div_ceil(THREADS),
            own_weights: weights.to_vec(),
        }
    }

    /// The most blocks of so many threads and bytes of shared memory that run at once, whatever their registers.
    fn resident(&self, threads: usize, shared: usize) -> usize {
        let by_threads = self.properties.threads_per_multiprocessor as usize / threads.max(1);
        let by_shared = self.properties.shared_per_multiprocessor / (shared + RESERVED);
        by_threads.min(by_shared).min(MOST_BLOCKS) * self.properties.multiprocessors as usize
    }

    /// The most environments up to `limit` that `bytes` hold; 0 where not one does.
    ///
    /// # Errors
    /// When no kernel fits the network.
    fn fit(&self, bytes: usize, limit: usize) -> Result<usize, LearnError> {
        // The first fits; the second does not, or is past the limit.
        let (mut least, mut beyond) = (0, limit.saturating_add(1));
        while beyond - least > 1 {
            let middle = least + (beyond - least) / 2;
            if self.of(middle)? <= bytes {
                least = middle;
            } else {
                beyond = middle;
            }
        }
        Ok(least)
    }

    /// Environments come in multiples of this, so that their samples divide into the minibatches.
    fn unit(&self) -> usize {
        let minibatches = self.config.num_minibatches.max(1);
        minibatches / greatest_common_divisor(minibatches, self.config.num_steps)
    }

    /// The most environments that `bytes` hold and whose samples divide into the minibatches; 0 where not one does.
    ///
    /// # Errors
    /// When no kernel fits the network.
    pub fn most(&self, bytes: usize) -> Result<usize, LearnError> {
        let unit = self.unit();
        Ok(self.fit(bytes, MOST_ENVIRONMENTS)? / unit * unit)
    }

    /// Bytes that training may take of the device now.
    fn usable(&self, device: &Device, fraction: f64) -> Result<(usize, Memory), LearnError> {
        let memory = device.memory()?;
        let usable = (memory.free as f64 * fraction) as usize;
        let total = memory.total as usize;
        // Rollout and learner have a library each that works in memory of its own.
        let libraries = if self.kernels == Kernels::Layers { 2 * MARGIN.min(total / 64) } else { 0 };
        Ok((usable.saturating_sub(MARGIN.min(total / 16) + libraries), memory))
    }

    /// Whether the configuration's environments fit into `fraction` of what is free: the bytes that they take.
    ///
    /// # Errors
    /// They do not: how much is needed, how much there is, and the most environments that fit.
    pub fn check(&self, device: &Device, fraction: f64) -> Result<usize, LearnError> {
        let num_envs = self.config.num_envs;
        let (usable, Memory { free, total }) = self.usable(device, fraction)?;
        let needed = self.of(num_envs)?;
        if needed <= usable {
            return Ok(needed);
        }
        // Need is rounded up, room down, to tenths.
        let up = |bytes: usize| (bytes as f64 / 104_857.6).ceil() / 10.0;
        let down = |bytes: usize| (bytes as f64 / 104_857.6).floor() / 10.0;
        let problem = format!(
            "{num_envs} environments{} take {} MiB of memory, and {} may use {} of its {} MiB ({} free)",
            if self.overlap { " with overlap" } else { "" },
            up(needed),
            device.properties().name,
            down(usable),
            down(total as usize),
            down(free as usize)
        );
        let remedy = match self.most(usable)? {
            0 => {
                "use a smaller network, fewer num_steps, a greater memory_fraction, or a GPU with more memory"
                    .to_owned()
            }
            most => format!("at most {most} fit: lower num_envs or num_steps, or raise memory_fraction"),
        };
        Err(LearnError::Config { key: "num_envs", problem, remedy })
    }

    /// As many environments as fit into `fraction` of what is free, up to `limit`, and no more than leave 100 updates within
    /// `total_timesteps`; rounded down to 16 for each multiprocessor, where there are that many, so that none of them is idle
    /// for part of a horizon.
    ///
    /// # Errors
    /// When not even the fewest fit, or no kernel fits the network.
    pub fn choose(&self, device: &Device, fraction: f64, limit: usize) -> Result<Chosen, LearnError> {
        let an_update = (self.config.num_steps as u64).saturating_mul(UPDATES).max(1);
        let by_updates = usize::try_from(self.config.total_timesteps / an_update).unwrap_or(usize::MAX);
        let (usable, _) = self.usable(device, fraction)?;
        let fit = self.fit(usable, limit.min(by_updates))?;
        let unit = self.unit();
        let wave = TILE * self.properties.multiprocessors as usize;
        let steps = [wave, TILE, 1].map(|step| step / greatest_common_divisor(step, unit) * unit);
        let rounded = steps.into_iter().find(|step| *step <= fit).map(|step| fit / step * step);
        let num_envs = rounded.unwrap_or(unit);
        let chosen = Self { config: Config { num_envs, ..self.config.clone() }, ..self.clone() };
        chosen.check(device, fraction)?;
        let reason = if fit < limit.min(by_updates) {
            format!("as many as fit into {:.1} GiB of memory", usable as f64 / f64::from(1 << 30))
        } else if by_updates <= limit {
            format!(
                "as many as leave {UPDATES} updates within total_timesteps = {}",
                self.config.total_timesteps
            )
        } else {
            "as many as a run may have".to_owned()
        };
        Ok(Chosen { num_envs, reason })
    }
}

/// A number of environments that was chosen, and why no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// N.
    pub num_envs: usize,
    /// Why, in a few words.
    pub reason: String,
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Head, Input};

    fn h200() -> DeviceProperties {
        DeviceProperties {
            ordinal: 0,
            name: "NVIDIA H200".to_owned(),
            uuid: String::new(),
            compute_capability: (9, 0),
            multiprocessors: 132,
            threads_per_multiprocessor: 2048,
            shared_per_block: 227 << 10,
            shared_per_multiprocessor: 228 << 10,
            registers_per_multiprocessor: 65_536,
            l2_bytes: 50 << 20,
            memory_bytes: 141 << 30,
            clock_khz: 1_980_000,
            memory_clock_khz: 3_201_000,
            memory_bus_bits: 6144,
            cooperative: true,
        }
    }

    fn footprint(config: &Config, overlap: bool) -> Footprint {
        let architecture = Architecture::new(config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
        let layout = SampleLayout::new(&architecture, false);
        Footprint {
            network: Network::new(architecture),
            layout,
            config: config.clone(),
            kernels: Kernels::Fused,
            precision: Precision::F32,
            overlap,
            running_words: 6,
            time_limit: 500,
            properties: h200(),
        }
    }

    #[test]
    fn the_most_that_fit_do_and_more_do_not() {
        for (minibatches, overlap) in [(4, false), (4, true), (3 * 128, false), (1, true)] {
            let config = Config { num_steps: 128, num_minibatches: minibatches, ..Config::default() };
            let footprint = footprint(&config, overlap);
            let bytes = 1 << 30;
            let most = footprint.most(bytes).expect("it fits");
            assert!(footprint.of(most).expect("it fits") <= bytes);
            assert!(footprint.of(most + footprint.unit()).expect("it fits") > bytes);
            assert_eq!(most * 128 % minibatches, 0);
            assert_eq!(footprint.most(1000).expect("it fits"), 0);
        }
    }

    #[test]
    fn a_step_of_cartpole_takes_what_its_parts_do() {
        let config = Config { num_steps: 128, ..Config::default() };
        let each = |overlap| {
            let of = |n| footprint(&config, overlap).of(n).expect("it fits");
            (of(1 << 20) - of(1 << 19)) / (1 << 19)
        };
        // A packed sample of 32 bytes, reward, value and flags a step; state, last value and a share of the sums besides.
        assert_eq!(each(false), 128 * 41 + 6 * 4 + 4);
        assert_eq!(each(true), each(false) + 128 * 32);
    }
}
