//! 2048: slide and merge numbered tiles on a 4 x 4 board.
//!
//! A move slides all tiles to one side as far as possible. Two equal tiles that meet merge into one of twice the value,
//! starting with the pair nearest to that side; a tile merges at most once per move. The reward is the sum of the
//! merged tiles. After a move that changes the board, a new tile appears on a uniformly random free cell: a 2 with
//! probability 0.9, otherwise a 4. A game starts with two such tiles and ends when no move changes the board.
//!
//! A move that would change nothing is illegal and masked. If it is chosen anyway, the board stays the same and no tile
//! appears. A cell stores the exponent of its tile, 0 if free: 11 is the tile 2048, and 17 is 131,072, the largest tile
//! that is possible.
//!
//! A move is computed with arithmetic on 16 cells: conditional exchanges close the gaps of a line. A table of the
//! 65,536 lines of four-bit exponents would be limited to the tile 32,768 and would take 256 KB in the emitted code.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::spec::names;
use crate::{ActionSpace, Env, EnvMetric, EnvSpec, ObsSpace, Scene, Shape, Step};

/// Cells per side.
const SIDE: usize = 4;
/// Number of cells.
const CELLS: usize = SIDE * SIDE;
/// Exclusive upper bound of the exponents.
const BELOW: u32 = 18;
/// Words of the observation: one byte per cell.
const WORDS: usize = CELLS / 4;
/// Probability that a new tile is a 4.
const FOUR: f64 = 0.1;
/// Numbers of the moves; left is 3.
const UP: usize = 0;
const RIGHT: usize = 1;
const DOWN: usize = 2;

bundle! {
    /// The board.
    pub struct State {
        /// Exponent of each cell, row by row; 0 if free.
        cells: [Uint; 16],
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct Game2048;

/// The index of a cell in a line, counted from the side towards which `direction` slides.
const fn cell(direction: usize, line: usize, place: usize) -> usize {
    match direction {
        UP => SIDE * place + line,
        RIGHT => SIDE * line + SIDE - 1 - place,
        DOWN => SIDE * (SIDE - 1 - place) + line,
        _ => SIDE * line + place,
    }
}

/// Slides a line towards its start. Returns the new line and the sum of the merged tiles.
#[inline(always)]
fn slide<L: Lane>(mut line: [L::Uint; SIDE]) -> ([L::Uint; SIDE], L::Uint) {
    let u = L::Uint::splat;
    for end in (1..SIDE).rev() {
        for place in 0..end {
            let free = line[place].eq(u(0));
            line[place] = free.select(line[place + 1], line[place]);
            line[place + 1] = free.select(u(0), line[place + 1]);
        }
    }
    let mut merged = u(0);
    for place in 0..SIDE - 1 {
        let merges = line[place].eq(line[place + 1]) & line[place].ne(u(0));
        line[place] = merges.select(line[place] + u(1), line[place]);
        merged = merged + merges.select(u(1).shl_by(line[place]), u(0));
        for later in place + 1..SIDE {
            let next = if later + 1 < SIDE { line[later + 1] } else { u(0) };
            line[later] = merges.select(next, line[later]);
        }
    }
    (line.map(|exponent| exponent.named("exponent")), merged.named("merged"))
}

/// Whether a move in `direction` changes the board: some tile has a free cell or an equal tile ahead of it.
#[inline(always)]
fn moves<L: Lane>(cells: &[L::Uint; CELLS], direction: usize) -> L::Mask {
    let mut any = L::Mask::splat(false);
    for line in 0..SIDE {
        for place in 1..SIDE {
            let (before, here) =
                (cells[cell(direction, line, place - 1)], cells[cell(direction, line, place)]);
            let free = before.eq(L::Uint::splat(0));
            any = any | (here.ne(L::Uint::splat(0)) & (free | before.eq(here)));
        }
    }
    any.named("moves")
}

/// Adds a new tile on a free cell where `appears` holds.
#[inline(always)]
fn spawn<L: Lane>(cells: [L::Uint; CELLS], appears: L::Mask, draws: &mut Draws<L>) -> [L::Uint; CELLS] {
    let u = L::Uint::splat;
    let count = cells.iter().fold(u(0), |count, cell| count + cell.eq(u(0)).select(u(1), u(0)));
    let chosen = draws.below_each(count.named("count")).named("chosen");
    let exponent = draws.unit().lt(L::Float::splat(FOUR)).select(u(2), u(1)).named("exponent");
    let mut before = u(0);
    cells.map(|cell| {
        let free = cell.eq(u(0));
        let here = appears & free & before.eq(chosen);
        before = before + free.select(u(1), u(0));
        here.select(exponent, cell).named("cell")
    })
}

impl Env for Game2048 {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; WORDS];
    type Action<L: Lane> = L::Uint;

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "game_2048".into(),
            aliases: vec!["2048".into()],
            family: "arcade".into(),
            summary: "slide and merge tiles on a 4x4 board; the reward is the sum of merged tiles".into(),
            rules: "Slide all tiles up, right, down or left; equal tiles that meet merge. After each move a 2 (90%) or a 4 appears on \
                    a free cell. Moves without effect are masked; the game ends when no move changes the board."
                .into(),
            reference: "No external reference, with the rules of the original game; tests compare with a second implementation.".into(),
            obs: ObsSpace::Index { shape: vec![SIDE, SIDE], below: vec![BELOW] },
            obs_names: names(["of each cell, row by row: 0 if empty, otherwise the binary logarithm of its tile"]),
            actions: ActionSpace::Discrete(vec![4]),
            action_names: names(["up", "right", "down", "left"]),
            metrics: vec![EnvMetric::new("largest_tile", "Number of the largest tile at the end of the episode.")],
            fps: 4.0,
            preset: Some(include_str!("../presets/game_2048.toml").into()),
            ..EnvSpec::default()
        }
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let all = L::Mask::splat(true);
        let one = spawn([L::Uint::splat(0); CELLS], all, draws);
        State { cells: spawn(one, all, draws) }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let u = L::Uint::splat;
        let (vertical, forward) = ((*action & u(1)).eq(u(0)), (*action & u(2)).eq(u(0)));
        // Up and right have their own side; which of them a line follows is chosen cell by cell.
        let pick = |up: L::Uint, right: L::Uint, down: L::Uint, left: L::Uint| {
            vertical.select(forward.select(up, down), forward.select(right, left))
        };
        let mut merged = u(0);
        let lines: [[L::Uint; SIDE]; SIDE] = core::array::from_fn(|line| {
            let ahead = core::array::from_fn(|place| {
                let at = |direction| s.cells[cell(direction, line, place)];
                pick(at(UP), at(RIGHT), at(DOWN), at(3))
            });
            let (after, sum) = slide::<L>(ahead);
            merged = merged + sum;
            after
        });
        let cells: [L::Uint; CELLS] = core::array::from_fn(|at| {
            let (row, column) = (at / SIDE, at % SIDE);
            let (bottom, last) = (SIDE - 1 - row, SIDE - 1 - column);
            pick(lines[column][row], lines[row][last], lines[column][bottom], lines[row][column])
        });
        let mut changed = L::Mask::splat(false);
        for at in 0..CELLS {
            changed = changed | cells[at].ne(s.cells[at]);
        }
        let cells = spawn(cells, changed.named("changed"), draws);
        let stuck = (0..4).fold(L::Mask::splat(true), |stuck, way| stuck & !moves::<L>(&cells, way));
        Step { state: State { cells }, reward: L::Float::from_uint(merged), terminated: stuck.named("stuck") }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; WORDS] {
        core::array::from_fn(|word| {
            let at = |byte: usize| s.cells[4 * word + byte].shl(8 * byte as u32);
            at(0) | at(1) | at(2) | at(3)
        })
    }

    #[inline(always)]
    fn legal<L: Lane>(&self, s: &State<L>, _: usize, choice: usize) -> L::Mask {
        moves::<L>(&s.cells, choice)
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, _index: usize) -> L::Float {
        let largest = last.state.cells.into_iter().fold(L::Uint::splat(0), |most, cell| most.max(cell));
        L::Float::from_uint(L::Uint::splat(1).shl_by(largest))
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let mut shapes = Vec::new();
        for (at, cell) in s.cells.iter().enumerate().filter(|(_, cell)| cell.0 > 0) {
            let center = [(at % SIDE) as f32 + 0.5, SIDE as f32 - 0.5 - (at / SIDE) as f32];
            let tone = [1, 7, 6, 9, 5, 8][(cell.0 as usize - 1) / 2 % 6];
            shapes.push(Shape::rectangle(center, 0.9, 0.9, tone));
            shapes.push(Shape::text(center, (1u64 << cell.0).to_string(), 0));
        }
        Scene { low: [0.0, 0.0], high: [SIDE as f32, SIDE as f32], shapes }
    }
}
