//! Hex: two players place stones on 11 x 11 hexagonal cells; a chain of stones from edge to edge wins.
//!
//! The players move in turn, the first begins. The first player connects the top row and the bottom row, the second the leftmost and the rightmost column; there is
//! no draw. A cell's neighbours are those to its left and right, above it and to the right of that, below it and to the left of that. Instead of its first move,
//! the second player may swap sides: the first player's stone becomes a stone of the second player, with row and column exchanged. The reward is 1 if the first
//! player wins and -1 if the second does. Illegal moves are masked; a player who chooses one anyway loses.
//!
//! The observation belongs to the player to move, as in Pgx: for each cell, row by row, a bit for a stone of this player, one for a stone of the opponent,
//! one that is set for the second player, and one that is set where a swap is possible.
//!
//! A board is four words of bits, row by row. For each player the stones that are connected to its first edge are known; a move adds to them what the new
//! stone connects, so that only new connections are followed.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::boards::{both, either, grown, is_any, single};
use crate::spec::names;
use crate::versus::{result_metric, result_metrics};
use crate::{ActionSpace, BLUE, Env, EnvSpec, GREY, ObsSpace, Point, Scene, Shape, Step, YELLOW, openings};

const SIDE: usize = 11;
const CELLS: usize = SIDE * SIDE;
/// The action that swaps sides.
const SWAP: usize = CELLS;
/// Words of a board.
const WORDS: usize = CELLS.div_ceil(32);
/// Bits of a cell in the observation.
const PLANES: usize = 4;
/// Cells in a word of the observation.
const CELLS_PER_WORD: usize = 32 / PLANES;
/// Words of the observation.
const OBS_WORDS: usize = CELLS.div_ceil(CELLS_PER_WORD);
/// Turns of a loop that follows connections, two cells each: a path has at most all cells.
const TURNS: u32 = CELLS.div_ceil(2) as u32;

const TOP: [u32; WORDS] = cells(0, 0, 1, SIDE);
const BOTTOM: [u32; WORDS] = cells(SIDE - 1, 0, SIDE, SIDE);
const LEFT: [u32; WORDS] = cells(0, 0, SIDE, 1);
const RIGHT: [u32; WORDS] = cells(0, SIDE - 1, SIDE, SIDE);
const NOT_LEFT: [u32; WORDS] = cells(0, 1, SIDE, SIDE);
const NOT_RIGHT: [u32; WORDS] = cells(0, 0, SIDE, SIDE - 1);

type Board<L> = [<L as Lane>::Uint; WORDS];

/// The board with the cells of some rows and columns.
const fn cells(row: usize, column: usize, end_row: usize, end_column: usize) -> [u32; WORDS] {
    let mut board = [0; WORDS];
    let mut cell = 0;
    while cell < CELLS {
        let (y, x) = (cell / SIDE, cell % SIDE);
        if y >= row && y < end_row && x >= column && x < end_column {
            board[cell / 32] |= 1 << (cell % 32);
        }
        cell += 1;
    }
    board
}

bundle! {
    /// The stones, and whose turn it is.
    pub struct State {
        /// The player to move: 0 the first, 1 the second.
        player: Uint,
        /// Stones of the first player.
        first: [Uint; WORDS],
        /// Stones of the second player.
        second: [Uint; WORDS],
        /// Stones of the first player that are connected to the top row.
        first_linked: [Uint; WORDS],
        /// Stones of the second player that are connected to the leftmost column.
        second_linked: [Uint; WORDS],
        /// The cell of the last move.
        last: Uint,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct Hex {
    /// Maximum number of random moves with which a game begins.
    openings: u32,
}

#[inline(always)]
fn constant<L: Lane>(board: [u32; WORDS]) -> Board<L> {
    board.map(L::Uint::splat)
}

/// A board moved by `by` cells towards the end.
#[inline(always)]
fn up<L: Lane>(board: Board<L>, by: u32) -> Board<L> {
    let mut to = board.map(|word| word.shl(by));
    for word in 1..WORDS {
        to[word] = to[word] | board[word - 1].shr(32 - by);
    }
    to
}

/// A board moved by `by` cells towards the start.
#[inline(always)]
fn down<L: Lane>(board: Board<L>, by: u32) -> Board<L> {
    let mut to = board.map(|word| word.shr(by));
    for word in 1..WORDS {
        to[word - 1] = to[word - 1] | board[word].shl(32 - by);
    }
    to
}

/// The neighbours of a board's cells, and perhaps bits beyond the last cell.
#[inline(always)]
fn neighbours<L: Lane>(board: Board<L>) -> Board<L> {
    let left = down::<L>(both(board, constant::<L>(NOT_LEFT)), 1);
    let right = up::<L>(both(board, constant::<L>(NOT_RIGHT)), 1);
    // Below and to the left of that; above and to the right of that.
    let below = up::<L>(either(board, left), SIDE as u32);
    let above = down::<L>(either(board, right), SIDE as u32);
    either(either(left, right), either(below, above))
}

/// The cell with row and column exchanged.
#[inline(always)]
fn transposed<L: Lane>(cell: L::Uint) -> L::Uint {
    let (u, side) = (L::Uint::splat, SIDE as u32);
    // cell / 11, exact below 121.
    let row = (cell * u(187)).shr(11);
    (cell - row * u(side)) * u(side) + row
}

/// Eight bits, with three zeros after each.
#[inline(always)]
fn spaced<L: Lane>(bits: L::Uint) -> L::Uint {
    let u = L::Uint::splat;
    let bits = (bits | bits.shl(12)) & u(0x000f_000f);
    let bits = (bits | bits.shl(6)) & u(0x0303_0303);
    (bits | bits.shl(3)) & u(0x1111_1111)
}

impl<L: Lane> State<L> {
    /// Whether the player to move may swap: only the first player has a stone.
    #[inline(always)]
    fn may_swap(&self) -> L::Mask {
        self.player.ne(L::Uint::splat(0)) & !is_any(self.second)
    }
}

impl Env for Hex {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; OBS_WORDS];
    type Action<L: Lane> = L::Uint;

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "hex".into(),
            family: "two players".into(),
            summary: "connect two edges of 11 x 11 hexagonal cells".into(),
            rules: "Two players place stones on 11 x 11 hexagonal cells, in turn. The first connects top and bottom, the second left and right; the second may \
                    swap sides instead of its first move. The reward is that of the first player: 1 or -1."
                .into(),
            reference: "Pgx 2.6.0, hex: identical step by step".into(),
            obs: ObsSpace::Binary { shape: vec![SIDE, SIDE, PLANES] },
            obs_names: names([
                "stones of the player to move",
                "stones of the opponent",
                "set for the second player",
                "set where a swap is possible",
            ]),
            actions: ActionSpace::Discrete(vec![CELLS + 1]),
            players: 2,
            metrics: result_metrics()[..1].to_vec(),
            fps: 2.0,
            options: vec![openings::option()],
            preset: Some(include_str!("../presets/hex.toml").into()),
            ..EnvSpec::default()
        }
    }

    openings::has_openings!();

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let zero = L::Uint::splat(0);
        let none = [zero; WORDS];
        let first = State {
            player: zero,
            first: none,
            second: none,
            first_linked: none,
            second_linked: none,
            last: zero,
        };
        openings::opened(self, first, self.openings, draws)
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let none = [u(0); WORDS];
        let is_first = s.player.eq(u(0));
        let swaps = action.eq(u(SWAP as u32));
        let cell = swaps.select(transposed::<L>(s.last), *action).named("cell");
        let stone = single(cell.shr(5), cell & u(31));
        let taken = both(stone, either(s.first, s.second));
        let is_legal = swaps.select(s.may_swap(), !is_any(taken));
        // A swap removes the first player's only stone.
        let (first, first_linked) = swaps.select((none, none), (s.first, s.first_linked));
        let stones = either(stone, is_first.select(first, s.second));
        let linked = is_first.select(first_linked, s.second_linked);
        let edges = |first: [u32; WORDS], second: [u32; WORDS]| {
            is_first.select(constant::<L>(first), constant::<L>(second))
        };
        let links = either(neighbours::<L>(linked), edges(TOP, LEFT));
        let is_linked = is_any(both(stone, links)).named("is_linked");
        let joined = is_linked.select(either(linked, stone), linked);
        let next = |linked| either(linked, both(neighbours::<L>(linked), stones));
        let linked = grown::<L, WORDS>(joined, is_linked, TURNS, next);
        let wins = is_any(both(linked, edges(BOTTOM, RIGHT)));
        // The first player's: it moves and wins, or the second makes an illegal move.
        let for_first = is_first ^ !is_legal;
        let terminated = wins | !is_legal;
        let reward = terminated.select(for_first.select(f(1.0), f(-1.0)), f(0.0));
        let state = State {
            player: u(1) - s.player,
            first: is_first.select(stones, first),
            second: is_first.select(s.second, stones),
            first_linked: is_first.select(linked, first_linked),
            second_linked: is_first.select(s.second_linked, linked),
            last: cell,
        };
        Step { state, reward, terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; OBS_WORDS] {
        let u = L::Uint::splat;
        let is_first = s.player.eq(u(0));
        let (mine, others) = (is_first.select(s.first, s.second), is_first.select(s.second, s.first));
        let common = is_first.select(u(0), u(0x4444_4444)) | s.may_swap().select(u(0x8888_8888), u(0));
        let mut words = [u(0); OBS_WORDS];
        for (number, word) in words.iter_mut().enumerate() {
            let first = number * CELLS_PER_WORD;
            let part = |board: Board<L>| {
                spaced::<L>(board[first / 32].shr(first as u32 % 32) & u((1 << CELLS_PER_WORD) - 1))
            };
            let bits = PLANES * CELLS_PER_WORD.min(CELLS - first);
            *word = part(mine) | part(others).shl(1) | (common & u(u32::MAX >> (32 - bits)));
        }
        words
    }

    #[inline(always)]
    fn legal<L: Lane>(&self, s: &State<L>, _: usize, choice: usize) -> L::Mask {
        if choice == SWAP {
            return s.may_swap();
        }
        let (word, bit) = (choice / 32, L::Uint::splat(1 << (choice % 32)));
        ((s.first[word] | s.second[word]) & bit).eq(L::Uint::splat(0))
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        result_metric::<L>(last.reward, index)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        // Each row is half a cell further to the right; edges have the colours of those who connect them.
        let center = |row: f32, column: f32| [column + row / 2.0, SIDE as f32 - 1.0 - row];
        let last = SIDE as f32 - 0.5;
        let edge = |from: Point, to: Point, tone| Shape::line([from, to], tone);
        let corners = [center(-0.5, -0.5), center(-0.5, last), center(last, last), center(last, -0.5)];
        let mut shapes = vec![
            edge(corners[0], corners[1], BLUE),
            edge(corners[2], corners[3], BLUE),
            edge(corners[1], corners[2], YELLOW),
            edge(corners[3], corners[0], YELLOW),
        ];
        for cell in 0..CELLS {
            let at = center((cell / SIDE) as f32, (cell % SIDE) as f32);
            match [s.first, s.second].map(|board| board[cell / 32].0 >> (cell % 32) & 1) {
                [1, _] => shapes.push(Shape::circle(at, 0.4, BLUE)),
                [_, 1] => shapes.push(Shape::rectangle(at, 0.6, 0.6, YELLOW)),
                _ => shapes.push(Shape::circle(at, 0.1, GREY)),
            }
        }
        let (width, height) = (1.5 * SIDE as f32, SIDE as f32);
        let turn = if s.player.0 == 0 { "blue (round) to move" } else { "yellow (square) to move" };
        shapes.push(Shape::text([width / 2.0, height + 0.4], turn, 0));
        Scene { low: [-1.0, -1.0], high: [width, height + 0.8], shapes }
    }
}
