//! The playback of the scene panel: the current episode and frame.

use std::time::Duration;

use operant_metrics::{Episode, Frame};

use super::source::Source;
use operant_draw::cells::Picture;

/// How long the last frame is shown before the next play-through.
const CURTAIN: Duration = Duration::from_millis(500);

/// The playback of the scene, kept between frames. One per run, in [`super::RunView::stage`].
#[derive(Debug, Clone, Default)]
pub struct Stage {
    playing: Option<Playing>,
}

/// An episode on the stage.
#[derive(Debug, Clone)]
pub(crate) struct Playing {
    pub(crate) episode: Episode,
    pub(crate) picture: Picture,
    /// When this play-through began.
    began: Duration,
    /// The frame on show.
    index: usize,
}

impl Stage {
    /// Advances to the time `now` (since the monitor started, without frozen time), taking a new episode from
    /// the ring when it is time for one. Called once a frame while the scene is on the screen.
    ///
    /// An episode is always played to its end: early in training, episodes are short and end many times a second, too fast
    /// to follow. After its end the newest episode follows, or the same one again.
    pub fn advance(&mut self, source: &Source, now: Duration) {
        self.advance_with(|after| source.scene(after), now);
    }

    fn advance_with(&mut self, newest: impl FnOnce(u64) -> Option<Episode>, now: Duration) {
        let shown = self.playing.as_ref().map_or(0, |playing| playing.episode.number);
        if self.playing.as_ref().is_none_or(|playing| playing.is_over(now)) {
            match newest(shown).filter(|episode| !episode.frames.is_empty()) {
                Some(episode) => {
                    let picture = Picture::of(&episode);
                    self.playing = Some(Playing { episode, picture, began: now, index: 0 });
                }
                None => {
                    if let Some(playing) = &mut self.playing {
                        playing.began = now;
                    }
                }
            }
        }
        if let Some(playing) = &mut self.playing {
            playing.index = playing.index_at(now);
        }
    }

    /// A stage on which an episode has just begun.
    #[cfg(test)]
    pub(crate) fn of_episode(episode: Episode) -> Self {
        let mut stage = Self::default();
        stage.advance_with(|_| Some(episode), Duration::ZERO);
        stage
    }

    pub(crate) fn playing(&self) -> Option<&Playing> {
        self.playing.as_ref()
    }
}

impl Playing {
    /// Frames per second; 30 if the value is not a positive finite number.
    fn fps(&self) -> f64 {
        let fps = f64::from(self.episode.fps);
        if (0.1..=1000.0).contains(&fps) { fps } else { 30.0 }
    }

    fn is_over(&self, now: Duration) -> bool {
        let length = Duration::from_secs_f64(self.episode.frames.len() as f64 / self.fps()) + CURTAIN;
        // If the clock ran backwards, playback restarts.
        now < self.began || now - self.began >= length
    }

    fn index_at(&self, now: Duration) -> usize {
        let frames = now.saturating_sub(self.began).as_secs_f64() * self.fps();
        // The small addition compensates for rounding: the frame due at 0.3 s is shown at 0.3 s.
        ((frames + 1e-6) as usize).min(self.episode.frames.len().saturating_sub(1))
    }

    /// The frame on show, counted from 1.
    pub(crate) fn number(&self) -> usize {
        self.index + 1
    }

    /// The frame on show.
    pub(crate) fn frame(&self) -> Option<&Frame> {
        self.episode.frames.get(self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(number: u64, frames: usize) -> Episode {
        Episode { number, fps: 10.0, frames: vec![Frame::new(); frames], ..Episode::default() }
    }

    /// Number of the episode and of the frame on show after advancing to a time in milliseconds.
    fn show(stage: &mut Stage, newest: Option<&Episode>, milliseconds: u64) -> Option<(u64, usize)> {
        let newer = |after| newest.filter(|episode| episode.number > after).cloned();
        stage.advance_with(newer, Duration::from_millis(milliseconds));
        stage.playing().map(|playing| (playing.episode.number, playing.number()))
    }

    #[test]
    fn an_episode_plays_at_its_speed_and_loops() {
        let (mut stage, only) = (Stage::default(), episode(1, 4));
        assert_eq!(show(&mut stage, None, 0), None);
        assert_eq!(show(&mut stage, Some(&only), 1000), Some((1, 1)));
        assert_eq!(show(&mut stage, Some(&only), 1099), Some((1, 1)));
        assert_eq!(show(&mut stage, Some(&only), 1100), Some((1, 2)));
        assert_eq!(show(&mut stage, Some(&only), 1300), Some((1, 4)));
        // The last frame is held, then playback restarts.
        assert_eq!(show(&mut stage, Some(&only), 1890), Some((1, 4)));
        assert_eq!(show(&mut stage, Some(&only), 1900), Some((1, 1)));
        assert_eq!(show(&mut stage, Some(&only), 2000), Some((1, 2)));
    }

    #[test]
    fn a_newer_episode_waits_for_the_end_of_the_play_through() {
        let (mut stage, first, later) = (Stage::default(), episode(1, 4), episode(7, 2));
        show(&mut stage, Some(&first), 0);
        assert_eq!(show(&mut stage, Some(&later), 200), Some((1, 3)));
        assert_eq!(show(&mut stage, Some(&later), 900), Some((7, 1)));
    }

    #[test]
    fn time_that_stands_still_is_a_still_picture() {
        let (mut stage, first, later) = (Stage::default(), episode(1, 4), episode(2, 4));
        show(&mut stage, Some(&first), 0);
        show(&mut stage, Some(&first), 200);
        for _ in 0..3 {
            assert_eq!(show(&mut stage, Some(&later), 200), Some((1, 3)));
        }
    }

    #[test]
    fn odd_speeds_and_empty_episodes_are_survived() {
        for fps in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e30] {
            let mut stage = Stage::default();
            let odd = Episode { fps, ..episode(1, 3) };
            assert_eq!(show(&mut stage, Some(&odd), 0), Some((1, 1)));
            assert_eq!(show(&mut stage, Some(&odd), 34), Some((1, 2)), "{fps}");
        }
        let mut stage = Stage::default();
        assert_eq!(show(&mut stage, Some(&episode(1, 0)), 0), None);
        assert_eq!(show(&mut stage, Some(&episode(2, 1)), 1), Some((2, 1)));
    }

    #[test]
    fn a_clock_that_ran_backwards_begins_again() {
        let (mut stage, only) = (Stage::default(), episode(1, 4));
        show(&mut stage, Some(&only), 5000);
        assert_eq!(show(&mut stage, Some(&only), 100), Some((1, 1)));
    }
}
