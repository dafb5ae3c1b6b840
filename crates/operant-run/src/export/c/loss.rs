//! What weights of int8 cost: actions and returns of greedy episodes, next to those with floats.

use operant_env::play::Outputs;
use operant_env::{ActionSpace, StepError, TileSpec};
use operant_learn::LearnError;
use operant_learn::cpu::inference::{Choice, Inference, RowBuffers};
use wide::bytemuck;

use super::int8::rounded;
use crate::error::Result;
use crate::policy::SavedPolicy;

/// Environments of a tile.
const ROWS: usize = 16;
/// Episodes are played until there are this many, or this many observations.
const EPISODES: usize = 100;
const OBSERVATIONS: usize = 10_000;

/// Greedy episodes of a policy.
#[derive(Default)]
struct Played {
    returns: Vec<f64>,
    observations: usize,
    /// Observations in which another policy takes the same choices.
    same: usize,
    /// The sum of the distances between both actions, as a share of their range, and the greatest one.
    distance: f64,
    greatest: f64,
}

/// What [`super::Weights::Int8`] cost, in words: how actions change in the states of the policy's own greedy episodes, and the mean return.
///
/// # Errors
/// When an environment fails.
pub fn loss(saved: &SavedPolicy) -> Result<String> {
    let (rounded, spec) = (rounded(saved)?, saved.env.spec());
    if saved.env.steps_elsewhere() {
        return Ok("loss not measured: the environment runs in other programs".to_owned());
    }
    let [floats, int8] = [saved, &rounded].map(|saved| Inference::new(saved.policy.clone()));
    let played = play(saved, &floats, Some(&int8)).map_err(LearnError::from)?;
    let actions = match saved.policy.actions {
        ActionSpace::Discrete(_) => {
            let share = 100.0 * played.same as f64 / played.observations as f64;
            format!("the same action in {share:.2}% of {} observations", played.observations)
        }
        ActionSpace::Box { .. } => {
            let components = saved.policy.actions.components();
            let mean = 100.0 * played.distance / (played.observations * components) as f64;
            let greatest = 100.0 * played.greatest;
            format!(
                "actions differ by {mean:.3}% of their range on average and at most {greatest:.2}%, in {} observations",
                played.observations
            )
        }
    };
    // Who plays the other side of a game decides its return.
    if spec.players > 1 {
        return Ok(actions);
    }
    let other = play(saved, &int8, None).map_err(LearnError::from)?;
    let mean = |returns: &[f64]| returns.iter().sum::<f64>() / returns.len() as f64;
    let of = |played: &Played| format!("{:.2} over {} episodes", mean(&played.returns), played.returns.len());
    Ok(format!("{actions}; mean return {}, with floats {}", of(&other), of(&played)))
}

/// Plays greedy episodes of `policy`, and compares its actions with those of `other` for the same observations.
fn play(saved: &SavedPolicy, policy: &Inference, other: Option<&Inference>) -> Result<Played, StepError> {
    let mut played = Played::default();
    while played.returns.len() < EPISODES && played.observations < OBSERVATIONS {
        play_tile(saved, policy, other, &mut played)?;
    }
    Ok(played)
}

/// Sixteen more episodes.
fn play_tile(
    saved: &SavedPolicy,
    policy: &Inference,
    other: Option<&Inference>,
    played: &mut Played,
) -> Result<(), StepError> {
    let (env, spec) = (&saved.env, saved.env.spec());
    let first = played.returns.len() as u32;
    let tile = TileSpec { evaluation: true, ..TileSpec::new(saved.seed, first, ROWS) };
    let mut stepper = env.stepper(tile)?;
    let mut outputs = Outputs::new(&spec, env.masked(), ROWS);
    let mut own: RowBuffers<1> = policy.block();
    let mut others: Option<(&Inference, RowBuffers<1>)> = other.map(|other| (other, other.block()));
    let mut playing = u16::MAX;
    stepper.observe(outputs.seen())?;
    for step in 0.. {
        decide(policy, &mut own, &outputs);
        if let Some(row) = own.stuck(ROWS) {
            return Err(StepError::no_legal_action(&spec.name, first as usize + row));
        }
        played.observations += playing.count_ones() as usize;
        if let Some((other, block)) = &mut others {
            decide(other, block, &outputs);
            compare(&saved.policy.actions, [&own, block], playing, played);
        }
        stepper.submit(bytemuck::cast_slice(own.actions.as_flattened()), step)?;
        stepper.collect(outputs.stepped())?;
        let before = playing;
        for row in (0..ROWS).filter(|row| before >> row & 1 == 1) {
            // A game may continue after a lost life.
            if outputs.ended(row) != [false, false] && outputs.lengths[row] > 0 {
                played.returns.push(f64::from(outputs.returns[row]));
                playing &= !(1 << row);
            }
        }
        if playing == 0 {
            break;
        }
    }
    Ok(())
}

/// The greedy actions of a policy.
fn decide(policy: &Inference, block: &mut RowBuffers<1>, outputs: &Outputs) {
    bytemuck::cast_slice_mut::<_, u32>(block.obs.as_flattened_mut()).copy_from_slice(&outputs.obs);
    bytemuck::cast_slice_mut::<_, u32>(block.legal.as_flattened_mut()).copy_from_slice(&outputs.legal);
    policy.act_on(block, Choice::Greedy);
}

/// Counts the rows with the same choices, and adds up distances of real actions.
fn compare(actions: &ActionSpace, blocks: [&RowBuffers<1>; 2], rows: u16, played: &mut Played) {
    let [one, two] = blocks.map(|block| bytemuck::cast_slice::<_, f32>(block.actions.as_flattened()));
    for row in (0..ROWS).filter(|row| rows >> row & 1 == 1) {
        let pairs = one.iter().zip(two).skip(row).step_by(ROWS);
        played.same += usize::from(pairs.clone().all(|(a, b)| a == b));
        let ActionSpace::Box { low, high } = actions else { continue };
        for ((a, b), (low, high)) in pairs.zip(low.iter().zip(high)) {
            let range = if (high - low).is_finite() { high - low } else { 1.0 };
            let distance = f64::from((a - b).abs()) / range;
            played.distance += distance;
            played.greatest = played.greatest.max(distance);
        }
    }
}
