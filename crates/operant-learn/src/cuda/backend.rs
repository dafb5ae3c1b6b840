//! A GPU as a [`Backend`]: a horizon and an update are two launches on one stream; the host enqueues them ahead and collects
//! what they report, about a quarter of a kibibyte an update, from pinned memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use operant_cuda::kernels::{Episodes, Progress, RunningNorm as DeviceNorm, UpdateReport};
use operant_cuda::{Device, Event, Pinned};
use operant_env::{Env, EnvSpec};

use super::memory::Footprint;
use super::rollout::CudaRollout;
use super::update::CudaLearner;
use crate::backend::{Backend, Episode, Evaluation, LearnError, Ticket, UpdateStats};
use crate::config::Config;
use crate::cpu::adam::LearnerState;
use crate::cpu::evaluate::{Greedy, evaluate};
use crate::cpu::normalise::RunningNorm;
use crate::cpu::policy::Policy;
use crate::cpu::recorder::Recorder;
use crate::network::{Architecture, Network, init_params};
use crate::precision::Precision;
use crate::sample::SampleLayout;
use crate::snapshot::Snapshot;
use crate::state::{BackendState, leaves};

/// Bytes that an update reports, the scene apart.
const REPORT_BYTES: usize = size_of::<UpdateReport>() + size_of::<Episodes>() + size_of::<Progress>();

/// What decides how training on a GPU is carried out, and no result but by `precision`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuOptions {
    /// Of matrix products; parameters, sums and moments are in single precision.
    pub precision: Precision,
    /// Share of the free device memory that may be taken.
    pub memory_fraction: f64,
    /// Threads of the host, for greedy evaluation.
    pub threads: usize,
}

/// The GPU backend for `env` on `device`.
///
/// # Errors
/// When the configuration cannot be trained there, does not fit its memory, or the kernels do not compile.
pub fn backend<E: Env>(
    env: E,
    config: &Config,
    device: &Device,
    options: GpuOptions,
) -> Result<Box<dyn Backend>, LearnError> {
    let network = Network::new(Architecture::of(&env.spec(), config)?);
    let layout = SampleLayout::new(&network.architecture, E::MASKED);
    let multiprocessors = device.properties().multiprocessors as usize;
    let footprint = Footprint::new(&network, &layout, config, leaves::<E>(), multiprocessors);
    footprint.check(device, config.num_envs, options.memory_fraction)?;
    Ok(Box::new(CudaBackend::new(env, config, device, options)?))
}

/// Where an update's report arrives.
struct Slot {
    /// Before the rollout, between it and the update, and after all.
    events: [Event; 3],
    report: Pinned<UpdateReport>,
    episodes: Pinned<Episodes>,
    progress: Pinned<Progress>,
    scene: Option<Pinned<u32>>,
}

/// An update that was enqueued.
struct Pending {
    ticket: Ticket,
    slot: Slot,
    recorded: bool,
}

struct CudaBackend<E: Env> {
    env: E,
    spec: EnvSpec,
    config: Config,
    device: Device,
    rollout: CudaRollout<E>,
    learner: CudaLearner,
    /// For evaluation.
    policy: Policy,
    pool: rayon::ThreadPool,
    pending: VecDeque<Pending>,
    free: Vec<Slot>,
    /// Updates enqueued since training began.
    enqueued: u64,
    recorder: Recorder,
    pulse: Arc<AtomicU64>,
}

impl<E: Env> CudaBackend<E> {
    fn new(env: E, config: &Config, device: &Device, options: GpuOptions) -> Result<Self, LearnError> {
        let GpuOptions { precision, threads, .. } = options;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("operant-{index}"))
            .build()
            .map_err(|error| LearnError::Config {
                key: "threads",
                problem: format!("{threads} threads cannot be started: {error}"),
                remedy: "ask for fewer".to_owned(),
            })?;
        let mut rollout = CudaRollout::new(device, &env, config, precision)?;
        let network = rollout.network().clone();
        let learner = CudaLearner::new(device, rollout.stream(), &env, &network, config, precision)?;
        learner.load(rollout.stream(), &LearnerState::new(init_params(&network, config.seed)), 0, 0)?;
        rollout.follow(&learner)?;
        Ok(Self {
            spec: env.spec(),
            env,
            config: config.clone(),
            device: device.clone(),
            policy: Policy::new(&network),
            rollout,
            learner,
            pool,
            pending: VecDeque::new(),
            free: Vec::new(),
            enqueued: 0,
            recorder: Recorder::default(),
            pulse: Arc::default(),
        })
    }

    fn slot(&mut self) -> Result<Slot, LearnError> {
        match self.free.pop() {
            Some(slot) => Ok(slot),
            None => Ok(Slot {
                events: [self.device.event()?, self.device.event()?, self.device.event()?],
                report: self.device.pinned(1)?,
                episodes: self.device.pinned(1)?,
                progress: self.device.pinned(1)?,
                scene: None,
            }),
        }
    }

    /// Feeds the recorder with what environment 0 did in a horizon.
    fn record(&mut self, scene: &Pinned<u32>) -> Result<(), LearnError> {
        let leaves = leaves::<E>();
        for step in scene.to_vec()?.chunks_exact(leaves + 2) {
            self.recorder.frame(step[..leaves].iter().copied());
            if step[leaves] != 0 {
                self.recorder.episode_ended(f32::from_bits(step[leaves + 1]));
            }
        }
        Ok(())
    }

    fn stats(&self, pending: &Pending) -> Result<UpdateStats, LearnError> {
        let (report, progress) = (pending.slot.report.to_vec()?[0], pending.slot.progress.to_vec()?[0]);
        let episodes = pending.slot.episodes.to_vec()?[0];
        let steps = (self.config.num_envs * self.config.num_steps) as f64;
        let variance = |sums: [f64; 2]| (sums[1] - sums[0] * sums[0] / steps) / steps;
        let (errors, returns) = (variance(report.errors), variance(report.returns));
        let known = |x: f64| if episodes.count > 0.0 { x } else { f64::NAN };
        let mean = episodes.sum / episodes.count;
        let seconds = |end: &Event, start: &Event| -> Result<f64, LearnError> {
            Ok(f64::from(end.elapsed_ms(start)?) / 1e3)
        };
        let ([start, rolled, done], n) = (&pending.slot.events, report.minibatches);
        let scene = pending.recorded.then(|| pending.slot.scene.as_ref().map_or(0, |scene| 4 * scene.len()));
        Ok(UpdateStats {
            ticket: pending.ticket,
            env_steps: (pending.ticket.0 + 1) * steps as u64,
            episodes: episodes.count as u64,
            episodic_return_mean: known(mean),
            episodic_return_min: known(f64::from(episodes.min)),
            episodic_return_max: known(f64::from(episodes.max)),
            episodic_return_std: known((episodes.squares / episodes.count - mean * mean).max(0.0).sqrt()),
            episodic_length_mean: known(episodes.length / episodes.count),
            policy_loss: report.policy / n,
            value_loss: report.value / n,
            entropy: report.entropy / n,
            approx_kl: report.kl / n,
            clipfrac: report.clipped / n,
            explained_variance: if returns == 0.0 { f64::NAN } else { 1.0 - errors / returns },
            grad_norm: report.norms / n,
            learning_rate: report.learning_rate,
            nonfinite: report.nonfinite,
            nonfinite_in_a_row: progress.nonfinite_in_a_row,
            time_rollout: seconds(rolled, start)?,
            // GAE runs inside the rollout's launch: its own time is not known.
            time_gae: f64::NAN,
            time_update: seconds(done, rolled)?,
            bytes_h2d: 0,
            bytes_d2h: (REPORT_BYTES + scene.unwrap_or(0)) as u64,
        })
    }

    /// Running statistics as the CPU keeps them: of observations, and of discounted returns.
    fn norms(&self) -> Result<(RunningNorm, RunningNorm), LearnError> {
        let features = if self.config.norm_obs { self.spec.obs.size() } else { 0 };
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

impl<E: Env> Backend for CudaBackend<E> {
    fn enqueue_update(&mut self) -> Result<Ticket, LearnError> {
        let mut slot = self.slot()?;
        let recorded = self.recorder.is_active();
        if recorded && self.rollout.scene.is_none() {
            self.rollout.record_scene(&self.device)?;
        }
        let [start, rolled, done] = &slot.events;
        let stream = self.rollout.stream();
        stream.record(start)?;
        self.rollout.roll()?;
        stream.record(rolled)?;
        self.learner.update(stream, self.rollout.samples_buffer())?;
        self.learner.report.read_into(stream, &mut slot.report)?;
        self.learner.progress.read_into(stream, &mut slot.progress)?;
        self.rollout.totals.read_into(stream, &mut slot.episodes)?;
        if let (true, Some(scene)) = (recorded, &self.rollout.scene) {
            let pinned = match slot.scene.take() {
                Some(pinned) => slot.scene.insert(pinned),
                None => slot.scene.insert(self.device.pinned(scene.len())?),
            };
            scene.read_into(stream, pinned)?;
        }
        stream.record(done)?;
        let ticket = Ticket(self.enqueued);
        self.enqueued += 1;
        self.pending.push_back(Pending { ticket, slot, recorded });
        Ok(ticket)
    }

    fn poll(&mut self, wait: bool) -> Result<Option<UpdateStats>, LearnError> {
        let Some(oldest) = self.pending.front() else { return Ok(None) };
        let [_, _, done] = &oldest.slot.events;
        if wait {
            done.synchronize()?;
        } else if !done.query()? {
            return Ok(None);
        }
        let Some(pending) = self.pending.pop_front() else { return Ok(None) };
        let stats = self.stats(&pending)?;
        if let (true, Some(scene)) = (pending.recorded, &pending.slot.scene) {
            self.record(scene)?;
        }
        self.free.push(pending.slot);
        self.pulse.fetch_add(1, Ordering::Relaxed);
        Ok(Some(stats))
    }

    fn evaluate(&mut self, episodes: usize, round: u64) -> Result<Evaluation, LearnError> {
        let state = self.learner.state(self.rollout.stream())?;
        self.policy.pack(&state.params);
        let (obs, _) = self.norms()?;
        let obs_norm = if self.config.norm_obs { obs.shift_scale() } else { Vec::new() };
        let greedy = Greedy {
            env: &self.env,
            policy: &self.policy,
            seed: self.config.seed,
            obs_norm: &obs_norm,
            clip_obs: self.config.clip_obs,
            pulse: &self.pulse,
        };
        Ok(self.pool.install(|| evaluate(&greedy, episodes, round)))
    }

    fn pulse(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.pulse)
    }

    fn scene(&mut self) -> Option<Episode> {
        self.recorder.take(&self.env, &self.spec)
    }

    fn save(&mut self) -> Result<Snapshot, LearnError> {
        let stream = self.rollout.stream();
        let progress = self.learner.progress(stream)?;
        let (n, words) = (self.config.num_envs, self.rollout.environments()?);
        let (obs_norm, reward_norm) = self.norms()?;
        let discounted = self.rollout.discounted()?;
        let state = BackendState {
            learner: self.learner.state(stream)?,
            environments: (0..n).flat_map(|e| words.iter().skip(e).step_by(n).copied()).collect(),
            obs_norm,
            reward_norm,
            discounted: if discounted.is_empty() { vec![0.0; n] } else { discounted },
            updates: progress.update,
            nonfinite_in_a_row: progress.nonfinite_in_a_row,
        };
        Ok(state.to_snapshot::<E>(self.rollout.network(), &self.config))
    }

    fn load(&mut self, snapshot: &Snapshot) -> Result<(), LearnError> {
        let features = if self.config.norm_obs { self.spec.obs.size() } else { 0 };
        let state =
            BackendState::from_snapshot::<E>(snapshot, self.rollout.network(), &self.config, features)?;
        let (n, leaves) = (self.config.num_envs, leaves::<E>());
        let rows: Vec<u32> = (0..leaves)
            .flat_map(|leaf| state.environments.iter().skip(leaf).step_by(leaves).copied())
            .collect();
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
        self.rollout.set_discounted(&state.discounted)?;
        let stream = self.rollout.stream();
        self.learner.load(stream, &state.learner, state.updates, state.nonfinite_in_a_row)?;
        self.enqueued = state.updates;
        self.recorder = Recorder::default();
        Ok(())
    }
}
