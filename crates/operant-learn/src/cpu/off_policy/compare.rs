//! Minibatches and what they were computed from, for comparisons with another implementation.

use std::sync::Arc;

use operant_metrics::Record;

use super::learner::ReplayLearner;
use super::priorities::Priorities;
use super::replay::{Replay, ReplayLayout, Sampling, Transitions};
use crate::LearnerState;
use crate::algorithms::Learns;
use crate::config::Config;
use crate::cpu::network::tile::{LANES, Row, TILE, TILE_VECTORS, splat};
use crate::cpu::update::Means;
use crate::network::{Input, Network};

/// A sample of a minibatch, as networks take it; with memory a row of a sequence.
#[derive(Debug, Clone)]
pub struct Transition {
    /// `[feature]` before the step, and after it.
    pub obs: [Vec<f32>; 2],
    /// `[component]`: within -1 and 1, or the index of a choice.
    pub actions: Vec<f32>,
    /// `[choice]`: whether it is legal after the step, of a row of a sequence before it; empty where all are.
    pub legal: Vec<bool>,
    /// Weight of the error.
    pub weight: f32,
    /// Discounted sum over the steps.
    pub reward: f32,
    /// Discount of the value after them.
    pub discount: f32,
    /// `[component]`: standard normals of the action after the step, and of the one that the policy learns from.
    pub normals: [Vec<f32>; 2],
    /// What a row of a sequence has besides.
    pub row: RowOfSequence,
}

/// A row of a sequence.
#[derive(Debug, Clone, Default)]
pub struct RowOfSequence {
    /// The state of layers with memory, where the sequence begins.
    pub begins: Option<Vec<f32>>,
    /// Whether an episode begins.
    pub is_first: bool,
    /// Whether it is a step that is learned from.
    pub counts: bool,
    /// Rows from it to the one whose value its target has.
    pub ahead: usize,
}

/// Learns from `count` minibatches of a replay, on the current rayon pool. Returns the samples and the losses of each. Where samples are drawn
/// by priority, some were drawn before.
pub fn learn(
    network: &Network,
    config: &Config,
    state: &mut LearnerState,
    (replay, obs_norm): (&Replay, &[(f32, f32)]),
    count: usize,
) -> Vec<(Vec<Transition>, Record)> {
    let declaration = config.algorithm.declaration();
    let Learns::Replay(rules) = declaration.learns else { panic!("the algorithm has no replay") };
    let layout = replay.layout().clone();
    let mut learner = ReplayLearner::new(network, &layout, config, Arc::default());
    let mut priorities = priorities(config, replay);
    let minibatch = |_| {
        let number = state.step;
        let chosen = priorities.as_mut().map_or(&[][..], |priorities| {
            priorities.draw(replay, config, number, config.priority_beta);
            &priorities.chosen
        });
        let sampling = Sampling { config, replay, number, obs_norm, chosen };
        let samples = match network.states {
            0 => samples(network, &layout, sampling),
            _ => rows(network, &layout, sampling),
        };
        let learned = learner.learn(rules, state, sampling, config.learning_rate);
        if let Some(priorities) = &mut priorities {
            priorities.renew(learner.errors());
        }
        let mut means = Means::default();
        learned.add_to(&mut means, config.batch_size);
        (samples, (declaration.metrics)(&means.measured(config.learning_rate)))
    };
    (0..count).map(minibatch).collect()
}

/// Priorities some of which were renewed.
fn priorities(config: &Config, replay: &Replay) -> Option<Priorities> {
    let mut priorities = Priorities::of(replay, config)?;
    priorities.enter(replay);
    priorities.draw(replay, config, u64::MAX, 1.0);
    priorities.renew((0..config.batch_size).map(|k| (k % 5) as f32 / 3.0));
    Some(priorities)
}

/// The shares of draws that rows are due by their priorities, and the draws of `count` minibatches.
pub fn draws(config: &Config, replay: &Replay, count: u64) -> (Vec<f64>, Vec<u32>) {
    let mut priorities = priorities(config, replay).expect("a priority_exponent");
    let shares = priorities.shares();
    let mut drawn = vec![0; shares.len()];
    for number in 0..count {
        priorities.draw(replay, config, number, 1.0);
        priorities.chosen.iter().for_each(|(of, _)| drawn[of.rows[0]] += 1);
    }
    (shares, drawn)
}

/// The samples of a minibatch.
fn samples(network: &Network, layout: &ReplayLayout, sampling: Sampling<'_>) -> Vec<Transition> {
    let mut tile = Transitions::new(&network.architecture, layout);
    let mut normals = [0; 2].map(|_| vec![splat(0.0); network.architecture.head.components()]);
    let sample = |position: usize| {
        let (index, s) = (position / TILE, position % TILE);
        if s == 0 {
            tile.gather(sampling, index);
            normals.iter_mut().zip(0..).for_each(|(normals, turn)| sampling.normals(index, turn, normals));
        }
        sample(network, &tile, &normals, s)
    };
    (0..sampling.config.batch_size).map(sample).collect()
}

/// The rows of the sequences of a minibatch, one sequence after the other.
fn rows(network: &Network, layout: &ReplayLayout, sampling: Sampling<'_>) -> Vec<Transition> {
    let (config, replay) = (sampling.config, sampling.replay);
    let mut tile = Transitions::new(&network.architecture, layout);
    let of_sequence = |sequence: usize| {
        let (group, lane) = (sequence / LANES, sequence % LANES);
        let starts = sampling.starts(group);
        let first = replay.row(replay.index(starts.0[lane].env, starts.0[lane].number));
        let states = || first[layout.state..][..network.states].iter().map(|&bits| f32::from_bits(bits));
        let row = |step: usize| {
            tile.gather_rows(sampling, group, starts, step / TILE_VECTORS);
            let s = step % TILE_VECTORS * LANES + lane;
            let [counts, keep] = [&tile.counts, &tile.keep].map(|row| number(row, s));
            let row = RowOfSequence {
                begins: (step == 0).then(|| states().collect()),
                is_first: keep == 0.0,
                counts: counts > 0.0,
                ahead: tile.ahead[s],
            };
            Transition { row, ..sample(network, &tile, &[vec![], vec![]], s) }
        };
        (0..config.sequence_rows()).map(row).collect::<Vec<_>>()
    };
    (0..config.batch_size / config.sequence()).flat_map(of_sequence).collect()
}

fn number(row: &Row<TILE_VECTORS>, s: usize) -> f32 {
    row[s / LANES].as_array()[s % LANES]
}

/// Sample `s` of a tile.
fn sample(
    network: &Network,
    tile: &Transitions,
    normals: &[Vec<Row<TILE_VECTORS>>; 2],
    s: usize,
) -> Transition {
    let number = |row: &Row<TILE_VECTORS>| number(row, s);
    let column = |rows: &[Row<TILE_VECTORS>]| rows.iter().map(number).collect::<Vec<f32>>();
    let is_set = |words: &[u32], k: usize| words[k / 32] >> (k % 32) & 1 == 1;
    let obs = |k: usize| {
        let words = column(&tile.inputs[k][..tile.features]);
        match network.architecture.input {
            Input::Dense(_) => words,
            Input::Bits(features) => {
                let words: Vec<u32> = words.into_iter().map(f32::to_bits).collect();
                (0..features).map(|feature| f32::from(is_set(&words, feature))).collect()
            }
        }
    };
    let legal: Vec<u32> = tile.legal.iter().map(|row| row[s / LANES].as_array()[s % LANES]).collect();
    let choices = if legal.is_empty() { 0 } else { network.architecture.head.outputs() };
    Transition {
        obs: [0, 1].map(obs),
        legal: (0..choices).map(|choice| is_set(&legal, choice)).collect(),
        weight: number(&tile.weight),
        actions: column(&tile.inputs[0][tile.features..]),
        reward: number(&tile.reward),
        discount: number(&tile.discount),
        normals: [0, 1].map(|k| column(&normals[k])),
        row: RowOfSequence::default(),
    }
}
