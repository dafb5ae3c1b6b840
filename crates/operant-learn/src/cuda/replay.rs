//! Given actions from given states on a GPU, without auto-reset: `operant replay --device cuda`.

use operant_cuda::Device;
use operant_cuda::kernels::{Replay, ReplayBuffers};
use operant_env::AnyEnv;
use operant_env::replay::{CaseWords, Outcome, StepWords};

use super::program::replay_program;
use crate::LearnError;

/// Plays all cases side by side; each stops with its first end of an episode.
///
/// # Errors
/// When the kernel does not compile, or the device has no room or fails.
pub fn replay(device: &Device, env: &dyn AnyEnv, cases: &[CaseWords]) -> Result<Vec<Outcome>, LearnError> {
    let spec = env.spec();
    let (state_words, obs_words) = (env.leaves().len(), spec.obs.words());
    let components = spec.actions.components();
    let (count, most) = (cases.len(), cases.iter().map(|case| case.actions.len()).max().unwrap_or(0));
    if count == 0 || most == 0 {
        return Ok(vec![Outcome::default(); count]);
    }
    let module = device.load(&replay_program(env)?)?;
    let kernel = Replay::new(&module, [state_words, obs_words, components])?;
    let stream = device.stream()?;

    // One column a case, one row a word; cases that end earlier leave zeros.
    let mut states = vec![0; state_words * count];
    let mut actions = vec![0; most * components * count];
    for (c, case) in cases.iter().enumerate() {
        for (row, word) in case.state.iter().enumerate() {
            states[row * count + c] = *word;
        }
        for (row, word) in case.actions.iter().flatten().enumerate() {
            actions[row * count + c] = *word;
        }
    }
    let steps: Vec<u32> = cases.iter().map(|case| case.actions.len() as u32).collect();
    let device_words = |words: &[u32]| -> Result<_, LearnError> {
        let buffer = device.alloc::<u32>(words.len())?;
        buffer.write(&stream, words)?;
        Ok(buffer)
    };
    let (states, actions) = (device_words(&states)?, device_words(&actions)?);
    let (obs, after) = (device.alloc(most * obs_words * count)?, device.alloc(most * state_words * count)?);
    let (rewards, flags) = (device.alloc(most * count)?, device.alloc(most * count)?);
    let (lengths, played) = (device.alloc(count)?, device.alloc(count)?);
    let buffers = ReplayBuffers {
        states: &states,
        actions: &actions,
        steps: &lengths,
        obs: &obs,
        rewards: &rewards,
        flags: &flags,
        after: &after,
        played: &played,
    };
    kernel.launch(&stream, &buffers, &steps, most)?;

    let (obs, after) = (obs.read(&stream)?, after.read(&stream)?);
    let (rewards, flags, played) = (rewards.read(&stream)?, flags.read(&stream)?, played.read(&stream)?);
    let column = |words: &[u32], width: usize, t: usize, c: usize| -> Vec<u32> {
        (0..width).map(|row| words[(t * width + row) * count + c]).collect()
    };
    let outcome = |c: usize| {
        let rows: Vec<_> = (0..played[c] as usize)
            .map(|t| (column(&obs, obs_words, t, c), column(&after, state_words, t, c), t * count + c))
            .collect();
        let steps = rows.iter().map(|(obs, state, at)| StepWords {
            obs,
            reward: rewards[*at],
            ended: [flags[*at] & 1 != 0, flags[*at] & 2 != 0],
            state,
        });
        env.outcome(&steps.collect::<Vec<_>>())
    };
    Ok((0..count).map(outcome).collect())
}
