//! Records an episode of one environment for the scene: its states in words, drawn only when they are asked for.

use operant_env::AnyEnv;

use crate::backend::Episode;

/// States of an episode that are kept.
const MAX_FRAMES: usize = 2048;

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Phase {
    /// No one has asked.
    #[default]
    Idle,
    /// The next episode is to be recorded.
    Armed,
    /// One is being recorded.
    Recording,
    /// One has been, with this return.
    Done(f32),
}

/// Records the first environment of a tile.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    phase: Phase,
    /// `(frames, leaves)`.
    words: Vec<u32>,
}

impl Recorder {
    /// Whether an episode is being recorded.
    #[inline(always)]
    pub fn is_recording(&self) -> bool {
        self.phase == Phase::Recording
    }

    /// Whether someone waits for an episode.
    #[cfg(feature = "cuda")]
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Armed | Phase::Recording)
    }

    /// Notes the words of a state that a step starts from, while an episode is recorded.
    pub fn frame(&mut self, words: impl ExactSizeIterator<Item = u32>) {
        if self.phase == Phase::Recording {
            if self.words.len() >= MAX_FRAMES * words.len() {
                self.phase = Phase::Done(f32::NAN);
            } else {
                self.words.extend(words);
            }
        }
    }

    /// The environment's episode has ended, and another begins.
    pub fn episode_ended(&mut self, episodic_return: f32) {
        match self.phase {
            Phase::Armed => {
                self.words.clear();
                self.phase = Phase::Recording;
            }
            Phase::Recording => self.phase = Phase::Done(episodic_return),
            Phase::Idle | Phase::Done(_) => {}
        }
    }

    /// The episode recorded since the last call, drawn; the next one is recorded from now on.
    pub fn take(&mut self, env: &dyn AnyEnv) -> Option<Episode> {
        let Phase::Done(episodic_return) = self.phase else {
            if self.phase == Phase::Idle {
                self.phase = Phase::Armed;
            }
            return None;
        };
        self.phase = Phase::Armed;
        let frames = self.words.chunks_exact(env.leaves().len()).map(|state| env.picture(state)).collect();
        Some(Episode { frames, fps: env.spec().fps, episodic_return: f64::from(episodic_return) })
    }
}
