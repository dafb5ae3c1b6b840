//! MiniGrid: grids with rooms, keys and doors. The agent sees 7 x 7 cells in front of it.
//!
//! The environments match those of the minigrid package (Chevalier-Boisvert et al., "Minigrid & Miniworld", 2023) move
//! for move, including the view. Layouts have the same distributions, and missions are numbers. A cell takes a byte,
//! and the grid is stored in `L::Memory`. Difference from the package: its generators give up after many rejected
//! draws; here a layout that would need too many draws (probability below 10^-9) is replaced by a simple one.

mod board;
mod cell;
mod corridor;
mod layouts;
mod multiroom;
mod picture;
mod rules;
mod tasks;
mod view;

use std::marker::PhantomData;
use std::sync::Arc;

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::replay::CaseError;
use crate::spec::names;
use crate::{
    ActionSpace, AnyEnv, Env, EnvMetric, EnvOption, EnvSpec, ObsSpace, OptionError, OptionValue, Registry,
    Scene, Step,
};
use board::Board;
use cell::COLOURS;
use layouts::Layouts;
use tasks::{EXTRA, Kind, TASKS, Task};

bundle! {
    /// A grid of up to 4 W cells, and the agent.
    pub struct State<const N: usize> {
        /// The contents of the cells, one byte each, row by row.
        cells: (Memory N),
        /// Column of the agent.
        x: Uint,
        /// Row of the agent, 0 at the top.
        y: Uint,
        /// Its direction: 0 right, 1 down, 2 left, 3 up.
        dir: Uint,
        /// The carried object, as a cell; 0 for none.
        carried: Uint,
        /// Steps since the start of the episode.
        steps: Uint,
        /// The numbers of the mission, followed by other values that the task remembers.
        extra: [Uint; 8],
    }
}

/// Words of an observation with view, direction and mission.
const SEEN: usize = (3 * view::CELLS).div_ceil(4) + 2;

/// The name of the option that selects the observation.
const VIEW: &str = "view";

/// The kind of observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The agent's view, as indices.
    Indices,
    /// The agent's view, as bits.
    Bits,
    /// The whole grid, as indices.
    Full,
}

/// A task on a grid of up to 4 W cells, whose observations have at most O words.
#[derive(Debug, Clone)]
pub struct MiniGrid<S, const W: usize, const O: usize> {
    task: &'static Task,
    view: View,
    /// The cells that all initial states share.
    fixed: Arc<[u32]>,
    size: PhantomData<S>,
}

impl<S: Layouts, const W: usize, const O: usize> MiniGrid<S, W, O> {
    /// What the parts of an observation mean.
    fn obs_names(&self) -> Vec<String> {
        let image = match self.view {
            View::Full => {
                "image: object, colour and state of each cell of the grid, column by column from the left"
            }
            _ => {
                "image: object, colour and state of the 7 x 7 cells in view, column by column from the left; the agent, in the middle \
                  of the last row, is not shown, but the object it carries is"
            }
        };
        let is_full = self.view == View::Full;
        let agent = if is_full { ", 10 agent" } else { "" };
        let direction = if is_full { "of the agent its direction, " } else { "" };
        let coding = if self.view == View::Bits { ", all one-hot" } else { "" };
        let mut names = vec![
            image.to_owned(),
            format!(
                "objects: 0 unseen, 1 empty, 2 wall, 3 floor, 4 door, 5 key, 6 ball, 7 box, 8 goal, 9 lava{agent}"
            ),
            "colours: 0 red, 1 green, 2 blue, 3 purple, 4 yellow, 5 grey".to_owned(),
            format!("states: of a door 0 open, 1 closed, 2 locked, {direction}otherwise 0"),
            format!("direction: 0 right, 1 down, 2 left, 3 up{coding}"),
        ];
        if !self.task.mission().is_empty() {
            names.push(format!("mission: {}", self.task.mission_names()));
        }
        names
    }

    fn new(task: &'static Task, view: View) -> Self {
        let fixed = words(&layouts::fixed(task), W);
        MiniGrid { task, view, fixed: fixed.into(), size: PhantomData }
    }
}

/// Packs cells, four per word; fills the last words with walls.
fn words(cells: &[u32], count: usize) -> Vec<u32> {
    let cell = |place: usize| cells.get(place).copied().unwrap_or(cell::WALL);
    (0..count).map(|word| (0..4).fold(0, |all, k| all | cell(4 * word + k) << (8 * k))).collect()
}

fn unpacked(words: impl Iterator<Item = u32>, count: usize) -> Vec<u32> {
    words.flat_map(|word| (0..4).map(move |k| word >> (8 * k) & 255)).take(count).collect()
}

/// Registers all tasks.
pub fn family(registry: Registry) -> Registry {
    TASKS.iter().fold(registry, |registry, task| registry.with_shared(layouts::of(task, View::Indices)))
}

/// The observation space: type, colour and state of each cell, the direction, and the numbers of the mission.
fn space(task: &Task, view: View) -> ObsSpace {
    let numbers = |shape: Vec<usize>, below: &[u32]| match view {
        View::Bits => {
            // The last axis holds the one-hot bits.
            let bits = below.iter().sum::<u32>() as usize;
            let outer = &shape[..shape.len().saturating_sub(1)];
            ObsSpace::Binary { shape: [outer, &[bits]].concat() }
        }
        _ => ObsSpace::Index { shape, below: below.to_vec() },
    };
    let image = match view {
        // In the agent's cell, the state is its direction.
        View::Full => numbers(vec![task.width as usize, task.height as usize, 3], &[view::TYPES, COLOURS, 4]),
        _ => numbers(vec![view::SIDE, view::SIDE, 3], &[view::TYPES, COLOURS, 3]),
    };
    let mission = task.mission();
    let mut parts = vec![("image", image), ("direction", numbers(Vec::new(), &[4]))];
    if !mission.is_empty() {
        parts.push(("mission", numbers(vec![mission.len()], mission)));
    }
    ObsSpace::Parts(parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect())
}

impl<S: Layouts, const W: usize, const O: usize> Env for MiniGrid<S, W, O> {
    type State<L: Lane> = State<L, W>;
    type Obs<L: Lane> = view::Words<L, O>;
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        let task = self.task;
        let [summary, rules] = task.text();
        let (others, difference) = if matches!(task.kind, Kind::DynamicObstacles { .. }) {
            let difference = " A ball with a free neighbouring cell always moves; in the package it stays after 101 rejected \
                              draws (7 in a million moves with one free cell of nine).";
            ("all other steps without a crash", difference)
        } else {
            ("all other steps", "")
        };
        EnvSpec {
            name: format!("minigrid_{}", task.name),
            aliases: vec![format!("MiniGrid-{}", task.id)],
            family: "minigrid".into(),
            summary: summary.into(),
            rules: format!("{rules} Success at step t gives 1 - 0.9 t / {}; {others} give 0.", task.limit),
            reference: format!(
                "minigrid 3.2.0: identical step by step; layouts have the same distributions; missions are encoded as \
                 numbers.{difference}"
            ),
            variant_of: task.variant_of.map(|name| format!("minigrid_{name}")),
            obs: space(task, self.view),
            obs_names: self.obs_names(),
            actions: ActionSpace::Discrete(vec![task.actions()]),
            action_names: names(["left", "right", "forward", "pick up", "drop", "toggle", "done"])
                [..task.actions()]
                .to_vec(),
            metrics: vec![EnvMetric::new(
                "success",
                "Share of the episodes that completed the mission, 0 to 1.",
            )],
            time_limit: task.limit,
            fps: 8.0,
            options: vec![EnvOption::word(
                VIEW,
                "indices",
                &["indices", "bits", "full"],
                "the observation: the agent's view as indices or as bits, or the whole grid as indices",
            )],
            preset: Some(task.preset()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        Env::spec(self).check_option(name, value)?;
        self.view = match value.text() {
            "bits" => View::Bits,
            "full" => View::Full,
            _ => View::Indices,
        };
        Ok(())
    }

    fn resolve(self) -> Arc<dyn AnyEnv> {
        S::of(self.task, self.view)
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L, W> {
        let mut board = Board::new(self.task.width, self.task.height, &self.fixed);
        S::lay(self.task, &mut board, draws);
        board.state
    }

    fn step<L: Lane>(&self, s: &State<L, W>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L, W>> {
        rules::step(self.task, s, *action, draws)
    }

    fn observe<L: Lane>(&self, s: &State<L, W>) -> view::Words<L, O> {
        let (task, mission) = (self.task, self.task.mission());
        let mut words = view::Words::new();
        if self.view == View::Full {
            words.push_cells(task.cells(), |place| view::full(s, task.width, task.height, place));
        } else {
            let cells = view::view(s, task.width, task.height, task.see_through());
            if self.view == View::Bits {
                let one = L::Uint::splat(1);
                let bits = (view::TYPES + COLOURS + 3) as usize;
                words.push_bits(bits, &cells.map(view::one_hot::<L>));
                words.push(one.shl_by(s.dir));
                let firsts = mission.iter().scan(0, |sum, below| Some(std::mem::replace(sum, *sum + below)));
                let bit = |(&number, first): (&L::Uint, u32)| one.shl_by(number + L::Uint::splat(first));
                let all = s.extra.iter().zip(firsts).map(bit).reduce(|all, bit| all | bit);
                all.into_iter().for_each(|all| words.push(all));
                return words;
            }
            words.push_cells(view::CELLS, |place| cells[place]);
        }
        words.push(s.dir);
        words.push_bytes(&s.extra[..mission.len()]);
        words
    }

    fn metric<L: Lane>(&self, last: &Step<L, State<L, W>>, _index: usize) -> L::Float {
        let success = last.terminated & last.reward.gt(L::Float::splat(0.0));
        success.select(L::Float::splat(1.0), L::Float::splat(0.0))
    }

    fn draw(&self, s: &State<f32, W>) -> Scene {
        use operant_lane::Memory;
        let words = (0..W).map(|word| Memory::<f32, W>::word(&s.cells, word).0);
        let agent = [s.x, s.y, s.dir, s.carried].map(|number| number.0);
        let mission: Vec<u32> =
            self.task.mission().iter().zip(&s.extra).map(|(_, number)| number.0).collect();
        let text = self.task.mission_text(&mission);
        picture::draw(self.task.width, self.task.height, &unpacked(words, self.task.cells()), agent, text)
    }

    /// Width, height, then type, colour and state of each cell; x, y, direction, type and colour of the carried object,
    /// steps; then the extra numbers of the task, mission first.
    fn unpack(&self, public: &[f64]) -> Vec<f64> {
        let whole: Vec<u32> = public.iter().map(|&number| number as u32).collect();
        let (cells, rest) = whole[2..].split_at(3 * self.task.cells());
        let cells: Vec<u32> =
            cells.chunks_exact(3).map(|cell| cell::from_numbers([cell[0], cell[1], cell[2]])).collect();
        let mut leaves = words(&cells, W);
        let carried = if rest[3] == 0 { 0 } else { cell::from_numbers([rest[3], rest[4], 0]) };
        leaves.extend([rest[0], rest[1], rest[2], carried, rest[5]]);
        leaves.extend((0..EXTRA).map(|k| rest.get(6 + k).copied().unwrap_or(0)));
        leaves.into_iter().map(f64::from).collect()
    }

    fn elapsed(&self, public: &[f64]) -> u64 {
        public[2 + 3 * self.task.cells() + 5] as u64
    }

    /// The length is constant; refuses numbers that no grid of the task has.
    fn public_len(&self, public: &[f64]) -> Result<usize, CaseError> {
        let Task { width, height, .. } = *self.task;
        let cells = 3 * self.task.cells();
        let mission = self.task.mission();
        let is_balls = matches!(self.task.kind, Kind::DynamicObstacles { .. });
        let whole = |value: f64, low: u32, high: u32| {
            value.fract() == 0.0 && (f64::from(low)..=f64::from(high)).contains(&value)
        };
        let range = |low: u32, high: u32, name: &str| -> (Vec<[u32; 2]>, String) {
            (vec![[low, high]], format!("a {name} from {low} to {high}"))
        };
        for (index, &value) in public.iter().enumerate() {
            let cell = index.wrapping_sub(2);
            let (allowed, what) = match index {
                0 => (vec![[width; 2]], format!("the width {width}")),
                1 => (vec![[height; 2]], format!("the height {height}")),
                _ if cell < cells => match cell % 3 {
                    0 => (vec![[1, 2], [4, 9]], "a type of 1, 2 or 4 to 9".to_owned()),
                    1 => range(0, COLOURS - 1, "colour"),
                    _ => range(0, 2, "state"),
                },
                _ => match cell - cells {
                    0 => range(0, width - 1, "column"),
                    1 => range(0, height - 1, "row"),
                    2 => range(0, 3, "direction"),
                    3 => (vec![[0, 0], [5, 7]], "a carried type of 0 or 5 to 7".to_owned()),
                    4 => range(0, COLOURS - 1, "colour"),
                    // The balls stay inside the walls.
                    k if k >= 6 && is_balls && k % 2 == 0 => range(1, width - 2, "column"),
                    k if k >= 6 && is_balls => range(1, height - 2, "row"),
                    k if k >= 6 && k - 6 < mission.len() => range(0, mission[k - 6] - 1, "number"),
                    _ => continue,
                },
            };
            if !allowed.iter().any(|&[low, high]| whole(value, low, high)) {
                return Err(CaseError::Entry { env: Env::spec(self).name, index, value, what });
            }
        }
        Ok(2 + cells + 6 + self.task.extra())
    }

    fn pack(&self, leaves: &[f64]) -> Vec<f64> {
        let leaves: Vec<u32> = leaves.iter().map(|&leaf| leaf as u32).collect();
        let (words, rest) = leaves.split_at(W);
        let mut public = vec![self.task.width, self.task.height];
        let cells = unpacked(words.iter().copied(), self.task.cells());
        public.extend(cells.into_iter().flat_map(cell::numbers));
        let [kind, colour, _] = cell::numbers(rest[3]);
        public.extend([rest[0], rest[1], rest[2], kind, colour, rest[4]]);
        public.extend(&rest[5..5 + self.task.extra()]);
        public.into_iter().map(f64::from).collect()
    }
}
