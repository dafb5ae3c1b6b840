//! Connect Four: two players drop stones into seven columns of six cells; four in a line win.
//!
//! The players move in turn, the first begins. The reward is 1 if the first player wins and -1 if the second does; a full board without a
//! line is a draw, with reward 0. A full column is illegal and masked; a player who chooses it anyway loses.
//!
//! The observation belongs to the player to move: for each cell, row by row from the top, a bit for a stone of this player and one for a stone
//! of the opponent, as in Pgx.
//!
//! A board is two words of bits, eight for each row from the bottom: rows 0 to 3 in the first word, 4 and 5 in the second. The eighth bit of a
//! row is never set, so lines do not wrap around.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::spec::names;
use crate::versus::{result_metric, result_metrics};
use crate::{ActionSpace, BLUE, Env, EnvSpec, ObsSpace, RED, Scene, Shape, Step, YELLOW, openings};

const ROWS: usize = 6;
const COLUMNS: usize = 7;
/// Rows in the first word of a board.
const LOW: usize = 4;
/// Words of the observation.
const WORDS: usize = (2 * ROWS * COLUMNS).div_ceil(32);

bundle! {
    /// The stones, and whose turn it is.
    pub struct State {
        /// The player to move: 0 the first, 1 the second.
        player: Uint,
        /// Stones of the first player.
        first: [Uint; 2],
        /// Stones of the second player.
        second: [Uint; 2],
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct ConnectFour {
    /// Maximum number of random moves with which a game begins.
    openings: u32,
}

/// A board moved down by `by` bits, at most 31.
#[inline(always)]
fn down<L: Lane>([low, high]: [L::Uint; 2], by: u32) -> [L::Uint; 2] {
    [low.shr(by) | high.shl(32 - by), high.shr(by)]
}

/// Whether a board has four stones in a line.
#[inline(always)]
fn has_line<L: Lane>(board: [L::Uint; 2]) -> L::Mask {
    let both = |a: [L::Uint; 2], b: [L::Uint; 2]| [a[0] & b[0], a[1] & b[1]];
    let mut any = L::Uint::splat(0);
    for step in [1, 7, 8, 9] {
        let pairs = both(board, down::<L>(board, step));
        let fours = both(pairs, down::<L>(pairs, 2 * step));
        any = any | fours[0] | fours[1];
    }
    any.ne(L::Uint::splat(0)).named("has_line")
}

/// Row `row` of a board, with a 0 after each of its bits.
#[inline(always)]
fn spaced<L: Lane>(board: [L::Uint; 2], row: usize) -> L::Uint {
    let u = L::Uint::splat;
    let bits = board[row / LOW].shr((row % LOW * 8) as u32) & u(0x7f);
    let bits = (bits | bits.shl(4)) & u(0x070f);
    let bits = (bits | bits.shl(2)) & u(0x1333);
    (bits | bits.shl(1)) & u(0x1555)
}

impl Env for ConnectFour {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; WORDS];
    type Action<L: Lane> = L::Uint;

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "connect_four".into(),
            family: "two players".into(),
            summary: "drop stones in turn; four in a line win".into(),
            rules: "Two players drop stones into seven columns of six cells, in turn. Four in a row, column or diagonal win. The reward is \
                    that of the first player: 1, -1, or 0 for a draw. Full columns are masked."
                .into(),
            reference: "Pgx 2.6.0, connect_four: identical step by step".into(),
            obs: ObsSpace::Binary { shape: vec![ROWS, COLUMNS, 2] },
            obs_names: names(["stones of the player to move", "stones of the opponent"]),
            actions: ActionSpace::Discrete(vec![COLUMNS]),
            action_names: names(["a", "b", "c", "d", "e", "f", "g"]),
            players: 2,
            metrics: result_metrics(),
            fps: 2.0,
            options: vec![openings::option()],
            preset: Some(include_str!("../presets/connect_four.toml").into()),
            ..EnvSpec::default()
        }
    }

    openings::has_openings!();

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let zero = L::Uint::splat(0);
        let first = State { player: zero, first: [zero; 2], second: [zero; 2] };
        openings::opened(self, first, self.openings, draws)
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _draws: &mut Draws<L>) -> Step<L, State<L>> {
        let u = L::Uint::splat;
        let is_first = s.player.eq(u(0));
        let column = u(0x0101_0101).shl_by(*action);
        let mut taken = [s.first[0] | s.second[0], s.first[1] | s.second[1]];
        let height = (taken[0] & column).count_ones() + (taken[1] & column & u(0xffff)).count_ones();
        let is_low = height.lt(u(LOW as u32));
        let cell = u(1).shl_by(*action + (height & u(LOW as u32 - 1)).shl(3)).named("cell");
        let is_full = height.eq(u(ROWS as u32));
        let [low, high] = [is_low.select(cell, u(0)), (is_low | is_full).select(u(0), cell)];
        taken = [taken[0] | low, taken[1] | high];
        let mine = |stones: [L::Uint; 2], moves: L::Mask| {
            [stones[0] | moves.select(low, u(0)), stones[1] | moves.select(high, u(0))]
        };
        let (first, second) = (mine(s.first, is_first), mine(s.second, !is_first));
        let wins = has_line::<L>(is_first.select(first, second));
        let is_drawn = taken[0].eq(u(0x7f7f_7f7f)) & taken[1].eq(u(0x7f7f));
        let (one, zero) = (L::Float::splat(1.0), L::Float::splat(0.0));
        // The first player's: it moves and wins, or the second chooses a full column.
        let for_first = is_first ^ is_full;
        let reward = (wins | is_full).select(for_first.select(one, -one), zero);
        let state = State { player: u(1) - s.player, first, second };
        Step { state, reward, terminated: wins | is_drawn | is_full }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; WORDS] {
        let is_first = s.player.eq(L::Uint::splat(0));
        let (mine, others) = (is_first.select(s.first, s.second), is_first.select(s.second, s.first));
        let mut words = [L::Uint::splat(0); WORDS];
        for row in 0..ROWS {
            let bits = (spaced::<L>(mine, row) | spaced::<L>(others, row).shl(1)).named("row");
            let at = 2 * COLUMNS * (ROWS - 1 - row);
            words[at / 32] = words[at / 32] | bits.shl(at as u32 % 32);
            if at % 32 + 2 * COLUMNS > 32 {
                words[at / 32 + 1] = words[at / 32 + 1] | bits.shr(32 - at as u32 % 32);
            }
        }
        words
    }

    #[inline(always)]
    fn legal<L: Lane>(&self, s: &State<L>, _: usize, choice: usize) -> L::Mask {
        let top = L::Uint::splat(1 << (8 * (ROWS - 1 - LOW) + choice));
        ((s.first[1] | s.second[1]) & top).eq(L::Uint::splat(0))
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        result_metric::<L>(last.reward, index)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let (width, height) = (COLUMNS as f32, ROWS as f32);
        // Told apart by their shapes too.
        let line = |x: f32| Shape::line([[x, 0.0], [x, height]], BLUE);
        let mut shapes: Vec<Shape> = (0..=COLUMNS).map(|column| line(column as f32)).collect();
        shapes.push(Shape::line([[0.0, 0.0], [width, 0.0]], BLUE));
        for cell in 0..ROWS * COLUMNS {
            let (row, column) = (cell / COLUMNS, cell % COLUMNS);
            let (bit, center) = (row % LOW * 8 + column, [column as f32 + 0.5, row as f32 + 0.5]);
            match [s.first, s.second].map(|board| board[row / LOW].0 >> bit & 1) {
                [1, _] => shapes.push(Shape::circle(center, 0.4, YELLOW)),
                [_, 1] => shapes.push(Shape::rectangle(center, 0.6, 0.6, RED)),
                _ => {}
            }
        }
        let turn = if s.player.0 == 0 { "yellow (round) to move" } else { "red (square) to move" };
        shapes.push(Shape::text([width / 2.0, height + 0.4], turn, 0));
        Scene { low: [0.0, 0.0], high: [width, height + 0.8], shapes }
    }
}
