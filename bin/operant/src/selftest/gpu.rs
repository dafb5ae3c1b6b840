//! The GPU's self-test: every kernel against the CPU, then speeds.

use std::num::Wrapping;
use std::time::Duration;

use operant_cuda::{Cuda, CudaError, Device};
use operant_env::replay::{Arithmetic, Case, replay, to_words};
use operant_env::{ActionSpace, Env, EnvOptions, Visitor, registry};
use operant_lane::{Bundle, Draws, Purpose, Sink};
use operant_learn::cuda::measure;
use operant_learn::cuda::parity::{
    check_gae, check_horizon, compare_gradient, compare_rollout, compare_update, differing_environments,
};
use operant_learn::network::{Architecture, Network, init_params};
use operant_learn::{Config, LearnError, Precision};
use serde_json::json;

use super::Extent;
use super::cpu::{train, trained};
use super::report::{Report, Row};

/// Runs everything on GPU `ordinal`.
///
/// # Errors
/// When there is no such GPU, or no driver or compiler for it.
pub fn check_gpu(report: &mut Report, extent: Extent, ordinal: usize) -> Result<(), CudaError> {
    let cuda = Cuda::find()?;
    let device = cuda.open(ordinal)?;
    let properties = device.properties();
    let memory = device.memory()?;
    report.gpu = Some(json!({
        "device": format!("cuda:{ordinal}"),
        "name": properties.name,
        "uuid": properties.uuid,
        "compute_capability": [properties.compute_capability.0, properties.compute_capability.1],
        "multiprocessors": properties.multiprocessors,
        "clock_mhz": properties.clock_khz / 1000,
        "memory_bytes": memory.total,
        "driver": cuda.driver_version().to_string(),
        "compiler": cuda.compiler().version().to_string(),
    }));
    let gpu = Gpu { device: &device, name: format!("cuda:{ordinal}"), extent };
    gpu.environments(report);
    gpu.rollouts(report);
    gpu.horizons(report);
    gpu.updates(report);
    gpu.replays(report);
    gpu.environment_speeds(report);
    gpu.rollout_speeds(report);
    gpu.training_speeds(report);
    if !extent.quick {
        learned(report, &gpu.name);
    }
    Ok(())
}

struct Gpu<'a> {
    device: &'a Device,
    name: String,
    extent: Extent,
}

/// Runs a generic closure for a registered environment.
trait ForEnv {
    type Output;
    fn run<E: Env>(self, env: &E) -> Result<Self::Output, LearnError>;
}

struct Visit<F>(F);

impl<F: ForEnv> Visitor for Visit<F> {
    type Output = Result<F::Output, LearnError>;

    fn visit<E: Env>(self, env: E) -> Self::Output {
        self.0.run(&env)
    }
}

fn with<F: ForEnv>(name: &str, options: &EnvOptions, run: F) -> Result<F::Output, String> {
    let outcome = registry::with_env(name, options, Visit(run)).map_err(|error| error.to_string())?;
    outcome.map_err(|error| error.to_string())
}

fn config(num_envs: usize, num_steps: usize, hidden: &[usize]) -> Config {
    Config { seed: 3, num_envs, num_steps, hidden: hidden.to_vec(), shared_trunk: true, ..Config::default() }
}

/// Weights that choose and value as trained ones do, not nearly evenly as initial ones.
fn weights<E: Env>(env: &E, config: &Config) -> Result<Vec<f32>, LearnError> {
    let network = Network::new(Architecture::of(&env.spec(), config)?);
    let mut params = init_params(&network, 11);
    for tensor in &network.tensors {
        let range = tensor.range();
        match tensor.name.as_str() {
            "policy.weight" => params[range].iter_mut().for_each(|w| *w *= 100.0),
            "value.bias" => params[range].fill(0.5),
            _ => {}
        }
    }
    Ok(params)
}

struct Bits<'a> {
    device: &'a Device,
    steps: usize,
}

impl ForEnv for Bits<'_> {
    type Output = Vec<String>;

    fn run<E: Env>(self, env: &E) -> Result<Vec<String>, LearnError> {
        let differing = differing_environments(self.device, env, 65, self.steps)?;
        Ok(differing.first().map_or(Vec::new(), |first| {
            vec![format!("{} of 65 environments differ, the first is {first}", differing.len())]
        }))
    }
}

struct Compare<'a> {
    device: &'a Device,
    config: Config,
    precision: Precision,
    steps: u64,
}

impl ForEnv for Compare<'_> {
    type Output = Vec<String>;

    fn run<E: Env>(self, env: &E) -> Result<Vec<String>, LearnError> {
        let bits = env.spec().obs.words() != env.spec().obs.size();
        let config = Config { norm_obs: self.config.norm_obs && !bits, ..self.config };
        let params = weights(env, &config)?;
        let found = compare_rollout(self.device, env, &config, self.precision, &params, self.steps)?;
        Ok(found.problems(self.precision))
    }
}

struct Horizon<'a> {
    device: &'a Device,
    config: Config,
    precision: Precision,
}

impl ForEnv for Horizon<'_> {
    type Output = Vec<String>;

    fn run<E: Env>(self, env: &E) -> Result<Vec<String>, LearnError> {
        let params = weights(env, &self.config)?;
        let mut problems = check_horizon(self.device, env, &self.config, self.precision, &params)?;
        problems.extend(check_gae(self.device, env, &self.config, self.precision, &params)?);
        Ok(problems)
    }
}

/// Updates in single precision, in both ways of launching, or a gradient in another.
struct Updates<'a> {
    device: &'a Device,
    config: Config,
    precision: Precision,
    count: u64,
}

impl ForEnv for Updates<'_> {
    type Output = Vec<String>;

    fn run<E: Env>(self, env: &E) -> Result<Vec<String>, LearnError> {
        let Self { device, config, precision, count } = self;
        if precision != Precision::F32 {
            return compare_gradient(device, env, &config, precision);
        }
        let whole = compare_update(device, env, &config, count, false)?;
        let phases = compare_update(device, env, &config, count, true)?;
        let mut problems = whole.problems;
        if whole.state != phases.state {
            problems.push("a launch a phase gives other bits than one for all".to_owned());
        }
        Ok(problems)
    }
}

/// Given actions from a first state, against the scalar lane.
struct Replays<'a>(&'a Device);

impl ForEnv for Replays<'_> {
    type Output = Vec<String>;

    fn run<E: Env>(self, env: &E) -> Result<Vec<String>, LearnError> {
        let cases: Vec<Case> = (0..8).map(|number| random_case(env, number)).collect();
        let mut problems = Vec::new();
        let words = cases.iter().map(|case| to_words(env, case)).collect::<Result<Vec<_>, _>>();
        let words = match words {
            Ok(words) => words,
            Err(error) => return Ok(vec![error.to_string()]),
        };
        let played = operant_learn::cuda::replay(self.0, env, &words)?;
        for (number, (case, got)) in cases.iter().zip(played).enumerate() {
            if replay(env, Arithmetic::F32, case).ok() != Some(got) {
                problems.push(format!("case {number} is not what the scalar lane gives"));
            }
        }
        Ok(problems)
    }
}

/// A first state and 40 actions that vary with `number`.
fn random_case<E: Env>(env: &E, number: u32) -> Case {
    let state = env.reset(&mut Draws::<f64>::at(9, Wrapping(number), 0, Purpose::Init));
    let mut leaves = Leaves(Vec::new());
    state.store(&mut leaves);
    let spread = |step: usize, k: usize| (step * 7 + k * 3 + number as usize * 5) % 11;
    let action = |step: usize| -> Vec<f64> {
        match &env.spec().actions {
            ActionSpace::Discrete(choices) => {
                choices.iter().enumerate().map(|(k, count)| (spread(step, k) % count) as f64).collect()
            }
            ActionSpace::Box { low, high } => {
                let bounds = low.iter().zip(high).enumerate();
                bounds.map(|(k, (low, high))| low + (high - low) * spread(step, k) as f64 / 10.0).collect()
            }
        }
    };
    Case { state: env.pack(&leaves.0), actions: (0..40).map(action).collect() }
}

/// The leaves of a state as numbers.
struct Leaves(Vec<f64>);

impl Sink<f64> for Leaves {
    fn float(&mut self, value: f64) {
        // What single precision holds, so that both start from the same state.
        self.0.push(f64::from(value as f32));
    }
    fn uint(&mut self, value: Wrapping<u32>) {
        self.0.push(f64::from(value.0));
    }
    fn int(&mut self, value: Wrapping<i32>) {
        self.0.push(f64::from(value.0));
    }
    fn mask(&mut self, value: bool) {
        self.0.push(f64::from(u8::from(value)));
    }
}

impl Gpu<'_> {
    fn updates(&self, report: &mut Report) {
        let (envs, steps, count) = if self.extent.quick { (17, 9, 1) } else { (1_000, 33, 3) };
        for precision in Precision::ALL {
            for name in registry::names() {
                let what = if precision == Precision::F32 { "updates" } else { "a gradient" };
                report.check("gpu", format!("{name}: {what} in {precision}, 64-64, against the CPU"), || {
                    let config = config(envs, steps, &[64, 64]);
                    let updates = Updates { device: self.device, config, precision, count };
                    with(name, &EnvOptions::new(), updates)
                });
            }
        }
    }

    fn replays(&self, report: &mut Report) {
        for name in registry::names() {
            report.check("gpu", format!("{name}: replayed cases are the scalar lane's"), || {
                with(name, &EnvOptions::new(), Replays(self.device))
            });
        }
    }

    fn environments(&self, report: &mut Report) {
        let steps = if self.extent.quick { 1_024 } else { 4_096 };
        let sticky: EnvOptions = [("sticky_action_prob".to_owned(), 0.1)].into();
        let mut check = |name: &str, options: &EnvOptions, what: &str| {
            report.check("gpu", format!("{name}{what}: bits of 65 environments x {steps} steps"), || {
                with(name, options, Bits { device: self.device, steps })
            });
        };
        for name in registry::names() {
            check(name, &EnvOptions::new(), "");
        }
        check("minatar_breakout", &sticky, " with sticky actions");
    }

    fn rollouts(&self, report: &mut Report) {
        let (envs, steps) = if self.extent.quick { (17, 8) } else { (65, 64) };
        let mut check = |name: &str, what: &str, config: Config, precision: Precision| {
            report.check("gpu", format!("{name}: rollout in {precision}, {what}, against the CPU"), || {
                let compare = Compare { device: self.device, config, precision, steps };
                with(name, &EnvOptions::new(), compare)
            });
        };
        for precision in Precision::ALL {
            for name in registry::names() {
                check(name, "64-64", config(envs, 1, &[64, 64]), precision);
            }
            check("cartpole", "128-128", config(envs, 1, &[128, 128]), precision);
            let apart = Config { shared_trunk: false, ..config(envs, 1, &[33, 20]) };
            check("cartpole", "33-20, trunks apart", apart, precision);
            if !self.extent.quick {
                let normed = Config { norm_obs: true, norm_reward: true, ..config(envs, 1, &[64, 64]) };
                check("mountain_car", "64-64, normalised", normed, precision);
            }
        }
        let wide = config(envs, 1, &[256, 256]);
        check("cartpole", "256-256", wide, Precision::F32);
    }

    fn horizons(&self, report: &mut Report) {
        let (envs, steps) = if self.extent.quick { (17, 64) } else { (1_000, 512) };
        for precision in Precision::ALL {
            for name in ["cartpole", "pendulum"] {
                report.check(
                    "gpu",
                    format!("{name}: a horizon in {precision} is its steps, and GAE's"),
                    || {
                        let config = config(envs, steps, &[64, 64]);
                        with(name, &EnvOptions::new(), Horizon { device: self.device, config, precision })
                    },
                );
            }
        }
    }

    fn budget(&self) -> Duration {
        Duration::from_secs_f64(if self.extent.quick { 0.02 } else { 1.0 })
    }

    /// Floating-point operations per second of the cores in f32, by clock; unknown for architectures not listed.
    fn peak(&self, precision: Precision) -> Option<f64> {
        let properties = self.device.properties();
        let lanes = match properties.compute_capability {
            (8, 0) => 64.0,
            (8 | 9 | 10 | 12, _) => 128.0,
            _ => return None,
        };
        let f32_peak =
            f64::from(properties.multiprocessors) * lanes * 2.0 * f64::from(properties.clock_khz) * 1e3;
        (precision == Precision::F32).then_some(f32_peak)
    }

    fn environment_speeds(&self, report: &mut Report) {
        let sizes: &[usize] = if self.extent.quick { &[1_024] } else { &[8_192, 65_536, 1 << 20, 1 << 22] };
        for name in registry::names() {
            for &envs in sizes.iter().filter(|&&envs| name == "cartpole" || envs <= 1 << 20) {
                for writes in [false, true] {
                    // Outputs of the largest would fill the memory of small devices.
                    if writes && (envs > 1 << 20 || self.extent.quick) {
                        continue;
                    }
                    let steps = if writes { 32 } else { 128 };
                    let steps = if self.extent.quick { 16 } else { steps };
                    let run = EnvironmentSpeed { gpu: self, steps, envs, writes };
                    self.measured(report, name, run);
                }
            }
        }
    }

    fn rollout_speeds(&self, report: &mut Report) {
        let sizes: &[usize] = if self.extent.quick { &[256] } else { &[1_024, 8_192, 65_536] };
        let steps = if self.extent.quick { 8 } else { 128 };
        for precision in Precision::ALL {
            for hidden in [[64, 64], [128, 128]] {
                for &envs in sizes {
                    let run = RolloutSpeed { gpu: self, config: config(envs, steps, &hidden), precision };
                    self.measured(report, "cartpole", run);
                }
            }
            if !self.extent.quick {
                for name in registry::names().filter(|name| *name != "cartpole") {
                    let run = RolloutSpeed { gpu: self, config: config(8_192, steps, &[64, 64]), precision };
                    self.measured(report, name, run);
                }
            }
        }
    }

    fn training_speeds(&self, report: &mut Report) {
        let sizes: &[usize] = if self.extent.quick { &[256] } else { &[1_024, 8_192, 65_536] };
        let steps = if self.extent.quick { 4 } else { 128 };
        let hidden = [
            (64, Precision::F32),
            (64, Precision::Tf32),
            (64, Precision::Bf16),
            (128, Precision::F32),
            (128, Precision::Bf16),
        ];
        for (hidden, precision) in hidden {
            for &envs in sizes {
                // Minibatches of 32,768 samples, four to an epoch at least.
                let config = Config {
                    num_minibatches: (envs * steps / 32_768).max(4),
                    total_timesteps: 1 << 40,
                    ..config(envs, steps, &[hidden, hidden])
                };
                let run = TrainingSpeed { gpu: self, config, precision };
                match with("cartpole", &EnvOptions::new(), run) {
                    Ok(row) => report.row(row),
                    Err(problem) => report.check("gpu", "cartpole: speed of training", || Err(problem)),
                }
            }
        }
    }

    /// Takes down a measured row; one that cannot be measured is a failed check.
    fn measured(&self, report: &mut Report, name: &str, run: impl ForEnv<Output = Row>) {
        match with(name, &EnvOptions::new(), run) {
            Ok(row) => {
                let horizon = (row.more["launches"].as_f64(), row.more["bus_bytes"].as_f64());
                if horizon != (Some(1.0), Some(0.0)) {
                    let problem =
                        format!("a horizon takes (launches, bytes over the bus) = {horizon:?}, not 1 and 0");
                    report.check("gpu", format!("{name}: one launch a horizon"), || Ok(vec![problem]));
                }
                report.row(row);
            }
            Err(problem) => report.check("gpu", format!("{name}: speed"), || Err(problem)),
        }
    }

    fn row(&self, bench: &'static str, env: &str, envs: usize, speed: &measure::Speed) -> Row {
        Row {
            bench,
            env: env.to_owned(),
            device: self.name.clone(),
            precision: "f32",
            envs,
            what: String::new(),
            threads: None,
            sps: [speed.sps_median, speed.sps_min, speed.sps_max],
            reps: speed.reps,
            flops_per_step: None,
            peak_flops: None,
            more: json!({"launches": speed.launches, "bus_bytes": speed.bus_bytes}),
        }
    }
}

struct EnvironmentSpeed<'a> {
    gpu: &'a Gpu<'a>,
    steps: usize,
    envs: usize,
    writes: bool,
}

impl ForEnv for EnvironmentSpeed<'_> {
    type Output = Row;

    fn run<E: Env>(self, env: &E) -> Result<Row, LearnError> {
        let gpu = self.gpu;
        let shape = [self.steps, self.envs];
        let speed = measure::environments(gpu.device, env, shape, self.writes, gpu.budget())?;
        let bench = if self.writes { "env+writes" } else { "env" };
        let what = format!("{} random steps a launch", self.steps);
        Ok(Row { what, ..gpu.row(bench, env.spec().name, self.envs, &speed) })
    }
}

/// CartPole learned by the preset on the GPU, in processes of their own.
fn learned(report: &mut Report, device: &str) {
    for seed in 1..=3 {
        let mut result = serde_json::Value::Null;
        report.check("gpu", format!("cartpole is learned with seed {seed}"), || {
            result = train(device, seed)?;
            let mean = result["eval_return_mean"].as_f64().unwrap_or(f64::NAN);
            Ok(if mean >= 475.0 { Vec::new() } else { vec![format!("it reached {mean}, less than 475")] })
        });
        if let Some(sps) = result["sps"].as_f64() {
            report.row(trained(device, sps, &result, seed));
        }
    }
}

struct TrainingSpeed<'a> {
    gpu: &'a Gpu<'a>,
    config: Config,
    precision: Precision,
}

impl ForEnv for TrainingSpeed<'_> {
    type Output = Row;

    fn run<E: Env>(self, env: &E) -> Result<Row, LearnError> {
        let (gpu, config) = (self.gpu, &self.config);
        let measured = measure::training(gpu.device, env, config, self.precision, gpu.budget())?;
        let widths: Vec<String> = config.hidden.iter().map(ToString::to_string).collect();
        let row = gpu.row("train", env.spec().name, config.num_envs, &measured.speed);
        let mut more = row.more.clone();
        more["sample_epochs_per_s"] = json!(measured.sample_epochs);
        more["rollout_s"] = json!(measured.rollout_s);
        more["update_s"] = json!(measured.update_s);
        more["minibatches"] = json!(config.num_minibatches);
        more["epochs"] = json!(config.update_epochs);
        Ok(Row {
            what: format!(
                "{} steps, {}, {} minibatches",
                config.num_steps,
                widths.join("-"),
                config.num_minibatches
            ),
            precision: self.precision.name(),
            flops_per_step: Some(measured.flops_per_step),
            peak_flops: gpu.peak(self.precision),
            more,
            ..row
        })
    }
}

struct RolloutSpeed<'a> {
    gpu: &'a Gpu<'a>,
    config: Config,
    precision: Precision,
}

impl ForEnv for RolloutSpeed<'_> {
    type Output = Row;

    fn run<E: Env>(self, env: &E) -> Result<Row, LearnError> {
        let (gpu, config) = (self.gpu, &self.config);
        let measured = measure::rollout(gpu.device, env, config, self.precision, gpu.budget())?;
        let widths: Vec<String> = config.hidden.iter().map(ToString::to_string).collect();
        let row = gpu.row("rollout", env.spec().name, config.num_envs, &measured.speed);
        let mut more = row.more.clone();
        more["registers"] = json!(measured.registers);
        more["blocks_per_multiprocessor"] = json!(measured.blocks_per_multiprocessor);
        more["weights_at"] = json!(format!("{:?}", measured.weights_at).to_lowercase());
        Ok(Row {
            precision: self.precision.name(),
            what: format!("{} steps, {}", config.num_steps, widths.join("-")),
            flops_per_step: Some(measured.flops_per_step),
            peak_flops: gpu.peak(self.precision),
            more,
            ..row
        })
    }
}
