//! Bodies where no reference data is: how episodes begin, that random play stays exact, what becomes of numbers that are too large, and
//! bodies at rest. tests/data/README.md is about steps.

use std::f64::consts::TAU;

use operant_env::play::{Outputs, RandomActions};
use operant_env::replay::{Arithmetic, Case, Outcome};
use operant_env::{TileSpec, builtin};

use crate::flight::{fills, make, range, starts};

/// Joints of each body; Ant's orientation has four positions, and three velocities.
const JOINTS: [(&str, usize); 8] = [
    ("half_cheetah", 9),
    ("hopper", 6),
    ("walker2d", 9),
    ("ant", 14),
    ("swimmer", 5),
    ("reacher", 2),
    ("inverted_pendulum", 2),
    ("inverted_double_pendulum", 3),
];

/// Positions of a body with this many joints.
fn positions(name: &str, joints: usize) -> usize {
    joints + usize::from(name == "ant")
}

/// What the noise on a position of the first state is around.
fn middle(name: &str, position: usize) -> f64 {
    match (name, position) {
        ("hopper" | "walker2d", 1) => 1.25,
        ("ant", 2) => 0.75,
        ("ant", 3) => 1.0,
        _ => 0.0,
    }
}

/// Mean, standard deviation, and fourth central moment by the square of the variance, of 4,096 numbers.
fn moments(numbers: &[f64]) -> [f64; 3] {
    let mean_of = |power: i32, about: f64| {
        numbers.iter().map(|number| (number - about).powi(power)).sum::<f64>() / numbers.len() as f64
    };
    let mean = mean_of(1, 0.0);
    let variance = mean_of(2, mean);
    [mean, variance.sqrt(), mean_of(4, mean) / (variance * variance)]
}

#[test]
fn the_list_has_all_bodies() {
    let bodies = builtin().envs().iter().filter(|env| env.spec().family == "bodies").count();
    assert_eq!(bodies, JOINTS.len());
}

#[test]
fn episodes_begin_with_the_noise_of_the_rules() {
    for (name, joints) in JOINTS {
        let own = match name {
            "hopper" | "walker2d" => 5e-3,
            "inverted_pendulum" => 0.01,
            _ => 0.1,
        };
        let is_normal = matches!(name, "half_cheetah" | "inverted_double_pendulum" | "ant");
        for scale in [own, 0.3] {
            let options: &[(&str, f64)] = if scale == own { &[] } else { &[("reset_noise_scale", scale)] };
            if name == "reacher" && scale != own {
                continue;
            }
            let first = starts(name, options);
            let column = |k: usize| first.iter().map(|state| state[k]).collect::<Vec<f64>>();
            for joint in 0..positions(name, joints) {
                let (middle, position) = (middle(name, joint), range(&first, |state| state[joint]));
                assert!(fills(position, middle - scale, middle + scale), "{name} {joint}: {position:?}");
            }
            for joint in 0..joints {
                let velocities = column(positions(name, joints) + joint);
                // A uniform number of up to 1 has the deviation 1 / sqrt 3 and the fourth moment 1.8; a normal one has 3.
                let (bound, [deviation, fourth]) = match name {
                    "reacher" => (0.005, [0.005 / 3f64.sqrt(), 1.8]),
                    _ if is_normal => (f64::INFINITY, [scale, 3.0]),
                    _ => (scale, [scale / 3f64.sqrt(), 1.8]),
                };
                let [mean, own_deviation, own_fourth] = moments(&velocities);
                assert!(velocities.iter().all(|v| v.abs() <= bound * (1.0 + 1e-6)), "{name} {joint}");
                // Five standard errors of a mean of 4,096, and of the other two.
                assert!(mean.abs() < deviation * 5.0 / 64.0, "{name} {joint}: mean {mean}");
                assert!((own_deviation / deviation - 1.0).abs() < 0.06, "{name} {joint}: {own_deviation}");
                assert!((own_fourth - fourth).abs() < 0.4, "{name} {joint}: fourth moment {own_fourth}");
            }
        }
    }
}

#[test]
fn targets_of_the_reacher_lie_anywhere_in_the_disc() {
    let first = starts("reacher", &[]);
    // Leaves: positions, velocities and accelerations of two joints, two counters, the target.
    let target = |state: &[f64]| [state[8], state[9]];
    let squares: Vec<f64> =
        first.iter().map(|state| target(state).map(|part| part * part).iter().sum()).collect();
    // The squared radius is uniform up to 0.04.
    assert!(fills(squares.iter().fold([1.0, 0.0], |[a, b]: [f64; 2], &r| [a.min(r), b.max(r)]), 0.0, 0.04));
    let [mean, deviation, _] = moments(&squares);
    assert!(
        (mean - 0.02).abs() < 0.001 && (deviation - 0.04 / 12f64.sqrt()).abs() < 0.0006,
        "{mean} {deviation}"
    );
    let angle = range(&first, |state| target(state)[1].atan2(target(state)[0]));
    assert!(fills(angle, -TAU / 2.0, TAU / 2.0), "{angle:?}");
}

#[test]
fn random_play_is_solved_and_does_not_diverge() {
    const ROWS: usize = 32;
    for (name, _) in JOINTS {
        let env = make(name, &[]);
        let spec = env.spec();
        let named =
            |what: &str| spec.metrics.iter().position(|metric| metric.name == what).expect("a metric");
        let counters = [named("unsolved"), named("diverged")];
        let mut stepper = env.stepper(TileSpec::new(3, 0, ROWS)).expect("made of lanes");
        let mut outputs = Outputs::new(&spec, env.masked(), ROWS);
        let mut random = RandomActions::new(spec.actions.clone(), 3, 0, ROWS);
        let mut actions = vec![0.0; spec.actions.components() * ROWS];
        let (mut episodes, mut counts) = (0, [0.0; 2]);
        stepper.observe(outputs.seen()).expect("made of lanes");
        for step in 0..1000 {
            random.fill(step, &outputs.legal, &mut actions);
            stepper.submit(&actions, step).expect("made of lanes");
            stepper.collect(outputs.stepped()).expect("made of lanes");
            for row in (0..ROWS).filter(|&row| outputs.ended(row) != [false; 2]) {
                episodes += 1;
                for (count, counter) in counts.iter_mut().zip(counters) {
                    *count += outputs.metrics[counter * ROWS + row];
                }
            }
        }
        assert!(episodes >= ROWS, "{name}: {episodes} episodes");
        // In one of 600,000 evaluations of Ant a row whose value is 0 up to rounding turns on and off for ever.
        let most = [if name == "ant" { 1.0 } else { 0.0 }, 0.0];
        assert!(counts[0] <= most[0] && counts[1] <= most[1], "{name}: unsolved and diverged are {counts:?}");
    }
}

/// A state with these velocities; at the origin, above a floor.
fn moving(name: &str, joints: usize, velocity: f64) -> Vec<f64> {
    let positions = positions(name, joints);
    let mut state: Vec<f64> = (0..positions).map(|position| middle(name, position)).collect();
    state.resize(positions + joints, 0.0);
    if name == "reacher" {
        // The arm's two angles and the target's place, then their velocities.
        state = vec![0.0, 0.0, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0];
        state[4] = velocity;
    } else {
        state[positions] = velocity;
    }
    if name == "ant" {
        // Where the main body was at the last evaluation.
        state.push(0.0);
    }
    state
}

fn replay(name: &str, options: &[(&str, f64)], arithmetic: Arithmetic, case: &Case) -> Outcome {
    make(name, options).replay(arithmetic, case).expect("a good case")
}

#[test]
fn an_episode_ends_without_reward_where_numbers_become_too_large() {
    for (name, joints) in JOINTS {
        let actions = builtin().find(name).expect("a body").spec().actions.components();
        // The velocity is multiplied by itself, and by a tenth of a second.
        for velocity in [3e10, 1e30] {
            let state = moving(name, joints, velocity);
            let case = Case { state: state.clone(), actions: vec![vec![0.5; actions]; 3], draws: None };
            for arithmetic in [Arithmetic::F64, Arithmetic::F32, Arithmetic::Wide] {
                let outcome = replay(name, &[], arithmetic, &case);
                let what = format!("{name} at {velocity:e} in {arithmetic:?}");
                assert_eq!(
                    (outcome.reward.as_slice(), outcome.terminated.as_slice()),
                    (&[0.0][..], &[true][..]),
                    "{what}"
                );
                assert!(
                    outcome.obs[0].iter().all(|number| number.is_finite()),
                    "{what}: {:?}",
                    outcome.obs[0]
                );
                for (after, before) in outcome.state[0].iter().zip(&state) {
                    assert!((after - before).abs() <= 1e-6 * before.abs(), "{what}: {:?}", outcome.state[0]);
                }
            }
        }
    }
}

#[test]
fn bodies_without_motors_come_to_rest_on_the_floor() {
    let stands = [("terminate_when_unhealthy", 0.0)];
    for (name, joints, options) in
        [("half_cheetah", 9, &[][..]), ("hopper", 6, &stands), ("walker2d", 9, &stands), ("ant", 14, &stands)]
    {
        let actions = builtin().find(name).expect("a body").spec().actions.components();
        let case =
            Case { state: moving(name, joints, 1.0), actions: vec![vec![0.0; actions]; 1000], draws: None };
        for arithmetic in [Arithmetic::F64, Arithmetic::F32, Arithmetic::Wide] {
            let last = replay(name, options, arithmetic, &case).state.pop().expect("steps");
            let first = positions(name, joints);
            let fastest = last[first..first + joints].iter().fold(0.0f64, |most, v| most.max(v.abs()));
            assert!(fastest < 0.02, "{name} in {arithmetic:?} still moves: {last:?}");
        }
    }
}
