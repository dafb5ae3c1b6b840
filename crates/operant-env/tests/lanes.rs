//! The same environment gives the same bits on every lane: scalar f32, `Wide<8>` and `Wide<16>`, over 65 environments
//! (no multiple of any width) and 4,096 steps, on one thread and on several, in small tiles and in one.

#[path = "support/cards.rs"]
mod cards;
#[path = "support/hash.rs"]
mod hash;
#[path = "support/locks.rs"]
mod locks;

use hash::{HASH, fold};
use operant_env::play::{Outputs, RandomActions};
use operant_env::{ActionSpace, AnyEnv, LaneWidth, TileSpec, builtin, running_words};
use rayon::prelude::*;

const ENVIRONMENTS: u32 = 65;
const STEPS: u64 = 4096;
/// Environments of a tile, and of one that all fit into.
const ROWS: usize = 16;
const ALL_ROWS: usize = 80;

/// Plays the `rows` environments `first ..` for all steps and returns one hash each over everything every step gave: state,
/// observations, reward, ends, statistics. Real actions also lie beyond their bounds.
fn play(env: &dyn AnyEnv, lanes: LaneWidth, seed: u64, first: u32, rows: usize) -> Vec<u64> {
    let spec = env.spec();
    let tile = TileSpec { lanes, ..TileSpec::new(seed, first, rows) };
    let mut stepper = env.stepper(tile).expect("made of lanes");
    let mut outputs = Outputs::new(&spec, env.masked(), rows);
    let mut random = RandomActions::new(spec.actions.clone(), seed, first, rows);
    let mut actions = vec![0.0; spec.actions.components() * rows];
    let mut states = vec![0; running_words(env) * rows];
    let mut hashes = vec![HASH; rows];
    stepper.observe(outputs.seen()).expect("made of lanes");
    for step in 0..STEPS {
        random.fill(step, &outputs.legal, &mut actions);
        if matches!(spec.actions, ActionSpace::Box { .. }) {
            actions.iter_mut().for_each(|action| *action *= 1.5);
        }
        stepper.submit(&actions, step).expect("made of lanes");
        stepper.collect(outputs.stepped()).expect("made of lanes");
        stepper.save(&mut states);
        for (row, hash) in hashes.iter_mut().enumerate() {
            let ended = outputs.ended(row);
            let column = |words: &[u32]| words.iter().skip(row).step_by(rows).copied().collect::<Vec<u32>>();
            let mut words = [column(&states), column(&outputs.obs), column(&outputs.legal)].concat();
            words.extend(ended.map(u32::from));
            words.push(outputs.rewards[row].to_bits());
            if ended != [false, false] {
                words.extend(column(&outputs.final_obs));
                words.extend([outputs.returns[row].to_bits(), outputs.lengths[row]]);
            }
            words.into_iter().for_each(|word| fold(hash, word));
        }
    }
    hashes
}

/// Hashes of all environments, tile by tile in parallel.
fn all(env: &dyn AnyEnv, lanes: LaneWidth, rows: usize) -> Vec<u64> {
    let starts: Vec<u32> = (0..ENVIRONMENTS).step_by(rows).collect();
    let mut hashes: Vec<u64> =
        starts.par_iter().flat_map(|&first| play(env, lanes, 7, first, rows)).collect();
    hashes.truncate(ENVIRONMENTS as usize);
    hashes
}

fn agrees(env: &dyn AnyEnv) {
    let name = env.spec().name;
    let expected = all(env, LaneWidth::One, ROWS);
    let distinct: std::collections::HashSet<&u64> = expected.iter().collect();
    assert_eq!(distinct.len(), expected.len(), "{name}: every environment plays a game of its own");
    assert_eq!(all(env, LaneWidth::Eight, ROWS), expected, "{name} on Wide<8>");
    assert_eq!(all(env, LaneWidth::Sixteen, ROWS), expected, "{name} on Wide<16>");
    assert_eq!(all(env, LaneWidth::Sixteen, ALL_ROWS), expected, "{name} in one tile");
    let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one");
    assert_eq!(single.install(|| all(env, LaneWidth::Sixteen, ROWS)), expected, "{name} on one thread");
}

#[test]
fn every_environment_gives_the_same_bits_on_every_lane() {
    for env in builtin().envs() {
        for options in env.spec().variants() {
            agrees(&*env.with_options(&options).expect("known options"));
        }
    }
}

#[test]
fn masks_arrays_and_loops_give_the_same_bits_on_every_lane() {
    agrees(&locks::Locks);
    agrees(&cards::Cards);
    agrees(&cards::MixedCards);
}
