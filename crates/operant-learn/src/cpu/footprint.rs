//! The memory that training on the CPU takes, counted before any of it is allocated.

use operant_env::{AnyEnv, running_words};

use crate::backend::LearnError;
use crate::config::Config;
use crate::cpu::network::tile::{LANES, TILE, TILE_VECTORS};
use crate::cpu::network::{few, layers};
use crate::cpu::off_policy::learner::Units;
use crate::cpu::off_policy::replay::ReplayLayout;
use crate::cpu::rnd;
use crate::cpu::rollout::counts;
use crate::cpu::update::most_chunks;
use crate::network::{Architecture, Network};
use crate::sample::SampleLayout;

/// Copies of the parameters: parameters and two moments; the packed weights and their transposes of two policies; the gradient. The rollout's
/// weights for few samples are counted separately. In bf16, packed weights take half of this; the other half covers the f32 weights that an
/// evaluation packs.
const COPIES: usize = 3 + 4 + 1;

/// Copies of the parameters and moments while a checkpoint is saved: the snapshot and the file's bytes.
const SAVED: usize = 3 * 2;

/// Numbers of an environment-step that a tile keeps until its advantages are known.
const ROWS: usize = 4;

/// The same of rewards for exploring that have a value of their own.
const EXPLORING_ROWS: usize = 4;

/// Numbers per environment in addition to its observation, state and activations.
const OTHER: usize = 64;

/// Copies of the parameters of a target that does not change: they, the packed weights, and those of a checkpoint while it is saved.
const OF_TARGET: usize = 1 + 2 + 2;

/// Words that a network takes.
struct NetworkWords {
    /// Independent of the number of environments.
    fixed: usize,
    /// The part of them in which threads keep the steps of sequences until their gradient.
    sequences: usize,
    /// Activations of an environment.
    per_env: usize,
}

impl NetworkWords {
    /// Those of a network with this many copies of its parameters, in an update of this number of tiles on these threads.
    fn of(network: &Network, layout: &SampleLayout, copies: usize, tiles: usize, threads: usize) -> Self {
        let needs = || layers::all_needs(network, TILE_VECTORS);
        let outputs: usize = network.layers().map(|layer| layer.outputs).sum();
        let outputs = outputs + needs().map(|needs| needs.kept).sum::<usize>();
        let [in_rollout, in_update] =
            [layers::scratch::<1>(network), layers::scratch::<TILE_VECTORS>(network)];
        let kept = (tiles - 1) * TILE * (outputs + layout.stride + network.architecture.input.words());
        let [table, of_thread] = [0, 1].map(|k| needs().map(|needs| needs.words[k]).sum::<usize>());
        let of_thread = 2 * TILE * outputs + kept + 2 * LANES * in_update + of_thread;
        Self {
            // Rollout and learner each have a policy.
            fixed: copies * network.len() + few::words(network) + of_thread * (threads + 1) + 2 * table,
            sequences: kept * (threads + 1),
            per_env: 2 * (outputs + in_rollout),
        }
    }
}

impl core::ops::AddAssign for NetworkWords {
    fn add_assign(&mut self, other: Self) {
        self.fixed += other.fixed;
        self.sequences += other.sequences;
        self.per_env += other.per_env;
    }
}

/// Number of equal parts of the largest minibatch, which threads take one by one. None for algorithms with a replay, and where the
/// environment cannot be trained with this configuration.
pub fn chunks(env: &dyn AnyEnv, config: &Config) -> Option<usize> {
    if config.algorithm.declaration().has_replay() {
        return None;
    }
    let architecture = Architecture::of(&env.spec(), config).ok()?;
    Some(most_chunks(config, &Network::new(architecture)))
}

/// Bytes that a run on the CPU takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of the network, independent of the number of environments.
    pub network: u64,
    /// The part of them in which threads keep the steps of sequences until their gradient.
    pub sequences: u64,
    /// Bytes per environment, its samples included.
    pub per_env: u64,
    /// Bytes of the replay.
    pub replay: u64,
}

impl Footprint {
    /// The footprint of this configuration on that many threads.
    ///
    /// # Errors
    /// When the environment cannot be trained with it.
    pub fn of(env: &dyn AnyEnv, config: &Config, threads: usize) -> Result<Self, LearnError> {
        let spec = env.spec();
        let architecture = Architecture::of(&spec, config)?;
        let layout = SampleLayout::of_sides(&architecture, env.masked(), spec.sides());
        let network = Network::new(architecture);
        // Tiles that a thread keeps until their gradient, and the observations of those after the first.
        let has_replay = config.algorithm.declaration().has_replay();
        let rows = if has_replay { config.sequence_rows() } else { config.sequence() };
        let tiles = if network.states > 0 { rows.div_ceil(TILE_VECTORS) } else { 1 };
        let gradients = |network: &Network| most_chunks(config, network) + threads + 1;
        let trained = |network: &Network| COPIES + SAVED + gradients(network);
        let mut words = NetworkWords::of(&network, &layout, trained(&network), tiles, threads);
        if let Some([target, predictor]) = rnd::networks(&network.architecture, config) {
            words += NetworkWords::of(&target, &layout, OF_TARGET, 1, threads);
            words += NetworkWords::of(&predictor, &layout, trained(&predictor), 1, threads);
        }
        words.fixed += env.versus().map_or(0, |versus| versus.opponent().shared_words());
        let own = spec.sides() - 1;
        let memory = network.states * (layout.memories * (5 + config.num_steps / config.sequence()) + own);
        // The tables of counts, those of all processes and of the snapshot, and the bytes of the file.
        let memory = memory + 4 * counts::words(config);
        let states = running_words(env) + env.kept_words();
        let state = memory + 4 * states + 8 * spec.obs.words() + words.per_env + OTHER;
        // Of each step its reward and whether it ended, and while an update runs a value and a ratio.
        let mut outcomes = if config.recomputes() { 4 } else { 0 };
        // Of each sample its weight, its sequence and a sum, if sequences are drawn.
        outcomes += if config.algorithms.ppo.prio_alpha > 0.0 { 4 } else { 0 };
        outcomes += if network.architecture.intrinsic_value { EXPLORING_ROWS } else { 0 };
        // Who moves in each step of a game.
        let movers = usize::from(spec.players > 1);
        let bytes = |words: usize| (words * size_of::<f32>()) as u64;
        let steps = if has_replay { 0 } else { config.num_steps };
        let replay = if has_replay { Self::replay(env, &network, config) } else { 0 };
        Ok(Footprint {
            replay,
            sequences: bytes(words.sequences),
            network: bytes(words.fixed),
            per_env: bytes(steps * (layout.stride + ROWS + movers + outcomes) + state),
        })
    }

    /// Bytes of the replay and of the minibatch.
    fn replay(env: &dyn AnyEnv, network: &Network, config: &Config) -> u64 {
        let (architecture, units) = (&network.architecture, Units::of(network, config));
        let layout = ReplayLayout::new(architecture, env.masked());
        let rows = ReplayLayout::rows(config) as u64 * config.num_envs as u64;
        let inputs = architecture.input.words() + architecture.head.components();
        let tile = 2 * (layout.gathered() + inputs) as u64 * TILE as u64;
        // Two f64 in the tree of priorities, and three copies of one while a checkpoint is saved.
        let saved = if config.checkpoint_replay { 6 } else { 0 };
        let priorities = if config.priority_exponent > 0.0 { 4 + saved } else { 0 };
        let of_row = layout.stride as u64 + priorities;
        4 * (rows * of_row + tile * (units.count * units.tiles) as u64)
    }

    /// Bytes with that many environments.
    pub fn bytes(&self, num_envs: usize) -> u64 {
        self.network.saturating_add(self.replay).saturating_add(self.per_env.saturating_mul(num_envs as u64))
    }

    /// The most environments, a multiple of 16, that fit this many bytes.
    pub fn most_envs(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.network + self.replay) / self.per_env / 16 * 16
    }
}
