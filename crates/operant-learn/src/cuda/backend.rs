//! The GPU [`Backend`]: a rollout and an update are two launches. The host enqueues them ahead and collects their reports (176
//! bytes per update) from pinned memory, which a separate stream fills. With a replay an update is T times a forward pass, a kernel that chooses
//! actions, the minibatches that are due (a graph each), and a kernel that steps the environments, in one stream.
//!
//! # Streams
//!
//! ```text
//! without overlap:      train  | rollout k | update k | rollout k+1 | update k+1 |
//!
//! with overlap:         play   | rollout k | rollout k+1   | rollout k+2   |
//!                       learn              | T | update k   | T | update k+1 |
//!
//! both:                 side                            | report k |        T: the rollout copies the weights
//! ```
//!
//! With overlap, rollout k+1 runs concurrently with update k, so it plays with the weights from before update k: those after
//! update k-1. It reads a copy of them, which `learn` makes after rollout k and before update k; rollout k+1 waits for that.
//!
//! All access to shared data is ordered, so the same seed gives the same bits regardless of timing:
//!
//! - samples: two buffers, used alternately. Update k waits for rollout k, which filled the buffer. Rollout k+2, which fills it again, waits
//!   for T of k+1, which `learn` reaches after update k.
//! - the rollout's copy of the weights: T of k waits for rollout k, the last to read the previous weights; rollout k+1 waits for T
//!   of k.
//! - parameters, moments, gradients, progress, the report: only `learn` accesses them.
//! - environments, values, rewards, flags, norms and their scales, episodes, clock, scene: only `play` accesses them. An update reads samples
//!   and nothing else from a rollout; the samples contain the advantages.
//! - reports to the host: `play` and `learn` copy episodes, scene and report to a slot on the device, and `side`, which waits for
//!   the end of the update, from there to pinned memory. A slot is used again once the host has seen the end of that copy, so
//!   the training streams never wait for it.
//!
//! Everything is allocated at the start: device memory is one arena, and the loop allocates nothing.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use operant_cuda::{
    Buffer, Communicator, CommunicatorId, CudaError, Device, DeviceProperties, Event, Pinned, Plain, Stream,
};
use operant_env::{AnyEnv, running_words};
use operant_metrics::Record;

use super::choice::{GpuOptions, Kernels, NetworkOptions, choose, for_players};
use super::common::env::KernelEnv;
use super::common::horizon::metrics_of;
use super::common::local::Local;
use super::common::memory::Allocator;
use super::common::overlap::no_room;
use super::common::phases::{Progress, UpdateReport};
use super::common::structs::{EpisodeTotals, RunningNorm as DeviceNorm};
use super::footprint::{ChosenEnvs, Footprint};
use super::fused::specialise::{Limits, Specialisation, TILE};
use super::learner::CudaLearner;
use super::rollout::CudaRollout;
use super::slots::{SLOTS, Slot, all_episodes, means};
use crate::LearnerState;
use crate::algorithms::{Learns, Rules};
use crate::backend::{Backend, EpisodeRecording, EvalActions, Evaluation, LearnError, Ticket, UpdateStats};
use crate::config::{Config, Intrinsic, ShuffleKind};
use crate::cpu::check_players;
use crate::cpu::network::policy::Policy;
use crate::cpu::off_policy::cycle;
use crate::cpu::off_policy::given::Given;
use crate::cpu::off_policy::replay::{Replay, ReplayLayout};
use crate::cpu::rnd::RndState;
use crate::cpu::threads::pool;
use crate::evaluate::{EvalInputs, evaluate_on};
use crate::group::{Alone, Group, agreed, check_shares, gathered, gathered_texts, share};
use crate::network::{Architecture, Network, init_params};
use crate::normalise::RunningNorm;
use crate::recorder::Recorder;
use crate::snapshot::Snapshot;
use crate::state::BackendState;

/// Bytes of an update's report, without the scene.
const REPORT_BYTES: usize = size_of::<UpdateReport>() + size_of::<EpisodeTotals>();

/// The GPU backend for `env` on `device`.
///
/// # Errors
/// When the configuration cannot be trained there, does not fit its memory, or the kernels do not compile.
pub fn backend(
    env: Arc<dyn AnyEnv>,
    config: &Config,
    device: &Device,
    options: GpuOptions,
) -> Result<Box<dyn Backend>, LearnError> {
    backend_in(env, config, device, options, Arc::new(Alone))
}

/// Like [`backend`], for one GPU of a group, which plays its share of the environments. All processes of the group must make the same calls in
/// the same order. NCCL adds the sums of all GPUs, in an unspecified order unless `options.deterministic`.
///
/// # Errors
/// The errors of [`backend`], when the GPUs cannot have equal shares, or NCCL is missing.
pub fn backend_in(
    env: Arc<dyn AnyEnv>,
    config: &Config,
    device: &Device,
    options: GpuOptions,
    group: Arc<dyn Group>,
) -> Result<Box<dyn Backend>, LearnError> {
    check_players(&*env, config)?;
    let prepared = prepare(&*env, config, device, options, &*group);
    let (local, options, how, allocator) = agreed(&*group, prepared)?;
    check_devices(device, &*group)?;
    let made = CudaBackend::new(env, config, local, (&allocator, device), options, Arc::clone(&group));
    let mut made = agreed(&*group, made)?;
    // From here on a GPU may wait in a stream for another one that has failed.
    link(device, &*group).and_then(|link| made.ready(link)).inspect_err(|_| group.abandon())?;
    made.how = match made.overlap_without_room()? {
        Some(reason) => format!("{how}; {reason}"),
        None => how,
    };
    Ok(Box::new(made))
}

/// The configuration and the memory of one GPU of a group.
fn prepare(
    env: &dyn AnyEnv,
    config: &Config,
    device: &Device,
    options: GpuOptions,
    group: &dyn Group,
) -> Result<(Local, GpuOptions, String, Allocator), LearnError> {
    check_shares(config, group)?;
    if group.size() > 1 {
        device.cuda().has_nccl()?;
    }
    let (options, how) = decided(env, config, device, options)?;
    check_options(env, config, options, (device, group.size()))?;
    let local = Local::of(config, group.rank(), group.size(), options.deterministic);
    let footprint = Footprint::new(env, local.clone(), options, device.properties())?;
    let allocator = Allocator::arena(device, footprint.check(device, options.memory_fraction)?)?;
    Ok((local, options, how, allocator))
}

/// Refuses what several GPUs cannot do.
fn check_options(
    env: &dyn AnyEnv,
    config: &Config,
    options: GpuOptions,
    (device, devices): (&Device, usize),
) -> Result<(), LearnError> {
    let refuse = |key, problem: &str, remedy: &str| {
        Err(LearnError::Config { key, problem: problem.to_owned(), remedy: remedy.to_owned() })
    };
    let has_replay = config.algorithm.declaration().has_replay();
    if matches!(config.algorithm.declaration().learns, Learns::Replay(Rules::ActorCritic(_))) {
        cycle::check_input(env, &Network::new(Architecture::of(&env.spec(), config)?), config)?;
    }
    cycle::check_free(env, config)?;
    if has_replay && options.overlap {
        let problem = "an algorithm with a replay already trains between the steps of a rollout";
        return refuse("overlap", problem, "set overlap = false");
    }
    if has_replay && options.deterministic {
        let problem = "the GEMM path, which trains algorithms with a replay, does not support it";
        return refuse("deterministic", problem, "set deterministic = false");
    }
    if config.intrinsic == Intrinsic::Rnd && options.overlap {
        let problem = "intrinsic = \"rnd\" trains the networks that a rollout takes its rewards from";
        return refuse("overlap", problem, "set overlap = false");
    }
    if config.algorithms.ppo.norm_value && options.overlap {
        let problem =
            "norm_value changes the units of values between the weights of a rollout and those of an update";
        return refuse("overlap", problem, "set overlap = false");
    }
    if devices > 1 && options.overlap {
        return refuse("overlap", "several GPUs do not overlap rollout and update", "set overlap = false");
    }
    if !options.deterministic {
        return Ok(());
    }
    if config.shuffle != ShuffleKind::Blocks {
        return refuse(
            "deterministic",
            "the order of sums is fixed for blocks of environments only",
            "set shuffle = \"blocks\"",
        );
    }
    let architecture = Architecture::of(&env.spec(), config)?;
    if options.network.kernels == Kernels::Gemm || architecture.embed.is_some() {
        let problem = "it does not support the GEMM path or embeddings";
        return refuse(
            "deterministic",
            problem,
            "use a network that fits the fused kernels, or set deterministic = false",
        );
    }
    let (network, limits) = (Network::new(architecture), Limits::from(device.properties()));
    let tile = Specialisation::new(&network, config, options.network.precision, limits)?.warps * TILE;
    if devices > 1
        && (config.norm_obs || config.norm_reward)
        && !(config.num_envs / devices).is_multiple_of(tile)
    {
        let problem = format!(
            "with deterministic and normalisation each of {devices} GPUs needs a multiple of {tile} environments"
        );
        return refuse("num_envs", &problem, &format!("use a multiple of {}", devices * tile));
    }
    Ok(())
}

/// Refuses one GPU for two processes, and GPUs of different models: the launch sizes, and so the exchanged data, depend on the model.
fn check_devices(device: &Device, group: &dyn Group) -> Result<(), LearnError> {
    const LENGTH: usize = 96;
    if group.size() == 1 {
        return Ok(());
    }
    let own = device.properties();
    let (major, minor) = own.compute_capability;
    let (multiprocessors, shared) = (own.multiprocessors, own.shared_per_multiprocessor);
    let model = format!(
        "compute capability {major}.{minor}, {multiprocessors} multiprocessors, {shared} B of shared memory"
    );
    let models = gathered_texts(group, &model, LENGTH)?;
    let names = gathered_texts(group, &own.uuid, LENGTH)?;
    let same = (0..names.len()).find_map(|second| {
        names[..second]
            .iter()
            .position(|name| *name == names[second])
            .map(|first| (first, second, &names[second]))
    });
    let problem = if let Some(rank) = models.iter().position(|model| *model != models[0]) {
        let [first, other] = [0, rank].map(|rank| format!("{}: {}", group.describe(rank), models[rank]));
        format!("GPUs of different models: {first}; {other}")
    } else if let Some((first, second, name)) = same {
        let [first, second] = [first, second].map(|rank| group.describe(rank));
        format!("{first} and {second} use the same GPU, {name}")
    } else {
        return Ok(());
    };
    let remedy = "use GPUs of one model, each in one process; CUDA_VISIBLE_DEVICES selects them".to_owned();
    Err(LearnError::Config { key: "device", problem, remedy })
}

/// Connects the GPU with the GPUs of the other processes; None if there are none.
fn link(device: &Device, group: &dyn Group) -> Result<Option<Communicator>, LearnError> {
    if group.size() == 1 {
        return Ok(None);
    }
    let own = match group.rank() {
        0 => device.cuda().communicator_id(),
        _ => Ok(CommunicatorId([0; 128])),
    };
    let CommunicatorId(mut id) = agreed(group, own.map_err(LearnError::from))?;
    group.broadcast(&mut id)?;
    Ok(Some(device.join(CommunicatorId(id), group.rank(), group.size())?))
}

/// The best number of environments for [`backend`] on `device`, at most `limit`; ignores `config.num_envs`.
///
/// # Errors
/// When the configuration cannot be trained there, or not even the smallest number of environments fits.
pub fn choose_num_envs(
    env: &dyn AnyEnv,
    config: &Config,
    device: &Device,
    options: GpuOptions,
    limit: usize,
) -> Result<ChosenEnvs, LearnError> {
    let (options, _) = decided(env, config, device, options)?;
    let footprint = Footprint::new(env, config, options, device.properties())?;
    footprint.choose(device, options.memory_fraction, limit)
}

/// The options with the chosen kernels, and the reason.
fn decided(
    env: &dyn AnyEnv,
    config: &Config,
    device: &Device,
    options: GpuOptions,
) -> Result<(GpuOptions, String), LearnError> {
    let network = Network::new(Architecture::of(&env.spec(), config)?);
    let limits = Limits::from(device.properties());
    let asked = for_players(options.network, env.spec().players, config.core)?;
    let chosen = choose(&network, config, asked, limits, || device.has_blas())?;
    let network = NetworkOptions { kernels: chosen.kernels, ..options.network };
    Ok((GpuOptions { network, ..options }, chosen.to_string()))
}

/// An enqueued update.
struct Pending {
    ticket: Ticket,
    /// The index of its slot.
    slot: usize,
    recorded: bool,
}

/// The state of overlapped rollouts.
struct Overlap {
    learn: Stream,
    /// Recorded each time the rollout has copied the weights.
    taken: Event,
}

struct CudaBackend {
    env: Arc<dyn AnyEnv>,
    group: Arc<dyn Group>,
    link: Option<Communicator>,
    /// The environments of this GPU.
    local: Local,
    /// The kernels that run the network, and the reason.
    how: String,
    properties: DeviceProperties,
    config: Config,
    rollout: CudaRollout,
    learner: CudaLearner,
    overlap: Option<Overlap>,
    side: Stream,
    /// The CPU threads for evaluation.
    policy: Policy,
    pool: rayon::ThreadPool,
    pending: VecDeque<Pending>,
    /// Update k has slot k modulo their number.
    slots: Vec<Slot>,
    /// Statistics that were collected to free slots, but not yet returned.
    finished: VecDeque<UpdateStats>,
    /// Updates enqueued since training began.
    enqueued: u64,
    /// Rows of the replay that samples can begin with, at least.
    filled: usize,
    /// Consecutive updates with a non-finite minibatch, up to the last collected one.
    nonfinite_in_a_row: u64,
    recorder: Recorder,
    pulse: Arc<AtomicU64>,
}

impl CudaBackend {
    fn new(
        env: Arc<dyn AnyEnv>,
        config: &Config,
        local: Local,
        (allocator, device): (&Allocator, &Device),
        options: GpuOptions,
        group: Arc<dyn Group>,
    ) -> Result<Self, LearnError> {
        let GpuOptions { network: how, threads, overlap, .. } = options;
        let pool = pool::threads(threads)?;
        let (kernel_env, side) = (KernelEnv::of(&*env)?, device.stream()?);
        let network = Network::new(Architecture::of(&env.spec(), config)?);
        let place = (device, &side);
        let learner = CudaLearner::within(allocator, place, &kernel_env, &network, &local, how)?;
        learner.load(&side, &LearnerState::new(init_params(&network, config.seed)), 0, 0)?;
        side.synchronize()?;
        let follows = (!overlap).then_some(&learner);
        let sample_buffers = if overlap { 2 } else { 1 };
        let rollout =
            CudaRollout::within(allocator, device, &kernel_env, &local, how, follows, sample_buffers)?;
        if overlap {
            rollout.take_weights(rollout.stream(), &learner)?;
        }
        rollout.stream().synchronize()?;
        let overlap = match overlap {
            true => Some(Overlap { learn: device.stream()?, taken: device.event()? }),
            false => None,
        };
        let (scene, metrics) = (rollout.scene_buffer().len(), metrics_of(&env.spec(), config));
        let slots = (0..SLOTS)
            .map(|_| Slot::new(allocator, device, local.devices, metrics, scene))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            env,
            group,
            link: None,
            local,
            how: String::new(),
            properties: device.properties().clone(),
            config: config.clone(),
            policy: Policy::new(&network),
            rollout,
            learner,
            overlap,
            side,
            pool,
            pending: VecDeque::new(),
            slots,
            finished: VecDeque::new(),
            enqueued: 0,
            filled: 0,
            nonfinite_in_a_row: 0,
            recorder: Recorder::default(),
            pulse: Arc::default(),
        })
    }

    /// Connects it with the other GPUs, if any, and prepares the updates.
    fn ready(&mut self, link: Option<Communicator>) -> Result<(), LearnError> {
        let Self { rollout, learner, side, overlap, .. } = self;
        if let Some(link) = &link {
            rollout.link(link.clone());
            learner.link(link.clone());
            learner.exchange(side)?;
        }
        if let Some(from) = rollout.sampled() {
            learner.prepare_minibatches(side, from)?;
        } else {
            for turn in 0..if overlap.is_some() { 2 } else { 1 } {
                rollout.fill(turn);
                learner.prepare(side, rollout.samples_buffer())?;
            }
        }
        side.synchronize()?;
        self.link = link;
        Ok(())
    }

    /// Why the requested overlap has no effect.
    fn overlap_without_room(&self) -> Result<Option<String>, LearnError> {
        let (update, rollout) = (self.learner.block_needs()?, self.rollout.block_needs()?);
        let (Some(_), Some(update), Some(rollout)) = (&self.overlap, update, rollout) else {
            return Ok(None);
        };
        Ok(no_room(&self.properties, update, rollout))
    }

    /// The stream of updates.
    fn learn(&self) -> &Stream {
        self.overlap.as_ref().map_or(self.rollout.stream(), |overlap| &overlap.learn)
    }

    /// Waits until all enqueued work is done.
    fn rest(&self) -> Result<(), LearnError> {
        self.rollout.stream().synchronize()?;
        Ok(self.learn().synchronize()?)
    }

    /// Enqueues a rollout, an update and the copy of their reports in their streams.
    fn enqueue(&mut self, slot: usize, recorded: bool) -> Result<(), LearnError> {
        let Self { rollout, learner, overlap, side, slots, link, config, filled, .. } = self;
        let first = self.enqueued * config.num_steps as u64;
        let (slot, overlap) = (&mut slots[slot], overlap.as_ref());
        rollout.record_scene(recorded);
        rollout.fill(if overlap.is_some() { (self.enqueued % 2) as usize } else { 0 });
        let play = rollout.stream();
        let learn = overlap.map_or(play, |overlap| &overlap.learn);

        if let Some(overlap) = overlap {
            play.wait(&overlap.taken)?;
        }
        play.record(&slot.started)?;
        match rollout.sampled() {
            None => rollout.roll_with(learner.rnd())?,
            Some(from) => {
                learner.report_of(play, from, true)?;
                let most = config.num_envs * (ReplayLayout::rows(config) - 1);
                rollout.play(|step| {
                    let is_filled = *filled >= config.learning_starts.min(config.buffer_size);
                    let due = if is_filled {
                        cycle::due(config, config.updates_per_step, 0, first + step as u64)
                    } else {
                        0
                    };
                    *filled = (*filled + config.num_envs).min(most);
                    (0..due).try_for_each(|_| learner.learn(play, from))
                })?;
                learner.report_of(play, from, false)?;
            }
        }
        collect(link.as_ref(), play, rollout.totals(), &slot.memory.episodes)?;
        if let (Some(own), Some(all)) = (rollout.metrics(), &slot.memory.metrics) {
            collect(link.as_ref(), play, own, all)?;
        }
        if recorded {
            slot.memory.scene.copy_from(play, rollout.scene_buffer())?;
        }
        play.record(&slot.rolled)?;

        if let Some(overlap) = overlap {
            learn.wait(&slot.rolled)?;
            rollout.take_weights(learn, learner)?;
            learn.record(&overlap.taken)?;
        }
        learn.record(&slot.updating)?;
        if rollout.sampled().is_none() {
            learner.update(learn, rollout.samples_buffer())?;
        }
        collect(link.as_ref(), learn, &learner.memory.report, &slot.memory.report)?;
        learn.record(&slot.updated)?;

        side.wait(&slot.updated)?;
        slot.memory.report.read_into(side, &mut slot.to_report)?;
        slot.memory.episodes.read_into(side, &mut slot.to_episodes)?;
        if let (Some(all), Some(to)) = (&slot.memory.metrics, &mut slot.to_metrics) {
            all.read_into(side, to)?;
        }
        if recorded {
            slot.memory.scene.read_into(side, &mut slot.to_scene)?;
        }
        Ok(side.record(&slot.copied)?)
    }

    /// Collects the oldest update if it is done, or waits for it with `wait`.
    fn collect(&mut self, wait: bool) -> Result<Option<UpdateStats>, LearnError> {
        let Some(oldest) = self.pending.front() else { return Ok(None) };
        let copied = &self.slots[oldest.slot].copied;
        if wait {
            copied.synchronize()?;
        } else if !copied.query()? {
            return Ok(None);
        }
        let Some(pending) = self.pending.pop_front() else { return Ok(None) };
        let stats = self.stats(&pending)?;
        if pending.recorded {
            self.record(pending.slot)?;
        }
        self.pulse.fetch_add(1, Ordering::Relaxed);
        Ok(Some(stats))
    }

    /// Passes the steps of environment 0 in a rollout to the recorder.
    fn record(&mut self, slot: usize) -> Result<(), LearnError> {
        let (leaves, running) = (self.env.leaves().len(), running_words(&*self.env));
        for step in self.slots[slot].to_scene.to_vec()?.chunks_exact(running + 2) {
            self.recorder.frame(step[..leaves].iter().copied());
            if step[running] != 0 {
                self.recorder.episode_ended(f32::from_bits(step[running + 1]));
            }
        }
        Ok(())
    }

    fn stats(&mut self, pending: &Pending) -> Result<UpdateStats, LearnError> {
        let slot = &self.slots[pending.slot];
        let reports = slot.to_report.to_vec()?;
        let (report, episodes) = (reports[0], all_episodes(&slot.to_episodes.to_vec()?));
        self.nonfinite_in_a_row = if report.nonfinite > 0 { self.nonfinite_in_a_row + 1 } else { 0 };
        let steps = (self.config.num_envs * self.config.num_steps) as f64;
        let known = |x: f64| if episodes.count > 0.0 { x } else { f64::NAN };
        let mean = episodes.sum / episodes.count;
        let seconds = |end: &Event, start: &Event| -> Result<f64, LearnError> {
            Ok(f64::from(end.elapsed_ms(start)?) / 1e3)
        };
        let scene = if pending.recorded { 4 * slot.to_scene.len() } else { 0 };
        let measured = slot.to_metrics.as_ref().map_or(Ok(Vec::new()), Pinned::to_vec)?;
        let spec = self.env.spec();
        let (own, metrics) = (spec.measured(), metrics_of(&spec, &self.config));
        let means = means(&measured, metrics);
        Ok(UpdateStats {
            ticket: pending.ticket,
            env_steps: (pending.ticket.0 + 1) * steps as u64,
            episodes: episodes.count as u64,
            epochs: report.epochs as usize,
            nonfinite: report.nonfinite,
            nonfinite_in_a_row: self.nonfinite_in_a_row,
            metrics: Record {
                episodic_return: known(mean),
                episodic_return_min: known(f64::from(episodes.min)),
                episodic_return_max: known(f64::from(episodes.max)),
                episodic_return_std: known((episodes.squares / episodes.count - mean * mean).max(0.0).sqrt()),
                episodic_length: known(episodes.length / episodes.count),
                // GAE runs inside the rollout's launch: its own time is not known.
                time_rollout: seconds(&slot.rolled, &slot.started)?,
                time_update: seconds(&slot.updated, &slot.updating)?,
                bytes_h2d: 0.0,
                bytes_d2h: (REPORT_BYTES * self.local.devices + scene + size_of_val(&measured[..])) as f64,
                env: core::array::from_fn(|k| if k < own { means[k] } else { f64::NAN }),
                intrinsic_reward: if own < metrics { means[own] } else { f64::NAN },
                ..UpdateReport::metrics(&reports, &self.config, pending.ticket.0)
            },
        })
    }

    /// Running statistics as the CPU keeps them: of observations, and of discounted returns.
    fn norms(&self) -> Result<(RunningNorm, RunningNorm), LearnError> {
        let features = if self.config.norm_obs { self.env.spec().obs.size() } else { 0 };
        let (mut obs, mut reward) = (RunningNorm::new(features), RunningNorm::new(1));
        let all = self.rollout.running_norms()?;
        let (of_obs, of_reward) = all.split_at(features);
        for (k, norm) in of_obs.iter().enumerate() {
            (obs.mean[k], obs.var[k], obs.count) = (norm.mean, norm.var, norm.count);
        }
        for norm in of_reward {
            (reward.mean[0], reward.var[0], reward.count) = (norm.mean, norm.var, norm.count);
        }
        Ok((obs, reward))
    }
}

/// Copies the buffer of this GPU, or those of all.
fn collect<T: Plain>(
    link: Option<&Communicator>,
    stream: &Stream,
    own: &Buffer<T>,
    all: &Buffer<T>,
) -> Result<(), CudaError> {
    match link {
        None => all.copy_from(stream, own),
        // Words of eight bytes, of any type.
        Some(link) => link.gather(stream, &own.cast::<f64>()?, &all.cast::<f64>()?),
    }
}

/// The state of the environments of one GPU, one environment after the other.
struct OwnState {
    environments: Vec<u32>,
    discounted: Vec<f32>,
    memory: Vec<f32>,
    counts: Vec<u32>,
    /// With `intrinsic = "rnd"`: what all GPUs share, and discounted errors.
    rnd: Option<(RndState, Vec<f32>)>,
}

impl CudaBackend {
    /// The state that all GPUs share, and the environments of this one; waits until all enqueued work is done.
    fn own_state(&self) -> Result<(Progress, LearnerState, [RunningNorm; 2], OwnState), LearnError> {
        self.rest()?;
        let learn = self.learn();
        let (n, words) = (self.local.num_envs, self.rollout.environments()?);
        let (obs_norm, reward_norm) = self.norms()?;
        let discounted = self.rollout.discounted()?;
        let own = OwnState {
            environments: (0..n).flat_map(|e| words.iter().skip(e).step_by(n).copied()).collect(),
            discounted: if discounted.is_empty() { vec![0.0; n] } else { discounted },
            memory: self.rollout.memory()?,
            counts: self.rollout.counts()?,
            rnd: self.learner.rnd().map(|rnd| rnd.state(learn)).transpose()?,
        };
        Ok((self.learner.progress(learn)?, self.learner.state(learn)?, [obs_norm, reward_norm], own))
    }
}

impl Backend for CudaBackend {
    fn enqueue_update(&mut self) -> Result<Ticket, LearnError> {
        // Without a free slot, wait for the oldest update.
        if self.pending.len() == self.slots.len() {
            let oldest = self.collect(true)?;
            self.finished.extend(oldest);
        }
        let slot = (self.enqueued % self.slots.len() as u64) as usize;
        let recorded = self.recorder.is_active();
        self.enqueue(slot, recorded)?;
        let ticket = Ticket(self.enqueued);
        self.enqueued += 1;
        self.pending.push_back(Pending { ticket, slot, recorded });
        Ok(ticket)
    }

    fn poll(&mut self, wait: bool) -> Result<Option<UpdateStats>, LearnError> {
        match self.finished.pop_front() {
            Some(stats) => Ok(Some(stats)),
            None => self.collect(wait),
        }
    }

    fn evaluate_until(
        &mut self,
        episodes: Range<usize>,
        round: u64,
        actions: EvalActions,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Evaluation, LearnError> {
        let state = self.learner.state(self.learn())?;
        self.policy.pack(&state.params);
        let (obs, _) = self.norms()?;
        let obs_norm = if self.config.norm_obs { obs.shift_scale() } else { Vec::new() };
        let inputs = EvalInputs {
            env: &*self.env,
            policy: &self.policy,
            seed: self.config.seed,
            obs_norm: &obs_norm,
            clip_obs: self.config.clip_obs,
            pulse: &self.pulse,
            actions,
        };
        evaluate_on(&self.pool, &inputs, episodes, round, stop)
    }

    fn how(&self) -> Option<String> {
        Some(self.how.clone())
    }

    fn pulse(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.pulse)
    }

    fn scene(&mut self) -> Option<EpisodeRecording> {
        self.recorder.take(&*self.env)
    }

    fn begin_with(&mut self, _given: &Given) -> Result<u64, LearnError> {
        Err(LearnError::Refused(
            "a run on a GPU cannot begin with given transitions: set device = \"cpu\"".to_owned(),
        ))
    }

    fn replay(&mut self) -> Result<Option<Cow<'_, Replay>>, LearnError> {
        let Some(from) = self.rollout.sampled() else { return Ok(None) };
        Ok(Some(Cow::Owned(from.ring.read(self.rollout.stream())?)))
    }

    fn fill_replay(
        &mut self,
        fill: &mut dyn FnMut(&mut Replay) -> Result<(), LearnError>,
    ) -> Result<(), LearnError> {
        let Some(from) = self.rollout.sampled() else { return Ok(()) };
        let mut replay = from.ring.empty();
        fill(&mut replay)?;
        // `load` has cleared it.
        if replay.is_empty() {
            return Ok(());
        }
        from.ring.write(self.rollout.stream(), &replay, &self.config)?;
        self.filled = self.config.num_envs * replay.steps();
        Ok(())
    }

    fn save(&mut self) -> Result<Snapshot, LearnError> {
        // No GPU waits for one that has failed.
        let (progress, learner, [obs_norm, reward_norm], own) = agreed(&*self.group, self.own_state())?;
        let of_all = |(rnd, own): (RndState, Vec<f32>)| -> Result<_, LearnError> {
            Ok((rnd, gathered(&*self.group, &own)?))
        };
        let state = BackendState {
            given: 0,
            priorities: if self.config.checkpoint_replay { self.rollout.priorities()? } else { None },
            learner,
            playing: if self.overlap.is_some() { Some(self.rollout.params()?) } else { None },
            environments: gathered(&*self.group, &own.environments)?,
            obs_norm,
            reward_norm,
            discounted: gathered(&*self.group, &own.discounted)?,
            memory: gathered(&*self.group, &own.memory)?,
            counts: gathered(&*self.group, &own.counts)?,
            rnd: own.rnd.map(of_all).transpose()?,
            pool: None,
            updates: progress.update,
            nonfinite_in_a_row: progress.nonfinite_in_a_row,
        };
        Ok(state.to_snapshot(&*self.env, self.rollout.network(), &self.config))
    }

    fn load(&mut self, snapshot: &Snapshot) -> Result<(), LearnError> {
        let features = if self.config.norm_obs { self.env.spec().obs.size() } else { 0 };
        let (network, config) = (self.rollout.network(), &self.config);
        let state = BackendState::from_snapshot(snapshot, &*self.env, network, config, features)?;
        if state.given > 0 {
            let problem = "the run began with given transitions, so it needs device = \"cpu\"";
            return Err(LearnError::Snapshot(problem.to_owned()));
        }
        self.rest()?;
        // Updates in flight belong to the state that is replaced.
        self.side.synchronize()?;
        self.pending.clear();
        self.finished.clear();
        let (n, leaves) = (self.local.num_envs, running_words(&*self.env));
        let lengths = [&state.environments, &state.counts].map(Vec::len);
        let [environments, counts] = lengths.map(|length| share(&*self.group, length));
        let lengths = [&state.discounted, &state.memory].map(Vec::len);
        let [discounted, memory] = lengths.map(|length| share(&*self.group, length));
        let environments = &state.environments[environments];
        let rows: Vec<u32> =
            (0..leaves).flat_map(|leaf| environments.iter().skip(leaf).step_by(leaves).copied()).collect();
        debug_assert_eq!(rows.len(), n * leaves);
        let step = state.updates * self.config.num_steps as u64;
        self.rollout.set_environments(&rows, step)?;
        let (mut norms, mut scales) = (Vec::new(), Vec::new());
        let used = [(self.config.norm_obs, &state.obs_norm), (self.config.norm_reward, &state.reward_norm)];
        for (_, norm) in used.into_iter().filter(|(used, _)| *used) {
            for ((&mean, &var), (shift, scale)) in norm.mean.iter().zip(&norm.var).zip(norm.shift_scale()) {
                norms.push(DeviceNorm { mean, var, count: norm.count });
                scales.extend([shift, scale]);
            }
        }
        self.rollout.set_running_norms(&norms, &scales)?;
        self.rollout.set_discounted(&state.discounted[discounted.clone()])?;
        self.rollout.set_memory(&state.memory[memory])?;
        self.rollout.set_counts(&state.counts[counts])?;
        self.learner.load(self.learn(), &state.learner, state.updates, state.nonfinite_in_a_row)?;
        if let (Some(rnd), Some((shared, errors))) = (self.learner.rnd(), &state.rnd) {
            let own = (shared, &errors[discounted]);
            rnd.load(self.learn(), own, state.updates, state.nonfinite_in_a_row)?;
        }
        if self.overlap.is_some() {
            // A run without overlap saved no separate rollout weights.
            self.rollout.set_params(state.playing.as_ref().unwrap_or(&state.learner.params))?;
        }
        if let Some(from) = self.rollout.sampled() {
            from.ring.clear(self.rollout.stream(), state.priorities)?;
            self.filled = 0;
        }
        self.enqueued = state.updates;
        self.nonfinite_in_a_row = state.nonfinite_in_a_row;
        self.recorder = Recorder::default();
        Ok(())
    }
}
