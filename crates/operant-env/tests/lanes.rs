//! The same environment gives the same bits on every lane: scalar f32, `Wide<8>` and `Wide<16>`, over 65 environments
//! (no multiple of any width) and 4,096 steps, on one thread and on several.

#[path = "support/locks.rs"]
mod locks;
#[path = "support/random_play.rs"]
mod random_play;

use operant_env::{Clock, Current, Env, RowsMut, Visitor, registry};
use operant_lane::{ActionDraws, Bundle, Packed, Purpose, Wide};
use random_play::{HASH, action, fold};
use rayon::prelude::*;

const ENVIRONMENTS: u32 = 65;
const STEPS: u64 = 4096;

/// Plays environments `first ..` (WIDTH of them) for `steps` and returns one hash each over everything every step gave:
/// state, observations, reward, flags, statistics.
fn play<L: Packed, E: Env>(env: &E, seed: u64, first: u32, steps: u64) -> Vec<u64> {
    let numbers: Vec<u32> = (first..first + L::WIDTH as u32).collect();
    let environment = L::load_uint(&numbers);
    let limit = env.spec().time_limit;
    let clock = |step| Clock { seed, environment, step, evaluation: false };
    let mut current = Current::<L, E>::start(env, &clock(0));
    let mut draws = ActionDraws::new(seed, environment, Purpose::RandomAction);
    let mut hashes = vec![HASH; L::WIDTH];
    let leaves = operant_lane::bundle::leaves_of::<f32, E::State<f32>>().len()
        + 2 * operant_lane::bundle::leaves_of::<f32, E::Obs<f32>>().len()
        + 7;
    let mut words = vec![0u32; leaves * L::WIDTH];
    for step in 0..steps {
        let action = action(env, &current.state, &mut draws, step);
        let t = current.step(env, limit, &action, &clock(step));
        let everything = (
            (t.obs, t.final_obs),
            ((t.reward, t.terminated), (t.truncated, (t.episodic_return, t.episodic_length))),
        );
        let mut rows = RowsMut::new(&mut words, L::WIDTH, 0);
        current.store(&mut rows);
        Bundle::<L>::store(&everything, &mut rows);
        for row in words.chunks_exact(L::WIDTH) {
            for (hash, word) in hashes.iter_mut().zip(row) {
                fold(hash, *word);
            }
        }
    }
    hashes
}

/// Hashes of all environments, lane by lane in parallel.
fn all<L: Packed, E: Env>(env: &E) -> Vec<u64> {
    let starts: Vec<u32> = (0..ENVIRONMENTS).step_by(L::WIDTH).collect();
    let mut hashes: Vec<u64> =
        starts.par_iter().flat_map(|&first| play::<L, E>(env, 7, first, STEPS)).collect();
    hashes.truncate(ENVIRONMENTS as usize);
    hashes
}

fn agrees<E: Env>(env: &E) {
    let name = env.spec().name;
    let expected = all::<f32, E>(env);
    let distinct: std::collections::HashSet<&u64> = expected.iter().collect();
    assert_eq!(distinct.len(), expected.len(), "{name}: every environment lives a life of its own");
    assert_eq!(all::<Wide<8>, E>(env), expected, "{name} on Wide<8>");
    assert_eq!(all::<Wide<16>, E>(env), expected, "{name} on Wide<16>");
    let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one");
    assert_eq!(single.install(|| all::<Wide<16>, E>(env)), expected, "{name} on one thread");
}

struct Agrees;

impl Visitor for Agrees {
    type Output = ();
    fn visit<E: Env>(self, env: E) {
        agrees(&env);
    }
}

#[test]
fn every_environment_gives_the_same_bits_on_every_lane() {
    for name in registry::names() {
        registry::with_env(name, &Default::default(), Agrees).expect("a registered name");
    }
    let sticky = [("sticky_action_prob".to_owned(), 0.1)].into();
    registry::with_env("minatar_breakout", &sticky, Agrees).expect("a known option");
}

#[test]
fn masks_arrays_and_loops_give_the_same_bits_on_every_lane() {
    agrees(&locks::Locks);
}
