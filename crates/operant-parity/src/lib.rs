//! Comparisons of the GPU with the CPU, used by tests and `operant selftest gpu`, and the updates of PPO, PQN and SAC once more in f64 ([`mod@reference`]).
//!
//! Environments must agree bit for bit. Rollouts are compared teacher-forced, every step from the CPU's state, because two
//! trajectories diverge for good at the first near tie of a draw.

#![forbid(unsafe_code)]

pub mod reference;
mod update;

use operant_cuda::Device;
use operant_env::play::{Outputs as PlayOutputs, RandomActions};
use operant_env::{AnyEnv, EnvOptions, LaneWidth, StepError, TileSpec, running_words};
use operant_lane::draws::unit;
use operant_lane::{ActionDraws, Packed, Purpose};
use operant_learn::cpu::network::tile::LANES;
use operant_learn::cpu::{CpuOptions, Instrumented, backend_with};
use operant_learn::cuda::RunningNorm as DeviceNorm;
use operant_learn::cuda::{CudaPlay, CudaRollout, HASH, NetworkOptions, PlayOptions, Returns};
use operant_learn::network::{Form, Head, Network, Outputs};
use operant_learn::sample::SampleLayout;
use operant_learn::{Config, LearnError, Precision};

pub use update::{UpdateParity, UpdatePath, batch_of, compare_gradient, compare_update};

/// Tolerance of a precision: the largest relative norm of a difference, ||device - CPU|| / ||CPU||.
pub fn tolerance(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => 1e-5,
        Precision::Tf32 => 2e-3,
        Precision::Bf16 => 2e-2,
    }
}

// ---- environments ---------------------------------------------------------------------------------------------------

/// Environments whose trajectory on the device differs from the scalar lane's in any bit, over `steps` steps of random play
/// with auto-reset: observations, rewards, flags and states of every step. The result must be empty.
///
/// # Errors
/// When the device fails.
pub fn differing_environments(
    device: &Device,
    env: &dyn AnyEnv,
    num_envs: usize,
    steps: usize,
) -> Result<Vec<usize>, LearnError> {
    let seed = 7;
    let play = CudaPlay::new(device, env, num_envs, PlayOptions { hashes: true, ..PlayOptions::new(seed) })?;
    // In two launches, so that the state kept between launches is checked too.
    let half = steps / 2;
    play.play(half)?;
    play.play(steps - half)?;
    let (hashes, expected) = (play.hashes()?, scalar_hashes(env, seed, num_envs, steps as u64)?);
    Ok((0..num_envs).filter(|&environment| hashes[environment] != expected[environment]).collect())
}

fn fold(hash: &mut u64, word: u32) {
    for byte in word.to_le_bytes() {
        *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

/// A hash of each environment's random play on the scalar lane: reward, ends, observation and state of every step.
fn scalar_hashes(env: &dyn AnyEnv, seed: u64, num_envs: usize, steps: u64) -> Result<Vec<u64>, LearnError> {
    let spec = env.spec();
    let leaves = env.leaves().len();
    let mut hashes = Vec::new();
    for first in (0..num_envs as u32).step_by(LANES) {
        let tile = TileSpec { lanes: LaneWidth::One, ..TileSpec::new(seed, first, LANES) };
        let mut stepper = env.stepper(tile)?;
        let mut outputs = PlayOutputs::new(&spec, env.masked(), LANES);
        let mut random = RandomActions::new(spec.actions.clone(), seed, first, LANES);
        let mut actions = vec![0.0; spec.actions.components() * LANES];
        let mut states = vec![0; running_words(env) * LANES];
        let mut block = [HASH; LANES];
        stepper.observe(outputs.seen())?;
        for step in 0..steps {
            random.fill(step, &outputs.legal, &mut actions);
            stepper.submit(&actions, step)?;
            stepper.collect(outputs.stepped())?;
            stepper.save(&mut states);
            for (row, hash) in block.iter_mut().enumerate() {
                fold(hash, outputs.rewards[row].to_bits());
                outputs.ended(row).into_iter().for_each(|ended| fold(hash, u32::from(ended)));
                let obs = outputs.obs.iter().skip(row).step_by(LANES);
                let state = states.iter().skip(row).step_by(LANES).take(leaves);
                obs.chain(state).for_each(|&word| fold(hash, word));
            }
        }
        hashes.extend(block);
    }
    Ok(hashes)
}

// ---- the rollout ----------------------------------------------------------------------------------------------------

/// Accumulates a relative norm.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Norm {
    difference: f64,
    reference: f64,
}

impl Norm {
    fn add(&mut self, got: f64, expected: f64) {
        self.difference += (got - expected).powi(2);
        self.reference += expected.powi(2);
    }

    /// ||got - expected|| / ||expected||; NaN if any number is NaN.
    pub fn relative(&self) -> f64 {
        if self.difference == 0.0 { 0.0 } else { (self.difference / self.reference).sqrt() }
    }
}

/// The norm of the difference of two lists.
fn norm_of<A: Copy + Into<f64>, B: Copy + Into<f64>>(got: &[A], expected: &[B]) -> Norm {
    assert_eq!(got.len(), expected.len());
    let mut norm = Norm::default();
    got.iter().zip(expected).for_each(|(&got, &expected)| norm.add(got.into(), expected.into()));
    norm
}

/// ||got - expected|| / ||expected||; NaN if `expected` is zero, since then nothing is compared.
pub fn distance<A: Copy + Into<f64>, B: Copy + Into<f64>>(got: &[A], expected: &[B]) -> f64 {
    let norm = norm_of(got, expected);
    (norm.difference / norm.reference).sqrt()
}

/// The result of a teacher-forced comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RolloutParity {
    /// Samples compared.
    pub samples: usize,
    /// Samples whose observation, action mask or padding differs; normalised observations may differ by rounding.
    pub observations_differ: usize,
    /// Samples whose choice differs.
    pub actions_differ: usize,
    /// The differing ones whose draw is not within rounding of the boundary between the two choices.
    pub actions_unexplained: usize,
    /// Samples with the same action whose next state differs.
    pub states_differ: usize,
    /// Continuous actions; empty for discrete ones.
    pub actions: Norm,
    /// Log-probabilities of equal actions.
    pub logprobs: Norm,
    /// Values.
    pub values: Norm,
    /// The state of layers with memory after the step.
    pub memory: Norm,
    /// One-step advantages of equal actions, which depend on reward, bootstrap and next value; relative to advantages and values.
    pub advantages: Norm,
    /// Means and variances of normalised quantities.
    pub statistics: Norm,
}

impl RolloutParity {
    /// Descriptions of the differences; empty if the device agrees with the CPU.
    pub fn problems(&self, precision: Precision) -> Vec<String> {
        let mut problems = Vec::new();
        for (count, what) in [
            (self.observations_differ, "observations"),
            (self.actions_unexplained, "choices, without a near tie,"),
            (self.states_differ, "next states"),
        ] {
            if count > 0 {
                problems.push(format!("{count} of {} {what} differ", self.samples));
            }
        }
        for (norm, what) in [
            (self.actions, "actions"),
            (self.logprobs, "log-probabilities"),
            (self.values, "values"),
            (self.memory, "states of memory"),
            (self.advantages, "advantages"),
        ] {
            let (got, most) = (norm.relative(), tolerance(precision));
            // Written so that NaN counts as a problem.
            if !matches!(got.partial_cmp(&most), Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)) {
                problems.push(format!("{what} differ by a relative norm of {got:.2e}, more than {most:.0e}"));
            }
        }
        let statistics = self.statistics.relative();
        if statistics.is_nan() || statistics > 1e-4 {
            problems.push(format!("running statistics differ by {statistics:.2e}, more than 1e-4"));
        }
        problems
    }
}

/// Compares `steps` single steps of `config`'s environments, each from the CPU's state, under the same weights.
///
/// # Errors
/// When the configuration cannot be rolled out there, or the device fails.
pub fn compare_rollout(
    device: &Device,
    env: &dyn AnyEnv,
    config: &Config,
    options: impl Into<NetworkOptions>,
    params: &[f32],
    steps: u64,
) -> Result<RolloutParity, LearnError> {
    let one_step = Config { num_steps: 1, num_minibatches: 1, sequence_length: 0, ..config.clone() };
    let (config, options) = (one_step, options.into());
    let precision = options.precision;
    let gpu = CudaRollout::new(device, env, &config, options)?;
    gpu.set_params(params)?;
    let mut reference = Stepwise::new(env, &config, gpu.network(), params)?;
    let mut found = RolloutParity::default();
    for step in 0..steps {
        let before = reference.environments();
        let elapsed = &before[before.len() - 2 * config.num_envs..][..config.num_envs];
        gpu.set_environments(&before, step)?;
        let (norms, scales) = reference.norms();
        gpu.set_running_norms(&norms, &scales)?;
        gpu.set_memory(&reference.backend.memory())?;
        gpu.poison(0xff)?;
        gpu.roll()?;
        let expected = reference.step()?;
        let samples = Samples { got: &gpu.samples()?, expected: &expected, elapsed, layout: gpu.layout() };
        let (got_states, states) = (gpu.environments()?, reference.environments());
        for n in 0..config.num_envs {
            let agrees = found.compare_sample(&samples, n, &reference, step, precision);
            let word = |words: &[u32]| -> Vec<u32> {
                words.iter().skip(n).step_by(config.num_envs).copied().collect()
            };
            // Continuous actions differ in their last bits, and so do the following states.
            let exact = agrees && matches!(reference.network.architecture.head, Head::MultiDiscrete(_));
            if exact && word(&got_states) != word(&states) {
                found.states_differ += 1;
            }
        }
        for (got, expected) in gpu.memory()?.into_iter().zip(reference.backend.memory()) {
            found.memory.add(f64::from(got), f64::from(expected));
        }
        for (got, expected) in gpu.running_norms()?.iter().zip(reference.norms().0) {
            // Means near zero are compared relative to the standard deviation.
            found
                .statistics
                .add(got.mean / expected.var.sqrt() + 1.0, expected.mean / expected.var.sqrt() + 1.0);
            found.statistics.add(got.var / expected.var, 1.0);
        }
    }
    Ok(found)
}

/// One step of all environments, packed.
struct Samples<'a> {
    got: &'a [u32],
    expected: &'a [u32],
    /// Steps of each environment's episode before this one.
    elapsed: &'a [u32],
    layout: &'a SampleLayout,
}

impl RolloutParity {
    /// Compares sample `n`; returns whether its actions agree.
    fn compare_sample(
        &mut self,
        samples: &Samples<'_>,
        n: usize,
        reference: &Stepwise<'_>,
        step: u64,
        precision: Precision,
    ) -> bool {
        let layout = samples.layout;
        let of = |words: &[u32]| words[n * layout.stride..][..layout.stride].to_vec();
        let (got, expected) = (of(samples.got), of(samples.expected));
        let float = |words: &[u32], at: usize| f64::from(f32::from_bits(words[at]));
        self.samples += 1;

        let tail = layout.mask..layout.stride;
        // The keep flag of a recurrent state. A rollout of one step begins no episode on the device, so there it is 1; on the CPU it is 0 if
        // the step before ended an episode.
        let began = step > 0 && samples.elapsed[n] == 0;
        let keeps = layout.keep.is_none_or(|keep| {
            float(&got, keep) == 1.0 && float(&expected, keep) == f64::from(u8::from(!began))
        });
        let same_obs = if reference.config.norm_obs {
            (0..layout.obs_words).all(|k| (float(&got, k) - float(&expected, k)).abs() <= 1e-5)
        } else {
            got[..layout.obs_words] == expected[..layout.obs_words]
        };
        if !same_obs || !keeps || got[tail.clone()] != expected[tail] {
            self.observations_differ += 1;
        }
        let actions = layout.actions..layout.actions + layout.components;
        let discrete = matches!(reference.network.architecture.head, Head::MultiDiscrete(_));
        if !discrete {
            for k in actions.clone() {
                self.actions.add(float(&got, k), float(&expected, k));
            }
        } else if got[actions.clone()] != expected[actions.clone()] {
            self.actions_differ += 1;
            let choices =
                |words: &[u32]| -> Vec<usize> { actions.clone().map(|k| float(words, k) as usize).collect() };
            if !reference.near_tie(&expected, n, step, &choices(&got), &choices(&expected), precision) {
                self.actions_unexplained += 1;
            }
            self.values.add(float(&got, layout.value), float(&expected, layout.value));
            return false;
        }
        if let Some(logprob) = layout.logprob {
            self.logprobs.add(float(&got, logprob), float(&expected, logprob));
        }
        self.values.add(float(&got, layout.value), float(&expected, layout.value));
        // A difference of values: its rounding error scales with their size, not with its own.
        self.advantages.add(float(&got, layout.advantage), float(&expected, layout.advantage));
        self.advantages.reference += float(&expected, layout.value).powi(2);
        true
    }
}

/// The CPU reference: a backend that plays one step at a time.
struct Stepwise<'a> {
    config: &'a Config,
    network: &'a Network,
    params: &'a [f32],
    backend: Box<dyn Instrumented>,
}

impl<'a> Stepwise<'a> {
    /// A reference for `config`, with num_steps = 1.
    fn new(
        env: &dyn AnyEnv,
        config: &'a Config,
        network: &'a Network,
        params: &'a [f32],
    ) -> Result<Self, LearnError> {
        // The backend keeps a copy.
        let env = env.with_options(&EnvOptions::new()).map_err(|error| {
            LearnError::Environment(StepError { env: env.spec().name, what: error.to_string(), remedy: "" })
        })?;
        let mut backend = backend_with(env, config, &CpuOptions::new(1))?.backend;
        backend.set_params(params);
        Ok(Self { config, network, params, backend })
    }

    /// `(leaves + 2, N)`.
    fn environments(&self) -> Vec<u32> {
        let words = self.backend.environments();
        let leaves = words.len() / self.config.num_envs;
        (0..leaves).flat_map(|leaf| words.iter().skip(leaf).step_by(leaves)).copied().collect()
    }

    /// Running statistics and the scales derived from them, in the device's layout.
    fn norms(&self) -> (Vec<DeviceNorm>, Vec<f32>) {
        let (mut norms, mut scales) = (Vec::new(), Vec::new());
        let used = [self.config.norm_obs, self.config.norm_reward].into_iter();
        for (_, norm) in used.zip(self.backend.running_norms()).filter(|(used, _)| *used) {
            for ((&mean, &var), (shift, scale)) in norm.mean.iter().zip(&norm.var).zip(norm.shift_scale()) {
                norms.push(DeviceNorm { mean, var, count: norm.count });
                scales.extend([shift, scale]);
            }
        }
        (norms, scales)
    }

    /// The next step of every environment: its samples, in the order of the environments.
    fn step(&mut self) -> Result<Vec<u32>, LearnError> {
        let pool = self.backend.pool();
        pool.install(|| self.backend.roll())?;
        let batch = self.backend.batch();
        Ok((0..batch.len()).flat_map(|index| batch.sample(index).to_vec()).collect())
    }

    /// Whether a draw is so near a boundary of the distribution, or two action values so near each other, that rounding decides: recomputed in
    /// f64, component by component, for the choices that differ. Only networks of dense layers and embeddings have ties: in others each choice that differs
    /// counts as an error.
    fn near_tie(
        &self,
        sample: &[u32],
        n: usize,
        step: u64,
        got: &[usize],
        expected: &[usize],
        precision: Precision,
    ) -> bool {
        let layout = self.backend.batch().layout();
        let Head::MultiDiscrete(counts) = &self.network.architecture.head else { return false };
        if self.network.layers().any(|layer| !matches!(layer.form, Form::Dense(_) | Form::Embed(_))) {
            return false;
        }
        let logits = reference::logits(self.network, self.params, &sample[..layout.obs_words]);
        let mut draws =
            ActionDraws::<f32>::new(self.config.seed, f32::load_uint(&[n as u32]), Purpose::Action);
        let (mut first, mut explained) = (0, true);
        for (component, &count) in counts.iter().enumerate() {
            let draw = f64::from(unit::<f32>(draws.bits(step, component as u32, counts.len() as u32)));
            let legal = |k: usize| {
                layout.mask_words == 0
                    || sample[layout.mask + (first + k) / 32] >> ((first + k) % 32) & 1 == 1
            };
            if self.network.architecture.outputs == Outputs::ActionValues {
                // Draws, epsilon and so random choices are exact.
                let values = &logits[first..first + count];
                let size = values.iter().fold(0.0, |size: f64, value| size.max(value.abs()));
                let apart = (values[got[component]] - values[expected[component]]).abs();
                explained &= apart <= tolerance(precision) * size;
                first += count;
                continue;
            }
            let weights: Vec<f64> =
                (0..count).map(|k| if legal(k) { logits[first + k].exp() } else { 0.0 }).collect();
            let total: f64 = weights.iter().sum();
            let (a, b) = (got[component].min(expected[component]), got[component].max(expected[component]));
            if a != b {
                // Every boundary between the two choices has to be near the draw.
                let border = |k: usize| weights[..=k].iter().sum::<f64>() / total;
                explained &= (a..b).all(|k| (border(k) - draw).abs() <= tolerance(precision));
            }
            first += count;
        }
        explained
    }
}

// ---- horizons -------------------------------------------------------------------------------------------------------

/// Checks that one launch of T steps gives the same bits as T launches of one step, under fixed statistics: samples (except
/// advantages), flags, values, environments. Also checks the advantages against GAE in f64. Returns descriptions of the
/// differences.
///
/// # Errors
/// When the configuration cannot be rolled out there, or the device fails.
pub fn check_horizon(
    device: &Device,
    env: &dyn AnyEnv,
    config: &Config,
    options: impl Into<NetworkOptions>,
    params: &[f32],
) -> Result<Vec<String>, LearnError> {
    let config = Config { norm_obs: false, norm_reward: false, ..config.clone() };
    let options = options.into();
    let whole = CudaRollout::new(device, env, &config, options)?;
    whole.set_params(params)?;
    let one_step = Config { num_steps: 1, sequence_length: 0, ..config.clone() };
    let single = CudaRollout::new(device, env, &one_step, options)?;
    single.set_params(params)?;
    let mut problems = Vec::new();
    for horizon in 0..2 {
        whole.poison(0xff)?;
        whole.roll()?;
        let (samples, returns) = (whole.samples()?, whole.returns()?);
        let (layout, length) = (whole.layout(), config.sequence());
        let of_step = config.num_envs * layout.stride;
        // In a rollout of one step `keep` is always 1, so it is not compared.
        let without_advantage = |samples: &[u32]| -> Vec<u32> {
            let differs = |word| word == layout.advantage || Some(word) == layout.keep;
            let kept = |(k, word): (usize, &u32)| if differs(k % layout.stride) { 0 } else { *word };
            samples.iter().enumerate().map(kept).collect()
        };
        let (mut steps, mut flags, mut episodes) = (Vec::new(), Vec::new(), 0.0);
        let mut first_states = Vec::new();
        for step in 0..config.num_steps {
            single.roll()?;
            let mut samples = single.samples()?;
            let states = samples.split_off(of_step);
            steps.extend(samples);
            if step % length == 0 {
                first_states.extend(states);
            }
            flags.extend(single.returns()?.flags);
            episodes += single.episodes()?.count;
        }
        let mut check = |good: bool, what: &str| {
            if !good {
                problems.push(format!("horizon {horizon}: {what}"));
            }
        };
        let (samples, states) = samples.split_at(config.num_steps * of_step);
        check(states == first_states, "states that sequences began with differ from those of single steps");
        if let Some(keep) = layout.keep {
            let begins = |k: usize| k >= config.num_envs && flags[k - config.num_envs] != 0;
            let expected = |k: usize| if begins(k) { 0.0 } else { 1.0f32 };
            let words = samples.iter().skip(keep).step_by(layout.stride).enumerate();
            let good = words.clone().all(|(k, word)| *word == f32::to_bits(expected(k)));
            check(good, "samples do not say where episodes begin");
        }
        check(
            without_advantage(samples) == without_advantage(&steps),
            "samples differ from those of single steps",
        );
        check(returns.flags == flags, "flags differ from those of single steps");
        check(whole.memory()? == single.memory()?, "the memory differs from that of single steps");
        check(
            whole.environments()? == single.environments()?,
            "environments differ from those of single steps",
        );
        let totals = whole.episodes()?;
        let ended = flags.iter().filter(|flags| **flags != 0).count() as f64;
        check(totals.count == ended && episodes == ended, "the count of episodes is not that of the flags");
        let gae = advantages(&config, &returns);
        let mut norm = Norm::default();
        for (index, expected) in gae.iter().enumerate() {
            norm.add(f64::from(f32::from_bits(samples[index * layout.stride + layout.advantage])), *expected);
        }
        check(norm.relative() <= 1e-5, &format!("advantages differ from GAE's by {:.2e}", norm.relative()));
    }
    Ok(problems)
}

/// Checks that the separate GAE kernel gives the same bits as GAE in the rollout kernel.
///
/// # Errors
/// Same as [`check_horizon`].
pub fn check_gae(
    device: &Device,
    env: &dyn AnyEnv,
    config: &Config,
    options: impl Into<NetworkOptions>,
    params: &[f32],
) -> Result<Vec<String>, LearnError> {
    let rollout = CudaRollout::new(device, env, config, options)?;
    rollout.set_params(params)?;
    rollout.roll()?;
    let (samples, layout) = (rollout.samples()?, rollout.layout());
    rollout.wipe_advantages()?;
    rollout.advantages_alone(device)?;
    let alone = rollout.samples()?;
    let advantages = |samples: &[u32]| -> Vec<u32> {
        let samples = samples.chunks_exact(layout.stride).take(config.num_envs * config.num_steps);
        samples.map(|sample| sample[layout.advantage]).collect()
    };
    let differ = advantages(&samples).iter().zip(advantages(&alone)).filter(|(a, b)| **a != *b).count();
    Ok(if differ == 0 {
        Vec::new()
    } else {
        vec![format!("{differ} advantages differ from those of gae.cu")]
    })
}

/// GAE in f64, `(T, N)`.
fn advantages(config: &Config, returns: &Returns) -> Vec<f64> {
    let (n, steps) = (config.num_envs, config.num_steps);
    let mut advantages = vec![0.0; n * steps];
    for environment in 0..n {
        let column = |row: &[f32]| row.iter().skip(environment).step_by(n).map(|&x| f64::from(x)).collect();
        let (rewards, values): (Vec<f64>, Vec<f64>) = (column(&returns.rewards), column(&returns.values));
        let done: Vec<bool> =
            returns.flags.iter().skip(environment).step_by(n).map(|&flag| flag != 0).collect();
        let next_value = f64::from(returns.next_values[environment]);
        let lambda = (config.algorithm.declaration().return_lambda)(config);
        let of_one = match &returns.movers {
            None => reference::gae(&rewards, &values, &done, next_value, config.gamma, lambda),
            Some(movers) => {
                let movers: Vec<u8> = movers.iter().skip(environment).step_by(n).copied().collect();
                let of = [&rewards[..], &values[..]];
                reference::gae_of_players(of, &done, &movers, next_value, config.gamma, lambda)
            }
        };
        advantages.iter_mut().skip(environment).step_by(n).zip(of_one).for_each(|(to, from)| *to = from);
    }
    advantages
}
