//! The MiniGrid family compared with its package (data/README.md): episodes step by step on every lane, and layouts by how often each
//! cell holds what.

use std::collections::{BTreeMap, BTreeSet};

use operant_env::replay::{Arithmetic, Case, Outcome, StepWords};
use operant_env::{AnyEnv, ObsSpace, TileSpec, builtin};
use rayon::prelude::*;
use serde_json::Value;

use crate::data;

/// Layouts that are compared: as many as the package's frequencies were made from.
const RESETS: usize = 2000;

fn lines(file: &str) -> Vec<Value> {
    data::text(file).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn name(line: &Value) -> &str {
    line["env"].as_str().expect("an id")
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn case(line: &Value) -> Case {
    Case {
        state: numbers(&line["state"]),
        actions: numbers(&line["actions"]).into_iter().map(|action| vec![action]).collect(),
        draws: line.get("draws").map(|draws| draws.as_array().expect("a list").iter().map(numbers).collect()),
    }
}

/// The digest of all that an episode shows, step by step.
fn digest(outcome: &Outcome) -> u64 {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut fold = |number: f64| {
        assert!(number >= 0.0 && number.fract() == 0.0, "{number} is not a whole number of at least 0");
        digest = (digest ^ number as u64).wrapping_mul(0x0100_0000_01b3);
    };
    for step in 0..outcome.reward.len() {
        outcome.obs[step].iter().chain(&outcome.state[step]).for_each(|&number| fold(number));
        [outcome.terminated[step], outcome.truncated[step]]
            .iter()
            .for_each(|&flag| fold(f64::from(u8::from(flag))));
    }
    digest
}

/// Replays an episode on every lane; returns its steps.
fn check_episode(line: &Value) -> usize {
    let env = builtin().find(name(line)).expect("the package's id is an alias").clone();
    let case = case(line);
    let what = format!("{} {}", name(line), line["digest"]);
    for arithmetic in [Arithmetic::F64, Arithmetic::F32, Arithmetic::Wide] {
        let got = env.replay(arithmetic, &case).expect("a good case");
        let last = got.reward.len() - 1;
        assert_eq!(got.reward.len(), case.actions.len(), "{what}, {arithmetic:?}: steps");
        assert_eq!(Value::from(got.terminated[last]), line["terminated"], "{what}, {arithmetic:?}");
        assert_eq!(Value::from(got.truncated[last]), line["truncated"], "{what}, {arithmetic:?}");
        let (sum, expected): (f64, _) = (got.reward.iter().sum(), line["return"].as_f64().expect("a number"));
        // A number that is read from JSON may be off in its last digit.
        let limit = if arithmetic == Arithmetic::F64 { 2e-16 } else { 1e-7 };
        assert!((sum - expected).abs() <= limit, "{what}, {arithmetic:?}: return {sum}, not {expected}");
        let digest = Value::from(format!("{:016x}", digest(&got)));
        assert_eq!(digest, line["digest"], "{what}, {arithmetic:?}: some observation or state differs");
    }
    case.actions.len()
}

#[test]
fn episodes_are_those_of_the_package() {
    let episodes = lines("minigrid.episodes.jsonl");
    let steps: usize = episodes.par_iter().map(check_episode).sum();
    let ids: BTreeSet<&str> = episodes.iter().map(name).collect();
    let family = builtin().specs().into_iter().filter(|spec| spec.family == "minigrid");
    let aliases: Vec<Vec<String>> = family.map(|spec| spec.aliases).collect();
    assert!(aliases.iter().all(|names| names.iter().any(|name| ids.contains(&**name))), "all have episodes");
    println!("{} episodes, {steps} steps", episodes.len());
    assert!(steps > 20_000, "only {steps} steps");
}

/// The bits of numbers below those bounds, one of each number's bits set.
fn one_hot<'a>(numbers: &[f64], below: impl Iterator<Item = &'a usize>) -> Vec<f64> {
    let bits = |(&number, &below): (&f64, &'a usize)| {
        (0..below).map(move |k| f64::from(u8::from(k as f64 == number)))
    };
    numbers.iter().zip(below).flat_map(bits).collect()
}

/// The whole grid from a state: type, colour and state of each cell, column by column, with the agent.
fn whole_grid(state: &[f64]) -> Vec<f64> {
    let (width, height) = (state[0] as usize, state[1] as usize);
    let (cells, rest) = state[2..].split_at(3 * width * height);
    let places = (0..width).flat_map(|x| (0..height).map(move |y| (x, y)));
    let cell = |(x, y): (usize, usize)| {
        let is_agent = [x as f64, y as f64] == rest[..2];
        if is_agent { vec![10.0, 0.0, rest[2]] } else { cells[3 * (y * width + x)..][..3].to_vec() }
    };
    places.flat_map(cell).collect()
}

#[test]
fn other_views_show_the_same() {
    let episodes = lines("minigrid.episodes.jsonl");
    for spec in builtin().specs().into_iter().filter(|spec| spec.family == "minigrid") {
        let line = episodes.iter().find(|line| spec.aliases.iter().any(|alias| alias == name(line)));
        let case = case(line.expect("it has episodes"));
        let outcome = |view: &str| {
            let options = [("view".to_owned(), view.into())].into();
            let env = builtin().make(&spec.name, &options).expect("the views that it has");
            assert_eq!(env.with_options(&Default::default()).expect("none").spec(), env.spec());
            env.replay(Arithmetic::Wide, &case).expect("a good case")
        };
        let (seen, bits, full) = (outcome("indices"), outcome("bits"), outcome("full"));
        let ObsSpace::Parts(parts) = &spec.obs else { panic!("parts") };
        let below: Vec<usize> =
            parts.iter().flat_map(|(_, part)| part.bounds()).map(|below| below as usize).collect();
        assert_eq!((&bits.state, &full.state), (&seen.state, &seen.state), "{}", spec.name);
        for step in 0..seen.reward.len() {
            assert_eq!(bits.obs[step], one_hot(&seen.obs[step], below.iter()), "{} step {step}", spec.name);
            let others = &seen.obs[step][147..];
            let expected = [&whole_grid(&seen.state[step]), others].concat();
            assert_eq!(full.obs[step], expected, "{} step {step}", spec.name);
        }
    }
}

/// What is counted in a layout, as the recipe counts it: pairs of a name and a place.
fn features(state: &[f64]) -> BTreeSet<(String, usize)> {
    let state: Vec<usize> = state.iter().map(|&number| number as usize).collect();
    let area = state[0] * state[1];
    let (cells, rest) = state[2..].split_at(3 * area);
    let agent = rest[1] * state[0] + rest[0];
    let mut all = if area <= 81 {
        vec![("agent".to_owned(), agent * 4 + rest[2])]
    } else {
        vec![("agent".to_owned(), agent), ("direction".to_owned(), rest[2])]
    };
    for (place, cell) in cells.chunks_exact(3).enumerate() {
        if cell[0] > 1 {
            all.push((format!("type {}", cell[0]), place));
        }
        if (4..8).contains(&cell[0]) {
            all.push((format!("colour {}", cell[0]), 3 * cell[1] + cell[2]));
        }
    }
    all.extend(rest[6..].iter().enumerate().map(|(k, &number)| (format!("extra {k}"), number)));
    all.into_iter().collect()
}

/// Counts by feature and place.
type Counts = BTreeMap<String, BTreeMap<usize, f64>>;

/// The counts of as many layouts, which depend on nothing but the seed.
fn counted(env: &dyn AnyEnv) -> Counts {
    let (leaves, mut counts) = (env.leaves().len(), Counts::new());
    let obs = vec![0; env.spec().obs.words()];
    for first in (0..RESETS).step_by(200) {
        let stepper = env.stepper(TileSpec::new(1, first as u32, 208)).expect("made of lanes");
        for row in 0..200 {
            let mut words = vec![0; leaves];
            stepper.state(row, &mut words);
            let shown = StepWords { obs: &obs, reward: 0.0, ended: [false; 2], state: &words };
            for (feature, place) in features(&env.outcome(&[shown]).state[0]) {
                *counts.entry(feature).or_default().entry(place).or_default() += 1.0;
            }
        }
    }
    counts
}

/// The normal deviate of a chi-square value with `degrees` of freedom, after Wilson and Hilferty.
fn deviate(chi_square: f64, degrees: f64) -> f64 {
    let spread = 2.0 / (9.0 * degrees);
    ((chi_square / degrees).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// How unlikely it is that two counts of RESETS layouts each have one distribution: a normal deviate for each feature that a layout
/// has once; for the others the largest of all places, each counted by itself.
fn difference(ours: &BTreeMap<usize, f64>, theirs: &BTreeMap<usize, f64>) -> f64 {
    let places: BTreeSet<&usize> = ours.keys().chain(theirs.keys()).collect();
    let pairs = places.iter().map(|place| [ours, theirs].map(|c| c.get(place).copied().unwrap_or(0.0)));
    let total = RESETS as f64;
    if [ours, theirs].iter().all(|counts| counts.values().sum::<f64>() == total) {
        // Rare places count together.
        let (mut chi_square, mut degrees, mut rare) = (0.0, -1.0, [0.0; 2]);
        let mut add = |[a, b]: [f64; 2]| {
            if a + b > 0.0 {
                chi_square += (a - b) * (a - b) / (a + b);
                degrees += 1.0;
            }
        };
        for pair in pairs {
            if pair[0] + pair[1] < 10.0 {
                rare = [rare[0] + pair[0], rare[1] + pair[1]];
            } else {
                add(pair);
            }
        }
        add(rare);
        return if degrees > 0.0 { deviate(chi_square, degrees) } else { 0.0 };
    }
    let of_place = |[a, b]: [f64; 2]| {
        let together = a + b;
        let variance = together * (2.0 * total - together) / (2.0 * total);
        if variance > 0.0 { (a - b).abs() / variance.sqrt() } else { 0.0 }
    };
    pairs.map(of_place).fold(0.0, f64::max)
}

/// Some 10,000 comparisons are made, of which one is beyond this by chance in 300 runs with different seeds.
const LIMIT: f64 = 5.0;

fn check_layouts(line: &Value) -> f64 {
    let env = builtin().find(name(line)).expect("the package's id is an alias").clone();
    let mut ours = counted(&*env);
    let mut largest: f64 = 0.0;
    for (feature, counts) in line["counts"].as_object().expect("counts by feature") {
        let pair =
            |pair: &Value| (pair[0].as_u64().expect("a place") as usize, pair[1].as_f64().expect("a count"));
        let theirs: BTreeMap<usize, f64> = counts.as_array().expect("a list").iter().map(pair).collect();
        let ours = ours.remove(feature).unwrap_or_default();
        let difference = difference(&ours, &theirs);
        assert!(difference < LIMIT, "{} {feature}: {difference} for {ours:?}, not {theirs:?}", name(line));
        largest = largest.max(difference);
    }
    // What the package has the same in all layouts is the same here, too.
    for (feature, counts) in ours {
        let is_constant = counts.values().all(|&count| count == RESETS as f64);
        assert!(is_constant, "{} {feature}: {counts:?}, which never changes in the package", name(line));
    }
    largest
}

#[test]
fn layouts_are_as_frequent_as_in_the_package() {
    let all = lines("minigrid.frequencies.jsonl");
    let largest = all.par_iter().map(check_layouts).reduce(|| 0.0, f64::max);
    println!("{} environments: at most {largest:.2} standard deviations apart", all.len());
    assert_eq!(all.len(), 37);
}

/// The limit is that of the state, as in the package, whose `step_count` the reward uses too.
#[test]
fn a_replay_from_the_middle_of_an_episode_is_truncated_when_its_state_says_so() {
    let env = builtin().find("MiniGrid-Empty-5x5-v0").expect("an id").clone();
    let limit = f64::from(env.spec().time_limit);
    // Walls around an empty room; the agent at (1, 1) turns.
    let cell = |k: usize| match (k % 5, k / 5) {
        (3, 3) => [8.0, 1.0, 0.0],
        (0 | 4, _) | (_, 0 | 4) => [2.0, 5.0, 0.0],
        _ => [1.0, 0.0, 0.0],
    };
    let state = |steps: f64| {
        let cells = (0..25).flat_map(cell);
        [5.0, 5.0].into_iter().chain(cells).chain([1.0, 1.0, 0.0, 0.0, 0.0, steps]).collect::<Vec<f64>>()
    };
    for (steps, expected) in [(limit - 2.0, 2), (limit - 1.0, 1), (limit, 1), (limit - 9.0, 5)] {
        let case = Case { state: state(steps), actions: vec![vec![0.0]; 5], draws: None };
        for arithmetic in [Arithmetic::F64, Arithmetic::F32, Arithmetic::Wide] {
            let outcome = env.replay(arithmetic, &case).expect("a state of the task");
            assert_eq!(outcome.truncated.len(), expected, "{steps} of {limit}, {arithmetic:?}");
            assert_eq!(outcome.truncated.last(), Some(&(expected < 5)), "{steps} of {limit}, {arithmetic:?}");
        }
        // A device counts from the start of the case: it gets no action beyond the limit.
        let words = env.case_words(&case).expect("a state of the task");
        assert_eq!(words.actions.len(), expected);
        let obs = vec![0; env.spec().obs.words()];
        let last = StepWords { obs: &obs, reward: 0.0, ended: [false; 2], state: &words.state };
        assert_eq!(env.outcome(&[last]).truncated, [steps >= limit]);
    }
}
