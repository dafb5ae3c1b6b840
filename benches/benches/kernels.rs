//! Kernels on the first GPU: environments alone and the rollout, compared with the same environments on one CPU core, in one
//! run. `cargo bench -p benches --bench kernels`; says so where there is no GPU.

use std::time::{Duration, Instant};

use benches::Spread;
use operant_bench::measure::Speed;
use operant_bench::measure::gpu as measure;
use operant_cuda::{Cuda, Device};
use operant_env::{AnyEnv, LaneWidth, builtin};
use operant_learn::{Config, LearnError, Precision};

const ENVIRONMENTS: usize = 8_192;
const HORIZON: usize = 128;
const BUDGET: Duration = Duration::from_secs(2);

fn main() {
    let device = match Cuda::find().and_then(|cuda| cuda.open(0)) {
        Ok(device) => device,
        Err(error) => {
            println!("kernels: not measured: {error}");
            return;
        }
    };
    let properties = device.properties();
    println!(
        "{}, {} multiprocessors at {} MHz; {HORIZON} steps a launch, GAE included; median (min .. max), M steps/s\n",
        properties.name,
        properties.multiprocessors,
        properties.clock_khz / 1_000
    );
    for env in builtin().envs() {
        measured(&device, &**env).unwrap_or_else(|error| println!("{}: {error}", env.spec().name));
    }
}

/// Prints the speeds of one environment.
fn measured(device: &Device, env: &dyn AnyEnv) -> Result<(), LearnError> {
    let name = env.spec().name;
    let core = core_rate(env)?;
    println!("{name:24} one core, lanes     {:.1}", core.scaled(1e-6));
    let say = |what: &str, speed: &Speed| {
        let spread = Spread { median: speed.sps_median, min: speed.sps_min, max: speed.sps_max };
        println!(
            "{name:24} {what:20} {:.1}  {:8.1}x one core",
            spread.scaled(1e-6),
            spread.median / core.median
        );
    };
    for (envs, writes) in [(ENVIRONMENTS, false), (ENVIRONMENTS, true), (1 << 20, false)] {
        let speed = measure::environments(device, env, [HORIZON, envs], writes, BUDGET)?;
        say(&format!("{envs}{}", if writes { ", written" } else { "" }), &speed);
    }
    for precision in Precision::ALL {
        for hidden in [vec![64, 64], vec![128, 128]] {
            let what = format!("rollout {precision} H={}", hidden[0]);
            let config = Config {
                num_envs: ENVIRONMENTS,
                num_steps: HORIZON,
                hidden,
                shared_trunk: true,
                ..Config::default()
            };
            say(&what, &measure::rollout(device, env, &config, precision, BUDGET)?.speed);
        }
    }
    Ok(())
}

/// Steps per second of the environment on one core, random actions.
fn core_rate(env: &dyn AnyEnv) -> Result<Spread, LearnError> {
    let mut play = env.random_play(1, 0, ENVIRONMENTS, LaneWidth::WIDEST)?;
    play.play(HORIZON as u64)?;
    let mut rates = Vec::new();
    for _ in 0..7 {
        let start = Instant::now();
        let steps = play.play(HORIZON as u64)?.steps;
        rates.push(steps as f64 / start.elapsed().as_secs_f64());
    }
    Ok(Spread::of(rates))
}
