//! The same environment gives the same bits on every lane: scalar f32, `Wide<8>` and `Wide<16>`, over 65 environments
//! (no multiple of any width) and 4,096 steps, on one thread and on several, in tiles of any size.

#[path = "support/locks.rs"]
mod locks;
#[path = "support/random_play.rs"]
mod random_play;

use operant_env::{AnyEnv, LaneWidth, TileSpec, builtin};
use random_play::{HASH, RandomPlay, fold};
use rayon::prelude::*;

const ENVIRONMENTS: u32 = 65;
const STEPS: u64 = 4096;

/// Plays a tile and returns one hash for each of its environments, over everything that every step gave.
fn play(env: &dyn AnyEnv, first: u32, rows: usize, lanes: LaneWidth) -> Vec<u64> {
    let mut play = RandomPlay::new(env, TileSpec { lanes, ..TileSpec::new(7, first, rows) });
    let mut hashes = vec![HASH; rows];
    for _ in 0..STEPS {
        play.step();
        for (row, hash) in hashes.iter_mut().enumerate() {
            fold(hash, &play.words(row));
            fold(hash, &play.more_words(row));
        }
    }
    hashes
}

/// Hashes of all environments, tile by tile in parallel.
fn all(env: &dyn AnyEnv, rows: usize, lanes: LaneWidth) -> Vec<u64> {
    let starts: Vec<u32> = (0..ENVIRONMENTS).step_by(rows).collect();
    let mut hashes: Vec<u64> = starts.par_iter().flat_map(|&first| play(env, first, rows, lanes)).collect();
    hashes.truncate(ENVIRONMENTS as usize);
    hashes
}

fn agrees(env: &dyn AnyEnv) {
    let name = env.spec().name;
    let expected = all(env, 16, LaneWidth::One);
    let distinct: std::collections::HashSet<&u64> = expected.iter().collect();
    assert_eq!(distinct.len(), expected.len(), "{name}: two environments played the same episodes");
    assert_eq!(all(env, 16, LaneWidth::Eight), expected, "{name} on Wide<8>");
    assert_eq!(all(env, 16, LaneWidth::Sixteen), expected, "{name} on Wide<16>");
    let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one");
    assert_eq!(single.install(|| all(env, 80, LaneWidth::Sixteen)), expected, "{name} on one thread");
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
}
