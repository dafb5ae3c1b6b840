//! Minibatches and what they were computed from, for comparisons with another implementation.

use std::sync::Arc;

use operant_metrics::Record;

use super::learner::ReplayLearner;
use super::replay::{Replay, ReplayLayout, Sampling, Transitions};
use crate::LearnerState;
use crate::algorithms::Learns;
use crate::config::Config;
use crate::cpu::network::tile::{LANES, Row, TILE, TILE_VECTORS, splat};
use crate::cpu::update::Means;
use crate::network::Network;

/// A sample of a minibatch, as networks take it.
#[derive(Debug, Clone)]
pub struct Transition {
    /// `[feature]` before the step, and after it.
    pub obs: [Vec<f32>; 2],
    /// `[component]`, within -1 and 1.
    pub actions: Vec<f32>,
    /// Discounted sum over the steps.
    pub reward: f32,
    /// Discount of the value after them.
    pub discount: f32,
    /// `[component]`: standard normals of the action after the step, and of the one that the policy learns from.
    pub normals: [Vec<f32>; 2],
}

/// Learns from `count` minibatches of a replay, on the current rayon pool. Returns the samples and the losses of each.
pub fn learn(
    network: &Network,
    config: &Config,
    state: &mut LearnerState,
    (replay, obs_norm): (&Replay, &[(f32, f32)]),
    count: usize,
) -> Vec<(Vec<Transition>, Record)> {
    let declaration = config.algorithm.declaration();
    let Learns::Replay(rules) = declaration.learns else { panic!("the algorithm has no replay") };
    let layout = ReplayLayout::new(&network.architecture);
    let mut learner = ReplayLearner::new(network, &layout, config, Arc::default());
    let minibatch = |_| {
        let sampling = Sampling { config, replay, number: state.step, obs_norm };
        let samples = samples(network, &layout, sampling);
        let learned = learner.learn(rules, state, sampling, config.learning_rate);
        let mut means = Means::default();
        learned.add_to(&mut means, config.batch_size);
        (samples, (declaration.metrics)(&means.measured(config.learning_rate)))
    };
    (0..count).map(minibatch).collect()
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
        let number = |row: &Row<TILE_VECTORS>| row[s / LANES].as_array()[s % LANES];
        let column = |rows: &[Row<TILE_VECTORS>]| rows.iter().map(number).collect::<Vec<f32>>();
        Transition {
            obs: [0, 1].map(|k| column(&tile.inputs[k][..tile.features])),
            actions: column(&tile.inputs[0][tile.features..]),
            reward: number(&tile.reward),
            discount: number(&tile.discount),
            normals: [0, 1].map(|k| column(&normals[k])),
        }
    };
    (0..sampling.config.batch_size).map(sample).collect()
}
