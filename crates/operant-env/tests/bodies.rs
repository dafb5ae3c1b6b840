//! Bodies where no reference data is: how episodes begin, that random play stays exact, what becomes of numbers that are too large, and
//! bodies at rest. tests/data/README.md is about steps.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use operant_env::play::{Outputs, RandomActions};
use operant_env::replay::{Arithmetic, Case, Outcome};
use operant_env::{AnyEnv, EnvSpec, Stepper, TileSpec, builtin, running_words};

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

/// The leaves of Reacher's target: after positions, velocities and accelerations of two joints, two counters and two terms of the reward.
const TARGET: std::ops::Range<usize> = 10..12;

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

/// Mean, standard deviation, and fourth central moment by the square of the variance.
fn moments(numbers: &[f64]) -> [f64; 3] {
    let mean_of = |power: i32, about: f64| {
        numbers.iter().map(|number| (number - about).powi(power)).sum::<f64>() / numbers.len() as f64
    };
    let mean = mean_of(1, 0.0);
    let variance = mean_of(2, mean);
    [mean, variance.sqrt(), mean_of(4, mean) / (variance * variance)]
}

/// The correlation of two columns of numbers.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let [[a_mean, a_deviation, _], [b_mean, b_deviation, _]] = [moments(a), moments(b)];
    let products = a.iter().zip(b).map(|(a, b)| (a - a_mean) * (b - b_mean));
    products.sum::<f64>() / (a.len() as f64 * a_deviation * b_deviation)
}

/// The noise of a coordinate.
#[derive(Clone, Copy)]
enum Noise {
    /// Uniform up to this from the middle.
    Uniform(f64),
    /// Normal with this deviation.
    Normal(f64),
}

impl Noise {
    /// Asserts the moments of 4,096 numbers, to five standard errors.
    fn check(self, what: &str, numbers: &[f64], middle: f64) {
        let [mean, deviation, fourth] = moments(numbers);
        let [own_deviation, own_fourth, deviation_slack, fourth_slack] = match self {
            Noise::Uniform(bound) => {
                let column = numbers.iter().map(|number| vec![*number]).collect::<Vec<_>>();
                let filled = range(&column, |number| number[0]);
                assert!(fills(filled, middle - bound, middle + bound), "{what}: {filled:?}");
                [bound / 3f64.sqrt(), 1.8, 0.035, 0.1]
            }
            Noise::Normal(deviation) => [deviation, 3.0, 0.056, 0.4],
        };
        assert!((mean - middle).abs() < own_deviation * 5.0 / 64.0, "{what}: mean {mean}");
        assert!((deviation / own_deviation - 1.0).abs() < deviation_slack, "{what}: deviation {deviation}");
        assert!((fourth - own_fourth).abs() < fourth_slack, "{what}: fourth moment {fourth}");
    }
}

/// The noise of a task's positions and velocities, at this scale.
fn noise(name: &str, scale: f64) -> [Noise; 2] {
    match name {
        "reacher" => [Noise::Uniform(0.1), Noise::Uniform(0.005)],
        "half_cheetah" | "inverted_double_pendulum" | "ant" => [Noise::Uniform(scale), Noise::Normal(scale)],
        _ => [Noise::Uniform(scale); 2],
    }
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
        for scale in [own, 0.3] {
            let options: &[(&str, f64)] = if scale == own { &[] } else { &[("reset_noise_scale", scale)] };
            if name == "reacher" && scale != own {
                continue;
            }
            let first = starts(name, options);
            let positions = positions(name, joints);
            // The leaves of the state begin with positions and velocities.
            let target = if name == "reacher" { TARGET } else { 0..0 };
            let columns: Vec<Vec<f64>> = (0..positions + joints)
                .chain(target)
                .map(|leaf| first.iter().map(|state| state[leaf]).collect())
                .collect();
            let [of_positions, of_velocities] = noise(name, scale);
            for (k, column) in columns[..positions + joints].iter().enumerate() {
                let of_own = if k < positions { of_positions } else { of_velocities };
                let middle = if k < positions { middle(name, k) } else { 0.0 };
                of_own.check(&format!("{name} {k} at {scale}"), column, middle);
            }
            for (k, a) in columns.iter().enumerate() {
                for (other, b) in columns[..k].iter().enumerate() {
                    let both = correlation(a, b);
                    // Five standard errors, of up to 406 pairs a task.
                    assert!(both.abs() < 5.0 / 64.0, "{name}: {k} and {other} have a correlation of {both}");
                }
            }
        }
    }
}

#[test]
fn targets_of_the_reacher_lie_anywhere_in_the_disc() {
    let first = starts("reacher", &[]);
    let target = |state: &[f64]| [state[TARGET.start], state[TARGET.start + 1]];
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

/// A task that is played for a test.
struct Played {
    spec: EnvSpec,
    stepper: Box<dyn Stepper>,
    outputs: Outputs,
    random: RandomActions,
    actions: Vec<f32>,
    steps: u64,
}

impl Played {
    const ROWS: usize = 256;

    fn of(env: &dyn AnyEnv) -> Self {
        let spec = env.spec();
        let mut stepper = env.stepper(TileSpec::new(3, 0, Self::ROWS)).expect("made of lanes");
        let mut outputs = Outputs::new(&spec, env.masked(), Self::ROWS);
        stepper.observe(outputs.seen()).expect("made of lanes");
        let random = RandomActions::new(spec.actions.clone(), 3, 0, Self::ROWS);
        let actions = vec![0.0; spec.actions.components() * Self::ROWS];
        Played { spec, stepper, outputs, random, actions, steps: 0 }
    }

    fn step(&mut self) {
        self.random.fill(self.steps, &self.outputs.legal, &mut self.actions);
        self.stepper.submit(&self.actions, self.steps).expect("made of lanes");
        self.stepper.collect(self.outputs.stepped()).expect("made of lanes");
        self.steps += 1;
    }

    /// The running environments, as the stepper saves them.
    fn saved(&self, env: &dyn AnyEnv) -> Vec<u32> {
        let mut words = vec![0; running_words(env) * Self::ROWS];
        self.stepper.save(&mut words);
        words
    }

    /// The rows whose episodes have ended in the last step.
    fn ended(&self) -> impl Iterator<Item = usize> {
        (0..Self::ROWS).filter(|&row| self.outputs.ended(row) != [false; 2])
    }

    /// A metric of a row whose episode has ended.
    fn metric(&self, name: &str, row: usize) -> f32 {
        let number = self.spec.metrics.iter().position(|metric| metric.name == name).expect("a metric");
        self.outputs.metrics[number * Self::ROWS + row]
    }
}

/// Where a leaf of the state is.
fn leaf(env: &dyn AnyEnv, name: &str) -> usize {
    let leaves = env.leaves();
    let found = leaves.iter().position(|leaf| leaf.name.ends_with(name));
    found.unwrap_or_else(|| {
        panic!("no {name} in {:?}", leaves.iter().map(|leaf| &leaf.name).collect::<Vec<_>>())
    })
}

#[test]
fn random_play_is_solved_finite_and_does_not_diverge() {
    for (name, _) in JOINTS {
        let env = make(name, &[]);
        let mut play = Played::of(&*env);
        let (mut episodes, mut counts) = (0, [0.0; 2]);
        for step in 0..1000 {
            play.step();
            let finite = |words: &[u32]| words.iter().all(|word| f32::from_bits(*word).is_finite());
            assert!(finite(&play.outputs.obs), "{name}: an observation of step {step} is not finite");
            assert!(
                play.outputs.rewards.iter().all(|reward| reward.is_finite()),
                "{name}: reward of step {step}"
            );
            for row in play.ended() {
                episodes += 1;
                counts[0] += play.metric("unsolved", row);
                counts[1] += play.metric("diverged", row);
            }
        }
        // Also of the episodes that still run.
        let words = play.saved(&*env);
        for (count, name) in counts.iter_mut().zip(["unsolved", "diverged"]) {
            let column = &words[leaf(&*env, name) * Played::ROWS..][..Played::ROWS];
            *count += column.iter().map(|word| f32::from_bits(*word)).sum::<f32>();
        }
        assert!(episodes >= Played::ROWS, "{name}: {episodes} episodes");
        // In about one of a million evaluations of Ant, of which there are 5 million here, a row whose value is 0 up to rounding turns on
        // and off for ever.
        let most = [if name == "ant" { 10.0 } else { 0.0 }, 0.0];
        assert!(counts[0] <= most[0] && counts[1] <= most[1], "{name}: unsolved and diverged are {counts:?}");
    }
}

#[test]
fn episodes_that_diverge_are_counted_and_others_are_not() {
    for (name, joints) in JOINTS {
        let env = make(name, &[]);
        let mut play = Played::of(&*env);
        play.step();
        let mut words = play.saved(&*env);
        let fast: Vec<usize> = (0..Played::ROWS).step_by(37).collect();
        let velocity = if name == "reacher" { 2 } else { positions(name, joints) };
        for &row in &fast {
            words[velocity * Played::ROWS + row] = 3e10f32.to_bits();
        }
        play.stepper.load(&words).expect("the same environment");
        play.step();
        for row in 0..Played::ROWS {
            let ended = play.outputs.ended(row)[0];
            if fast.contains(&row) {
                assert!(ended, "{name}: the episode of row {row} goes on");
                assert_eq!(
                    (play.metric("diverged", row), play.outputs.rewards[row]),
                    (1.0, 0.0),
                    "{name} {row}"
                );
            } else if ended {
                assert_eq!(play.metric("diverged", row), 0.0, "{name} {row}");
            }
        }
        let words = play.saved(&*env);
        let column = &words[leaf(&*env, "diverged") * Played::ROWS..][..Played::ROWS];
        assert!(column.iter().all(|word| *word == 0), "{name}: the next episodes begin without");
    }
}

/// The terms of each task's reward, each with the option that it is proportional to.
const TERMS: [(&str, &[[&str; 2]]); 7] = [
    ("half_cheetah", &[FORWARD, CTRL]),
    ("hopper", &[FORWARD, CTRL, SURVIVE]),
    ("walker2d", &[FORWARD, CTRL, SURVIVE]),
    ("ant", &[FORWARD, CTRL, ["reward_contact", "contact_cost_weight"], SURVIVE]),
    ("swimmer", &[FORWARD, CTRL]),
    ("reacher", &[["reward_dist", "reward_dist_weight"], ["reward_ctrl", "reward_control_weight"]]),
    ("inverted_double_pendulum", &[SURVIVE, ["distance_penalty", ""], ["velocity_penalty", ""]]),
];
const FORWARD: [&str; 2] = ["reward_forward", "forward_reward_weight"];
const CTRL: [&str; 2] = ["reward_ctrl", "ctrl_cost_weight"];
const SURVIVE: [&str; 2] = ["reward_survive", "healthy_reward"];

/// Return and metrics of the first episodes, by row: those that end within 1,000 steps of one time step each.
fn first_episodes(name: &str, options: &[(&str, f64)]) -> BTreeMap<usize, Vec<f64>> {
    let options: Vec<_> = options.iter().copied().chain([("frame_skip", 1.0)]).collect();
    let mut play = Played::of(&*make(name, &options));
    let mut episodes = BTreeMap::new();
    while play.steps < 1000 {
        play.step();
        for row in play.ended() {
            let numbers = core::iter::once(play.outputs.returns[row]);
            let numbers =
                numbers.chain(play.spec.metrics.iter().map(|metric| play.metric(&metric.name, row)));
            episodes.entry(row).or_insert_with(|| numbers.map(f64::from).collect());
        }
    }
    episodes
}

#[test]
fn terms_of_the_reward_add_up_to_the_return_and_follow_their_weights() {
    for (name, terms) in TERMS {
        let spec = make(name, &[]).spec();
        let place = |term: &str| {
            1 + spec.metrics.iter().position(|metric| metric.name == term).expect("a metric of that name")
        };
        let episodes = first_episodes(name, &[]);
        assert!(episodes.len() > 100, "{name}: {} episodes", episodes.len());
        let near = |a: f64, b: f64, of: f64| (a - b).abs() <= 1e-4 * (1.0 + of.abs());
        for (row, numbers) in &episodes {
            let sum: f64 = terms.iter().map(|[term, _]| numbers[place(term)]).sum();
            assert!(near(sum, numbers[0], numbers[0]), "{name} {row}: {sum} for a return of {}", numbers[0]);
        }
        for [term, option] in terms.iter().filter(|[_, option]| !option.is_empty()) {
            let known = spec.options.iter().find(|known| known.name == *option).expect("an option");
            let doubled = first_episodes(name, &[(*option, 2.0 * known.default.number())]);
            let mut most = 0.0f64;
            for (row, numbers) in &episodes {
                let (term_sum, more) = (numbers[place(term)], doubled[row][0] - numbers[0]);
                assert!(near(term_sum, more, numbers[0]), "{name} {row} {term}: {term_sum}, not {more}");
                most = most.max(term_sum.abs());
            }
            assert!(most > 1e-2, "{name} {term}: at most {most}");
        }
    }
}

#[test]
fn the_double_pendulum_pays_for_the_speeds_of_its_poles() {
    let name = "inverted_double_pendulum";
    let mut play = Played::of(&*make(name, &[]));
    let (mut costs, mut compared) = (vec![0.0; Played::ROWS], 0);
    while compared < 100 {
        play.step();
        for row in 0..Played::ROWS {
            let ended = play.outputs.ended(row) != [false; 2];
            let obs = if ended { &play.outputs.final_obs } else { &play.outputs.obs };
            let [first, second] = [6, 7].map(|k| f32::from_bits(obs[k * Played::ROWS + row]));
            costs[row] += 1e-3 * first * first + 5e-3 * second * second;
            if first.abs().max(second.abs()) >= 10.0 {
                costs[row] = f32::NAN; // Observed speeds are clipped.
            }
            if ended {
                let penalty = play.metric("velocity_penalty", row);
                assert!(
                    costs[row].is_nan() || (penalty + costs[row]).abs() < 1e-4,
                    "{row}: {penalty}, not {}",
                    -costs[row]
                );
                compared += usize::from(!costs[row].is_nan());
                costs[row] = 0.0;
            }
        }
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

/// A body whose torso leans forward by an angle, with a unit velocity along x.
fn leaning(name: &str, joints: usize, angle: f64) -> Vec<f64> {
    let mut state = moving(name, joints, 1.0);
    if name == "ant" {
        (state[3], state[5]) = ((0.5 * angle).cos(), (0.5 * angle).sin());
    } else {
        state[2] = angle;
    }
    state
}

#[test]
fn bodies_without_motors_come_to_rest_on_the_floor_and_gain_no_energy_there() {
    let stands = [("terminate_when_unhealthy", 0.0)];
    // Contacts are soft, so that a body at rest still creeps: Hopper's joints unfold by up to 0.03 rad/s while it sinks.
    for (name, joints, options, creeps) in [
        ("half_cheetah", 9, &[][..], 1e-4),
        ("hopper", 6, &stands, 0.05),
        ("walker2d", 9, &stands, 0.01),
        ("ant", 14, &stands, 0.005),
    ] {
        let actions = builtin().find(name).expect("a body").spec().actions.components();
        let first = positions(name, joints);
        let height = if name == "ant" { 2 } else { 1 };
        let fastest = |state: &[f64]| {
            state[first..first + joints].iter().fold(0.0f64, |most, velocity| most.max(velocity.abs()))
        };
        for angle in [0.0, 1.5, 3.0] {
            for arithmetic in [Arithmetic::F64, Arithmetic::F32, Arithmetic::Wide] {
                let what = format!("{name} at {angle} in {arithmetic:?}");
                let thousand = |state: &[f64]| {
                    let actions = vec![vec![0.0; actions]; 1000];
                    replay(name, options, arithmetic, &Case { state: state.to_vec(), actions, draws: None })
                        .state
                };
                let mut rest = thousand(&leaning(name, joints, angle)).pop().expect("steps");
                assert!(fastest(&rest) < creeps, "{what} still moves: {rest:?}");
                rest[first..first + joints].fill(0.0);
                let states = thousand(&rest);
                let most = states.iter().map(|state| fastest(state)).fold(0.0, f64::max);
                let top = states.iter().map(|state| state[height]).fold(f64::NEG_INFINITY, f64::max);
                assert!(most < creeps, "{what} is set in motion: up to {most}");
                assert!(top < rest[height] + 3e-6, "{what} rises by {}", top - rest[height]);
            }
        }
    }
}
