//! The device memory that training needs and the maximum number of environments, before anything is allocated: the allocating
//! code runs with an allocator that only counts.

use operant_cuda::{Device, DeviceProperties, Memory};
use operant_env::AnyEnv;

use super::choice::{GpuOptions, Kernels};
use super::common::ahead;
use super::common::env::KernelEnv;
use super::common::horizon::{HorizonMemory, HorizonSizes, metrics_of};
use super::common::local::Local;
use super::common::memory::Allocator;
use super::common::overlap::{MAX_RESIDENT_BLOCKS, RESERVED};
use super::common::phases::{UpdateMemory, UpdateSizes};
use super::fused::rollout::FusedPolicy;
use super::fused::specialise::{Limits, Specialisation, TILE, UpdateSpecialisation};
use super::fused::update::{FusedMemory, FusedUpdateSizes};
use super::gemm::layout::GemmLayout;
use super::gemm::minibatch::{MinibatchMemory, MinibatchSizes};
use super::gemm::products::Weights;
use super::gemm::ring::RingSizes;
use super::gemm::rnd::{RndMemory, RndNetworks, RndSizes};
use super::gemm::rollout::{GemmPolicy, GemmPolicyMemory};
use super::gemm::update::{GemmUpdateMemory, GemmUpdateSizes};
use super::slots::{SLOTS, SlotMemory};
use crate::LearnError;
use crate::config::{Config, Intrinsic};
use crate::network::{Architecture, Network};
use crate::precision::Precision;
use crate::sample::SampleLayout;

/// Bytes that are not counted: the driver's and the kernels' code.
const MARGIN: usize = 32 << 20;

/// Bytes that rounding up a buffer may add.
const ALIGNED: usize = 1 << 10;

/// Maximum environments that kernels can count.
const MAX_ENVIRONMENTS: usize = 1 << 30;

/// Minimum updates within `total_timesteps` for an automatic number of environments: with fewer, little would be learned.
const UPDATES: u64 = 100;

/// The inputs of the computation of device memory.
#[derive(Debug, Clone)]
pub struct Footprint {
    kernel_env: KernelEnv,
    network: Network,
    local: Local,
    kernels: Kernels,
    precision: Precision,
    overlap: bool,
    properties: DeviceProperties,
}

impl Footprint {
    /// The footprint of training in `env` with the chosen kernels.
    ///
    /// # Errors
    /// When the environment has no policy of a kind that can be trained.
    pub fn new(
        env: &dyn AnyEnv,
        local: impl Into<Local>,
        options: GpuOptions,
        properties: &DeviceProperties,
    ) -> Result<Self, LearnError> {
        let (kernel_env, local) = (KernelEnv::of(env)?, local.into());
        Ok(Self {
            network: Network::new(Architecture::of(&kernel_env.spec, &local.run)?),
            kernel_env,
            local,
            kernels: options.network.kernels,
            precision: options.network.precision,
            overlap: options.overlap,
            properties: properties.clone(),
        })
    }

    /// Bytes of the arena for N environments: rollout, learner and reports. It is slightly more than needed if registers allow
    /// fewer resident blocks than shared memory does.
    ///
    /// # Errors
    /// When no kernel fits the network.
    pub fn of(&self, num_envs: usize) -> Result<usize, LearnError> {
        let local = self.local.with_envs(num_envs);
        let blocks_at_once = |specialisation: &UpdateSpecialisation| {
            self.resident(specialisation.threads() as usize, specialisation.shared)
        };
        let (kernel_env, network, multiprocessors) =
            (&self.kernel_env, &self.network, self.properties.multiprocessors as usize);
        let stride = SampleLayout::new(&network.architecture, kernel_env.masked).stride;
        let (update, horizon, parts): (UpdateSizes, HorizonSizes, usize) = match self.kernels {
            Kernels::Gemm => {
                let gemm_layout = GemmLayout::new(network, self.precision);
                let sizes = GemmUpdateSizes::new(network, &local, &gemm_layout, stride, multiprocessors);
                let minibatch = local.run.algorithm.declaration().has_replay().then(|| {
                    let of = (kernel_env, network, &local);
                    MinibatchSizes::new(of, &gemm_layout, stride, multiprocessors)
                });
                let horizon = HorizonSizes::new(kernel_env, network, &local, GemmPolicy::blocks(num_envs));
                let rnd_sizes = RndNetworks::new(network, &local.run, self.precision).map(|networks| {
                    let of = (network, &local);
                    let sizes = RndSizes::new(kernel_env, of, &networks, multiprocessors);
                    (networks, sizes)
                });
                let parts = Allocator::count(|allocator| {
                    let own = self.overlap.then(|| Weights::new(allocator, &gemm_layout)).transpose()?;
                    let update = |_| GemmUpdateMemory::new(allocator, &gemm_layout, &sizes);
                    let update = minibatch.is_none().then_some(()).map(update).transpose()?;
                    let replay = |of: &MinibatchSizes| MinibatchMemory::new(allocator, &gemm_layout, of);
                    let replay = minibatch.as_ref().map(replay).transpose()?;
                    let rnd = |(networks, of): &(_, _)| RndMemory::new(allocator, networks, of);
                    let rnd = rnd_sizes.as_ref().map(rnd).transpose()?;
                    let of = (network, &local);
                    let policy = GemmPolicyMemory::new(allocator, kernel_env, of, &gemm_layout, horizon)?;
                    Ok((own, update, replay, rnd, policy))
                });
                (minibatch.map_or(sizes.update, |of| of.update), horizon, parts)
            }
            _ => {
                let limits = Limits::from(&self.properties);
                let update = UpdateSpecialisation::new(network, &local, self.precision, limits)?;
                let minibatch = UpdateSizes::new(network, &local, stride, 1).minibatch();
                let resident = blocks_at_once(&update);
                let blocks =
                    local.update_blocks(minibatch, |minibatch| update.blocks(network, minibatch, resident));
                let sizes = FusedUpdateSizes::new(network, &local, stride, &update, blocks);
                let rollout = Specialisation::new(network, &local.run, self.precision, limits)?;
                let blocks = FusedPolicy::blocks(&rollout, num_envs);
                let parts = Allocator::count(|allocator| {
                    let own = self.overlap.then(|| FusedPolicy::own_weights(allocator, &update.forward));
                    Ok((own.transpose()?, FusedMemory::new(allocator, &sizes)?))
                });
                (sizes.update, HorizonSizes::new(kernel_env, network, &local, blocks), parts)
            }
        };
        let shared = Allocator::count(|allocator| {
            let own = self.overlap.then(|| allocator.alloc::<f32>(network.len())).transpose()?;
            let horizon = HorizonMemory::new(allocator, &horizon, if self.overlap { 2 } else { 1 })?;
            let slots: Vec<_> = (0..SLOTS)
                .map(|_| {
                    SlotMemory::new(
                        allocator,
                        local.devices,
                        metrics_of(&kernel_env.spec, &local.run),
                        horizon.scene.len(),
                    )
                })
                .collect::<Result<_, _>>()?;
            Ok((own, UpdateMemory::new(allocator, &update)?, horizon, slots))
        });
        Ok(parts.saturating_add(shared))
    }

    /// Maximum resident blocks with this many threads and bytes of shared memory, ignoring registers.
    fn resident(&self, threads: usize, shared: usize) -> usize {
        let by_threads = self.properties.threads_per_multiprocessor as usize / threads.max(1);
        let by_shared = self.properties.shared_per_multiprocessor / (shared + RESERVED);
        by_threads.min(by_shared).min(MAX_RESIDENT_BLOCKS) * self.properties.multiprocessors as usize
    }

    /// The maximum number of environments up to `limit` that fit in `bytes`; 0 if none does.
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

    /// Environments come in multiples of this, so that their samples, or with memory their sequences, divide into the minibatches.
    fn unit(&self) -> usize {
        let minibatches = self.local.run.num_minibatches.max(1);
        minibatches / greatest_common_divisor(minibatches, self.local.run.units_per_env())
    }

    /// The maximum number of environments that fit in `bytes` and whose samples divide into the minibatches; 0 if none does.
    ///
    /// # Errors
    /// When no kernel fits the network.
    pub fn most(&self, bytes: usize) -> Result<usize, LearnError> {
        let unit = self.unit();
        Ok(self.fit(bytes, MAX_ENVIRONMENTS)? / unit * unit)
    }

    /// Bytes of device memory that training may use now.
    fn usable(&self, device: &Device, fraction: f64) -> Result<(usize, Memory), LearnError> {
        let memory = device.memory()?;
        let usable = (memory.free as f64 * fraction) as usize;
        let total = memory.total as usize;
        // Rollout, learner and networks for exploring each have a library with its own workspace.
        let libraries = match self.kernels {
            Kernels::Gemm if self.local.run.intrinsic == Intrinsic::Rnd => 3,
            Kernels::Gemm => 2,
            _ => 0,
        };
        let libraries = libraries * MARGIN.min(total / 64);
        let local = ahead::local_memory(device, &self.kernel_env)?;
        Ok((usable.saturating_sub(MARGIN.min(total / 16) + libraries + local), memory))
    }

    /// Checks that the configuration's environments fit into `fraction` of the free memory, and returns their bytes.
    ///
    /// # Errors
    /// If they do not fit: the bytes needed, the bytes available, and the maximum number of environments.
    pub fn check(&self, device: &Device, fraction: f64) -> Result<usize, LearnError> {
        let (num_envs, devices) = (self.local.num_envs, self.local.devices);
        let (usable, Memory { free, total }) = self.usable(device, fraction)?;
        let needed = self.of(num_envs)?;
        if needed <= usable {
            return Ok(needed);
        }
        // The need is rounded up, the free memory down.
        let up = |bytes: usize| (bytes as f64 / 104_857.6).ceil() / 10.0;
        let down = |bytes: usize| (bytes as f64 / 104_857.6).floor() / 10.0;
        let problem = format!(
            "{num_envs} environments{}{} take {} MiB of memory, and {} may use {} of its {} MiB ({} free)",
            if devices > 1 { " of each GPU" } else { "" },
            if self.overlap { " with overlap" } else { "" },
            up(needed),
            device.properties().name,
            down(usable),
            down(total as usize),
            down(free as usize)
        );
        if let Some(most) = self.largest_buffer(needed - usable) {
            let problem = problem.replacen("environments", "environments with a replay", 1);
            let problem = format!("{}: {problem}", self.local.run.buffer_size);
            let remedy = format!("at most {most} fits: lower buffer_size, or raise memory_fraction");
            return Err(LearnError::Config { key: "buffer_size", problem, remedy });
        }
        let remedy = match self.most(usable)? {
            0 => {
                "use a smaller network, fewer num_steps, a greater memory_fraction, or a GPU with more memory"
                    .to_owned()
            }
            most => format!(
                "at most {} fit: lower num_envs or num_steps, or raise memory_fraction",
                most * devices
            ),
        };
        Err(LearnError::Config { key: "num_envs", problem, remedy })
    }

    /// The greatest `buffer_size` that takes this many bytes less; None without a replay, or if that would be too small to learn from.
    fn largest_buffer(&self, less: usize) -> Option<usize> {
        let Config { num_envs, learning_starts, .. } = self.local.run;
        let sizes = RingSizes::new(&self.network, &self.local, self.kernel_env.masked);
        let row = sizes.num_envs as f64 * sizes.row_bytes();
        // The arena aligns what it holds.
        let fewer = ((less + ALIGNED) as f64 / row).ceil() as usize;
        let rows = sizes.rows.checked_sub(1)?.checked_sub(fewer)?;
        Some(rows * num_envs).filter(|&most| most >= learning_starts.max(2 * num_envs))
    }

    /// The number of environments that fit into `fraction` of the free memory, up to `limit`, and that leave 100 updates within
    /// `total_timesteps`. It is rounded down to 16 per multiprocessor, if there are that many, so that none is idle for part of a
    /// rollout.
    ///
    /// # Errors
    /// When not even the fewest fit, or no kernel fits the network.
    pub fn choose(&self, device: &Device, fraction: f64, limit: usize) -> Result<ChosenEnvs, LearnError> {
        let an_update = (self.local.run.num_steps as u64).saturating_mul(UPDATES).max(1);
        let by_updates = usize::try_from(self.local.run.total_timesteps / an_update).unwrap_or(usize::MAX);
        let (usable, _) = self.usable(device, fraction)?;
        let fit = self.fit(usable, limit.min(by_updates))?;
        let unit = self.unit();
        let wave = TILE * self.properties.multiprocessors as usize;
        let steps = [wave, TILE, 1].map(|step| step / greatest_common_divisor(step, unit) * unit);
        let rounded = steps.into_iter().find(|step| *step <= fit).map(|step| fit / step * step);
        let num_envs = rounded.unwrap_or(unit);
        let chosen = Self { local: self.local.with_envs(num_envs), ..self.clone() };
        chosen.check(device, fraction)?;
        let reason = if fit < limit.min(by_updates) {
            format!("as many as fit into {:.1} GiB of memory", usable as f64 / f64::from(1 << 30))
        } else if by_updates <= limit {
            format!(
                "as many as leave {UPDATES} updates within total_timesteps = {}",
                self.local.run.total_timesteps
            )
        } else {
            "as many as a run may have".to_owned()
        };
        Ok(ChosenEnvs { num_envs, reason })
    }
}

/// A chosen number of environments, and the limit that determined it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenEnvs {
    /// num_envs (N).
    pub num_envs: usize,
    /// The reason, in a few words.
    pub reason: String,
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
pub(in crate::cuda) mod tests {
    use super::*;
    use crate::config::CoreKind;
    use crate::cuda::choice::NetworkOptions;
    use crate::network::{Head, Input};

    pub fn h200() -> DeviceProperties {
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
        Footprint {
            kernel_env: KernelEnv::of(&operant_env::cartpole::CartPole::default()).expect("CUDA source"),
            network: Network::new(architecture),
            local: config.into(),
            kernels: Kernels::Fused,
            precision: Precision::F32,
            overlap,
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
    fn whole_sequences_divide_into_the_minibatches() {
        let cores =
            [(CoreKind::Gru, 32, 2), (CoreKind::Gru, 64, 4), (CoreKind::Gru, 0, 1), (CoreKind::Mlp, 0, 1)];
        for (core, sequence_length, unit) in cores {
            let learner =
                Config { num_steps: 64, num_minibatches: 4, core, sequence_length, ..Config::default() };
            let footprint = footprint(&learner, false);
            assert_eq!(footprint.unit(), unit);
            let num_envs = footprint.most(1 << 20).expect("it fits");
            let chosen = Config { num_envs, ..learner };
            assert_eq!(num_envs * (64 / chosen.sequence()) % 4, 0, "{num_envs} with {core:?}");
        }
    }

    #[test]
    fn states_made_ahead_and_the_local_memory_of_resets_are_counted() {
        let env = operant_env::builtin().find("craftax_classic").expect("built in").clone();
        let network = NetworkOptions { kernels: Kernels::Gemm, ..NetworkOptions::default() };
        let options = GpuOptions { network, ..GpuOptions::default() };
        let config = Config { num_steps: 16, ..Config::default() };
        let of = |ahead| {
            let mut footprint = Footprint::new(&*env, &config, options, &h200()).expect("a policy");
            footprint.kernel_env.ahead = ahead;
            footprint
        };
        let [with, without] = [true, false].map(|ahead| of(ahead).of(1 << 16).expect("it fits"));
        // The state, and the step that made it.
        assert_eq!(with - without, (4 * env.leaves().len() + 8) << 16);
        // What the compiler reports for the kernels of steps (docs/craftax.md) is counted.
        let views = [("symbolic", 29_056), ("indices", 17_136)];
        for (view, most) in views {
            let options = operant_env::EnvOptions::from([("view".to_owned(), view.into())]);
            let env = operant_env::builtin().make("craftax_classic", &options).expect("known options");
            let kernel_env = KernelEnv::of(&*env).expect("CUDA source");
            let counted = ahead::local_bytes_of_steps(&kernel_env, 11_968);
            assert!((most..2 * most).contains(&counted), "{view}: {counted}");
        }
    }

    #[test]
    fn a_step_of_cartpole_takes_what_its_parts_do() {
        let config = Config { num_steps: 128, ..Config::default() };
        let each = |overlap| {
            let of = |n| footprint(&config, overlap).of(n).expect("it fits");
            (of(1 << 20) - of(1 << 19)) / (1 << 19)
        };
        // A packed sample of 32 bytes, reward, value and flags a step; plus state, last value and a share of the sums.
        assert_eq!(each(false), 128 * 41 + 6 * 4 + 4);
        assert_eq!(each(true), each(false) + 128 * 32);
    }
}
