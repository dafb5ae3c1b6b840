//! Kernels on the first GPU: environments alone and the rollout, beside the same environments on one core of this CPU, in one
//! run. `cargo bench -p benches --bench kernels`; says so where there is no GPU.

use std::time::Duration;

use benches::Spread;
use operant_bench::measure::Speed;
use operant_bench::measure::gpu as measure;
use operant_cuda::{Cuda, Device};
use operant_env::random_play::RandomPlay;
use operant_env::{Env, EnvOptions, Visitor, registry};
use operant_lane::Wide;
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
    for name in registry::names() {
        let outcome =
            registry::with_env(name, &EnvOptions::new(), Measure(&device)).expect("a registered name");
        outcome.unwrap_or_else(|error| println!("{name}: {error}"));
    }
}

struct Measure<'a>(&'a Device);

impl Visitor for Measure<'_> {
    type Output = Result<(), LearnError>;

    fn visit<E: Env>(self, env: E) -> Self::Output {
        let name = env.spec().name;
        let core = core_rate(&env);
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
            let speed = measure::environments(self.0, &env, [HORIZON, envs], writes, BUDGET)?;
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
                say(&what, &measure::rollout(self.0, &env, &config, precision, BUDGET)?.speed);
            }
        }
        Ok(())
    }
}

/// Steps per second of the environment on one core, random actions.
fn core_rate<E: Env>(env: &E) -> Spread {
    let mut play = RandomPlay::<Wide<16>, E>::new(env.clone(), 1, 0, ENVIRONMENTS);
    play.play(HORIZON as u64);
    let rate = |play: &mut RandomPlay<Wide<16>, E>| {
        let mut steps = 0;
        let seconds = benches::time(|| steps = play.play(HORIZON as u64).steps);
        steps as f64 / seconds
    };
    Spread::of((0..7).map(|_| rate(&mut play)).collect())
}
