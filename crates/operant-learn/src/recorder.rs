//! Records an episode of one environment for the scene: its states as words, drawn only on request.

use operant_env::AnyEnv;

use crate::backend::EpisodeRecording;

/// Maximum recorded states of an episode.
const MAX_FRAMES: usize = 2048;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum RecorderState {
    /// No episode is requested.
    #[default]
    Idle,
    /// The next episode will be recorded.
    Armed,
    /// An episode is being recorded.
    Recording,
    /// An episode is recorded, with this return.
    Done(f32),
}

/// Records the first environment of a tile.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    phase: RecorderState,
    /// `(frames, leaves)`.
    words: Vec<u32>,
}

impl Recorder {
    /// Whether an episode is being recorded.
    #[inline(always)]
    pub fn is_recording(&self) -> bool {
        self.phase == RecorderState::Recording
    }

    /// Whether an episode is requested.
    #[cfg(feature = "cuda")]
    pub fn is_active(&self) -> bool {
        matches!(self.phase, RecorderState::Armed | RecorderState::Recording)
    }

    /// Records the state before a step, while an episode is recorded.
    pub fn frame(&mut self, words: impl ExactSizeIterator<Item = u32>) {
        if self.phase == RecorderState::Recording {
            if self.words.len() >= MAX_FRAMES * words.len() {
                self.phase = RecorderState::Done(f32::NAN);
            } else {
                self.words.extend(words);
            }
        }
    }

    pub fn episode_ended(&mut self, episodic_return: f32) {
        match self.phase {
            RecorderState::Armed => {
                self.words.clear();
                self.phase = RecorderState::Recording;
            }
            RecorderState::Recording => self.phase = RecorderState::Done(episodic_return),
            RecorderState::Idle | RecorderState::Done(_) => {}
        }
    }

    /// The episode recorded since the last call, as scenes; requests the next one.
    pub fn take(&mut self, env: &dyn AnyEnv) -> Option<EpisodeRecording> {
        let RecorderState::Done(episodic_return) = self.phase else {
            if self.phase == RecorderState::Idle {
                self.phase = RecorderState::Armed;
            }
            return None;
        };
        self.phase = RecorderState::Armed;
        let frames = self.words.chunks_exact(env.leaves().len()).map(|state| env.picture(state)).collect();
        Some(EpisodeRecording { frames, fps: env.spec().fps, episodic_return: f64::from(episodic_return) })
    }
}
