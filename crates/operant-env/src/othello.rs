//! Othello: two players place stones on 8 x 8 cells and flip those of the opponent that they outflank.
//!
//! The players move in turn, the first begins. A move must outflank at least one of the opponent's stones: those in a line, horizontally, vertically or
//! diagonally, between the new stone and another one of the player; all of them are flipped. A player who cannot move passes. The game ends when the board is full,
//! both players have passed, or one has no stones left. The reward is 1 if the first player then has more stones, -1 if the second has, or 0. Illegal moves
//! are masked; a player who chooses one anyway loses.
//!
//! The observation belongs to the player to move: for each cell, row by row, a bit for a stone of this player and one for a stone of the
//! opponent, as in Pgx.
//!
//! A board is two words of bits, eight for each row: rows 0 to 3 in the first word. A line is found by moving all stones at once.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::boards::{both, either, is_any};
use crate::spec::names;
use crate::versus::{result_metric, result_metrics};
use crate::{
    ActionSpace, BLUE, DARK_GREEN, Env, EnvSpec, GREY, ObsSpace, Scene, Shape, Step, YELLOW, openings,
};

const SIDE: usize = 8;
const CELLS: usize = SIDE * SIDE;
/// The action of a player who cannot move.
const PASS: usize = CELLS;
/// Words of the observation.
const WORDS: usize = 2 * CELLS / 32;
/// The stones at the start.
const FIRST: [u32; 2] = [1 << 28, 1 << 3];
const SECOND: [u32; 2] = [1 << 27, 1 << 4];
/// The moves of the first player at the start.
const MOVES: [u32; 2] = [1 << 19 | 1 << 26, 1 << 5 | 1 << 12];
/// Cells other than those of the leftmost and the rightmost column.
const NOT_LEFT: u32 = 0xfefe_fefe;
const NOT_RIGHT: u32 = 0x7f7f_7f7f;
/// Bits to the next cell in a direction, towards the end or the start, and the cells that can be reached.
const DIRECTIONS: [(u32, bool, u32); 8] = [
    (1, true, NOT_LEFT),
    (1, false, NOT_RIGHT),
    (8, true, u32::MAX),
    (8, false, u32::MAX),
    (9, true, NOT_LEFT),
    (9, false, NOT_RIGHT),
    (7, true, NOT_RIGHT),
    (7, false, NOT_LEFT),
];

type Board<L> = [<L as Lane>::Uint; 2];

bundle! {
    /// The stones, and whose turn it is.
    pub struct State {
        /// The player to move: 0 the first, 1 the second.
        player: Uint,
        /// Stones of the first player.
        first: [Uint; 2],
        /// Stones of the second player.
        second: [Uint; 2],
        /// The cells where the player to move may place a stone.
        moves: [Uint; 2],
        /// Whether the other player has just passed.
        passed: Mask,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct Othello {
    /// Maximum number of random moves with which a game begins.
    openings: u32,
}

/// The next cells in a direction.
#[inline(always)]
fn next<L: Lane>([low, high]: Board<L>, (by, up, reached): (u32, bool, u32)) -> Board<L> {
    let reached = L::Uint::splat(reached);
    if up {
        [low.shl(by) & reached, (high.shl(by) | low.shr(32 - by)) & reached]
    } else {
        [(low.shr(by) | high.shl(32 - by)) & reached, high.shr(by) & reached]
    }
}

/// The stones of `others` in unbroken lines from `from`.
#[inline(always)]
fn line<L: Lane>(from: Board<L>, others: Board<L>, direction: (u32, bool, u32)) -> Board<L> {
    let mut line = both(next::<L>(from, direction), others);
    for _ in 0..SIDE - 3 {
        line = either(line, both(next::<L>(line, direction), others));
    }
    line.map(|word| word.named("line"))
}

/// The cells where a stone encloses some of the others.
#[inline(always)]
fn moves<L: Lane>(mine: Board<L>, others: Board<L>) -> Board<L> {
    let mut ends = [L::Uint::splat(0); 2];
    for direction in DIRECTIONS {
        ends = either(ends, next::<L>(line::<L>(mine, others, direction), direction));
    }
    let taken = either(mine, others);
    [(ends[0] & !taken[0]).named("moves"), (ends[1] & !taken[1]).named("moves")]
}

/// 16 bits, with a 0 after each.
#[inline(always)]
fn spaced<L: Lane>(bits: L::Uint) -> L::Uint {
    let u = L::Uint::splat;
    let bits = (bits | bits.shl(8)) & u(0x00ff_00ff);
    let bits = (bits | bits.shl(4)) & u(0x0f0f_0f0f);
    let bits = (bits | bits.shl(2)) & u(0x3333_3333);
    (bits | bits.shl(1)) & u(0x5555_5555)
}

impl Env for Othello {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; WORDS];
    type Action<L: Lane> = L::Uint;

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "othello".into(),
            family: "two players".into(),
            summary: "place stones in turn and flip those that are outflanked".into(),
            rules: "Two players place stones on 8 x 8 cells, in turn; the opponent's stones between a new stone and another one of the player are flipped. \
                    A player who cannot move passes. The reward is that of the first player: 1 with more stones at the end, -1 with fewer."
                .into(),
            reference: "Pgx 2.6.0, othello: identical step by step".into(),
            obs: ObsSpace::Binary { shape: vec![SIDE, SIDE, 2] },
            obs_names: names(["stones of the player to move", "stones of the opponent"]),
            actions: ActionSpace::Discrete(vec![CELLS + 1]),
            players: 2,
            metrics: result_metrics(),
            fps: 2.0,
            options: vec![openings::option()],
            preset: Some(include_str!("../presets/othello.toml").into()),
            ..EnvSpec::default()
        }
    }

    openings::has_openings!();

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let board = |words: [u32; 2]| words.map(L::Uint::splat);
        let first = State {
            player: L::Uint::splat(0),
            first: board(FIRST),
            second: board(SECOND),
            moves: board(MOVES),
            passed: L::Mask::splat(false),
        };
        openings::opened(self, first, self.openings, draws)
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _draws: &mut Draws<L>) -> Step<L, State<L>> {
        let u = L::Uint::splat;
        let is_first = s.player.eq(u(0));
        let (mine, others) = (is_first.select(s.first, s.second), is_first.select(s.second, s.first));
        let passes = action.eq(u(PASS as u32));
        let is_low = action.lt(u(32));
        let cell = u(1).shl_by(*action & u(31)).named("cell");
        let stone = [is_low.select(cell, u(0)), (is_low | passes).select(u(0), cell)];
        let is_legal = passes.select(!is_any(s.moves), is_any(both(stone, s.moves)));
        let mut turned = [u(0); 2];
        for direction in DIRECTIONS {
            let line = line::<L>(stone, others, direction);
            let is_enclosed = is_any(both(next::<L>(line, direction), mine));
            turned = either(turned, is_enclosed.select(line, [u(0); 2]));
        }
        let changes = is_legal & !passes;
        let mine = changes.select(either(either(mine, stone), turned), mine);
        let others = changes.select([others[0] & !turned[0], others[1] & !turned[1]], others);
        let state = State {
            player: u(1) - s.player,
            first: is_first.select(mine, others),
            second: is_first.select(others, mine),
            moves: moves::<L>(others, mine),
            passed: passes,
        };
        let count = |board: Board<L>| board[0].count_ones() + board[1].count_ones();
        let (first, second) = (count(state.first).named("first"), count(state.second).named("second"));
        let is_over =
            (first + second).eq(u(CELLS as u32)) | first.eq(u(0)) | second.eq(u(0)) | (passes & s.passed);
        let f = L::Float::splat;
        let winner = second.lt(first).select(f(1.0), first.lt(second).select(f(-1.0), f(0.0)));
        let loser = is_first.select(f(-1.0), f(1.0));
        let reward = is_legal.select(is_over.select(winner, f(0.0)), loser);
        Step { state, reward, terminated: is_over | !is_legal }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; WORDS] {
        let is_first = s.player.eq(L::Uint::splat(0));
        let (mine, others) = (is_first.select(s.first, s.second), is_first.select(s.second, s.first));
        let half = |board: Board<L>, word: usize| {
            spaced::<L>(board[word / 2].shr(16 * (word as u32 % 2)) & L::Uint::splat(0xffff))
        };
        let mut words = [L::Uint::splat(0); WORDS];
        for (word, to) in words.iter_mut().enumerate() {
            *to = half(mine, word) | half(others, word).shl(1);
        }
        words
    }

    #[inline(always)]
    fn legal<L: Lane>(&self, s: &State<L>, _: usize, choice: usize) -> L::Mask {
        if choice == PASS {
            return !is_any(s.moves);
        }
        (s.moves[choice / 32] & L::Uint::splat(1 << (choice % 32))).ne(L::Uint::splat(0))
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        result_metric::<L>(last.reward, index)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let side = SIDE as f32;
        // Told apart by their shapes too.
        let at = |line: usize| line as f32;
        let across = |line| Shape::line([[0.0, at(line)], [side, at(line)]], DARK_GREEN);
        let down = |line| Shape::line([[at(line), 0.0], [at(line), side]], DARK_GREEN);
        let mut shapes: Vec<Shape> = (0..=SIDE).flat_map(|line| [across(line), down(line)]).collect();
        for cell in 0..CELLS {
            let center = [(cell % SIDE) as f32 + 0.5, side - 0.5 - (cell / SIDE) as f32];
            match [s.first, s.second, s.moves].map(|board| board[cell / 32].0 >> (cell % 32) & 1) {
                [1, ..] => shapes.push(Shape::circle(center, 0.4, BLUE)),
                [_, 1, _] => shapes.push(Shape::rectangle(center, 0.6, 0.6, YELLOW)),
                [_, _, 1] => shapes.push(Shape::circle(center, 0.1, GREY)),
                _ => {}
            }
        }
        let turn = if s.player.0 == 0 { "blue (round) to move" } else { "yellow (square) to move" };
        shapes.push(Shape::text([side / 2.0, side + 0.4], turn, 0));
        Scene { low: [0.0, 0.0], high: [side, side + 0.8], shapes }
    }
}
