//! Given actions from given states on a GPU, without auto-reset: `operant replay --device cuda`.

use operant_cuda::{Device, LaunchConfig, Program};
use operant_env::AnyEnv;
use operant_env::replay::{CaseWords, Outcome, StepWords};

use crate::LearnError;
use crate::cuda::common::env::{KernelEnv, words_of};
use crate::cuda::common::structs::Seed;
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};

/// `replay.cu`: given actions from given states.
pub const REPLAY: KernelText = kernel_text!("replay", "play/replay.cu", [ReplayParams], [Seed]);

/// `replay.cu` for an environment.
pub fn replay_program(kernel_env: &KernelEnv) -> Program {
    let bits = !kernel_env.spec.obs.is_real();
    ProgramText::of(kernel_env, REPLAY, vec![("OBS_BITS".to_owned(), u8::from(bits).to_string())])
}

const THREADS: u32 = 64;

/// C cases of up to S steps.
#[derive(Debug, Clone, Copy)]
struct ReplaySizes {
    cases: usize,
    most: usize,
    state_words: usize,
    obs_words: usize,
    components: usize,
}

operant_cuda::params! {
    /// Parameters of the kernel: a thread plays at most `steps` <= S steps of its own case.
    struct ReplayParams<'a>(of: ReplaySizes) for ["replay"], blocks usize::MAX, {
        /// (state words, C).
        states: reads [u32; of.state_words * of.cases],
        /// (S, components, C): choices, or floats by their bits.
        actions: reads [u32; of.most * of.components * of.cases],
        /// (C): actions that each case has, at most S.
        steps: reads [u32; of.cases],
        /// (S, observation words, C).
        obs: writes [u32; of.most * of.obs_words * of.cases],
        /// (S, C).
        rewards: writes [f32; of.most * of.cases],
        /// (S, C): 1 terminated, 2 truncated.
        flags: writes [u8; of.most * of.cases],
        /// (S, state words, C): the state after each step.
        after: writes [u32; of.most * of.state_words * of.cases],
        /// (C): steps until the first end of the episode.
        played: writes [u32; of.cases],
        num_cases: value [u32],
    }
}

/// Plays all cases in parallel; each stops at its first end of an episode.
///
/// # Errors
/// When the kernel does not compile, or the device has no room or fails.
pub fn replay(device: &Device, env: &dyn AnyEnv, cases: &[CaseWords]) -> Result<Vec<Outcome>, LearnError> {
    let kernel_env = KernelEnv::of(env)?;
    let (state_words, obs_words) = (kernel_env.state_words, kernel_env.spec.obs.words());
    let components = kernel_env.spec.actions.components();
    let (count, most) = (cases.len(), cases.iter().map(|case| case.actions.len()).max().unwrap_or(0));
    if count == 0 || most == 0 {
        return Ok(vec![Outcome::default(); count]);
    }
    words_of(state_words, count)?;
    let kernel = device.load(&replay_program(&kernel_env))?.function("replay")?;
    let stream = device.stream()?;

    // One column per case, one row per word; cases that end earlier leave zeros.
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
    let (lengths, played) = (device_words(&steps)?, device.alloc(count)?);
    let params = ReplayParams {
        states: &states,
        actions: &actions,
        steps: &lengths,
        obs: &obs,
        rewards: &rewards,
        flags: &flags,
        after: &after,
        played: &played,
        num_cases: count as u32,
    };
    let sizes = ReplaySizes { cases: count, most, state_words, obs_words, components };
    kernel.run(&stream, LaunchConfig::covering(count, THREADS), &params, &sizes)?;

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
