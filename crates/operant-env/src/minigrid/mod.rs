//! MiniGrid: rooms, keys and doors on a grid of which the agent sees 7 x 7 cells in front of it.
//!
//! Move for move the environments of the minigrid package (Chevalier-Boisvert et al., "Minigrid & Miniworld", 2023), the view
//! included; layouts have the same distributions, and missions are numbers. A cell is a byte, and the grid is memory of the
//! environment. Differences to the package: its generators give up after many rejected draws, and a layout whose drawing would take
//! very long (chance below 10^-9) is a plain one here.

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

use operant_lane::{Draws, Lane, bundle};

use board::Board;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Registry, Scene, Step};
use layouts::{Large, Layouts, Medium, Small};
use tasks::{EXTRA, TASKS, Task};

bundle! {
    /// A grid of up to 4 N cells and the agent.
    pub struct State<const N: usize> {
        /// What stands in the cells, a byte each, row by row.
        cells: (Memory N),
        /// Column of the agent.
        x: Uint,
        /// Row of the agent, 0 at the top.
        y: Uint,
        /// Its direction: 0 right, 1 down, 2 left, 3 up.
        dir: Uint,
        /// What it carries, as a cell; 0 for nothing.
        carried: Uint,
        /// Steps since the episode began.
        steps: Uint,
        /// The numbers of the mission, and what else the task remembers.
        extra: [Uint; 8],
    }
}

/// Words of grids of up to 84 cells, 364 cells, and 25 x 25.
const SMALL: usize = 21;
const MEDIUM: usize = 91;
const LARGE: usize = 157;
/// Words of an observation at most: view, direction and mission.
const SEEN: usize = (3 * view::CELLS).div_ceil(4) + 2;

/// A task on a grid of up to 4 W cells.
#[derive(Debug, Clone)]
pub struct MiniGrid<S, const W: usize> {
    task: &'static Task,
    /// What all first states have in common.
    fixed: Arc<[u32]>,
    size: PhantomData<S>,
}

impl<S: Layouts, const W: usize> MiniGrid<S, W> {
    fn new(task: &'static Task) -> Self {
        let fixed = words(&layouts::fixed(task), W);
        MiniGrid { task, fixed: fixed.into(), size: PhantomData }
    }
}

/// Cells as words, four to a word; walls behind the last.
fn words(cells: &[u32], count: usize) -> Vec<u32> {
    let cell = |place: usize| cells.get(place).copied().unwrap_or(cell::WALL);
    (0..count).map(|word| (0..4).fold(0, |all, k| all | cell(4 * word + k) << (8 * k))).collect()
}

/// The cells of words.
fn unpacked(words: impl Iterator<Item = u32>, count: usize) -> Vec<u32> {
    words.flat_map(|word| (0..4).map(move |k| word >> (8 * k) & 255)).take(count).collect()
}

/// Adds the environments of the family.
pub fn family(registry: Registry) -> Registry {
    TASKS.iter().fold(registry, |registry, task| {
        let words = task.cells().div_ceil(4);
        if words <= SMALL {
            registry.with(MiniGrid::<Small, SMALL>::new(task))
        } else if words <= MEDIUM {
            registry.with(MiniGrid::<Medium, MEDIUM>::new(task))
        } else {
            registry.with(MiniGrid::<Large, LARGE>::new(task))
        }
    })
}

/// The space of observations: type, colour and state of each cell of the view, the direction, and the numbers of the mission.
fn space(task: &Task) -> ObsSpace {
    let mut parts = vec![
        ("image".to_owned(), ObsSpace::Index { shape: vec![view::SIDE, view::SIDE, 3], below: vec![11, 6, 3] }),
        ("direction".to_owned(), ObsSpace::Index { shape: Vec::new(), below: vec![4] }),
    ];
    let mission = task.mission();
    if !mission.is_empty() {
        let below = mission.to_vec();
        parts.push(("mission".to_owned(), ObsSpace::Index { shape: vec![mission.len()], below }));
    }
    ObsSpace::Parts(parts)
}

impl<S: Layouts, const W: usize> Env for MiniGrid<S, W> {
    type State<L: Lane> = State<L, W>;
    type Obs<L: Lane> = view::Words<L, SEEN>;
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        let task = self.task;
        let [summary, rules] = task.text();
        EnvSpec {
            name: format!("minigrid_{}", task.name),
            aliases: vec![format!("MiniGrid-{}", task.id)],
            family: "minigrid".into(),
            summary: summary.into(),
            rules: format!("{rules} Success is worth 1 - 0.9 t / {}, other steps 0.", task.limit),
            reference: "minigrid 3.2.0, move for move; layouts from the same distributions; the mission as numbers.".into(),
            variant_of: task.variant_of.map(|name| format!("minigrid_{name}")),
            obs: space(task),
            actions: ActionSpace::Discrete(vec![task.actions()]),
            time_limit: task.limit,
            fps: 8.0,
            options: Vec::new(),
            preset: None,
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L, W> {
        let mut board = Board::new(self.task.width, self.task.height, &self.fixed);
        S::lay(self.task, &mut board, draws);
        board.state
    }

    fn step<L: Lane>(&self, s: &State<L, W>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L, W>> {
        rules::step(self.task, s, *action, draws)
    }

    fn observe<L: Lane>(&self, s: &State<L, W>) -> view::Words<L, SEEN> {
        let task = self.task;
        let mut words = view::Words::new();
        words.push_cells(&view::view(s, task.width, task.height, task.see_through()));
        words.push(s.dir);
        words.push_bytes(&s.extra[..task.mission().len()]);
        words
    }

    fn draw(&self, s: &State<f32, W>) -> Scene {
        use operant_lane::Memory;
        let words = (0..W).map(|word| Memory::<f32, W>::word(&s.cells, word).0);
        let agent = [s.x, s.y, s.dir, s.carried].map(|number| number.0);
        picture::draw(self.task.width, self.task.height, &unpacked(words, self.task.cells()), agent)
    }

    /// Width, height, then type, colour and state of each cell; x, y, direction, type and colour of what is carried, steps; and the
    /// task's extra numbers: the mission's first.
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
