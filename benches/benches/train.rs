//! Full PPO on CartPole against the machine's limit: rollout, GAE, four epochs and Adam, in environment steps per second
//! and as a fraction of the multiply-add peak measured in the same run. `cargo bench -p benches --bench train`
//!
//! The network is 4-64-64-(2+1), tanh, shared trunk. Only the multiply-adds of matrices are counted: one forward pass in
//! the rollout, forward and backward in each epoch. A fraction above 1 means a wrong peak or count, and fails.

use std::process::ExitCode;
use std::sync::Arc;

use benches::{Spread, peak_flops};
use operant_bench::measure::driver::Driver;
use operant_bench::measure::{Phases, training_flops};
use operant_env::cartpole::CartPole;
use operant_learn::Config;
use operant_learn::cpu::backend;
use operant_learn::network::{Architecture, Head, Input, Network};

/// Repetitions of every measurement, interleaved, so that all see the same clock.
const REPETITIONS: usize = 7;

fn config(num_envs: usize) -> Config {
    Config {
        total_timesteps: 1 << 40,
        num_envs,
        num_minibatches: num_envs * 128 / 32_768,
        shared_trunk: true,
        ..Config::default()
    }
}

fn main() -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("full PPO on CartPole, {threads} threads, median of {REPETITIONS} (min .. max)");
    let mut ok = true;
    for num_envs in [1024, 4096, 8192] {
        let config = config(num_envs);
        let network = Network::new(Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2])));
        let flops = training_flops(&network, &config);
        let backend = backend(Arc::new(CartPole::default()), &config, threads).expect("a good configuration");
        let mut driver = Driver::new(backend, u64::MAX);
        driver.update().expect("an update");
        let steps = (num_envs * config.num_steps) as f64;
        let (mut peaks, mut rates, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..REPETITIONS {
            peaks.push(peak_flops(None));
            let update = driver.update().expect("an update");
            rates.push(steps / update.seconds);
            let phases = Phases::of(&update.stats);
            shares.push(phases.update / phases.sum());
        }
        let (peak, rate, share) = (Spread::of(peaks), Spread::of(rates), Spread::of(shares));
        let fraction = rate.median * flops / peak.median;
        println!(
            "{num_envs:5} envs: {:.3} M steps/s, {flops:.0} matrix FLOP a step: {:.1} of {:.1} GFLOP/s, {:.1}% of peak; \
             update {:.0}% of the time",
            rate.scaled(1e-6),
            rate.median * flops / 1e9,
            peak.scaled(1e-9),
            100.0 * fraction,
            100.0 * share.median
        );
        if fraction > 1.0 {
            eprintln!("error: above the measured peak; the peak or the count of operations is wrong");
            ok = false;
        }
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
