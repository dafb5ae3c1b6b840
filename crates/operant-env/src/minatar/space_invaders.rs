//! MinAtar Space Invaders: a cannon below a block of aliens that marches, descends and shoots, on a 10 x 10 grid.
//!
//! Bullets move before aliens. Hits are tested once, after all moves: a bullet and an alien that swap cells miss each
//! other. The fewer aliens are left, the faster they march. A cleared wave is followed by another one; the first six
//! new waves are faster than the one before.
//!
//! The three maps (aliens, own bullets, alien bullets) have one bit per cell and three rows per word, so rows and
//! columns are moved with shifts. The game uses no randomness.

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, bundle};

use super::{About, CELLS, FIRE, Game, LEFT, MinAtar, RIGHT, SIDE, TIME_LIMIT, moved, square};
use crate::{GREEN, RED, Shape, Step, YELLOW};

/// Channels of the observation: cannon, aliens, aliens moving left, aliens moving right, own bullets, alien bullets.
const CHANNELS: usize = 6;
/// What each of them shows.
const CHANNEL_NAMES: [&str; CHANNELS] = [
    "cannon",
    "aliens",
    "aliens while they move left",
    "aliens while they move right",
    "own bullets",
    "alien bullets",
];
/// Words of the observation's 600 bits.
const OBS_WORDS: usize = (CELLS * CHANNELS).div_ceil(32);
/// Words per map.
const WORDS: usize = 4;
/// Bits of a word of a map: three rows; the last word holds only row 9.
const WORD_BITS: u32 = 3 * SIDE;
/// The bits of a word that represent cells.
const WORD: u32 = (1 << WORD_BITS) - 1;
/// The bits of a row, for the lowest row of a word.
const ROW: u32 = (1 << SIDE) - 1;
/// Column 0 of all rows of a word.
const COLUMN: u32 = 1 | 1 << SIDE | 1 << (2 * SIDE);
/// A new wave: rows 0 to 3, columns 2 to 7.
const WAVE: [u32; WORDS] = [0xfc * COLUMN, 0xfc, 0, 0];
/// Steps between two shots of the cannon.
const SHOT_PERIOD: u32 = 5;
/// Steps between two shots of the aliens.
const ALIEN_SHOT_PERIOD: u32 = 10;
/// Maximum steps between two moves of the aliens: initially, and in the fastest wave.
const MOVE_PERIOD: u32 = 12;
const LEAST_MOVE_PERIOD: u32 = 6;

bundle! {
    /// The state of the game.
    pub struct State {
        /// Column of the cannon.
        x: Uint,
        /// Steps until the cannon can shoot.
        shot_timer: Uint,
        /// -1 while the aliens move left, 1 while they move right.
        direction: Int,
        /// Steps until the aliens move.
        alien_move_timer: Uint,
        /// Steps until an alien shoots.
        alien_shot_timer: Uint,
        /// Maximum steps between two moves of the aliens.
        move_interval: Uint,
        /// Number of speed increases so far.
        ramp_index: Uint,
        /// Map of the aliens.
        aliens: [Uint; 4],
        /// Map of the cannon's bullets.
        bullets: [Uint; 4],
        /// Map of the aliens' bullets.
        alien_bullets: [Uint; 4],
        /// The previously executed action, for sticky actions.
        last_action: Uint,
    }
}

/// The game.
#[derive(Debug, Clone, Copy)]
pub struct SpaceInvaders;

/// A bit per cell.
type Map<L> = [<L as Lane>::Uint; WORDS];

/// Moves a map up by one row; row 0 is lost.
#[inline(always)]
fn up<U: Uint>(map: [U; WORDS]) -> [U; WORDS] {
    core::array::from_fn(|w| {
        let below = if w + 1 < WORDS { map[w + 1].shl(2 * SIDE) } else { U::splat(0) };
        (map[w].shr(SIDE) | below) & U::splat(WORD)
    })
}

/// Moves a map down by one row; row 9 is lost.
#[inline(always)]
fn down<U: Uint>(map: [U; WORDS]) -> [U; WORDS] {
    core::array::from_fn(|w| {
        let above = if w > 0 { map[w - 1].shr(2 * SIDE) } else { U::splat(0) };
        let rows = if w + 1 < WORDS { WORD } else { ROW };
        (map[w].shl(SIDE) | above) & U::splat(rows)
    })
}

/// All words of a map combined with OR.
#[inline(always)]
fn any<U: Uint>(map: [U; WORDS]) -> U {
    map[0] | map[1] | map[2] | map[3]
}

/// The columns of a map with at least one set bit, as a row.
#[inline(always)]
fn columns<U: Uint>(map: [U; WORDS]) -> U {
    let rows = any(map);
    (rows | rows.shr(SIDE) | rows.shr(2 * SIDE)) & U::splat(ROW)
}

/// Number of set bits of a map.
#[inline(always)]
fn count<U: Uint>(map: [U; WORDS]) -> U {
    map[0].count_ones() + map[1].count_ones() + map[2].count_ones() + map[3].count_ones()
}

/// Moves all aliens by one cell: sideways, or down if they are at a side. Returns whether they were in the bottom row.
#[inline(always)]
fn march<L: Lane>(s: &State<L>) -> (Map<L>, L::Int, L::Mask) {
    let (u, int) = (L::Uint::splat, L::Int::splat);
    let occupied = columns(s.aliens);
    let left = s.direction.lt(int(0)).named("left");
    let side = left.select(u(1), u(1 << (SIDE - 1)));
    let turns = (occupied & side).ne(u(0)).named("turns");
    let lower = down(s.aliens);
    let aliens = core::array::from_fn(|w| {
        let sideways = left.select(s.aliens[w].shr(1), s.aliens[w].shl(1));
        // The bottom row wraps around to the top.
        let descended = if w == 0 { lower[0] | s.aliens[WORDS - 1] } else { lower[w] };
        turns.select(descended, sideways)
    });
    (aliens, turns.select(-s.direction, s.direction), turns & s.aliens[WORDS - 1].ne(u(0)))
}

/// The lowest alien in the column nearest to the cannon; the left column of two at the same distance.
#[inline(always)]
fn shooter<L: Lane>(s: &State<L>) -> Map<L> {
    let u = L::Uint::splat;
    let occupied = columns(s.aliens);
    // The highest set bit up to the cannon's column, and the lowest set bit from there on.
    let smear = occupied & (u(2).shl_by(s.x) - u(1));
    let smear = smear | smear.shr(1);
    let smear = smear | smear.shr(2);
    let smear = smear | smear.shr(4);
    let smear = (smear | smear.shr(8)).named("smear");
    let left = smear ^ smear.shr(1);
    let from = occupied & !(u(1).shl_by(s.x) - u(1));
    let right = from & (u(0) - from);
    let (left_column, right_column) = (smear.count_ones() - u(1), (right - u(1)).count_ones());
    let takes_left = left.ne(u(0)) & (right.eq(u(0)) | (s.x - left_column).le(right_column - s.x));
    let column = (takes_left.select(left, right) * u(COLUMN)).named("column");
    let mut above = L::Mask::splat(true);
    let mut found = [u(0); WORDS];
    for w in (0..WORDS).rev() {
        let all = s.aliens[w] & column;
        found[w] = above.select(all & !(all.shr(SIDE) | all.shr(2 * SIDE)), u(0));
        above = above & all.eq(u(0));
    }
    found
}

impl Game for SpaceInvaders {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; OBS_WORDS];

    const ABOUT: About = About {
        title: "SpaceInvaders",
        name: "space_invaders",
        summary: "shoot marching aliens on a 10x10 grid; +1 per alien",
        rules: "A cannon shoots at a block of aliens, which march, descend and shoot back, faster when fewer are left; \
                each gives 1. Touching a bullet or an alien ends the episode.",
        channels: &CHANNEL_NAMES,
        actions: &[0, LEFT, RIGHT, FIRE],
        ramps: true,
        time_limit: TIME_LIMIT,
        preset: include_str!("../../presets/minatar_space_invaders.toml"),
    };

    #[inline(always)]
    fn reset<L: Lane>(_: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        State {
            x: u(5),
            shot_timer: u(0),
            direction: L::Int::splat(-1),
            alien_move_timer: u(MOVE_PERIOD),
            alien_shot_timer: u(ALIEN_SHOT_PERIOD),
            move_interval: u(MOVE_PERIOD),
            ramp_index: u(0),
            aliens: WAVE.map(u),
            bullets: [u(0); WORDS],
            alien_bullets: [u(0); WORDS],
            last_action: u(0),
        }
    }

    #[inline(always)]
    fn step<L: Lane>(
        play: &MinAtar<Self>,
        s: &State<L>,
        action: L::Uint,
        draws: &mut Draws<L>,
    ) -> Step<L, State<L>> {
        let u = L::Uint::splat;
        let action = play.executed::<L>(action, s.last_action, draws);
        let mut s = State { last_action: action, ..*s };

        let fires = (action.eq(u(FIRE)) & s.shot_timer.eq(u(0))).named("fires");
        let shot_timer = fires.select(u(SHOT_PERIOD), s.shot_timer);
        s.bullets[WORDS - 1] = s.bullets[WORDS - 1] | fires.select(u(1).shl_by(s.x), u(0));
        s.x = moved::<L>(s.x, action.eq(u(LEFT)), action.eq(u(RIGHT)), 0, SIDE - 1).named("x");
        let cannon = u(1).shl_by(s.x).named("cannon");

        s.bullets = up(s.bullets);
        s.alien_bullets = down(s.alien_bullets);
        let hit = ((s.alien_bullets[WORDS - 1] | s.aliens[WORDS - 1]) & cannon).ne(u(0)).named("hit");

        let moves = s.alien_move_timer.eq(u(0)).named("moves");
        let before = (s.aliens, s.direction, s.alien_move_timer, hit);
        let after = L::when(moves, before, |(aliens, _, _, hit)| {
            let timer = count(aliens).min(s.move_interval);
            let (aliens, direction, landed) = march(&s);
            let met = (aliens[WORDS - 1] & cannon).ne(u(0));
            (aliens, direction, timer, hit | landed | met)
        });
        let alien_move_timer;
        let terminated;
        (s.aliens, s.direction, alien_move_timer, terminated) = after;

        let shoots = s.alien_shot_timer.eq(u(0)).named("shoots");
        s.alien_bullets = L::when(shoots, s.alien_bullets, |bullets| {
            let shooter = shooter(&s);
            core::array::from_fn(|w| bullets[w] | shooter[w])
        });
        s.alien_shot_timer = shoots.select(u(ALIEN_SHOT_PERIOD), s.alien_shot_timer) - u(1);

        let shot: Map<L> = core::array::from_fn(|w| s.aliens[w] & s.bullets[w]);
        let kills = L::when(any(shot).ne(u(0)), u(0), |_| count(shot)).named("kills");
        s.aliens = core::array::from_fn(|w| s.aliens[w] & !shot[w]);
        s.bullets = core::array::from_fn(|w| s.bullets[w] & !shot[w]);

        s.shot_timer = shot_timer.max(u(1)) - u(1);
        s.alien_move_timer = alien_move_timer - u(1);

        let cleared = any(s.aliens).eq(u(0)).named("cleared");
        if play.difficulty_ramping {
            let faster = (cleared & u(LEAST_MOVE_PERIOD).lt(s.move_interval)).named("faster");
            s.move_interval = s.move_interval - faster.select(u(1), u(0));
            s.ramp_index = s.ramp_index + faster.select(u(1), u(0));
        }
        s.aliens = core::array::from_fn(|w| cleared.select(u(WAVE[w]), s.aliens[w]));
        Step { state: s, reward: L::Float::from_uint(kills), terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(s: &State<L>) -> [L::Uint; OBS_WORDS] {
        let u = L::Uint::splat;
        let left = s.direction.lt(L::Int::splat(0));
        // Channel 1 of an alien, and channel 2 or 3.
        let alien = left.select(u(0b0110), u(0b1010)).named("alien");
        let cannon = [u(0), u(0), u(0), u(1).shl_by(s.x)];
        let mut obs = [u(0); OBS_WORDS];
        for five in 0..CELLS / 5 {
            // Moves five cells to every sixth bit: the product separates all of them.
            let spread = |map: &Map<L>| {
                let cells = map[five / 6].shr(5 * (five as u32 % 6)) & u(31);
                (cells * u(0x0010_8421)) & u(0x0104_1041)
            };
            let mut bits =
                (spread(&s.aliens) * alien) | spread(&s.bullets).shl(4) | spread(&s.alien_bullets).shl(5);
            if five >= 18 {
                bits = bits | spread(&cannon);
            }
            let (word, shift) = (30 * five / 32, 30 * five as u32 % 32);
            obs[word] = obs[word] | bits.shl(shift);
            if shift > 2 {
                obs[word + 1] = obs[word + 1] | bits.shr(32 - shift);
            }
        }
        obs
    }

    fn draw(s: &State<f32>) -> Vec<Shape> {
        let mut shapes = Vec::new();
        let maps = [(s.aliens, GREEN), (s.alien_bullets, RED), (s.bullets, YELLOW)];
        for (map, tone) in maps {
            let there = |cell: &u32| map[(cell / WORD_BITS) as usize].0 >> (cell % WORD_BITS) & 1 == 1;
            let cells = (0..CELLS as u32).filter(there);
            shapes.extend(cells.map(|cell| square(cell % SIDE, cell / SIDE, tone)));
        }
        shapes.push(square(s.x.0, SIDE - 1, 2));
        shapes
    }

    /// cannon_x, shot_timer, direction, alien_move_timer, alien_shot_timer, move_interval, ramp_index, then the aliens,
    /// own bullets and alien bullets cell by cell. The previous action is not included and starts as 0.
    fn unpack(public: &[f64]) -> Vec<f64> {
        let mut leaves = public[..7].to_vec();
        for map in public[7..].chunks(CELLS) {
            let words = map.chunks(WORD_BITS as usize).map(|cells| {
                let bits = cells.iter().enumerate().map(|(bit, filled)| u32::from(*filled != 0.0) << bit);
                f64::from(bits.sum::<u32>())
            });
            leaves.extend(words);
        }
        leaves.push(0.0);
        leaves
    }

    fn pack(leaves: &[f64]) -> Vec<f64> {
        let mut public = leaves[..7].to_vec();
        for map in leaves[7..7 + 3 * WORDS].chunks(WORDS) {
            let cells = (0..CELLS)
                .map(|cell| map[cell / WORD_BITS as usize] as u32 >> (cell % WORD_BITS as usize) & 1);
            public.extend(cells.map(f64::from));
        }
        public
    }
}
