//! Environments alone, on one core: steps per second of random play with auto-reset and time limit, 8,192 environments,
//! horizons of 128 steps, on the scalar lane and on the vectors of this build. `cargo bench -p benches --bench env [NAME]`.

use std::time::Instant;

use operant_env::{AnyEnv, LaneWidth, builtin};

const ENVIRONMENTS: usize = 8192;
const HORIZON: u64 = 128;
const REPETITIONS: usize = 15;

/// Steps per second of each repetition, sorted.
fn measure(env: &dyn AnyEnv, lanes: LaneWidth) -> Vec<f64> {
    let mut play = env.random_play(1, 0, ENVIRONMENTS, lanes).expect("made of lanes");
    let mut totals = || play.play(HORIZON).expect("made of lanes");
    totals();
    let mut rates: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let start = Instant::now();
            let steps = totals().steps;
            steps as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates
}

fn main() {
    let only = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    println!(
        "environments alone, one core, {ENVIRONMENTS} environments, median of {REPETITIONS} horizons (min .. max)"
    );
    for env in builtin().envs() {
        let name = env.spec().name;
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let scalar = measure(&**env, LaneWidth::One);
        let base = scalar[REPETITIONS / 2];
        for (lane, rates) in [
            ("f32", scalar),
            (
                if LaneWidth::WIDEST == LaneWidth::Eight { "Wide<8>" } else { "Wide<16>" },
                measure(&**env, LaneWidth::WIDEST),
            ),
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
