//! Capture the flag: two teams of two on a field of 10 x 7 cells; the first team that brings the other's flag to its own half wins.
//!
//! Players 0 and 2 are a team, with the left half of the field; 1 and 3 have the right one. A flag stands in the middle row of each team's outer column, in a
//! cell that the team itself cannot enter. Each player starts in a random row of the column beside it, no two of a team in the same.
//!
//! All four choose at once: the state keeps the choices until the last player has made one. Then, in this order:
//!
//! 1. Everyone moves a cell up, right, down or left, or stays. Right is towards the other team's half, for both teams. Who would leave the field or enter the
//!    own flag's cell stays.
//! 2. Who meets a player of the other team is tagged if in the other team's half. They meet if they are in one cell, or exchange cells.
//! 3. Who has been tagged drops the flag, which is back in its cell, and goes to the own outer column: players 0 and 1 to its top, 2 and 3 to its bottom.
//! 4. Who is in the cell of the other team's flag takes it if it stood there before the step, the lower number first.
//! 5. A team whose player is in the own half with the other's flag wins; if both do so in the same step, the game is drawn.
//!
//! The reward is 1 if players 0 and 2 win, -1 if 1 and 3 do: team mates share it. After 200 steps of the field (800 choices) the game is drawn.
//!
//! The observation belongs to the player who chooses next, whose team always plays to the right: for each cell, row by row from the top, five bits: this player,
//! the team mate, a player of the other team, the own flag, the other team's flag. A flag is where its carrier is. What others have chosen is not seen.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::spec::names;
use crate::versus::{result_metric, result_metrics};
use crate::{ActionSpace, BLUE, Env, EnvSpec, ObsSpace, RED, Scene, Shape, Step, WHITE, grid};

const ROWS: usize = 7;
const COLUMNS: usize = 10;
const CELLS: usize = ROWS * COLUMNS;
const PLAYERS: usize = 4;
/// Bits of a cell.
const CHANNELS: usize = 5;
/// Words of the observation.
const WORDS: usize = (CELLS * CHANNELS).div_ceil(32);
/// Cells of the flags.
const FLAGS: [u32; 2] = [(ROWS / 2 * COLUMNS) as u32, (ROWS / 2 * COLUMNS + COLUMNS - 1) as u32];
/// The carrier of a flag that nobody carries.
const NOBODY: u32 = PLAYERS as u32;
/// Actions.
const UP: u32 = 1;
const RIGHT: u32 = 2;
const DOWN: u32 = 3;
const LEFT: u32 = 4;

bundle! {
    /// The state of the game.
    pub struct State {
        /// The player who chooses next.
        player: Uint,
        /// The choices of players 0, 1 and 2.
        choices: [Uint; 3],
        /// Columns of the players, 0 at the left.
        x: [Uint; 4],
        /// Rows of the players, 0 at the top.
        y: [Uint; 4],
        /// Who carries the flag of each team; 4 for nobody.
        carriers: [Uint; 2],
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct CaptureTheFlag;

/// The cell to which a player of `team` moves.
#[inline(always)]
fn moved<L: Lane>(team: usize, [x, y]: [L::Uint; 2], action: L::Uint) -> [L::Uint; 2] {
    let u = L::Uint::splat;
    let (right, left) = if team == 0 { (RIGHT, LEFT) } else { (LEFT, RIGHT) };
    let is = |number: u32| action.eq(u(number));
    let (last_row, last_column) = (u(ROWS as u32 - 1), u(COLUMNS as u32 - 1));
    let shift = |more: L::Mask, less: L::Mask| more.select(u(1), u(0)) - less.select(u(1), u(0));
    let to_x = x + shift(is(right) & x.lt(last_column), is(left) & x.ne(u(0)));
    let to_y = y + shift(is(DOWN) & y.lt(last_row), is(UP) & y.ne(u(0)));
    let [flag_x, flag_y] = place(FLAGS[team]);
    let is_barred = (to_x.eq(u(flag_x)) & to_y.eq(u(flag_y))).named("is_barred");
    [is_barred.select(x, to_x).named("x"), is_barred.select(y, to_y).named("y")]
}

/// Column and row of a cell.
fn place(cell: u32) -> [u32; 2] {
    [cell % COLUMNS as u32, cell / COLUMNS as u32]
}

/// Whether column `x` is in the half of `team`.
#[inline(always)]
fn is_half<L: Lane>(team: usize, x: L::Uint) -> L::Mask {
    let is_left = x.lt(L::Uint::splat(COLUMNS as u32 / 2));
    if team == 0 { is_left } else { !is_left }
}

/// The field after all have chosen, the reward, and whether the game ends.
#[inline(always)]
fn play<L: Lane>(s: &State<L>, choices: [L::Uint; PLAYERS]) -> (State<L>, L::Float, L::Mask) {
    let u = L::Uint::splat;
    let before: [[L::Uint; 2]; PLAYERS] = std::array::from_fn(|k| [s.x[k], s.y[k]]);
    let after: [[L::Uint; 2]; PLAYERS] = std::array::from_fn(|k| moved::<L>(k % 2, before[k], choices[k]));
    let same = |a: [L::Uint; 2], b: [L::Uint; 2]| a[0].eq(b[0]) & a[1].eq(b[1]);
    let meets = |a: usize, b: usize| {
        same(after[a], after[b]) | (same(after[a], before[b]) & same(after[b], before[a]))
    };
    let tagged: [L::Mask; PLAYERS] = std::array::from_fn(|k| {
        let others = [1 - k % 2, 3 - k % 2];
        ((meets(k, others[0]) | meets(k, others[1])) & !is_half::<L>(k % 2, after[k][0])).named("tagged")
    });
    let mut carriers = s.carriers;
    let mut wins = [L::Mask::splat(false); 2];
    for team in 0..2 {
        // The flag of this team, for the others.
        let stood = s.carriers[team].eq(u(NOBODY));
        let [x, y] = place(FLAGS[team]);
        for k in [1 - team, 3 - team] {
            let drops = carriers[team].eq(u(k as u32)) & tagged[k];
            carriers[team] = drops.select(u(NOBODY), carriers[team]);
        }
        for k in [3 - team, 1 - team] {
            let takes = stood & !tagged[k] & same(after[k], [u(x), u(y)]);
            carriers[team] = takes.select(u(k as u32), carriers[team]).named("carrier");
            wins[1 - team] =
                wins[1 - team] | (carriers[team].eq(u(k as u32)) & is_half::<L>(1 - team, after[k][0]));
        }
    }
    let x = std::array::from_fn(|k| {
        let home = if k % 2 == 0 { 0 } else { COLUMNS as u32 - 1 };
        tagged[k].select(u(home), after[k][0])
    });
    let y = std::array::from_fn(|k| {
        let home = if k < 2 { 0 } else { ROWS as u32 - 1 };
        tagged[k].select(u(home), after[k][1])
    });
    let points = |wins: L::Mask| wins.select(L::Float::splat(1.0), L::Float::splat(0.0));
    (State { x, y, carriers, ..*s }, points(wins[0]) - points(wins[1]), wins[0] | wins[1])
}

impl Env for CaptureTheFlag {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; WORDS];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "capture_the_flag".into(),
            family: "two players".into(),
            summary: "two against two, who move at once; bring the other team's flag to your half".into(),
            rules: "Two teams of two move at once on 10 x 7 cells. A player who meets an opponent in the other team's half goes back to the own outer column. \
                    The team that brings the other's flag to its own half wins: the reward is 1 for players 0 and 2, -1 if 1 and 3 win. After 200 \
                    steps of the field the game is drawn."
                .into(),
            reference: "No external reference; tests compare with a second implementation.".into(),
            obs: ObsSpace::Binary { shape: vec![ROWS, COLUMNS, CHANNELS] },
            obs_names: names(["this player", "the team mate", "players of the other team", "the own flag", "the other team's flag"]),
            actions: ActionSpace::Discrete(vec![5]),
            action_names: names(["stay", "up", "right", "down", "left"]),
            players: PLAYERS as u32,
            simultaneous: true,
            metrics: result_metrics(),
            time_limit: 200 * PLAYERS as u32,
            fps: 5.0,
            preset: Some(include_str!("../presets/capture_the_flag.toml").into()),
            ..EnvSpec::default()
        }
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        let rows: [[L::Uint; 2]; 2] = std::array::from_fn(|_| {
            let first = draws.below(ROWS as u32);
            let second = draws.below(ROWS as u32 - 1);
            [first, second + first.le(second).select(u(1), u(0)).named("second")]
        });
        State {
            player: u(0),
            choices: [u(0); 3],
            x: [u(1), u(COLUMNS as u32 - 2), u(1), u(COLUMNS as u32 - 2)],
            y: std::array::from_fn(|k| rows[k % 2][k / 2]),
            carriers: [u(NOBODY); 2],
        }
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _draws: &mut Draws<L>) -> Step<L, State<L>> {
        let u = L::Uint::splat;
        let is_last = s.player.eq(u(PLAYERS as u32 - 1)).named("is_last");
        let [a, b, c] = s.choices;
        let waits = (*s, L::Float::splat(0.0), L::Mask::splat(false));
        let (state, reward, terminated) = L::when(is_last, waits, |(s, ..)| play(&s, [a, b, c, *action]));
        let choices = std::array::from_fn(|k| {
            let chosen = s.player.eq(u(k as u32)).select(*action, s.choices[k]);
            is_last.select(u(0), chosen)
        });
        let player = is_last.select(u(0), s.player + u(1));
        Step { state: State { player, choices, ..state }, reward, terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; WORDS] {
        let u = L::Uint::splat;
        let is_right = (s.player & u(1)).ne(u(0)).named("is_right");
        let bit = |x: L::Uint, y: L::Uint, channel: L::Uint| {
            let x = is_right.select(u(COLUMNS as u32 - 1) - x, x);
            let cell = y * u(COLUMNS as u32) + x;
            (cell * u(CHANNELS as u32) + channel).named("bit")
        };
        let mut bits = [u(0); PLAYERS + 2];
        for k in 0..PLAYERS {
            let number = u(k as u32);
            let is_mate = ((s.player ^ number) & u(1)).eq(u(0));
            let channel = s.player.eq(number).select(u(0), is_mate.select(u(1), u(2)));
            bits[k] = bit(s.x[k], s.y[k], channel);
        }
        for team in 0..2 {
            let [mut x, mut y] = place(FLAGS[team]).map(u);
            for k in [1 - team, 3 - team] {
                let carries = s.carriers[team].eq(u(k as u32));
                (x, y) = (carries.select(s.x[k], x), carries.select(s.y[k], y));
            }
            let is_own = if team == 0 { !is_right } else { is_right };
            bits[PLAYERS + team] = bit(x, y, is_own.select(u(3), u(4)));
        }
        std::array::from_fn(|word| bits.iter().fold(u(0), |all, at| all | grid::bit(*at, word)))
    }

    #[inline(always)]
    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        result_metric::<L>(last.reward, index)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let (width, height) = (COLUMNS as f32, ROWS as f32);
        let at = |x: u32, y: u32| [x as f32 + 0.5, height - 0.5 - y as f32];
        let line = |from, to| Shape::line([from, to], 0);
        let tones = [BLUE, RED];
        let mut shapes = vec![
            line([0.0, 0.0], [width, 0.0]),
            line([0.0, height], [width, height]),
            line([0.0, 0.0], [0.0, height]),
            line([width, 0.0], [width, height]),
            Shape::line([[width / 2.0, 0.0], [width / 2.0, height]], 4),
        ];
        for team in 0..2 {
            let [x, y] = match s.carriers[team].0 as usize {
                k @ 0..PLAYERS => [s.x[k].0, s.y[k].0],
                _ => place(FLAGS[team]),
            };
            shapes.push(Shape::rectangle(at(x, y), 0.9, 0.9, tones[team]));
        }
        for k in 0..PLAYERS {
            let center = at(s.x[k].0, s.y[k].0);
            if s.player.0 as usize == k {
                shapes.push(Shape::circle(center, 0.4, WHITE));
            }
            // Told apart by their shapes too; a carrier stands on the flag.
            shapes.push(match k % 2 {
                0 => Shape::circle(center, 0.3, tones[0]),
                _ => Shape::rectangle(center, 0.5, 0.5, tones[1]),
            });
        }
        Scene { low: [0.0, 0.0], high: [width, height], shapes }
    }
}
