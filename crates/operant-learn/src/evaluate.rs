//! Evaluation: one episode from a fresh state in each of many environments, with greedy or sampled actions.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use operant_env::play::Outputs;
use operant_env::{AnyEnv, Checks, StepError, TileSpec, checked, numbers};
use operant_lane::isa::{f32x16, u32x16};
use operant_lane::{ActionDraws, Purpose, Wide};
use operant_metrics::MAX_ENV_METRICS;
use rayon::prelude::*;
use wide::bytemuck;

use crate::backend::{EvalActions, Evaluation, LearnError};
use crate::cpu::batch::expand;
use crate::cpu::network::heads::PolicyHead;
use crate::cpu::network::policy::{Activations, Policy};
use crate::cpu::network::reals::taken;
use crate::cpu::network::tile::{LANES, splat};
use crate::cpu::rollout::{PULSE_STEPS, draw_uniforms, normalised, observation};

pub struct EvalInputs<'a> {
    pub env: &'a dyn AnyEnv,
    pub policy: &'a Policy,
    pub seed: u64,
    /// `(shift, scale)` per feature; empty without observation normalisation.
    pub obs_norm: &'a [(f32, f32)],
    pub clip_obs: f64,
    pub pulse: &'a AtomicU64,
    pub actions: EvalActions,
}

/// How often the caller of an evaluation is asked whether to stop.
const ASK: Duration = Duration::from_millis(20);

/// Plays the episodes with these numbers on the threads of `pool`; `round` selects the random streams, which differ between
/// evaluations. The calling thread must not belong to the pool; it asks `stop` meanwhile.
///
/// # Errors
/// When an environment failed, or the evaluation was stopped.
pub fn evaluate_on(
    pool: &rayon::ThreadPool,
    inputs: &EvalInputs<'_>,
    episodes: Range<usize>,
    round: u64,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Evaluation, LearnError> {
    let (is_stopped, (done, result)) = (AtomicBool::new(false), mpsc::channel());
    pool.in_place_scope(|scope| {
        let is_stopped = &is_stopped;
        // A send fails only where the receiver has panicked.
        scope.spawn(move |_| drop(done.send(evaluate(inputs, episodes, round, is_stopped))));
        loop {
            match result.recv_timeout(ASK) {
                Ok(evaluation) => return evaluation,
                Err(RecvTimeoutError::Timeout) => {
                    if stop() {
                        is_stopped.store(true, Ordering::Relaxed);
                    }
                }
                // It panicked, and so does the scope.
                Err(RecvTimeoutError::Disconnected) => return Err(LearnError::Stopped),
            }
        }
    })
}

fn evaluate(
    inputs: &EvalInputs<'_>,
    episodes: Range<usize>,
    round: u64,
    is_stopped: &AtomicBool,
) -> Result<Evaluation, LearnError> {
    let count = episodes.len();
    let (end, firsts): (_, Vec<usize>) = (episodes.end, episodes.step_by(LANES).collect());
    let play =
        |&first: &usize| up_to_sixteen(inputs, first as u32, LANES.min(end - first), round, is_stopped);
    let outcomes: Vec<[Outcome; LANES]> = firsts.par_iter().map(play).collect::<Result<_, _>>()?;
    let outcomes = || outcomes.iter().flatten().take(count);
    Ok(Evaluation {
        returns: outcomes().map(|outcome| outcome.episodic_return).collect(),
        lengths: outcomes().map(|outcome| outcome.length).collect(),
        traces: outcomes().map(|outcome| outcome.trace).collect(),
        metrics: outcomes().map(|outcome| outcome.metrics).collect(),
    })
}

/// One episode.
#[derive(Clone, Copy, Default)]
struct Outcome {
    episodic_return: f64,
    length: u64,
    /// Hash of its observations.
    trace: u64,
    /// The environment's own.
    metrics: [f32; MAX_ENV_METRICS],
}

/// Plays up to 16 episodes in parallel until the last one has ended.
fn up_to_sixteen(
    inputs: &EvalInputs<'_>,
    first: u32,
    count: usize,
    round: u64,
    is_stopped: &AtomicBool,
) -> Result<[Outcome; LANES], LearnError> {
    let (env, network) = (inputs.env, inputs.policy.network());
    let spec = env.spec();
    let start = round << 32;
    let tile = TileSpec { step: start, evaluation: true, count, ..TileSpec::new(inputs.seed, first, LANES) };
    let mut stepper = checked(env, tile, Checks::Finite)?;
    let head = &network.architecture.head;
    let mut activations = Activations::<1>::new(network);
    let mut memory = activations.after().to_vec();
    let mut policy_head = PolicyHead::<1>::of(&network.architecture);
    let mut actions = vec![splat::<1>(0.0); head.components()];
    let mut clipped = actions.clone();
    let mut draws = [ActionDraws::new(inputs.seed, numbers::<Wide<16>>(first), Purpose::EvalAction)];
    let mut uniforms = vec![splat::<1>(0.0); head.uniforms()];
    let mut outputs = Outputs::new(&spec, env.masked(), LANES);
    let mut mask = vec![[u32x16::ZERO; 1]; outputs.legal.len() / LANES];
    let mut obs = vec![f32x16::ZERO; spec.obs.words()];
    let packing = network.architecture.packing.as_ref();
    let mut seen = vec![f32x16::ZERO; packing.map_or(0, |_| network.architecture.input.words())];
    let mut outcomes = [Outcome::default(); LANES];
    let mut playing = u16::MAX >> (LANES - count);

    stepper.observe(outputs.seen())?;
    // Every episode ends by itself, at the latest by its time limit, if there is one.
    for step in 0.. {
        if step % PULSE_STEPS == 0 {
            inputs.pulse.fetch_add(1, Ordering::Relaxed);
            if is_stopped.load(Ordering::Relaxed) {
                return Err(LearnError::Stopped);
            }
        }
        for (i, outcome) in outcomes.iter_mut().enumerate().filter(|(i, _)| playing >> i & 1 == 1) {
            for word in outputs.obs.iter().skip(i).step_by(LANES) {
                // FNV-1a, a word at a time.
                outcome.trace = (outcome.trace ^ u64::from(*word)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        bytemuck::cast_slice_mut::<f32x16, u32>(&mut obs).copy_from_slice(&outputs.obs);
        for (x, (shift, scale)) in obs.iter_mut().zip(inputs.obs_norm) {
            *x = normalised(*x, *shift, *scale, inputs.clip_obs);
        }
        if let Some(packing) = packing {
            expand::<1>(packing, bytemuck::cast_slice(&obs), bytemuck::cast_slice_mut(&mut seen));
        }
        let seen = if packing.is_some() { &seen } else { &obs };
        inputs.policy.actor(observation(inputs.policy, seen), [playing], &memory, &mut activations);
        memory.copy_from_slice(activations.after());
        bytemuck::cast_slice_mut::<_, u32>(mask.as_flattened_mut()).copy_from_slice(&outputs.legal);
        policy_head.set_mask(&mask);
        if let Some(row) = policy_head.stuck(count) {
            return Err(StepError::no_legal_action(&spec.name, first as usize + row).into());
        }
        match inputs.actions {
            EvalActions::Greedy => policy_head.greedy(activations.policy(), &mut actions),
            EvalActions::Sampled => {
                draw_uniforms(&mut draws, start | step, &mut uniforms);
                policy_head.sample(activations.policy(), inputs.policy.log_std(), &uniforms, &mut actions);
            }
        }
        taken(head, &spec.actions, &actions, &mut clipped);
        stepper.submit(bytemuck::cast_slice(clipped.as_flattened()), start | step)?;
        stepper.collect(outputs.stepped())?;
        // An environment that failed plays another episode; a game may continue after a lost life.
        let whole = (0..LANES).filter(|&i| outputs.lengths[i] > 0).fold(0, |bits, i| bits | 1 << i);
        let first_end = (outputs.terminated[0] | outputs.truncated[0]) & playing & whole;
        for i in (0..LANES).filter(|i| first_end >> i & 1 == 1) {
            outcomes[i].episodic_return = f64::from(outputs.returns[i]);
            outcomes[i].length = u64::from(outputs.lengths[i]);
            for (to, values) in outcomes[i].metrics.iter_mut().zip(outputs.metrics.chunks_exact(LANES)) {
                *to = values[i];
            }
        }
        playing &= !first_end;
        if playing == 0 {
            break;
        }
    }
    Ok(outcomes)
}
