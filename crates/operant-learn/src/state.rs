//! Conversion of a backend's device-neutral state to a [`Snapshot`] and back: one tensor per parameter, per moment and per field
//! of the environments' state.

use operant_env::{AnyEnv, running_words};
use operant_lane::{Kind, Leaf};

use crate::backend::LearnError;
use crate::config::Config;
use crate::cpu::rnd::{self, RndState};
use crate::cpu::rollout::counts;
use crate::network::Network;
use crate::normalise::RunningNorm;
use crate::pool::PoolState;
use crate::snapshot::{Dtype, Snapshot, Tensor};

/// Weights and Adam's moments.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnerState {
    /// Flat parameters, laid out by [`crate::network::Network`].
    pub params: Vec<f32>,
    /// Running mean of the gradient.
    pub exp_avg: Vec<f32>,
    /// Running mean of its square.
    pub exp_avg_sq: Vec<f32>,
    /// Steps taken.
    pub step: u64,
    /// Statistics of returns with `norm_value`; no features before the first update, and without it.
    pub value_norm: RunningNorm,
    /// Flat parameters of target networks; none without.
    pub targets: Vec<f32>,
    /// The learning rate, once `lr_schedule = "kl"` has set it.
    pub rate: Option<f64>,
}

impl LearnerState {
    /// Before the first step.
    pub fn new(params: Vec<f32>) -> Self {
        let zeros = vec![0.0; params.len()];
        let value_norm = RunningNorm::new(0);
        Self {
            exp_avg: zeros.clone(),
            exp_avg_sq: zeros,
            params,
            step: 0,
            value_norm,
            targets: Vec::new(),
            rate: None,
        }
    }
}

/// The complete state of training.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BackendState {
    /// Parameters and Adam's moments.
    pub learner: LearnerState,
    /// `(N, leaves)`.
    pub environments: Vec<u32>,
    /// Statistics of observations; no features without normalisation.
    pub obs_norm: RunningNorm,
    /// Statistics of discounted returns.
    pub reward_norm: RunningNorm,
    /// `(N)`: discounted return of each environment.
    pub discounted: Vec<f32>,
    /// `(N, states)`: the state of layers with memory, in a game that of each side.
    pub memory: Vec<f32>,
    /// `(N, words)`: what the running episodes have shown, for rewards for exploring.
    pub counts: Vec<u32>,
    /// How new observations are: the networks, and the discounted errors of each environment, `(N)`.
    pub rnd: Option<(RndState, Vec<f32>)>,
    /// Past policies that play the other side of the game.
    pub pool: Option<PoolState>,
    pub updates: u64,
    /// Consecutive updates with a non-finite minibatch, up to the last.
    pub nonfinite_in_a_row: u64,
    /// Transitions that the run began with.
    pub given: u64,
    /// Priorities of the replay's rows, which are saved apart, if they are.
    pub priorities: Option<SavedPriorities>,
    /// Flat parameters of the next rollout, if older than the learner's (with overlap).
    pub playing: Option<Vec<f32>>,
}

/// The priorities of a replay's rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SavedPriorities {
    /// `(N, rows)`.
    pub rows: Vec<f64>,
    /// The greatest so far, before its exponent.
    pub greatest: f64,
}

/// The tensors of [`SavedPriorities`].
const PRIORITIES: [&str; 2] = ["replay.priorities", "replay.greatest_priority"];

/// The tensors of [`LearnerState::value_norm`].
pub(crate) const NORM_VALUE: &str = "norm_value";

/// The tensor of [`BackendState::memory`].
const MEMORY: &str = "core.state";

/// The tensor of [`LearnerState::rate`].
const RATE: &str = "learning_rate";
/// The tensor of [`BackendState::counts`].
const COUNTS: &str = "intrinsic.counts";
/// The tensors of [`BackendState::rnd`]: the target, the predictor and its moments, the variance of discounted errors, and the discounted errors of
/// each environment.
const RND: [&str; 6] =
    ["rnd.target", "rnd.params", "rnd.exp_avg", "rnd.exp_avg_sq", "rnd.norm", "rnd.return"];
/// The counter of the steps of Adam of the predictor.
const RND_STEP: &str = "rnd_step";

/// The tensors of [`BackendState::pool`].
const POOL: [&str; 2] = ["pool.params", "pool.results"];

/// The tensor of [`BackendState::playing`].
pub(crate) const PLAYING: &str = "rollout.params";

/// A tensor of 32-bit words.
pub(crate) fn words(
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    words: impl IntoIterator<Item = u32>,
) -> Tensor {
    Tensor { name, dtype, shape, data: words.into_iter().flat_map(u32::to_le_bytes).collect() }
}

/// The tensors of a network's flat vector, which [`read_params`] reads.
fn param_tensors(prefix: &str, values: &[f32], network: &Network) -> impl Iterator<Item = Tensor> {
    network.tensors.iter().map(move |spec| {
        let bits = values[spec.range()].iter().map(|x| x.to_bits());
        words(format!("{prefix}.{}", spec.name), Dtype::F32, spec.shape.clone(), bits)
    })
}

/// A tensor of doubles.
fn doubles(name: &str, values: &[f64]) -> Tensor {
    let data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor { name: name.to_owned(), dtype: Dtype::F64, shape: vec![values.len()], data }
}

/// The tensor `name`, if it has the expected type and shape.
fn find<'a>(
    snapshot: &'a Snapshot,
    name: &str,
    dtype: Dtype,
    shape: &[usize],
) -> Result<&'a [u8], LearnError> {
    let tensor = snapshot
        .tensors
        .iter()
        .find(|tensor| tensor.name == name)
        .ok_or_else(|| LearnError::Snapshot(format!("it has no tensor {name}")))?;
    let size = shape.iter().product::<usize>() * if matches!(dtype, Dtype::F64 | Dtype::U64) { 8 } else { 4 };
    if tensor.dtype != dtype || tensor.shape != shape || tensor.data.len() != size {
        return Err(LearnError::Snapshot(format!(
            "{name} is {:?} {:?} there and {dtype:?} {shape:?} here",
            tensor.dtype, tensor.shape
        )));
    }
    Ok(&tensor.data)
}

fn read_words(data: &[u8]) -> impl Iterator<Item = u32> {
    data.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

fn read_floats(data: &[u8]) -> Vec<f32> {
    read_words(data).map(f32::from_bits).collect()
}

fn read_doubles(data: &[u8]) -> Vec<f64> {
    data.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

/// The counter of [`BackendState::given`], if there were any.
const GIVEN: &str = "given_transitions";

/// The counter with the hash of the environment's files.
const CONTENT: &str = "env_content";

/// Numbers of state of an environment's layers with memory: in a game each side has its own.
fn memory_words(env: &dyn AnyEnv, network: &Network) -> usize {
    network.states * env.spec().sides()
}

fn counter(snapshot: &Snapshot, name: &str) -> Result<u64, LearnError> {
    let value = snapshot.counters.get(name).copied();
    value.ok_or_else(|| LearnError::Snapshot(format!("it has no counter {name}")))
}

/// The counter of a snapshot with the hash of the environment's files, if it has any.
pub fn content_counter(env: &dyn AnyEnv) -> Option<(String, u64)> {
    env.content().map(|hash| (CONTENT.to_owned(), hash))
}

/// Whether the environment was made from the files that the snapshot's environment was made from.
///
/// # Errors
/// When the files differ.
pub fn check_content(snapshot: &Snapshot, env: &dyn AnyEnv) -> Result<(), LearnError> {
    if snapshot.counters.get(CONTENT).copied() == env.content() {
        return Ok(());
    }
    let what =
        "the environment was made from another file than in training, or its file or rules have changed";
    Err(LearnError::Snapshot(what.to_owned()))
}

/// The network's flat vector of `prefix`, which is `params` or one of Adam's moments.
pub(crate) fn read_params(
    snapshot: &Snapshot,
    prefix: &str,
    network: &Network,
) -> Result<Vec<f32>, LearnError> {
    let mut values = vec![0.0; network.len()];
    for spec in &network.tensors {
        let data = find(snapshot, &format!("{prefix}.{}", spec.name), Dtype::F32, &spec.shape)?;
        values[spec.range()].copy_from_slice(&read_floats(data));
    }
    Ok(values)
}

/// The running statistics `norm_obs` or `norm_reward`.
pub(crate) fn read_norm(snapshot: &Snapshot, name: &str, features: usize) -> Result<RunningNorm, LearnError> {
    let double = |part: &str, length: usize| {
        find(snapshot, &format!("{name}.{part}"), Dtype::F64, &[length]).map(read_doubles)
    };
    let (mean, var) = (double("mean", features)?, double("var", features)?);
    Ok(RunningNorm { mean, var, count: double("count", 1)?[0] })
}

/// The running statistics `norm_value`; no features if the snapshot has none.
pub(crate) fn read_value_norm(snapshot: &Snapshot) -> Result<RunningNorm, LearnError> {
    let is_its =
        |tensor: &Tensor| tensor.name.strip_prefix(NORM_VALUE).is_some_and(|rest| rest.starts_with('.'));
    match snapshot.tensors.iter().any(is_its) {
        true => read_norm(snapshot, NORM_VALUE, 1),
        false => Ok(RunningNorm::new(0)),
    }
}

/// The tensors of running statistics, which [`read_norm`] reads.
pub(crate) fn norm_tensors(name: &str, norm: &RunningNorm) -> [Tensor; 3] {
    [
        doubles(&format!("{name}.mean"), &norm.mean),
        doubles(&format!("{name}.var"), &norm.var),
        doubles(&format!("{name}.count"), &[norm.count]),
    ]
}

/// A field of the environments' state: its name, type, and how many leaves in a row it spans.
struct Field {
    name: String,
    dtype: Dtype,
    length: usize,
    array: bool,
}

/// The fields of running environments, array elements gathered.
fn fields(env: &dyn AnyEnv) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for Leaf { name, kind } in env.leaves() {
        let dtype = match kind {
            Kind::Float => Dtype::F32,
            Kind::Uint | Kind::Mask => Dtype::U32,
            Kind::Int => Dtype::I32,
        };
        let (base, array) = name.split_once('[').map_or((name.as_str(), false), |(base, _)| (base, true));
        let base = format!("env.{base}");
        match fields.last_mut() {
            Some(last) if array && last.name == base => last.length += 1,
            _ => fields.push(Field { name: base, dtype, length: 1, array }),
        }
    }
    fields.push(Field { name: "episode.length".to_owned(), dtype: Dtype::U32, length: 1, array: false });
    fields.push(Field { name: "episode.return".to_owned(), dtype: Dtype::F32, length: 1, array: false });
    fields
}

fn shape(field: &Field, environments: usize) -> Vec<usize> {
    if field.array { vec![environments, field.length] } else { vec![environments] }
}

impl SavedPriorities {
    /// Those of a snapshot, if it has any.
    fn read(snapshot: &Snapshot) -> Result<Option<Self>, LearnError> {
        let Some(tensor) = snapshot.tensors.iter().find(|tensor| tensor.name == PRIORITIES[0]) else {
            return Ok(None);
        };
        Ok(Some(Self {
            rows: read_doubles(find(snapshot, PRIORITIES[0], Dtype::F64, &tensor.shape)?),
            greatest: read_doubles(find(snapshot, PRIORITIES[1], Dtype::F64, &[1])?)[0],
        }))
    }
}

impl BackendState {
    /// Converts to a snapshot of `network` in environments `env`.
    pub fn to_snapshot(&self, env: &dyn AnyEnv, network: &Network, config: &Config) -> Snapshot {
        let mut tensors = Vec::new();
        for (prefix, values) in [
            ("params", &self.learner.params),
            ("exp_avg", &self.learner.exp_avg),
            ("exp_avg_sq", &self.learner.exp_avg_sq),
            ("targets", &self.learner.targets),
        ]
        .into_iter()
        .filter(|(_, values)| !values.is_empty())
        {
            tensors.extend(param_tensors(prefix, values, network));
        }
        let (leaves, environments) = (running_words(env), config.num_envs);
        let mut first = 0;
        for field in fields(env) {
            let values = self
                .environments
                .chunks_exact(leaves)
                .flat_map(|leaves| &leaves[first..first + field.length])
                .copied();
            tensors.push(words(field.name.clone(), field.dtype, shape(&field, environments), values));
            first += field.length;
        }
        for (name, norm) in [("norm_obs", &self.obs_norm), ("norm_reward", &self.reward_norm)] {
            tensors.extend(norm_tensors(name, norm));
        }
        if !self.learner.value_norm.mean.is_empty() {
            tensors.extend(norm_tensors(NORM_VALUE, &self.learner.value_norm));
        }
        let discounted = self.discounted.iter().map(|x| x.to_bits());
        tensors.push(words("norm_reward.return".to_owned(), Dtype::F32, vec![environments], discounted));
        if network.states > 0 {
            let bits = self.memory.iter().map(|x| x.to_bits());
            let shape = vec![environments, memory_words(env, network)];
            tensors.push(words(MEMORY.to_owned(), Dtype::F32, shape, bits));
        }
        tensors.extend(self.learner.rate.map(|rate| doubles(RATE, &[rate])));
        if !self.counts.is_empty() {
            let shape = vec![environments, self.counts.len() / environments];
            tensors.push(words(COUNTS.to_owned(), Dtype::U32, shape, self.counts.iter().copied()));
        }
        let networks = rnd::networks(&network.architecture, config);
        let rnd = self.rnd.as_ref().zip(networks.as_ref());
        if let Some(((RndState { learner, returns }, discounted), [target, predictor])) = rnd {
            let [of_target, params, exp_avg, exp_avg_sq, norm, of_env] = RND;
            tensors.extend(param_tensors(of_target, &learner.targets, target));
            tensors.extend(param_tensors(params, &learner.params, predictor));
            tensors.extend(param_tensors(exp_avg, &learner.exp_avg, predictor));
            tensors.extend(param_tensors(exp_avg_sq, &learner.exp_avg_sq, predictor));
            tensors.extend(norm_tensors(norm, returns));
            let bits = discounted.iter().map(|x| x.to_bits());
            tensors.push(words(of_env.to_owned(), Dtype::F32, vec![environments], bits));
        }
        if let Some(PoolState { params, results }) = &self.pool {
            let bits = params.iter().map(|x| x.to_bits());
            tensors.push(words(POOL[0].to_owned(), Dtype::F32, vec![results.len() / 2, network.len()], bits));
            tensors.push(Tensor { shape: vec![results.len() / 2, 2], ..doubles(POOL[1], results) });
        }
        if let Some(SavedPriorities { rows, greatest }) = &self.priorities {
            tensors.extend([doubles(PRIORITIES[0], rows), doubles(PRIORITIES[1], &[*greatest])]);
        }
        if let Some(playing) = &self.playing {
            let bits = playing.iter().map(|x| x.to_bits());
            tensors.push(words(PLAYING.to_owned(), Dtype::F32, vec![playing.len()], bits));
        }

        let counters = [
            ("env_steps", self.updates * (environments * config.num_steps) as u64),
            ("updates", self.updates),
            ("adam_step", self.learner.step),
            ("nonfinite_in_a_row", self.nonfinite_in_a_row),
        ];
        let counters = counters.map(|(name, value)| (name.to_owned(), value));
        let given = (self.given > 0).then(|| (GIVEN.to_owned(), self.given));
        let rnd_step = self.rnd.as_ref().map(|(state, _)| (RND_STEP.to_owned(), state.learner.step));
        Snapshot {
            tensors,
            counters: counters.into_iter().chain(content_counter(env)).chain(given).chain(rnd_step).collect(),
        }
    }

    /// Reads a snapshot of the same network and environments, with this many normalised features of observations.
    ///
    /// # Errors
    /// When a tensor or counter is missing or has another shape.
    pub fn from_snapshot(
        snapshot: &Snapshot,
        env: &dyn AnyEnv,
        network: &Network,
        config: &Config,
        features: usize,
    ) -> Result<Self, LearnError> {
        check_content(snapshot, env)?;
        let read = |prefix| read_params(snapshot, prefix, network);
        let (params, exp_avg, exp_avg_sq) = (read("params")?, read("exp_avg")?, read("exp_avg_sq")?);

        let (leaves, count) = (running_words(env), config.num_envs);
        let mut environments = vec![0u32; leaves * count];
        let mut first = 0;
        for field in fields(env) {
            let data = find(snapshot, &field.name, field.dtype, &shape(&field, count))?;
            let values: Vec<u32> = read_words(data).collect();
            for (to, from) in environments.chunks_exact_mut(leaves).zip(values.chunks_exact(field.length)) {
                to[first..first + field.length].copy_from_slice(from);
            }
            first += field.length;
        }
        let rate = match snapshot.tensors.iter().any(|tensor| tensor.name == RATE) {
            true => Some(read_doubles(find(snapshot, RATE, Dtype::F64, &[1])?)[0]),
            false => None,
        };
        let playing = match snapshot.tensors.iter().any(|tensor| tensor.name == PLAYING) {
            true => Some(read_floats(find(snapshot, PLAYING, Dtype::F32, &[network.len()])?)),
            false => None,
        };
        let memory = match memory_words(env, network) {
            0 => Vec::new(),
            states => read_floats(find(snapshot, MEMORY, Dtype::F32, &[count, states])?),
        };
        let counts = match counts::words(config) {
            0 => Vec::new(),
            words => read_words(find(snapshot, COUNTS, Dtype::U32, &[count, words])?).collect(),
        };
        let pool = match snapshot.tensors.iter().find(|tensor| tensor.name == POOL[1]) {
            None => None,
            Some(results) => {
                let members = results.shape.first().copied().unwrap_or_default();
                let params = find(snapshot, POOL[0], Dtype::F32, &[members, network.len()])?;
                let results = find(snapshot, POOL[1], Dtype::F64, &[members, 2])?;
                Some(PoolState { params: read_floats(params), results: read_doubles(results) })
            }
        };
        let rnd = match rnd::networks(&network.architecture, config) {
            None => None,
            Some([target, predictor]) => {
                let [of_target, params, exp_avg, exp_avg_sq, norm, of_env] = RND;
                let read = |prefix| read_params(snapshot, prefix, &predictor);
                let learner = LearnerState {
                    exp_avg: read(exp_avg)?,
                    exp_avg_sq: read(exp_avg_sq)?,
                    step: counter(snapshot, RND_STEP)?,
                    targets: read_params(snapshot, of_target, &target)?,
                    ..LearnerState::new(read(params)?)
                };
                let discounted = read_floats(find(snapshot, of_env, Dtype::F32, &[count])?);
                Some((RndState { learner, returns: read_norm(snapshot, norm, 1)? }, discounted))
            }
        };
        Ok(Self {
            playing,
            priorities: SavedPriorities::read(snapshot)?,
            given: snapshot.counters.get(GIVEN).copied().unwrap_or(0),
            environments,
            memory,
            counts,
            rnd,
            pool,
            obs_norm: read_norm(snapshot, "norm_obs", features)?,
            reward_norm: read_norm(snapshot, "norm_reward", 1)?,
            discounted: read_floats(find(snapshot, "norm_reward.return", Dtype::F32, &[count])?),
            updates: counter(snapshot, "updates")?,
            nonfinite_in_a_row: counter(snapshot, "nonfinite_in_a_row")?,
            learner: LearnerState {
                params,
                exp_avg,
                exp_avg_sq,
                step: counter(snapshot, "adam_step")?,
                value_norm: read_value_norm(snapshot)?,
                targets: if config.algorithm.declaration().has_replay() {
                    read("targets")?
                } else {
                    Vec::new()
                },
                rate,
            },
        })
    }
}
