//! Replaying steps whose random numbers are given: every lane of the host takes them, and a list that is not what the
//! rules draw is refused.

use operant_env::replay::{Arithmetic, Case, CaseError};
use operant_env::{ActionSpace, AnyEnv, Env, EnvSpec, ObsSpace, Scene, Step, builtin};
use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, bundle};

bundle! {
    /// What was drawn last.
    pub struct State {
        /// The whole number, negative where it was 5.
        whole: Int,
        /// The number below 6.
        below: Uint,
        /// The uniform.
        uniform: Float,
    }
}

/// Draws a whole number from 1 to 5, one below 6, and a uniform if the first is 5.
#[derive(Debug, Clone, Default)]
struct Dice;

impl Env for Dice {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 1];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "dice".into(),
            summary: "throw dice".into(),
            obs: ObsSpace::Box { low: vec![0.0], high: vec![1.0] },
            actions: ActionSpace::Discrete(vec![2]),
            time_limit: 10,
            fps: 10.0,
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, _: &mut Draws<L>) -> State<L> {
        State { whole: L::Int::splat(0), below: L::Uint::splat(0), uniform: L::Float::splat(0.0) }
    }

    fn step<L: Lane>(&self, s: &State<L>, _: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let whole = draws.integer(1, 5).to_int();
        let below = draws.below(6);
        let five = whole.ge(L::Int::splat(5));
        let uniform = L::when(five, s.uniform, |_| draws.unit());
        let whole = five.select(L::Int::splat(0) - whole, whole);
        Step { state: State { whole, below, uniform }, reward: uniform, terminated: L::Mask::splat(false) }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 1] {
        [s.uniform]
    }

    fn draw(&self, _: &State<f32>) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }
}

fn case(draws: &[&[f64]]) -> Case {
    Case {
        state: vec![-3.0, 0.0, 0.25],
        actions: vec![vec![0.0]; draws.len()],
        draws: Some(draws.iter().map(|step| step.to_vec()).collect()),
    }
}

#[test]
fn given_draws_are_taken_in_order_on_every_lane() {
    let case = case(&[&[2.0, 0.0], &[5.0, 3.0, 0.75], &[1.0, 5.0]]);
    for arithmetic in [Arithmetic::F64, Arithmetic::F32, Arithmetic::Wide] {
        let outcome = Dice.replay(arithmetic, &case).expect("what the rules draw");
        let expected = [[2.0, 0.0, 0.25], [-5.0, 3.0, 0.75], [1.0, 5.0, 0.75]];
        assert_eq!(outcome.state, expected, "{arithmetic:?}");
    }
}

#[test]
fn draws_that_the_rules_do_not_make_are_refused() {
    let missing = "number 2 of this step is drawn from the whole numbers 0 to 5";
    let bad: [(&[f64], &str); 6] = [
        (&[], "number 1 of this step is drawn from the whole numbers 1 to 5"),
        (&[2.0], missing),
        (&[2.0, 6.0], missing),
        (&[0.5, 0.0], "number 1 of this step is drawn from the whole numbers 1 to 5"),
        (&[5.0, 0.0, 1.0], "number 3 of this step is drawn from [0, 1)"),
        (&[2.0, 0.0, 0.5], "the step draws 2 numbers"),
    ];
    for (draws, expected) in bad {
        let error = Dice.replay(Arithmetic::Wide, &case(&[&[1.0, 1.0], draws])).expect_err("a wrong list");
        let CaseError::Draws { index: 1, problem, .. } = &error else { panic!("{error}") };
        assert_eq!(problem, expected, "{draws:?}");
    }
    let mut short = case(&[&[1.0, 1.0]]);
    short.actions.push(vec![1.0]);
    let error = Dice.replay(Arithmetic::F64, &short).expect_err("a list is missing");
    assert_eq!(error, CaseError::DrawsCount { got: 1, expected: 2 });
    assert_eq!(error.to_string(), "`draws` has 1 list for 2 actions");
    assert_eq!(Dice.case_words(&case(&[])), Err(CaseError::DrawsOnDevice));
}

#[test]
fn without_given_draws_chance_is_that_of_a_stream() {
    let case = Case { draws: None, ..case(&[&[], &[]]) };
    let once = Dice.replay(Arithmetic::F32, &case).expect("a good case");
    assert_eq!(once, Dice.replay(Arithmetic::Wide, &case).expect("a good case"));
    assert!((1..=5).contains(&(once.state[0][0].abs() as i32)), "{once:?}");
}

#[test]
fn a_negative_number_is_refused_where_the_state_has_no_sign() {
    let error = |state: [f64; 3]| {
        let case = Case { state: state.to_vec(), actions: vec![vec![0.0]], draws: None };
        Dice.replay(Arithmetic::F64, &case)
            .map(|_| ())
            .map_err(|error| format!("{error}; {}", error.remedy()))
    };
    assert_eq!(error([-3.0, 1.0, -0.5]), Ok(()));
    assert_eq!(
        error([0.0, -1.0, 0.0]),
        Err("`state[1]` = -1; dice has a whole number of at least 0 there".into())
    );
    assert_eq!(error([0.5, 0.0, 0.0]), Err("`state[0]` = 0.5; dice has a whole number there".into()));
}

#[test]
fn a_state_that_no_grid_of_minigrid_has_is_refused() {
    let message = |env: &str, changes: &[(usize, f64)]| {
        let env = builtin().find(env).expect("a task").clone();
        let width = if env.spec().name.ends_with("5x5") { 5 } else { 6 };
        let extra = if env.spec().name.contains("obstacles") { 4 } else { 8 };
        let mut state = vec![width as f64; 2];
        (0..width * width).for_each(|_| state.extend([1.0, 0.0, 0.0]));
        state.extend([1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        let mission = if extra == 4 { vec![2.0; 4] } else { vec![1.0, 5.0, 2.0, 6.0, 3.0, 3.0] };
        state.extend(mission);
        for &(index, value) in changes {
            state[index] = value;
        }
        let case = Case { state, actions: vec![vec![0.0]], draws: None };
        env.replay(Arithmetic::F64, &case).map(|_| ()).map_err(|error| format!("{error}; {}", error.remedy()))
    };
    let (put, obstacles) = ("minigrid_putnear_6x6_n2", "minigrid_dynamic_obstacles_5x5");
    assert_eq!(message(put, &[]), Ok(()));
    assert_eq!(message(obstacles, &[]), Ok(()));
    let agent = 2 + 3 * 36;
    let bad = [
        (0, 5.0, "the width 6"),
        (1, 7.0, "the height 6"),
        (2, 3.0, "a type of 1, 2 or 4 to 9"),
        (2, 10.0, "a type of 1, 2 or 4 to 9"),
        (3, 6.0, "a colour from 0 to 5"),
        (4, 3.0, "a state from 0 to 2"),
        (agent, 6.0, "a column from 0 to 5"),
        (agent + 1, -1.0, "a row from 0 to 5"),
        (agent + 2, 4.0, "a direction from 0 to 3"),
        (agent + 3, 4.0, "a carried type of 0 or 5 to 7"),
        (agent + 4, 6.0, "a colour from 0 to 5"),
        (agent + 6, 6.0, "a number from 0 to 5"),
        (agent + 7, 0.5, "a number from 0 to 7"),
    ];
    for (index, value, what) in bad {
        let expected = format!("`state[{index}]` = {value}; {put} has {what} there");
        assert_eq!(message(put, &[(index, value)]), Err(expected));
    }
    let ball = 2 + 3 * 25 + 6;
    for (index, name) in [(ball, "column"), (ball + 1, "row"), (ball + 2, "column")] {
        let expected = format!("`state[{index}]` = 4; {obstacles} has a {name} from 1 to 3 there");
        assert_eq!(message(obstacles, &[(index, 4.0)]), Err(expected));
    }
}
