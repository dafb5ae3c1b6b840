//! Craftax-Classic compared with its package (data/README.md): play step by step on every lane, worlds from given draws, and worlds by how
//! often they hold what.

use std::collections::BTreeMap;

use operant_env::craftax::{CraftaxClassic, Indices};
use operant_env::lane::{Bundle, Draws, Packed, Purpose, Script, Wide, bundle::leaves_of};
use operant_env::replay::{Arithmetic, Case, Outcome};
use operant_env::{AnyEnv, Env, EnvOptions, RowsMut, builtin, numbers};
use rayon::prelude::*;
use serde_json::Value;

use crate::data;

/// Cells of the map, the last numbers of a public state.
const CELLS: usize = 4096;
/// Of the uniforms of the package.
const UNIT: f64 = 1.0 / 8_388_608.0;
/// Uniform numbers among the draws of a step.
const UNIFORMS: [usize; 9] = [0, 3, 6, 9, 15, 18, 19, 21, 23];
/// Where the light is in the package's observation.
const LIGHT: usize = 1343;

fn lines(file: &str) -> Vec<Value> {
    data::text(file).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn numbers_of(value: &Value) -> Vec<f64> {
    list(value).iter().map(number).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Blocks, a digit of base 17 each.
fn blocks(value: &Value) -> impl Iterator<Item = f64> {
    text(value).chars().map(|digit| f64::from(digit.to_digit(17).expect("a block")))
}

fn symbolic() -> std::sync::Arc<dyn AnyEnv> {
    let options = EnvOptions::from([("view".to_owned(), "symbolic".into())]);
    builtin().make("Craftax-Classic-Symbolic-v1", &options).expect("the package's id is an alias")
}

fn draws(step: &Value) -> Vec<f64> {
    let unit = |(place, draw): (usize, f64)| if UNIFORMS.contains(&place) { draw * UNIT } else { draw };
    numbers_of(step).into_iter().enumerate().map(unit).collect()
}

/// The upper half of a digest of an observation's bits, without light.
fn digest(obs: &[f64]) -> String {
    let fold = |digest: u64, (index, number): (usize, &f64)| {
        let bits = if index == LIGHT { 0 } else { (*number as f32).to_bits() };
        (digest ^ u64::from(bits)).wrapping_mul(0x0100_0000_01b3)
    };
    let digest = obs.iter().enumerate().fold(0xcbf2_9ce4_8422_2325_u64, fold);
    format!("{:08x}", digest >> 32)
}

/// Compares a piece of play with what the package answered.
fn check_piece(what: &str, piece: &Value, mut state: Vec<f64>, got: &Outcome) {
    let steps = list(&piece["actions"]).len();
    assert_eq!(got.reward.len(), steps, "{what}: steps");
    for step in 0..steps {
        for change in list(&piece["changes"][step]).chunks_exact(2) {
            state[change[0].as_u64().expect("an index") as usize] = number(&change[1]);
        }
        let differs = (0..state.len()).find(|&k| state[k] != got.state[step][k]);
        let differs = differs.map(|k| (k, state[k], got.state[step][k]));
        assert_eq!(differs, None, "{what}: number, package, here in the state after step {step}");
        let (reward, expected) = (got.reward[step] as f32, number(&piece["rewards"][step]) as f32);
        assert_eq!(reward, expected, "{what}: reward of step {step}");
        assert_eq!(digest(&got.obs[step]), text(&piece["digests"][step]), "{what}: observation {step}");
    }
    assert_eq!(Value::from(got.terminated[steps - 1]), piece["terminated"], "{what}: the end");
    let mut last = vec![0.0; LIGHT + 2];
    for pair in list(&piece["last_obs"]).chunks_exact(2) {
        last[pair[0].as_u64().expect("an index") as usize] = number(&pair[1]);
    }
    for (index, (got, expected)) in got.obs[steps - 1].iter().zip(&last).enumerate() {
        let limit = if index == LIGHT { 1e-5 } else { 0.0 };
        assert!(
            (*got as f32 - *expected as f32).abs() <= limit,
            "{what}: number {index} of the last observation"
        );
    }
}

#[test]
fn play_is_that_of_the_package() {
    let env = symbolic();
    let pieces = lines("craftax_classic.pieces.jsonl");
    pieces.par_iter().enumerate().for_each(|(index, piece)| {
        let state: Vec<f64> = numbers_of(&piece["state"]).into_iter().chain(blocks(&piece["map"])).collect();
        let case = Case {
            state: state.clone(),
            actions: numbers_of(&piece["actions"]).into_iter().map(|action| vec![action]).collect(),
            draws: Some(list(&piece["draws"]).iter().map(draws).collect()),
        };
        // The reward is rounded once in single precision.
        for arithmetic in [Arithmetic::F32, Arithmetic::Wide] {
            let what = format!("piece {index} ({}), {arithmetic:?}", text(&piece["kind"]));
            check_piece(&what, piece, state.clone(), &env.replay(arithmetic, &case).expect("a good case"));
        }
    });
    let steps: usize = pieces.iter().map(|piece| list(&piece["actions"]).len()).sum();
    println!("{} pieces, {steps} steps, bit for bit", pieces.len());
    assert!(steps > 10_000);
}

/// The first states of WIDTH environments, `(4246)` public numbers each.
fn first_states<L: Packed>(draws: &mut Draws<L>) -> Vec<Vec<f64>> {
    let env = CraftaxClassic::<Indices>::default();
    let leaves = leaves_of::<f32, <CraftaxClassic<Indices> as Env>::State<f32>>().len();
    let mut words = vec![0; leaves * L::WIDTH];
    Env::reset::<L>(&env, draws).store(&mut RowsMut::new(&mut words, L::WIDTH, 0));
    let state = |lane: usize| -> Vec<f64> {
        // No first state has a negative number.
        env.pack(&words.chunks_exact(L::WIDTH).map(|leaf| f64::from(leaf[lane])).collect::<Vec<_>>())
    };
    (0..L::WIDTH).map(state).collect()
}

#[test]
fn worlds_are_those_of_the_package_for_its_draws() {
    let fields = ["water", "mountain", "path", "coal", "iron", "diamond", "trees", "tree"];
    let mut tiles = [0; 2];
    for line in lines("craftax_classic.worlds.jsonl") {
        let uniforms = fields.iter().flat_map(|field| text(&line[*field]).as_bytes().chunks_exact(6));
        let uniform = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).expect("digits");
            f64::from(u32::from_str_radix(digits, 16).expect("a number")) * UNIT
        };
        let draws: Vec<f64> = uniforms.map(uniform).chain([number(&line["gem"])]).collect();
        let script = Script::new(&draws);
        let first = first_states::<f32>(&mut Draws::scripted(&script));
        assert_eq!(script.problem(), None);
        let map = &first[0][first[0].len() - CELLS..];
        let differ = blocks(&line["map"]).zip(map).filter(|(theirs, ours)| theirs != *ours).count();
        tiles = [tiles[0] + CELLS, tiles[1] + differ];
    }
    println!("{} tiles, of which {} differ", tiles[0], tiles[1]);
    // The noise is rounded otherwise, which moved one tile of 2.6 million in another implementation.
    assert!(tiles[0] > 30_000 && tiles[1] <= 1, "{tiles:?}");
}

/// Counts by name, as the reference has them.
fn features(map: &[f64]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut add = |name: String| *counts.entry(name).or_default() += 1;
    for (cell, block) in map.iter().enumerate() {
        let (row, column) = (cell / 64, cell % 64);
        add(format!("block {block}"));
        if row.abs_diff(32) <= 3 && column.abs_diff(32) <= 4 {
            add(format!("view {block}"));
        }
        if column < 63 && map[cell + 1] == *block {
            add("across".to_owned());
        }
        if row < 63 && map[cell + 64] == *block {
            add("down".to_owned());
        }
    }
    counts
}

/// How far two counts of the same total size differ in all bins: chi-square and degrees of freedom, of bins with at least ten.
fn chi_square(ours: &[f64], theirs: &[f64]) -> (f64, f64) {
    let bins = ours.iter().zip(theirs).filter(|(a, b)| *a + *b >= 10.0);
    bins.fold((0.0, 0.0), |(sum, degrees), (a, b)| (sum + (a - b) * (a - b) / (a + b), degrees + 1.0))
}

#[test]
fn worlds_hold_what_the_package_s_do() {
    let reference = lines("craftax_classic.frequencies.jsonl").remove(0);
    let count = reference["worlds"].as_u64().expect("a number") as u32;
    let maps: Vec<Vec<f64>> = (0..count.div_ceil(16))
        .into_par_iter()
        .flat_map_iter(|batch| {
            let mut draws = Draws::<Wide<16>>::at(7, numbers::<Wide<16>>(16 * batch), 0, Purpose::Init);
            first_states::<Wide<16>>(&mut draws)
                .into_iter()
                .map(|state| state[state.len() - CELLS..].to_vec())
        })
        .collect();
    let maps = &maps[..count as usize];
    let counts: Vec<BTreeMap<String, usize>> = maps.iter().map(|map| features(map)).collect();
    let mut worst: f64 = 0.0;
    let mut check = |what: &str, chi: (f64, f64)| {
        if chi.1 < 1.0 {
            return;
        }
        // The normal deviate of a chi-square value, after Wilson and Hilferty.
        let spread = 2.0 / (9.0 * chi.1);
        let deviate = ((chi.0 / chi.1).cbrt() - (1.0 - spread)) / spread.sqrt();
        assert!(deviate < 4.5, "{what}: chi-square {} of {} degrees", chi.0, chi.1);
        worst = worst.max(deviate);
    };
    for (name, theirs) in reference["features"].as_object().expect("features") {
        let edges = numbers_of(&theirs["edges"]);
        let theirs = numbers_of(&theirs["counts"]);
        let mut ours = vec![0.0; theirs.len()];
        for of_world in &counts {
            let value = of_world.get(name).copied().unwrap_or(0) as f64;
            ours[edges.iter().filter(|edge| **edge <= value).count()] += 1.0;
        }
        let (chi, degrees) = chi_square(&ours, &theirs);
        check(name, (chi, degrees - 1.0));
    }
    for (block, theirs) in reference["cells"].as_object().expect("cells") {
        let block: f64 = block.parse().expect("a block");
        let cells = (0..8).flat_map(|i| (0..8).map(move |j| (4 + 8 * i) * 64 + 4 + 8 * j));
        let ours: Vec<f64> =
            cells.map(|cell| maps.iter().filter(|map| map[cell] == block).count() as f64).collect();
        check(&format!("cells of {block}"), chi_square(&ours, &numbers_of(theirs)));
    }
    println!("{count} worlds; the worst normal deviate is {worst:.1}");
}
