//! Greedy evaluation: one episode from a fresh state in each of many environments, the likeliest action every step.

use std::sync::atomic::{AtomicU64, Ordering};

use operant_env::{ActionSpace, Clock, Current, Env};
use operant_lane::{Bundle, Packed};
use rayon::prelude::*;
use wide::{f32x16, u32x16};

use super::heads::PolicyHead;
use super::policy::{Activations, Policy};
use super::rollout::{
    ActionSource, EnvLane, PULSE_STEPS, forward, legal_bits, normalised, numbers, rows_mut,
};
use super::tile::{LANES, splat};
use crate::backend::Evaluation;

/// What an evaluation needs to know.
pub struct Greedy<'a, E: Env> {
    pub env: &'a E,
    pub policy: &'a Policy,
    pub seed: u64,
    /// `(shift, scale)` per feature; empty without observation normalisation.
    pub obs_norm: &'a [(f32, f32)],
    pub clip_obs: f64,
    pub pulse: &'a AtomicU64,
}

/// Plays `episodes` episodes; `round` sets the random streams of one evaluation apart from another's.
pub fn evaluate<E: Env>(greedy: &Greedy<'_, E>, episodes: usize, round: u64) -> Evaluation {
    let firsts: Vec<usize> = (0..episodes).step_by(LANES).collect();
    let outcomes: Vec<[(f64, u64); LANES]> =
        firsts.par_iter().map(|&first| sixteen(greedy, first as u32, round)).collect();
    let (returns, lengths) = outcomes.into_iter().flatten().take(episodes).unzip();
    Evaluation { returns, lengths }
}

/// Plays 16 episodes side by side until the last one has ended.
fn sixteen<E: Env>(greedy: &Greedy<'_, E>, first: u32, round: u64) -> [(f64, u64); LANES] {
    const WIDTH: usize = EnvLane::WIDTH;
    let (env, network) = (greedy.env, greedy.policy.network());
    let spec = env.spec();
    let clock = |lane: usize, step: u64| Clock {
        seed: greedy.seed,
        environment: numbers::<EnvLane>(first + (lane * WIDTH) as u32),
        step: round << 32 | step,
        evaluation: true,
    };
    let head = &network.architecture.head;
    let mut lanes: Vec<Current<EnvLane, E>> =
        (0..LANES / WIDTH).map(|lane| Current::start(env, &clock(lane, 0))).collect();
    let mut activations = Activations::<1>::new(network);
    let mut policy_head = PolicyHead::<1>::new(head);
    let mut actions = vec![splat::<1>(0.0); head.components()];
    let mut mask = vec![[u32x16::ZERO; 1]; if E::MASKED { head.mask_words() } else { 0 }];
    let mut obs = vec![f32x16::ZERO; spec.obs.words()];
    let mut outcomes = [(0.0, 0); LANES];
    let mut playing = u32::MAX >> (32 - LANES);

    for step in 0..u64::from(spec.time_limit) {
        if step % PULSE_STEPS == 0 {
            greedy.pulse.fetch_add(1, Ordering::Relaxed);
        }
        for (lane, current) in lanes.iter().enumerate() {
            env.observe(&current.state).store(&mut rows_mut::<EnvLane, 1>(&mut obs, lane));
        }
        for (x, (shift, scale)) in obs.iter_mut().zip(greedy.obs_norm) {
            *x = normalised(*x, *shift, *scale, greedy.clip_obs);
        }
        forward(greedy.policy, &obs, &mut activations);
        if E::MASKED {
            legal_bits::<EnvLane, E, 1>(
                env,
                &spec.actions,
                lanes.iter().map(|current| &current.state),
                &mut mask,
            );
            policy_head.set_mask(&mask);
        }
        policy_head.greedy(activations.policy(), &mut actions);
        for (lane, current) in lanes.iter_mut().enumerate() {
            let column = lane * WIDTH;
            let action = act::<E>(&actions, &spec.actions, column);
            let transition = current.step(env, spec.time_limit, &action, &clock(lane, step));
            let ended = EnvLane::bits(transition.terminated | transition.truncated);
            let (mut returns, mut lengths) = ([0.0f32; WIDTH], [0u32; WIDTH]);
            EnvLane::store_float(transition.episodic_return, &mut returns);
            EnvLane::store_uint(transition.episodic_length, &mut lengths);
            let first_end = ended & (playing >> column);
            for i in (0..WIDTH).filter(|i| first_end >> i & 1 == 1) {
                outcomes[column + i] = (f64::from(returns[i]), u64::from(lengths[i]));
            }
            playing &= !(first_end << column);
        }
        if playing == 0 {
            break;
        }
    }
    outcomes
}

fn act<E: Env>(rows: &[[f32x16; 1]], space: &ActionSpace, column: usize) -> E::Action<EnvLane> {
    E::Action::load(&mut ActionSource::<1> { rows, space, column, component: 0 })
}
