//! CliffWalking: walk along a cliff from one end to the other.
//!
//! After Sutton and Barto, "Reinforcement Learning", example 6.6, with the rules of Gymnasium's CliffWalking-v1.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use super::{FAMILY, Moves, board, slipped};
use crate::spec::{OptionError, OptionValue, names};
use crate::{ActionSpace, Env, EnvOption, EnvSpec, GREEN, GREY, ObsSpace, RED, Scene, Step};

/// Columns and rows of the board.
const COLUMNS: u32 = 12;
const ROWS: u32 = 4;
/// The start, in the lower left corner.
const START: u32 = COLUMNS * (ROWS - 1);
/// The goal, in the lower right corner; the cliff lies between them.
const GOAL: u32 = COLUMNS * ROWS - 1;
/// Column and row offsets of up, right, down and left.
const WAYS: [[i32; 2]; 4] = [[0, -1], [1, 0], [0, 1], [-1, 0]];
/// What happens in a cell.
const FALL: u32 = 1;
const ARRIVE: u32 = 2;

bundle! {
    /// The walker.
    pub struct State {
        /// The walker's cell, row by row.
        cell: Uint,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct CliffWalking {
    moves: Moves,
    is_slippery: bool,
}

impl Default for CliffWalking {
    fn default() -> Self {
        let moves = Moves::new((COLUMNS * ROWS) as i32, COLUMNS as i32, WAYS, |cell| match cell {
            GOAL => (cell, ARRIVE),
            _ if cell > START => (START, FALL),
            _ => (cell, 0),
        });
        CliffWalking { moves, is_slippery: false }
    }
}

impl Env for CliffWalking {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "cliff_walking".into(),
            aliases: vec!["CliffWalking-v1".into(), "CliffWalking".into()],
            family: FAMILY.into(),
            summary: "walk along a cliff; -1 per step, -100 for a fall".into(),
            rules: "Walk up, right, down or left on 12 x 4 cells from the lower left corner to the lower right one. The cells \
                    between them are a cliff: a fall costs 100 and leads back to the start."
                .into(),
            reference: "Identical to Gymnasium's CliffWalking-v1, and to CliffWalkingSlippery-v1 with is_slippery = 1, except \
                        for the time limit of 200 steps: Gymnasium has none."
                .into(),
            variant_of: None,
            obs: ObsSpace::index(COLUMNS * ROWS),
            obs_names: names(["row * 12 + column"]),
            actions: ActionSpace::Discrete(vec![4]),
            action_names: names(["up", "right", "down", "left"]),
            metrics: Vec::new(),
            time_limit: 200,
            fps: 6.0,
            options: vec![EnvOption::flag(
                "is_slippery",
                false,
                "whether a move slips to either side, with probability 1/3 each",
            )],
            preset: Some(include_str!("../../presets/cliff_walking.toml").into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        self.spec().check_option(name, value)?;
        self.is_slippery = value.is_on();
        Ok(())
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, _: &mut Draws<L>) -> State<L> {
        State { cell: L::Uint::splat(START) }
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let aside = self.is_slippery.then_some(1.0 / 3.0);
        let moved = slipped::<L>(aside, 1.0 / 3.0, *action, draws.unit());
        let (cell, event) = self.moves.go(s.cell, moved);
        let reward = event.eq(u(FALL)).select(f(-100.0), f(-1.0));
        Step { state: State { cell }, reward, terminated: event.eq(u(ARRIVE)) }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 1] {
        [s.cell]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        board(COLUMNS, ROWS, s.cell.0, |cell| match cell {
            GOAL => GREEN,
            _ if cell > START => RED,
            _ => GREY,
        })
    }
}
