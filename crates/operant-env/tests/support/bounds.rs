//! Random play whose observations must lie in the declared space. Shared by suites.

use operant_env::play::{Outputs, RandomActions};
use operant_env::{ActionSpace, AnyEnv, ObsSpace, TileSpec};

const ROWS: usize = 32;

/// Asserts that the numbers of an observation lie within the bounds of its space.
fn check(name: &str, space: &ObsSpace, words: &[u32]) {
    let mut rest = words;
    for (part_name, part) in space.parts() {
        let (own, after) = rest.split_at(part.words());
        let numbers = part.unpack(own);
        let what = |k: usize| format!("{name} {part_name}: number {k} is {}", numbers[k]);
        if let ObsSpace::Box { low, high } = part {
            for (k, number) in numbers.iter().enumerate() {
                // Observations are float32.
                let [low, high] = [low[k], high[k]].map(|bound| f64::from(bound as f32));
                assert!((low..=high).contains(number), "{}, not from {low} to {high}", what(k));
            }
        }
        for (k, (number, below)) in numbers.iter().zip(part.bounds()).enumerate() {
            assert!(*number < f64::from(below), "{}, not below {below}", what(k));
        }
        rest = after;
    }
    assert!(rest.is_empty(), "{name}: words without a part");
}

/// Plays `steps` steps at random in 32 environments, with real actions beyond their bounds, too.
pub fn observations_stay_in_bounds(env: &dyn AnyEnv, steps: u64) {
    let spec = env.spec();
    let mut stepper = env.stepper(TileSpec::new(9, 0, ROWS)).expect("made of lanes");
    let mut outputs = Outputs::new(&spec, env.masked(), ROWS);
    let mut random = RandomActions::new(spec.actions.clone(), 9, 0, ROWS);
    let mut actions = vec![0.0; spec.actions.components() * ROWS];
    let column =
        |words: &[u32], row: usize| words.iter().skip(row).step_by(ROWS).copied().collect::<Vec<_>>();
    stepper.observe(outputs.seen()).expect("made of lanes");
    for step in 0..steps {
        (0..ROWS).for_each(|row| check(&spec.name, &spec.obs, &column(&outputs.obs, row)));
        random.fill(step, &outputs.legal, &mut actions);
        if matches!(spec.actions, ActionSpace::Box { .. }) {
            actions.iter_mut().for_each(|action| *action *= 1.5);
        }
        stepper.submit(&actions, step).expect("made of lanes");
        stepper.collect(outputs.stepped()).expect("made of lanes");
        for row in (0..ROWS).filter(|&row| outputs.ended(row) != [false; 2]) {
            check(&spec.name, &spec.obs, &column(&outputs.final_obs, row));
        }
    }
}
