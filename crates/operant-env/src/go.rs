//! Go on 9 x 9 points, with area scoring.
//!
//! The players place stones on points in turn, or pass; the first one has the black stones. Stones of the opponent that a move leaves without liberties are
//! captured. Moves that capture nothing and have no liberties themselves (suicide) are illegal, and so is the immediate recapture of a single stone (ko). A player
//! whose move repeats an earlier position loses (positional superko). The game ends after two passes in a row, or after 162 moves, and is scored by the
//! rules of Tromp and Taylor: stones, and empty regions that reach only stones of one colour; White gets 7.5 points more (komi). The reward is 1 if Black wins and
//! -1 if White does. Illegal moves are masked; a player who chooses one anyway loses.
//!
//! The observation belongs to the player to move, as in Pgx: for each point, row by row, 17 bits: stones of this player and of the opponent now, after the
//! move before, and so on, eight times, and one that is set for White.
//!
//! A board is three words of bits, of three rows each; a row has ten bits, the last of which is never set, so that neighbours do not wrap around. The state
//! knows the chains with a single liberty (in atari). A move follows the chains around the new stone, by growing them point by point to all stones that they
//! reach, and counts their liberties. Positions are compared by hashes of 64 bits.

use operant_lane::{Draws, Float, Lane, Mask, Memory, Uint, bundle};

use crate::boards::{both, either, grown, is_any, single, without};
use crate::versus::{result_metric, result_metrics};
use crate::{ActionSpace, BLUE, DARK_GREEN, Env, EnvSpec, ObsSpace, Scene, Shape, Step, YELLOW, openings};

const SIDE: usize = 9;
const POINTS: usize = SIDE * SIDE;
/// The action of a player who passes.
const PASS: usize = POINTS;
/// Words of a board, rows in a word, and bits of a row.
const WORDS: usize = 3;
const ROWS: usize = 3;
const ROW: usize = 10;
/// All points in a word.
const ALL: u32 = 0x1ff | 0x1ff << ROW | 0x1ff << (2 * ROW);
/// Moves in a game, at most.
const MOVES: usize = 2 * POINTS;
/// What White gets for moving second, rounded down: half a point decides equal scores.
const KOMI: u32 = 7;
/// Earlier positions in the observation.
const EARLIER: usize = 7;
/// Bits of a point in the observation that show stones, and all of them.
const STONES: usize = 2 * (EARLIER + 1);
const PLANES: usize = STONES + 1;
/// Words of the observation.
const OBS_WORDS: usize = (PLANES * POINTS).div_ceil(32);
/// Turns of a loop that follows a chain, two points each: a path has at most all points.
const TURNS: u32 = POINTS.div_ceil(2) as u32;
/// The bits of an observation that are set for White.
const WHITE: [u32; OBS_WORDS] = white();

type Board<L> = [<L as Lane>::Uint; WORDS];

const fn white() -> [u32; OBS_WORDS] {
    let mut words = [0; OBS_WORDS];
    let mut point = 0;
    while point < POINTS {
        let bit = PLANES * point + STONES;
        words[bit / 32] |= 1 << (bit % 32);
        point += 1;
    }
    words
}

bundle! {
    /// The stones, what is known of them, and earlier positions.
    pub struct State {
        /// The player to move: 0 Black, 1 White.
        player: Uint,
        /// Moves so far.
        time: Uint,
        /// Whether the last move was a pass.
        passed: Mask,
        /// Black stones.
        black: [Uint; WORDS],
        /// White stones.
        white: [Uint; WORDS],
        /// Stones of both colours whose chain has a single liberty.
        atari: [Uint; WORDS],
        /// Points where the player to move may place a stone.
        moves: [Uint; WORDS],
        /// The black stones after earlier moves, the latest first.
        earlier_black: [Uint; EARLIER * WORDS],
        /// The white stones.
        earlier_white: [Uint; EARLIER * WORDS],
        /// Hashes of the positions after each move: the low words.
        low_hashes: (Memory MOVES),
        /// The high words.
        high_hashes: (Memory MOVES),
    }
}

/// The environment, named by its size.
#[derive(Debug, Clone, Default)]
pub struct Go {
    /// Maximum number of random moves with which a game begins.
    openings: u32,
}

#[inline(always)]
fn count<L: Lane>(board: Board<L>) -> L::Uint {
    board[0].count_ones() + board[1].count_ones() + board[2].count_ones()
}

/// Where the mask holds, the board, and nothing elsewhere.
#[inline(always)]
fn only<L: Lane>(mask: L::Mask, board: Board<L>) -> Board<L> {
    mask.select(board, [L::Uint::splat(0); WORDS])
}

/// The points with no stone.
#[inline(always)]
fn empty<L: Lane>(a: Board<L>, b: Board<L>) -> Board<L> {
    without([L::Uint::splat(ALL); WORDS], either(a, b))
}

/// The neighbours of a board's points in the four directions: right, left, below, above. Bits beyond the edges may be set, too.
#[inline(always)]
fn sides<L: Lane>(board: Board<L>) -> [Board<L>; 4] {
    let (row, last) = (ROW as u32, ((ROWS - 1) * ROW) as u32);
    let [a, b, c] = board;
    [
        board.map(|word| word.shl(1)),
        board.map(|word| word.shr(1)),
        [a.shl(row), b.shl(row) | a.shr(last), c.shl(row) | b.shr(last)],
        [a.shr(row) | b.shl(last), b.shr(row) | c.shl(last), c.shr(row)],
    ]
}

/// The neighbours within a region.
#[inline(always)]
fn neighbours<L: Lane>(board: Board<L>, within: Board<L>) -> Board<L> {
    let [right, left, below, above] = sides::<L>(board);
    both(either(either(right, left), either(below, above)), within)
}

/// The points of a region that are connected to some of its points.
#[inline(always)]
fn connected<L: Lane>(from: Board<L>, within: Board<L>) -> Board<L> {
    let next = |chain| either(chain, neighbours::<L>(chain, within));
    grown::<L, WORDS>(from, is_any(from), TURNS, next)
}

/// A chain where it has a single liberty, and nothing elsewhere.
#[inline(always)]
fn in_atari<L: Lane>(chain: Board<L>, empty: Board<L>) -> Board<L> {
    only::<L>(count::<L>(neighbours::<L>(chain, empty)).eq(L::Uint::splat(1)), chain)
}

/// The board with one point; nothing for a pass.
#[inline(always)]
fn stone<L: Lane>(action: L::Uint) -> Board<L> {
    let u = L::Uint::splat;
    // action / 9 and row / 3, exact for all actions.
    let row = (action * u(57)).shr(9);
    let word = (row * u(11)).shr(5);
    single(word, action + row - word * u((ROWS * ROW) as u32))
}

/// Words of a hash of a position: a bijection of each word of the boards.
#[inline(always)]
fn hash<L: Lane>(black: Board<L>, white: Board<L>, factor: u32) -> L::Uint {
    let mut hash = L::Uint::splat(factor);
    for word in black.into_iter().chain(white) {
        hash = (hash ^ word) * L::Uint::splat(factor);
        hash = hash ^ hash.shr(15);
    }
    (hash * L::Uint::splat(factor)).named("hash")
}

/// 1 if Black has more points, otherwise -1.
#[inline(always)]
fn scored<L: Lane>(black: Board<L>, white: Board<L>) -> L::Float {
    let empty = empty::<L>(black, white);
    let reached = |stones: Board<L>| connected::<L>(neighbours::<L>(stones, empty), empty);
    let area =
        |stones: Board<L>, others: Board<L>| count::<L>(stones) + count::<L>(without(empty, reached(others)));
    let wins = (area(white, black) + L::Uint::splat(KOMI)).lt(area(black, white));
    wins.select(L::Float::splat(1.0), L::Float::splat(-1.0))
}

/// What a move changes.
struct Placed<L: Lane> {
    mine: Board<L>,
    others: Board<L>,
    atari: Board<L>,
    /// The point that may not be taken in the next move.
    ko: Board<L>,
}

/// Places a stone on an empty point, or none.
#[inline(always)]
fn place<L: Lane>(stone: Board<L>, mine: Board<L>, others: Board<L>, atari: Board<L>) -> Placed<L> {
    let around = neighbours::<L>(stone, [L::Uint::splat(ALL); WORDS]);
    // Next to the stone, a chain of the opponent in atari loses its only liberty.
    let dying = both(others, atari);
    let captured = connected::<L>(both(around, dying), dying);
    let mine = either(mine, stone);
    let others_before = others;
    let others = without(others, captured);
    let empty = empty::<L>(mine, others);
    // Chains next to what was captured have two liberties or more now.
    let freed = connected::<L>(neighbours::<L>(captured, mine), mine);
    let chain = connected::<L>(stone, mine);
    let mut atari = without(atari, either(either(captured, freed), chain));
    atari = either(atari, in_atari::<L>(chain, empty));
    for next in sides::<L>(stone) {
        let chain = connected::<L>(both(next, others), others);
        atari = either(atari, in_atari::<L>(chain, empty));
    }
    let is_single = count::<L>(captured).eq(L::Uint::splat(1));
    let is_enclosed = !is_any(without(around, others_before));
    Placed { mine, others, atari, ko: only::<L>(is_single & is_enclosed, captured) }
}

/// The points where a player may place a stone.
#[inline(always)]
fn moves<L: Lane>(mine: Board<L>, others: Board<L>, atari: Board<L>, ko: Board<L>) -> Board<L> {
    let empty = empty::<L>(mine, others);
    // Next to a liberty, to an own chain with another liberty, or to a chain that it captures.
    let good = either(empty, either(without(mine, atari), both(others, atari)));
    without(neighbours::<L>(good, empty), ko).map(|word| word.named("moves"))
}

/// Bit k of words 0 to 15 becomes word k, in both halves.
#[inline(always)]
fn transposed<L: Lane>(mut words: [L::Uint; STONES]) -> [L::Uint; STONES] {
    for (by, mask) in [(8, 0x00ff_00ff), (4, 0x0f0f_0f0f), (2, 0x3333_3333), (1, 0x5555_5555)] {
        for k in (0..STONES).filter(|k| k & by == 0) {
            let swapped = (words[k].shr(by as u32) ^ words[k + by]) & L::Uint::splat(mask);
            words[k + by] = words[k + by] ^ swapped;
            words[k] = words[k] ^ swapped.shl(by as u32);
        }
    }
    words
}

impl Env for Go {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; OBS_WORDS];
    type Action<L: Lane> = L::Uint;

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        let seen = (0..=EARLIER).flat_map(|ago| {
            let when = if ago == 0 { "now".to_owned() } else { format!("{ago} before") };
            ["stones of the player to move", "stones of the opponent"].map(|what| format!("{what}, {when}"))
        });
        EnvSpec {
            name: "go_9x9".into(),
            family: "two players".into(),
            summary: "surround more points of a 9 x 9 board than the opponent".into(),
            rules: "Two players place stones on 9 x 9 points, in turn, or pass. Stones without liberties are captured; who repeats a position loses. After two passes, \
                    or 162 moves, the larger area wins, with 7.5 points more for White. The reward is that of Black, who begins: 1 or -1."
                .into(),
            reference: "Pgx 2.6.0, go_9x9: identical step by step".into(),
            obs: ObsSpace::Binary { shape: vec![SIDE, SIDE, PLANES] },
            obs_names: seen.chain(["set for White".to_owned()]).collect(),
            actions: ActionSpace::Discrete(vec![POINTS + 1]),
            players: 2,
            metrics: result_metrics()[..1].to_vec(),
            fps: 2.0,
            options: vec![openings::option()],
            preset: Some(include_str!("../presets/go_9x9.toml").into()),
            ..EnvSpec::default()
        }
    }

    openings::has_openings!();

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        let none = [u(0); WORDS];
        let first = State {
            player: u(0),
            time: u(0),
            passed: L::Mask::splat(false),
            black: none,
            white: none,
            atari: none,
            moves: [u(ALL); WORDS],
            earlier_black: [u(0); EARLIER * WORDS],
            earlier_white: [u(0); EARLIER * WORDS],
            low_hashes: L::Memory::<MOVES>::splat(&[0; MOVES]),
            high_hashes: L::Memory::<MOVES>::splat(&[0; MOVES]),
        };
        openings::opened(self, first, self.openings, draws)
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let mut state = *s;
        let (reward, terminated) = self.step_in_place(&mut state, action, draws);
        Step { state, reward, terminated }
    }

    fn step_in_place<L: Lane>(
        &self,
        s: &mut State<L>,
        action: &L::Uint,
        draws: &mut Draws<L>,
    ) -> (L::Float, L::Mask) {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let is_black = s.player.eq(u(0));
        let passes = action.eq(u(PASS as u32));
        let stone = stone::<L>(*action);
        let is_legal = passes | is_any(both(stone, s.moves));
        let (mine, others) = (is_black.select(s.black, s.white), is_black.select(s.white, s.black));
        for (earlier, latest) in [(&mut s.earlier_black, s.black), (&mut s.earlier_white, s.white)] {
            for word in (WORDS..EARLIER * WORDS).rev() {
                earlier[word] = earlier[word - WORDS];
            }
            earlier[..WORDS].copy_from_slice(&latest);
        }
        let Placed { mine, others, atari, ko } = place::<L>(stone, mine, others, s.atari);
        (s.black, s.white) = (is_black.select(mine, others), is_black.select(others, mine));
        s.atari = atari;
        s.moves = moves::<L>(others, mine, atari, ko);

        let low = hash::<L>(s.black, s.white, 0x85eb_ca6b);
        let high = hash::<L>(s.black, s.white, 0xcc9e_2d51);
        let mut repeats = draws.zero();
        let (lows, highs) = (&s.low_hashes, &s.high_hashes);
        L::turns(MOVES as u32, &mut repeats, |turn, repeats| {
            let differs = (lows.at(turn) ^ low) | (highs.at(turn) ^ high);
            *repeats = differs.eq(u(0)).select(u(1), *repeats);
        });
        let repeats = !passes & repeats.ne(u(0));
        let all = L::Mask::splat(true);
        s.low_hashes.set(all, s.time, low);
        s.high_hashes.set(all, s.time, high);

        let is_late = s.time.ge(u(MOVES as u32 - 1));
        let ends = ((passes & s.passed) | is_late).named("ends");
        let (black, white) = (s.black, s.white);
        let result = L::when(ends, f(0.0), |_| scored::<L>(black, white));
        let loses = repeats | !is_legal;
        let reward = loses.select(is_black.select(f(-1.0), f(1.0)), result);
        s.player = u(1) - s.player;
        s.time = s.time + u(1);
        s.passed = passes;
        (reward, ends | loses)
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; OBS_WORDS] {
        let u = L::Uint::splat;
        let is_black = s.player.eq(u(0));
        let white = is_black.select(u(0), u(u32::MAX));
        let mut words = WHITE.map(|word| u(word) & white);
        for part in 0..WORDS {
            let mut planes = [u(0); STONES];
            for ago in 0..=EARLIER {
                let [black, white] = match ago.checked_sub(1) {
                    None => [s.black[part], s.white[part]],
                    Some(ago) => [s.earlier_black[ago * WORDS + part], s.earlier_white[ago * WORDS + part]],
                };
                planes[2 * ago] = is_black.select(black, white);
                planes[2 * ago + 1] = is_black.select(white, black);
            }
            let points = transposed::<L>(planes);
            for (row, column) in (0..ROWS).flat_map(|row| (0..SIDE).map(move |column| (row, column))) {
                let place = row * ROW + column;
                let half = points[place % STONES];
                let bits = if place < STONES { half & u(0xffff) } else { half.shr(16) };
                let at = PLANES * ((ROWS * part + row) * SIDE + column);
                words[at / 32] = words[at / 32] | bits.shl(at as u32 % 32);
                if at % 32 + STONES > 32 {
                    words[at / 32 + 1] = words[at / 32 + 1] | bits.shr(32 - at as u32 % 32);
                }
            }
        }
        words
    }

    #[inline(always)]
    fn legal<L: Lane>(&self, s: &State<L>, _: usize, choice: usize) -> L::Mask {
        if choice == PASS {
            return L::Mask::splat(true);
        }
        let (row, column) = (choice / SIDE, choice % SIDE);
        (s.moves[row / ROWS] & L::Uint::splat(1 << (row % ROWS * ROW + column))).ne(L::Uint::splat(0))
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        result_metric::<L>(last.reward, index)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let (first, last) = (0.5, SIDE as f32 - 0.5);
        let across = |at: f32| Shape::line([[first, at], [last, at]], DARK_GREEN);
        let down = |at: f32| Shape::line([[at, first], [at, last]], DARK_GREEN);
        let mut shapes: Vec<Shape> =
            (0..SIDE).map(|line| line as f32 + 0.5).flat_map(|at| [across(at), down(at)]).collect();
        for point in 0..POINTS {
            let (row, column) = (point / SIDE, point % SIDE);
            let at = [column as f32 + 0.5, last - row as f32];
            let bit = row % ROWS * ROW + column;
            // Told apart by their shapes too.
            match [s.black, s.white].map(|board| board[row / ROWS].0 >> bit & 1) {
                [1, _] => shapes.push(Shape::circle(at, 0.4, BLUE)),
                [_, 1] => shapes.push(Shape::rectangle(at, 0.6, 0.6, YELLOW)),
                _ => {}
            }
        }
        let side = SIDE as f32;
        let turn = if s.player.0 == 0 { "blue (round) to move" } else { "yellow (square) to move" };
        shapes.push(Shape::text([side / 2.0, side + 0.4], turn, 0));
        Scene { low: [0.0, 0.0], high: [side, side + 0.8], shapes }
    }
}
