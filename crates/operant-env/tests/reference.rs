//! Parity with the references in data/ (data/README.md): an environment that has a `NAME.reference.json` is held to
//! the tolerances in it.

use std::collections::BTreeSet;

use operant_env::replay::{Arithmetic, Case, Outcome};
use operant_env::{ActionSpace, AnyEnv, EnvOptions, EnvSpec, builtin};
use serde_json::Value;

use crate::data;

fn lines(file: &str) -> Vec<Value> {
    data::text(file).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn numbers(value: &Value) -> Vec<f64> {
    list(value).iter().map(number).collect()
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    list(value).iter().map(numbers).collect()
}

fn case(line: &Value) -> Case {
    let one = |action: &Value| if action.is_array() { numbers(action) } else { vec![number(action)] };
    Case {
        state: numbers(&line["state"]),
        actions: list(&line["actions"]).iter().map(one).collect(),
        draws: line.get("draws").map(rows),
    }
}

/// The environments that have a reference.
fn referenced() -> BTreeSet<String> {
    let files = std::fs::read_dir(data::directory()).expect("the directory of data");
    files
        .map(|file| file.expect("a file"))
        .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".reference.json")?.to_owned()))
        .collect()
}

/// A reference and the tolerances of an environment.
struct Reference {
    name: String,
    facts: Value,
}

/// How far an outcome may be off.
struct Limits {
    state: f64,
    obs: f64,
    reward: f64,
}

/// How far outcomes were off at most.
#[derive(Debug, Clone, Copy, Default)]
struct Worst {
    steps: usize,
    state: f64,
    obs: f64,
    reward: f64,
}

impl Worst {
    fn and(self, other: Self) -> Self {
        Worst {
            steps: self.steps + other.steps,
            state: self.state.max(other.state),
            obs: self.obs.max(other.obs),
            reward: self.reward.max(other.reward),
        }
    }
}

impl Reference {
    fn of(name: &str) -> Self {
        let path = data::directory().join(format!("{name}.reference.json"));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let facts = serde_json::from_str(&text).expect("JSON");
        Reference { name: name.to_owned(), facts }
    }

    /// The options that the reference was made with.
    fn options(&self) -> EnvOptions {
        let options = self.facts["options"].as_object().expect("options by name");
        let value = |value: &Value| value.as_str().map_or_else(|| number(value).into(), Into::into);
        options.iter().map(|(name, option)| (name.clone(), value(option))).collect()
    }

    fn tolerance(&self, of: &str) -> f64 {
        number(&self.facts["tolerance"][of])
    }

    /// A tolerance that not every reference has.
    fn tolerance_or(&self, of: &str, other: f64) -> f64 {
        self.facts["tolerance"].get(of).map_or(other, number)
    }

    /// After one step in single precision, where observations may have a tolerance of their own.
    fn single_precision(&self) -> Limits {
        let all = self.tolerance("f32");
        Limits { state: all, obs: self.tolerance_or("f32_obs", all), reward: all }
    }

    /// Largest difference of two observations. They are float32 here, so those of a reference in float64 are rounded to that, too; they may
    /// differ by `limit`, or by a unit in the last place.
    fn compare_obs(&self, what: &str, got: &[f64], expected: &[f64], limit: f64) -> f64 {
        let name = &self.name;
        assert_eq!(got.len(), expected.len(), "{name} {what}: the size of the observation");
        let mut worst = 0.0f64;
        for (k, (a, b)) in got.iter().zip(expected).enumerate() {
            let difference = (a - f64::from(*b as f32)).abs();
            let limit = limit.max(1.2e-7 * b.abs());
            assert!(difference <= limit, "{name} {what}: number {k} of the observation is {a}, not {b}");
            worst = worst.max(difference);
        }
        worst
    }

    /// Largest difference of two states, angles (where the state has them) modulo a turn.
    fn distance(&self, got: &[f64], expected: &[f64]) -> f64 {
        assert_eq!(got.len(), expected.len(), "{}: {got:?}, not {expected:?}", self.name);
        let angles = numbers(&self.facts["angles"]);
        let difference = |index: usize| {
            let difference = (got[index] - expected[index]).abs();
            let turn = angles.contains(&(index as f64)) && difference > 3.0;
            if turn { (difference - 2.0 * std::f64::consts::PI).abs() } else { difference }
        };
        (0..got.len()).map(difference).fold(0.0, f64::max)
    }

    /// Compares an outcome with an expected line.
    fn compare(&self, what: &str, got: &Outcome, expected: &Value, limits: &Limits) -> Worst {
        let name = &self.name;
        let flags = |key: &str| -> Vec<bool> {
            list(&expected[key]).iter().map(|flag| flag.as_bool().expect("a flag")).collect()
        };
        assert_eq!(got.terminated, flags("terminated"), "{name} {what}: terminated");
        assert_eq!(got.truncated, flags("truncated"), "{name} {what}: truncated");
        let rewards = numbers(&expected["reward"]);
        let (states, obs) = (rows(&expected["state"]), rows(&expected["obs"]));
        let counts = [got.reward.len(), got.state.len(), got.obs.len()];
        assert_eq!(counts, [rewards.len(), states.len(), obs.len()], "{name} {what}: steps");
        let mut worst = Worst { steps: states.len(), ..Worst::default() };
        for (step, (a, b)) in got.reward.iter().zip(rewards).enumerate() {
            worst.reward = worst.reward.max((a - b).abs());
            assert!((a - b).abs() <= limits.reward, "{name} {what}: reward {step} is {a}, not {b}");
        }
        for (step, (a, b)) in got.state.iter().zip(states).enumerate() {
            let d = self.distance(a, &b);
            worst.state = worst.state.max(d);
            assert!(d <= limits.state, "{name} {what}: state {step} is {a:?}, not {b:?}: off by {d:e}");
        }
        for (step, (a, b)) in got.obs.iter().zip(obs).enumerate() {
            worst.obs = worst.obs.max(self.compare_obs(&format!("{what}, step {step}"), a, &b, limits.obs));
        }
        worst
    }

    /// Cases that were kept step by step: on f64 lanes, and single steps on f32 lanes, too. The results of single steps and of
    /// others in double precision, and of single steps in single precision.
    fn check_cases(&self, env: &dyn AnyEnv) -> [Worst; 3] {
        let cases = lines(&format!("{}.cases.jsonl", self.name));
        let expected = lines(&format!("{}.expected.jsonl", self.name));
        assert_eq!(cases.len(), expected.len());
        let [mut single_steps, mut others, mut single_precision] = [Worst::default(); 3];
        for (number, (line, expected)) in cases.iter().zip(&expected).enumerate() {
            let case = case(line);
            let what = format!("case {number}");
            let double = env.replay(Arithmetic::F64, &case).expect("a good case");
            let single_step = case.actions.len() == 1;
            let state = self.tolerance(if single_step { "step" } else { "end" });
            let obs = self.tolerance_or("obs", state);
            let limits = Limits { state, obs, reward: self.tolerance("reward") };
            let worst = if single_step { &mut single_steps } else { &mut others };
            *worst = worst.and(self.compare(&what, &double, expected, &limits));
            // Whole numbers are exact on every lane; others drift apart in an episode.
            let limits = self.single_precision();
            if single_step || limits.state == 0.0 {
                for arithmetic in [Arithmetic::F32, Arithmetic::Wide] {
                    let got = env.replay(arithmetic, &case).expect("a good case");
                    let what = format!("{what}, {arithmetic:?}");
                    single_precision = single_precision.and(self.compare(&what, &got, expected, &limits));
                }
            }
        }
        [single_steps, others, single_precision]
    }

    /// Episodes of which only the end was kept.
    fn check_episodes(&self, env: &dyn AnyEnv) -> usize {
        let name = &self.name;
        let mut steps = 0;
        for (number, line) in lines(&format!("{name}.long.jsonl")).iter().enumerate() {
            let got = env.replay(Arithmetic::F64, &case(line)).expect("a good case");
            let what = format!("long case {number}");
            let last = got.state.len() - 1;
            assert_eq!(Some(got.state.len() as u64), line["steps"].as_u64(), "{name} {what}");
            assert_eq!(Value::from(got.terminated[last]), line["terminated"], "{name} {what}");
            assert_eq!(Value::from(got.truncated[last]), line["truncated"], "{name} {what}");
            let sum: f64 = got.reward.iter().sum();
            let expected = line["return"].as_f64().expect("a number");
            assert!(
                (sum - expected).abs() <= self.tolerance("reward") * 1000.0,
                "{name} {what}: return {sum}, not {expected}"
            );
            let d = self.distance(&got.state[last], &numbers(&line["final_state"]));
            assert!(d <= self.tolerance("end"), "{name} {what}: the last state is off by {d:e}");
            self.compare_obs(&what, &got.obs[last], &numbers(&line["final_obs"]), self.tolerance("end"));
            steps += got.state.len();
        }
        steps
    }

    /// Time limit, spaces and id are the package's.
    fn check_facts(&self, spec: &EnvSpec) {
        let (name, facts) = (&self.name, &self.facts);
        assert_eq!(Value::from(spec.time_limit), facts["time_limit"], "{name}");
        let shape: f64 = numbers(&facts["obs"]).iter().product();
        assert_eq!(spec.obs.size() as f64, shape, "{name}");
        match &spec.actions {
            ActionSpace::Discrete(n) => assert_eq!(Value::from(n[0]), facts["actions"]["discrete"], "{name}"),
            ActionSpace::Box { low, high } => {
                assert_eq!(vec![low[0], high[0]], numbers(&facts["actions"]["box"]), "{name}");
            }
        }
        let id = facts["id"].as_str().expect("an id");
        assert_eq!(builtin().find(id).expect("the package's id is an alias").spec().name, spec.name);
    }
}

#[test]
fn every_environment_with_a_reference_agrees_with_it() {
    let numbers_of = |what: &str| format!("{what}state | observation | reward");
    println!(
        "| reference | single steps | {} | steps of others | {} | {} | steps of long episodes | package |",
        numbers_of(""),
        numbers_of(""),
        numbers_of("f32: ")
    );
    println!("|{}", " --- |".repeat(14));
    for name in referenced() {
        let reference = Reference::of(&name);
        // Several references, with other options, may be of one environment.
        let env = reference.facts.get("env").map_or(name.as_str(), |env| env.as_str().expect("a name"));
        let registry = builtin();
        let env = registry.find(env).expect("the environment of a reference");
        let env = env.with_options(&reference.options()).expect("known options");
        reference.check_facts(&env.spec());
        let [single, others, f32] = reference.check_cases(&*env);
        let long = reference.check_episodes(&*env);
        let row = |worst: &Worst| format!("{:.1e} | {:.1e} | {:.1e}", worst.state, worst.obs, worst.reward);
        println!(
            "| {name} | {} | {} | {} | {} | {} | {long} | {} |",
            single.steps,
            row(&single),
            others.steps,
            row(&others),
            row(&f32),
            reference.facts["package"].as_str().expect("a package"),
        );
        let steps = single.steps + others.steps + long;
        assert!(steps > 300, "{name}: only {steps} steps compared");
    }
}

/// Worlds that are identical to a package's, without their own file: those of MiniGrid (tests/minigrid.rs), Craftax's (tests/craftax.rs), games (tests/two_players.rs), and MinAtar's
/// minimal action sets, which number a part of the actions of a world with a file.
fn is_covered_elsewhere(spec: &EnvSpec) -> bool {
    ["minigrid", "craftax", "two players"].contains(&spec.family.as_str())
        || spec.family == "minatar" && spec.name.ends_with("_minimal")
}

#[test]
fn every_world_that_claims_to_be_identical_has_a_reference() {
    let files = referenced();
    let of_file = |name: &String| {
        let facts = Reference::of(name).facts;
        facts.get("env").map_or_else(|| name.clone(), |env| env.as_str().expect("a name").to_owned())
    };
    let covered: BTreeSet<String> = files.iter().map(of_file).collect();
    let mut identical = 0;
    for spec in builtin().specs().iter().filter(|spec| spec.reference.to_lowercase().contains("identical")) {
        assert!(
            covered.contains(&spec.name) || is_covered_elsewhere(spec),
            "{}: {}",
            spec.name,
            spec.reference
        );
        identical += usize::from(covered.contains(&spec.name));
    }
    assert_eq!(identical, covered.len(), "a world with a reference does not say so: {covered:?}");
}

#[test]
fn a_wrong_name_gets_the_nearest_right_one() {
    let message =
        |name| builtin().find(name).map(|env| env.spec()).expect_err("no such environment").to_string();
    let known = [("cartpol", "did you mean \"cartpole\""), ("MountanCar-v0", "\"MountainCar-v0\"")];
    for (name, hint) in known {
        assert!(message(name).contains(hint), "{}", message(name));
    }
    assert!(!message("chess").contains("did you mean"), "{}", message("chess"));
}
