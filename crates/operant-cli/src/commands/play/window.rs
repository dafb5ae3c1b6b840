//! Shows episodes one after the other: in the terminal's window, or without a window for a film.

use operant_draw::film::{Film, MOST_FRAMES};
use operant_env::{ActionSpace, StepError};
use operant_metrics::{Frame, Point};
use operant_monitor::player::{self, Key, Progress, Show};
use operant_run::{Error, ErrorKind};

use super::episodes::{Outcome, Tile};
use super::keyboard::Keyboard;
use super::{Cast, failed};

/// Which episodes are shown.
pub enum Numbers {
    /// Consecutive episodes from the first; without `count`, until the user quits.
    FromZero { count: Option<u32> },
    /// The episodes with these numbers.
    These(Vec<u32>),
}

impl Numbers {
    /// The first episode.
    pub fn first(&self) -> u32 {
        self.at(0).unwrap_or(0)
    }

    fn at(&self, index: u32) -> Option<u32> {
        match self {
            Numbers::FromZero { count } => count.is_none_or(|count| index < count).then_some(index),
            Numbers::These(numbers) => numbers.get(index as usize).copied(),
        }
    }
}

/// The episode that is shown and the ones shown before.
pub struct Window<'a> {
    /// What is shown now, and what follows.
    casts: &'a [Cast],
    tile: Tile<'a>,
    numbers: Numbers,
    keyboard: Option<Keyboard>,
    /// Whether the first episode waits for a key, and has not begun.
    waits: bool,
    /// Number of episodes of this agent that were started before this one.
    index: u32,
    /// Frames of the film before this agent's.
    before: usize,
    frame: Frame,
    view: (Point, Point),
    error: Option<StepError>,
    /// Episodes that ended or were skipped, in the order shown.
    pub outcomes: Vec<Outcome>,
    /// The film, if one is recorded.
    pub film: Option<Film>,
}

impl<'a> Window<'a> {
    /// A window before the first step of the first episode of these agents, of which there is at least one.
    pub fn new(
        casts: &'a [Cast],
        tile: Tile<'a>,
        numbers: Numbers,
        keyboard: Option<Keyboard>,
        film: Option<Film>,
    ) -> Self {
        let (frame, view, outcomes) = (Frame::new(), ([0.0; 2], [0.0; 2]), Vec::new());
        // Without an action that is taken meanwhile, every step waits for a key.
        let waits = keyboard.as_ref().is_some_and(|keyboard| keyboard.idle.is_some());
        let (index, before, error) = (0, 0, None);
        let mut window = Window {
            casts,
            tile,
            numbers,
            keyboard,
            waits,
            index,
            before,
            frame,
            view,
            error,
            outcomes,
            film,
        };
        window.draw();
        window
    }

    /// Shows the episodes in the terminal. Returns the exit code.
    pub fn show(&mut self) -> Result<u8, Error> {
        let code = player::play(self).map_err(|error| {
            Error::new(ErrorKind::Disk, error.what())
                .remedy("use another terminal, or record a film with --record FILE.gif")
        })?;
        self.leave();
        self.checked(code)
    }

    /// Plays all episodes without a terminal. Returns the exit code.
    pub fn play_all(&mut self) -> Result<u8, Error> {
        loop {
            let progress = match self.step(None) {
                _ if self.has_all_frames() => {
                    let outcome = self.begin(true);
                    self.noted(outcome)
                }
                Progress::Ended => self.next(),
                other => other,
            };
            if progress == Progress::Over {
                self.leave();
                return self.checked(0);
            }
        }
    }

    /// Whether the film has no room for more frames of this agent: each has an equal share.
    fn has_all_frames(&self) -> bool {
        let share = MOST_FRAMES / self.casts.len().max(1);
        self.film.as_ref().is_some_and(|film| film.is_full() || film.count() - self.before >= share)
    }

    fn checked(&mut self, code: u8) -> Result<u8, Error> {
        self.error.take().map_or(Ok(code), |error| Err(failed(error)))
    }

    /// Records the outcome of an episode that is skipped before its end.
    fn leave(&mut self) {
        let outcome = self.tile.shown();
        if outcome.steps > 0 && self.outcomes.last().is_none_or(|last| !last.is_of(&outcome)) {
            self.outcomes.push(outcome);
        }
    }

    /// Draws the current state, and adds it to the film.
    fn draw(&mut self) {
        let scene = self.tile.scene();
        self.frame.clone_from(&scene.shapes);
        self.view = (scene.low, scene.high);
        let outcome = self.tile.shown();
        if let Some(film) = &mut self.film {
            film.add(self.view, scene.shapes, outcome.note(), outcome.end.is_some());
        }
    }

    fn advance(&mut self, own: Option<f32>) -> Result<Progress, StepError> {
        self.tile.step(own)?;
        self.draw();
        let outcome = self.tile.shown();
        if outcome.end.is_none() {
            return Ok(Progress::Running);
        }
        self.outcomes.push(outcome);
        Ok(Progress::Ended)
    }

    /// Begins the next episode, or the first one of the next agent if there is none or it `is_for_next`.
    fn begin(&mut self, is_for_next: bool) -> Result<Progress, StepError> {
        self.leave();
        self.index += 1;
        let number = match (self.numbers.at(self.index).filter(|_| !is_for_next), self.casts) {
            (Some(number), _) => number,
            (None, [_, later @ ..]) if !later.is_empty() => {
                self.casts = later;
                self.index = 0;
                self.before = self.film.as_ref().map_or(0, Film::count);
                self.numbers.first()
            }
            _ => return Ok(Progress::Over),
        };
        self.tile = Tile::new(&self.casts[0], number)?;
        self.draw();
        Ok(Progress::Running)
    }

    /// Unwraps the progress. An error is stored and ends the show.
    fn noted(&mut self, outcome: Result<Progress, StepError>) -> Progress {
        outcome.unwrap_or_else(|error| {
            self.error = Some(error);
            Progress::Over
        })
    }
}

impl Show for Window<'_> {
    fn fps(&self) -> f32 {
        self.tile.spec().fps
    }

    fn title(&self) -> String {
        self.casts[0].title.clone()
    }

    fn note(&self) -> String {
        if self.waits {
            return "press a key to begin".to_owned();
        }
        let outcome = self.tile.shown();
        outcome.note() + &outcome.end.map_or_else(String::new, |end| format!("  {end}"))
    }

    fn keys(&self, unicode: bool) -> Vec<String> {
        self.keyboard.as_ref().map_or_else(Vec::new, |keyboard| keyboard.shown(unicode))
    }

    fn waits_for_keys(&self) -> bool {
        self.keyboard.as_ref().is_some_and(|keyboard| keyboard.idle.is_none())
    }

    fn view(&self) -> (Point, Point) {
        self.view
    }

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn step(&mut self, key: Option<Key>) -> Progress {
        self.waits &= key.is_none();
        if self.waits {
            return Progress::Running;
        }
        let mut own = None;
        if let Some(keyboard) = &self.keyboard {
            let is_choice = matches!(self.tile.spec().actions, ActionSpace::Discrete(_));
            let legal = |action: &f32| !is_choice || self.tile.is_legal(*action as usize);
            own = key.and_then(|key| keyboard.action(key)).filter(legal).or(keyboard.idle.filter(legal));
            // The key has no action.
            if own.is_none() {
                return Progress::Running;
            }
        }
        let outcome = self.advance(own);
        self.noted(outcome)
    }

    fn next(&mut self) -> Progress {
        let outcome = self.begin(false);
        self.noted(outcome)
    }
}
