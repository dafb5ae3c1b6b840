//! The same environment gives the same bits on every lane: scalar f32 and each kind of vectors that is compiled, on one thread and on
//! several, in small tiles and in one. Each world walks briefly. In `cargo xtask test --all` it does so with every option and for 65
//! environments (no multiple of any width) x 4,096 steps. On vectors that this machine does not use a few worlds run, all of them with
//! the feature `every-lane`.

use operant_env::play::{Outputs, RandomActions};
use operant_env::{
    ActionSpace, AnyEnv, Env, LaneWidth, Stepper, TileSpec, builtin, running_words, stepper_on,
};
use operant_lane::Wide;
use rayon::prelude::*;

use crate::hash::{HASH, fold, fold_rows};
use crate::{cards, locks};

/// How far a world is played.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    /// Environments.
    pub environments: u32,
    /// Steps of each.
    pub steps: u64,
}

/// What `cargo xtask test` plays: many episodes of most worlds.
pub const SHORT: Walk = Walk { environments: 17, steps: 1024 };
/// What `cargo xtask test --all` plays.
pub const LONG: Walk = Walk { environments: 65, steps: 4096 };

/// Environments of a tile.
const ROWS: usize = 16;
/// Environments of a tile that holds a whole walk.
const ALL_ROWS: usize = 80;

/// The lanes that are compiled, each once: the scalar first, the widest last.
pub fn widths() -> Vec<LaneWidth> {
    let mut widths = vec![LaneWidth::One, LaneWidth::Eight, LaneWidth::Sixteen];
    widths.dedup_by_key(|width| width.compiled());
    widths
}

/// Makes a tile of environments.
type Make<'a> = dyn Fn(TileSpec) -> Box<dyn Stepper> + Sync + 'a;

/// Plays the `rows` environments `first ..` for all steps and returns one hash each over everything every step gave: state,
/// observations, reward, ends, statistics. Real actions also lie beyond their bounds.
fn play(env: &dyn AnyEnv, make: &Make<'_>, steps: u64, first: u32, rows: usize) -> Vec<u64> {
    let (spec, seed) = (env.spec(), 7);
    let mut stepper = make(TileSpec::new(seed, first, rows));
    let mut outputs = Outputs::new(&spec, env.masked(), rows);
    let mut random = RandomActions::new(spec.actions.clone(), seed, first, rows);
    let mut actions = vec![0.0; spec.actions.components() * rows];
    let mut states = vec![0; running_words(env) * rows];
    let mut hashes = vec![HASH; rows];
    stepper.observe(outputs.seen()).expect("made of lanes");
    for step in 0..steps {
        random.fill(step, &outputs.legal, &mut actions);
        if matches!(spec.actions, ActionSpace::Box { .. }) {
            actions.iter_mut().for_each(|action| *action *= 1.5);
        }
        stepper.submit(&actions, step).expect("made of lanes");
        stepper.collect(outputs.stepped()).expect("made of lanes");
        stepper.save(&mut states);
        for words in [&states, &outputs.obs, &outputs.legal] {
            fold_rows(&mut hashes, words);
        }
        for (row, hash) in hashes.iter_mut().enumerate() {
            let ended = outputs.ended(row);
            ended.into_iter().for_each(|flag| fold(hash, u32::from(flag)));
            fold(hash, outputs.rewards[row].to_bits());
            if ended != [false, false] {
                outputs.final_obs.iter().skip(row).step_by(rows).for_each(|&word| fold(hash, word));
                fold(hash, outputs.returns[row].to_bits());
                fold(hash, outputs.lengths[row]);
                outputs
                    .metrics
                    .iter()
                    .skip(row)
                    .step_by(rows)
                    .for_each(|metric| fold(hash, metric.to_bits()));
            }
        }
    }
    hashes
}

/// Hashes of all environments, tile by tile in parallel.
fn all(env: &dyn AnyEnv, make: &Make<'_>, walk: Walk, rows: usize) -> Vec<u64> {
    let starts: Vec<u32> = (0..walk.environments).step_by(rows).collect();
    let mut hashes: Vec<u64> =
        starts.par_iter().flat_map(|&first| play(env, make, walk.steps, first, rows)).collect();
    hashes.truncate(walk.environments as usize);
    hashes
}

/// Like `all`, on lanes of this width.
fn on(env: &dyn AnyEnv, lanes: LaneWidth, walk: Walk, rows: usize) -> Vec<u64> {
    all(env, &|tile| env.stepper(TileSpec { lanes, ..tile }).expect("made of lanes"), walk, rows)
}

fn agrees(env: &dyn AnyEnv, walk: Walk) {
    let name = env.spec().name;
    let expected = on(env, LaneWidth::One, walk, ROWS);
    let distinct: std::collections::HashSet<&u64> = expected.iter().collect();
    assert_eq!(distinct.len(), expected.len(), "{name}: every environment plays a different game");
    for width in &widths()[1..] {
        assert_eq!(on(env, *width, walk, ROWS), expected, "{name} on Wide<{}>", width.compiled());
    }
    assert_eq!(on(env, LaneWidth::WIDEST, walk, ALL_ROWS), expected, "{name} in one tile");
    let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one");
    let alone = single.install(|| on(env, LaneWidth::WIDEST, walk, ROWS));
    assert_eq!(alone, expected, "{name} on one thread");
}

/// The vectors that this machine does not use.
type Others = Wide<{ 24 - LaneWidth::WIDEST as usize }>;

/// Worlds of several kinds also run on the vectors of other machines.
fn agrees_on_others<E: Env>(env: &E) {
    let found = all(env, &|tile| stepper_on::<Others, E>(env, tile), SHORT, ROWS);
    assert_eq!(found, on(env, LaneWidth::One, SHORT, ROWS), "{}", Env::spec(env).name);
}

#[test]
fn other_vectors() {
    agrees_on_others(&operant_env::cartpole::CartPole::default());
    agrees_on_others(&operant_env::pendulum::Pendulum::default());
    agrees_on_others(&operant_env::pong::Pong);
    agrees_on_others(&operant_env::game_2048::Game2048);
    agrees_on_others(&operant_env::toy_text::taxi::Taxi::default());
    agrees_on_others(&cards::MixedCards);
}

#[test]
#[cfg(feature = "every-lane")]
fn every_lane_is_compiled() {
    assert_eq!(widths().len(), 3);
}

mod briefly {
    use super::*;

    fn check(name: &str) {
        agrees(&**builtin().find(name).expect("a world"), SHORT);
    }

    each_world! { check }
    each_variant! { check }

    #[test]
    fn masks_arrays_and_loops() {
        agrees(&locks::Locks, SHORT);
        agrees(&cards::Cards, SHORT);
        agrees(&cards::MixedCards, SHORT);
    }
}

mod at_length {
    use super::*;

    fn check(name: &str) {
        let registry = builtin();
        let env = registry.find(name).expect("a world");
        for options in env.spec().variants() {
            agrees(&*env.with_options(&options).expect("known options"), LONG);
        }
    }

    each_world! { #[ignore = "cargo xtask test --all"] check }
    each_variant! { #[ignore = "cargo xtask test --all"] check }

    #[test]
    #[ignore = "cargo xtask test --all"]
    fn masks_arrays_and_loops() {
        agrees(&locks::Locks, LONG);
        agrees(&cards::Cards, LONG);
        agrees(&cards::MixedCards, LONG);
    }
}
