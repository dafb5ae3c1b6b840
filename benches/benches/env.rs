//! Environments alone, on one core: steps per second of random play with auto-reset and time limit, 8,192 environments,
//! horizons of 128 steps, for every lane. `cargo bench -p benches --bench env [NAME]`.

use std::time::Instant;

use operant_env::random_play::RandomPlay;
use operant_env::{Env, EnvOptions, Visitor, registry};
use operant_lane::{Packed, Wide};

const ENVIRONMENTS: usize = 8192;
const HORIZON: u64 = 128;
const REPETITIONS: usize = 15;

/// Steps per second of each repetition, sorted.
fn measure<L: Packed, E: Env>(env: &E) -> Vec<f64> {
    let mut play = RandomPlay::<L, E>::new(env.clone(), 1, 0, ENVIRONMENTS);
    play.play(HORIZON);
    let mut rates: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let start = Instant::now();
            let totals = play.play(HORIZON);
            totals.steps as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates
}

struct Measure;

impl Visitor for Measure {
    type Output = ();
    fn visit<E: Env>(self, env: E) {
        let name = env.spec().name;
        let scalar = measure::<f32, E>(&env);
        let base = scalar[REPETITIONS / 2];
        for (lane, rates) in [
            ("f32", scalar),
            ("Wide<8>", measure::<Wide<8>, E>(&env)),
            ("Wide<16>", measure::<Wide<16>, E>(&env)),
        ] {
            let median = rates[REPETITIONS / 2];
            println!(
                "{name:24} {lane:9} {:9.1} M steps/s  ({:.1} .. {:.1})  {:5.1}x scalar",
                median / 1e6,
                rates[0] / 1e6,
                rates[REPETITIONS - 1] / 1e6,
                median / base
            );
        }
    }
}

fn main() {
    let only = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    println!(
        "environments alone, one core, {ENVIRONMENTS} environments, median of {REPETITIONS} horizons (min .. max)"
    );
    for name in registry::names().filter(|name| only.as_deref().is_none_or(|only| only == *name)) {
        registry::with_env(name, &EnvOptions::new(), Measure).expect("a registered name");
    }
}
