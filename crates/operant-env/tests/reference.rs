//! Parity with the references: Gymnasium's classic control and the MinAtar package's Breakout (data/README.md). The
//! tolerances are those of the systems: see docs/environments.md.

use operant_env::replay::{Arithmetic, Case, Outcome, replay};
use operant_env::{Env, Visitor, registry};
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn lines(file: &str) -> Vec<Value> {
    let path = format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn case(line: &Value) -> Case {
    let one = |action: &Value| {
        if action.is_array() { numbers(action) } else { vec![action.as_f64().expect("a number")] }
    };
    Case {
        state: numbers(&line["state"]),
        actions: line["actions"].as_array().expect("a list").iter().map(one).collect(),
    }
}

/// Largest difference of two lists, angles (where the state has them) modulo a turn.
fn distance(env: &str, got: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let turn = 2.0 * std::f64::consts::PI;
    let mut worst = 0.0f64;
    for (index, (a, b)) in got.iter().zip(expected).enumerate() {
        let mut difference = (a - b).abs();
        if env == "acrobot" && index < 2 && difference > 3.0 {
            difference = (difference - turn).abs();
        }
        worst = worst.max(difference);
    }
    worst
}

/// What may differ, f64 lanes: state after one step, state at the end of an episode, rewards.
fn tolerance(env: &str) -> (f64, f64, f64) {
    match env {
        "pendulum" => (2e-8, 5e-5, 1e-4),
        "mountain_car_continuous" => (2e-7, 5e-6, 1e-4),
        "minatar_breakout" => (0.0, 0.0, 0.0),
        _ => (1e-12, 1e-6, 0.0),
    }
}

struct Check {
    name: &'static str,
}

impl Check {
    /// Compares an outcome with an expected line; returns the number of steps compared.
    fn compare(
        &self,
        what: &str,
        got: &Outcome,
        expected: &Value,
        state: f64,
        obs: f64,
        reward: f64,
    ) -> usize {
        let flags = |key: &str| -> Vec<bool> {
            expected[key].as_array().expect("a list").iter().map(|x| x.as_bool().expect("a flag")).collect()
        };
        assert_eq!(got.terminated, flags("terminated"), "{} {what}: terminated", self.name);
        assert_eq!(got.truncated, flags("truncated"), "{} {what}: truncated", self.name);
        for (step, (a, b)) in got.reward.iter().zip(numbers(&expected["reward"])).enumerate() {
            assert!((a - b).abs() <= reward, "{} {what}: reward {step} is {a}, not {b}", self.name);
        }
        let rows = |key: &str| -> Vec<Vec<f64>> {
            expected[key].as_array().expect("a list").iter().map(numbers).collect()
        };
        for (step, (a, b)) in got.state.iter().zip(rows("state")).enumerate() {
            let d = distance(self.name, a, &b);
            assert!(d <= state, "{} {what}: state {step} is {a:?}, not {b:?}: off by {d:e}", self.name);
        }
        for (step, (a, b)) in got.obs.iter().zip(rows("obs")).enumerate() {
            for (a, b) in a.iter().zip(&b) {
                // Observations are float32 there and here: a unit in the last place, or what the state may differ.
                let limit = obs.max(1.2e-7 * b.abs());
                assert!((a - b).abs() <= limit, "{} {what}: obs {step} has {a}, not {b}", self.name);
            }
        }
        got.state.len()
    }
}

impl Visitor for Check {
    type Output = ();
    fn visit<E: Env>(self, env: E) {
        let cases = lines(&format!("{}.cases.jsonl", self.name));
        let expected = lines(&format!("{}.expected.jsonl", self.name));
        assert_eq!(cases.len(), expected.len());
        let (one, whole, reward) = tolerance(self.name);
        let mut steps = 0;
        for (number, (line, expected)) in cases.iter().zip(&expected).enumerate() {
            let case = case(line);
            let what = format!("case {number}");
            let double = replay(&env, Arithmetic::F64, &case).expect("a good case");
            let single_step = case.actions.len() == 1;
            let state = if single_step { one } else { whole };
            steps += self.compare(&what, &double, expected, state, state, reward);
            if single_step {
                for arithmetic in [Arithmetic::F32, Arithmetic::Wide] {
                    let got = replay(&env, arithmetic, &case).expect("a good case");
                    let slack = if self.name == "minatar_breakout" { 0.0 } else { 1e-5 };
                    self.compare(
                        &format!("{what}, {arithmetic:?}"),
                        &got,
                        expected,
                        slack,
                        slack,
                        slack * 100.0,
                    );
                }
            }
        }
        for (number, line) in lines(&format!("{}.long.jsonl", self.name)).iter().enumerate() {
            let got = replay(&env, Arithmetic::F64, &case(line)).expect("a good case");
            let what = format!("long case {number}");
            let last = got.state.len() - 1;
            assert_eq!(
                got.state.len() as u64,
                line["steps"].as_u64().expect("a count"),
                "{} {what}",
                self.name
            );
            assert_eq!(Value::from(got.terminated[last]), line["terminated"], "{} {what}", self.name);
            assert_eq!(Value::from(got.truncated[last]), line["truncated"], "{} {what}", self.name);
            let sum: f64 = got.reward.iter().sum();
            let expected = line["return"].as_f64().expect("a number");
            assert!(
                (sum - expected).abs() <= reward * 1000.0,
                "{} {what}: return {sum}, not {expected}",
                self.name
            );
            let d = distance(self.name, &got.state[last], &numbers(&line["final_state"]));
            assert!(d <= whole, "{} {what}: the last state is off by {d:e}", self.name);
            steps += got.state.len();
        }
        println!("{}: {steps} steps agree", self.name);
        assert!(steps > 300, "{}: only {steps} steps compared", self.name);
    }
}

#[test]
fn every_environment_agrees_with_its_reference() {
    for name in registry::names() {
        registry::with_env(name, &Default::default(), Check { name }).expect("a registered name");
    }
}

#[test]
fn limits_and_spaces_are_those_of_the_references() {
    let path = format!("{}/tests/data/specs.json", env!("CARGO_MANIFEST_DIR"));
    let specs: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("specs.json")).expect("JSON");
    for spec in registry::specs() {
        let reference = &specs[spec.name];
        assert_eq!(Value::from(spec.time_limit), reference["time_limit"], "{}", spec.name);
        let shape: f64 = numbers(&reference["obs"]).iter().product();
        assert_eq!(spec.obs.size() as f64, shape, "{}", spec.name);
        match &spec.actions {
            operant_env::ActionSpace::Discrete(n) => {
                assert_eq!(Value::from(n[0]), reference["actions"]["discrete"])
            }
            operant_env::ActionSpace::Box { low, high } => {
                assert_eq!(vec![low[0], high[0]], numbers(&reference["actions"]["box"]));
            }
        }
        let id = reference["id"].as_str().expect("an id");
        if !spec.name.starts_with("minatar") {
            assert_eq!(registry::canonical(id).expect("Gymnasium's ids are aliases"), spec.name);
        }
    }
}

#[test]
fn a_wrong_name_gets_the_nearest_right_one() {
    let message = registry::canonical("cartpol").expect_err("no such environment").to_string();
    assert!(message.contains("did you mean `cartpole`"), "{message}");
    let message = registry::canonical("MountanCar-v0").expect_err("no such environment").to_string();
    assert!(message.contains("`MountainCar-v0`"), "{message}");
    let message = registry::canonical("chess").expect_err("no such environment").to_string();
    assert!(!message.contains("did you mean"), "{message}");
}
