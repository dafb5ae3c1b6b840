//! {type}: walk to a treasure on a board of 8 x 8 cells.
//!
//! The rules are written once, over lanes `L`: a lane is the arithmetic of one environment, or of 16 at once. So there is no
//! `if` on a lane's values; a comparison gives a mask, and `mask.select(yes, no)` chooses.

use operant_cli::env::lane::{Draws, Float, Lane, Mask, Uint, bundle};
use operant_cli::env::{
    ActionSpace, Env, EnvOption, EnvSpec, ObsSpace, OptionError, OptionValue, Scene, Step, grid,
};

/// Cells along a side.
const SIDE: u32 = 8;
/// Words of an observation: two maps of 64 bits, 32 bits to a word.
const OBS_WORDS: usize = 4;
bundle! {
    /// The state. Every field is saved in checkpoints under its name.
    pub struct State {
        /// Column of the walker, 0 at the left.
        x: Uint,
        /// Row of the walker, 0 at the top.
        y: Uint,
        /// The treasure's cell, 8 row + column.
        treasure: Uint,
    }
}

/// The environment. Its options are fields.
#[derive(Debug, Clone)]
pub struct {type} {
    /// Cost of a step, so that short paths are better.
    cost: f64,
}

impl Default for {type} {
    fn default() -> Self {
        {type} { cost: 0.01 }
    }
}

impl Env for {type} {
    type State<L: Lane> = State<L>;
    /// Bits, 32 to a word. An observation of real numbers would be `[L::Float; N]`.
    type Obs<L: Lane> = [L::Uint; OBS_WORDS];
    /// One choice. Several would be `[L::Uint; N]`, real numbers `[L::Float; N]`.
    type Action<L: Lane> = L::Uint;

    /// Some actions are illegal in some states: `legal` says which. Remove both where all are always legal.
    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "{env}".into(),
            summary: "walk to a treasure on a board of 8 x 8 cells; 1 for it, minus the cost of each step".into(),
            obs: ObsSpace::Binary { shape: vec![2, SIDE as usize, SIDE as usize] },
            actions: ActionSpace::Discrete(vec![4]),
            action_names: ["left", "right", "up", "down"].map(String::from).to_vec(),
            time_limit: 64,
            fps: 8.0,
            // The default is `self.cost`, before `set_option` is called.
            options: vec![EnvOption::number("cost", 0.01, 0.0, 1.0, "cost of a step")],
            preset: Some(include_str!("../preset.toml").into()),
            ..EnvSpec::default()
        }
    }

    /// Sets an option: `--set env.cost=0.02`.
    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        match self.spec().check_option(name, value)?.name.as_str() {
            "cost" => self.cost = value.number(),
            // An option that `spec` lists and this function does not set.
            other => return Err(OptionError::unknown(&self.spec(), other)),
        }
        Ok(())
    }

    /// The start of an episode. All randomness comes from `draws`.
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        State { x: draws.below(SIDE), y: draws.below(SIDE), treasure: draws.below(SIDE * SIDE) }
    }

    /// One step: 0 left, 1 right, 2 up, 3 down.
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        // Whole numbers wrap around: 0 - 1 is 4294967295, so the edge is tested before the step.
        let moves = |choice: u32| action.eq(u(choice)) & self.legal::<L>(s, 0, choice as usize);
        let (left, right, up, down) = (moves(0), moves(1), moves(2), moves(3));
        let x = left.select(s.x - u(1), right.select(s.x + u(1), s.x)).named("x");
        let y = up.select(s.y - u(1), down.select(s.y + u(1), s.y)).named("y");
        let found = (y * u(SIDE) + x).eq(s.treasure).named("found");
        let reward = found.select(f(1.0), f(-self.cost));
        Step { state: State { x, y, treasure: s.treasure }, reward, terminated: found }
    }

    /// Whether the move `choice` is legal: it does not lead into a wall. The policy never chooses another one.
    fn legal<L: Lane>(&self, s: &State<L>, _component: usize, choice: usize) -> L::Mask {
        let (first, last) = (L::Uint::splat(0), L::Uint::splat(SIDE - 1));
        match choice {
            0 => s.x.ne(first),
            1 => s.x.lt(last),
            2 => s.y.ne(first),
            _ => s.y.lt(last),
        }
    }

    /// The observation: a bit for the walker's cell among the first 64, and one for the treasure's among the others.
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; OBS_WORDS] {
        let walker = s.y * L::Uint::splat(SIDE) + s.x;
        let treasure = s.treasure + L::Uint::splat(SIDE * SIDE);
        core::array::from_fn(|word| grid::bit(walker, word) | grid::bit(treasure, word))
    }

    /// The picture that the monitor shows.
    fn draw(&self, s: &State<f32>) -> Scene {
        let (column, row) = ((s.treasure.0 % SIDE) as f32, (s.treasure.0 / SIDE) as f32);
        Scene {
            low: [0.0, 0.0],
            high: [SIDE as f32, SIDE as f32],
            shapes: vec![
                grid::square(SIDE, column, row, 3),
                grid::square(SIDE, s.x.0 as f32, s.y.0 as f32, 2),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use operant_cli::env::replay::{Arithmetic, Case};
    use operant_cli::env::{AnyEnv, LaneWidth};

    use super::*;

    /// Plays actions from x, y and the treasure's cell: rewards, and the x and y after each step.
    fn play(state: [u32; 3], actions: &[u32]) -> (Vec<f64>, Vec<[f64; 2]>) {
        let state = state.map(f64::from).to_vec();
        let actions = actions.iter().map(|action| vec![f64::from(*action)]).collect();
        let case = Case { state, actions, draws: None };
        let outcome = AnyEnv::replay(&{type}::default(), Arithmetic::F64, &case).expect("a state of the environment");
        (outcome.reward, outcome.state.iter().map(|state| [state[0], state[1]]).collect())
    }

    #[test]
    fn walls_stop_the_walker_and_the_treasure_ends_the_episode() {
        let (rewards, places) = play([0, 0, 9], &[0, 2, 1, 3, 1]);
        assert_eq!(places, [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]);
        assert_eq!(rewards, [-0.01, -0.01, -0.01, 1.0]);
        assert_eq!(play([7, 7, 0], &[1, 3]).1, [[7.0, 7.0], [7.0, 7.0]]);
    }

    #[test]
    fn moves_into_walls_are_illegal() {
        let number = |x: u32| <f32 as Lane>::Uint::splat(x);
        let corner = State::<f32> { x: number(0), y: number(SIDE - 1), treasure: number(9) };
        let legal = |choice| {type}::default().legal::<f32>(&corner, 0, choice);
        assert_eq!([0, 1, 2, 3].map(legal), [false, true, true, false]);
    }

    #[test]
    fn the_cost_of_a_step_is_an_option() {
        let mut env = {type}::default();
        Env::set_option(&mut env, "cost", &OptionValue::Number(0.5)).expect("an option");
        assert_eq!(env.cost, 0.5);
        assert!(Env::set_option(&mut env, "cost", &OptionValue::Number(2.0)).is_err(), "at most 1");
        assert!(Env::set_option(&mut env, "price", &OptionValue::Number(0.5)).is_err(), "no option");
    }

    #[test]
    fn wide_lanes_play_the_same_as_the_scalar_lane() {
        let totals = |lanes: LaneWidth| {
            let mut play = {type}::default().random_play(1, 0, 64, lanes).expect("made of lanes");
            play.play(2_000).expect("made of lanes")
        };
        let one = totals(LaneWidth::One);
        assert!(one.episodes > 1_000, "{one:?}");
        let wide = totals(LaneWidth::WIDEST);
        assert_eq!((one.steps, one.episodes), (wide.steps, wide.episodes));
    }
}
