//! Records an episode of one environment for the scene: its states in words, drawn only when they are asked for.

use operant_env::{Current, Env, EnvSpec, Rows, RowsMut};
use operant_lane::Packed;

use crate::backend::Episode;
use crate::state::leaves;

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
    /// A row per leaf of all environments of a lane.
    lane: Vec<u32>,
}

impl Recorder {
    /// Notes the state that the next step starts from.
    #[inline(always)]
    pub fn before_step<L: Packed, E: Env>(&mut self, current: &Current<L, E>) {
        if self.phase == Phase::Recording {
            self.note(current);
        }
    }

    #[cold]
    fn note<L: Packed, E: Env>(&mut self, current: &Current<L, E>) {
        let mut lane = core::mem::take(&mut self.lane);
        lane.resize(leaves::<E>() * L::WIDTH, 0);
        current.store(&mut RowsMut::new(&mut lane, L::WIDTH, 0));
        self.frame(lane.iter().step_by(L::WIDTH).copied());
        self.lane = lane;
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
    pub fn take<E: Env>(&mut self, env: &E, spec: &EnvSpec) -> Option<Episode> {
        let Phase::Done(episodic_return) = self.phase else {
            if self.phase == Phase::Idle {
                self.phase = Phase::Armed;
            }
            return None;
        };
        self.phase = Phase::Armed;
        let draw = |words: &[u32]| env.draw(&Current::<f32, E>::load(&mut Rows::new(words, 1, 0)).state);
        let frames = self.words.chunks_exact(leaves::<E>()).map(draw).collect();
        Some(Episode { frames, fps: spec.fps, episodic_return: f64::from(episodic_return) })
    }
}
