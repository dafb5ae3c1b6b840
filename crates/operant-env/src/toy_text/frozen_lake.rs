//! FrozenLake: cross a frozen lake to the goal without falling into a hole.
//!
//! Gymnasium's FrozenLake-v1 with its two maps, options and time limits.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use super::{FAMILY, Moves, board, slipped};
use crate::spec::{OptionError, OptionValue, names};
use crate::{ActionSpace, BLUE, Env, EnvOption, EnvSpec, GREEN, GREY, ObsSpace, Scene, Step};

/// The holes of the maps, one bit per cell, row by row.
const HOLES_4: u64 = 1 << 5 | 1 << 7 | 1 << 11 | 1 << 12;
const HOLES_8: u64 =
    1 << 19 | 1 << 29 | 1 << 35 | 1 << 41 | 1 << 42 | 1 << 46 | 1 << 49 | 1 << 52 | 1 << 54 | 1 << 59;
/// Column and row offsets of left, down, right and up.
const WAYS: [[i32; 2]; 4] = [[-1, 0], [0, 1], [1, 0], [0, -1]];
/// What happens in a cell.
const HOLE: u32 = 1;
const GOAL: u32 = 2;

bundle! {
    /// The walker.
    pub struct State {
        /// The walker's cell, row by row.
        cell: Uint,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct FrozenLake {
    side: u32,
    holes: u64,
    moves: Moves,
    is_slippery: bool,
    success_rate: f64,
}

impl FrozenLake {
    /// The map of 4 x 4 cells.
    pub fn four() -> Self {
        Self::new(4, HOLES_4)
    }

    /// The map of 8 x 8 cells.
    pub fn eight() -> Self {
        Self::new(8, HOLES_8)
    }

    fn new(side: u32, holes: u64) -> Self {
        let goal = side * side - 1;
        let event = |cell| if cell == goal { GOAL } else { (holes >> cell & 1) as u32 * HOLE };
        let moves = Moves::new(goal as i32 + 1, side as i32, WAYS, |cell| (cell, event(cell)));
        FrozenLake { side, holes, moves, is_slippery: true, success_rate: 1.0 / 3.0 }
    }
}

impl Env for FrozenLake {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        let is_four = self.side == 4;
        let aliases: &[&str] = if is_four { &["FrozenLake-v1", "FrozenLake"] } else { &["FrozenLake8x8-v1"] };
        let preset = if is_four {
            include_str!("../../presets/frozen_lake.toml")
        } else {
            include_str!("../../presets/frozen_lake_8x8.toml")
        };
        EnvSpec {
            name: if is_four { "frozen_lake" } else { "frozen_lake_8x8" }.into(),
            aliases: aliases.iter().map(|&alias| alias.into()).collect(),
            family: FAMILY.into(),
            summary: format!("cross {0} x {0} cells of ice with holes; +1 at the goal", self.side),
            rules: "Walk left, down, right or up to the goal in the opposite corner. On slippery ice a move may slip to \
                    either side, by default with probability 1/3 each. A hole ends the episode."
                .into(),
            reference: format!(
                "Identical to Gymnasium's FrozenLake-v1 with map {0}x{0}, including the time limit. Other maps and \
                 reward schedules are not supported.",
                self.side
            ),
            variant_of: (!is_four).then(|| "frozen_lake".into()),
            obs: ObsSpace::index(self.side * self.side),
            obs_names: names(["row * side + column"]),
            actions: ActionSpace::Discrete(vec![4]),
            action_names: names(["left", "down", "right", "up"]),
            metrics: Vec::new(),
            time_limit: if is_four { 100 } else { 200 },
            fps: 6.0,
            options: vec![
                EnvOption::flag("is_slippery", true, "whether moves can slip"),
                EnvOption::number(
                    "success_rate",
                    1.0 / 3.0,
                    0.0,
                    1.0,
                    "probability that a move on slippery ice is the intended one",
                ),
            ],
            preset: Some(preset.into()),
            ..EnvSpec::default()
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        match self.spec().check_option(name, value)?.name.as_str() {
            "is_slippery" => self.is_slippery = value.is_on(),
            _ => self.success_rate = value.number(),
        }
        Ok(())
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, _: &mut Draws<L>) -> State<L> {
        State { cell: L::Uint::splat(0) }
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let aside = self.is_slippery.then_some((1.0 - self.success_rate) / 2.0);
        let moved = slipped::<L>(aside, self.success_rate, *action, draws.unit());
        let (cell, event) = self.moves.go(s.cell, moved);
        let goal = event.eq(L::Uint::splat(GOAL));
        let reward = goal.select(L::Float::splat(1.0), L::Float::splat(0.0));
        Step { state: State { cell }, reward, terminated: event.ne(L::Uint::splat(0)) }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 1] {
        [s.cell]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let goal = self.side * self.side - 1;
        board(self.side, self.side, s.cell.0, |cell| match cell {
            _ if self.holes >> cell & 1 == 1 => BLUE,
            _ if cell == goal => GREEN,
            _ => GREY,
        })
    }
}
