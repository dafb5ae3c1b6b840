//! What is compiled: every kernel for every environment, and the networks and architectures that the page shows.

use std::num::Wrapping;

use anyhow::{Context, Result};
use operant_cuda::Program;
use operant_env::lane::{Bundle, Draws, Purpose};
use operant_env::{ActionSpace, Env, EnvOptions, ObsSpace, RowsMut, Visitor, registry, with_env};
use operant_learn::cuda::specialise::{Limits, Specialisation, UpdateSpecialisation};
use operant_learn::cuda::{
    Form, KernelEnv, gae_program, gemm_math_program, gemm_rollout_program, gemm_update_program, pack_program,
    play_program, replay_program, rollout_program, update_program,
};
use operant_learn::network::{Architecture, Network};
use operant_learn::sample::SampleLayout;
use operant_learn::{Activation, Config, Precision, presets};

use super::count::Facts;
use super::work::Work;

/// N that kernels are specialised for.
pub const NUM_ENVS: usize = 8_192;

/// The architecture of the H200, whose machine code is read.
pub const H200: u32 = 90;

/// Architectures and what a GPU of each gives a block, the last for those not listed.
const ARCHITECTURES: [(u32, Limits); 6] = [
    (80, Limits { shared: 166_912, multiprocessors: 108 }),
    (86, Limits { shared: 101_376, multiprocessors: 84 }),
    (89, Limits { shared: 101_376, multiprocessors: 128 }),
    (H200, Limits { shared: 232_448, multiprocessors: 132 }),
    (100, Limits { shared: 232_448, multiprocessors: 132 }),
    (120, Limits { shared: 101_376, multiprocessors: 132 }),
];

/// Threads a block of `random_play`, as 8,192 environments get them.
const PLAY_THREADS: u32 = 64;

/// The environment and the networks whose Adam step is counted.
const STEPPED: [(&str, &str); 2] = [("cartpole", "shared 64-64"), ("cartpole", "shared 128-128")];

/// Which part of everything is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// CartPole for every architecture, all other environments for the H200's.
    Usual,
    /// Every environment for every architecture.
    All,
}

/// A loop over steps to be counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The kernel that has it.
    pub kernel: &'static str,
    /// What the count needs to know.
    pub facts: Facts,
    /// Environments of a warp.
    pub environments: f64,
    /// What the network must execute at least; None without one.
    pub work: Option<Work>,
}

/// An update whose Adam step is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// The network, and how the update was specialised for it.
    pub network: Network,
    pub update: UpdateSpecialisation,
    /// Bytes of a sample.
    pub sample: usize,
    /// What a tile of the gradient must execute at least.
    pub tile: Work,
}

/// One program for one architecture.
#[derive(Debug, Clone)]
pub struct Job {
    /// The environment's name; "any" where the program has none.
    pub environment: &'static str,
    /// The file and, where it is compiled in several forms, which.
    pub kernel: &'static str,
    /// The network.
    pub network: Option<&'static str>,
    /// What the preset's network is, where it is the preset's.
    pub preset: Option<String>,
    /// The network's arithmetic.
    pub precision: Option<Precision>,
    /// 90 for sm_90.
    pub architecture: u32,
    /// How the rollout or the update was specialised.
    pub specialisation: Option<Specialisation>,
    /// What is compiled.
    pub program: Program,
    /// The loop that is counted, for the H200.
    pub measured: Option<Measured>,
    /// The Adam step that is counted, for the H200.
    pub adam: Option<Measurement>,
}

impl Job {
    /// A name for its files, and for messages.
    pub fn name(&self) -> String {
        let precision = self.precision.map(Precision::name);
        let parts = [Some(self.kernel), Some(self.environment), self.network, precision];
        let parts: Vec<String> =
            parts.into_iter().flatten().map(|part| part.replace([' ', '+'], "-")).collect();
        format!("{}.sm_{}", parts.join("."), self.architecture)
    }
}

/// Everything to compile, for the architectures that the compiler knows.
///
/// # Errors
/// When a shipped preset or a network does not fit.
pub fn jobs(extent: Extent, known: &[u32]) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for (architecture, limits) in ARCHITECTURES.into_iter().filter(|(number, _)| known.contains(number)) {
        jobs.push(Job {
            environment: "any",
            kernel: "gae",
            network: None,
            preset: None,
            precision: None,
            architecture,
            specialisation: None,
            program: gae_program(),
            measured: None,
            adam: None,
        });
        for name in registry::names() {
            if extent == Extent::All || architecture == H200 || name == "cartpole" {
                jobs.extend(with_env(name, &EnvOptions::new(), Programs { architecture, limits })??);
            }
        }
    }
    Ok(jobs)
}

/// Collects the programs of an environment.
struct Programs {
    architecture: u32,
    limits: Limits,
}

impl Visitor for Programs {
    type Output = Result<Vec<Job>>;

    fn visit<E: Env>(self, env: E) -> Result<Vec<Job>> {
        let (spec, kernel_env) = (env.spec(), KernelEnv::of(&env));
        let read = self.architecture == H200;
        let job = |kernel, program| Job {
            environment: spec.name,
            kernel,
            network: None,
            preset: None,
            precision: None,
            architecture: self.architecture,
            specialisation: None,
            program,
            measured: None,
            adam: None,
        };
        let words = match &spec.actions {
            ActionSpace::Discrete(choices) => choices.len(),
            ActionSpace::Box { low, .. } => low.len(),
        };
        let mut play = job("random_play", play_program(&kernel_env, PLAY_THREADS, false, false));
        let facts = Facts { policy: false, draws_every_fourth: words == 1, bits_a_word: None };
        play.measured =
            read.then_some(Measured { kernel: "random_play", facts, environments: 32.0, work: None });
        let mut jobs = vec![
            play,
            job("random_play, writing", play_program(&kernel_env, PLAY_THREADS, true, false)),
            job("random_play, hashing", play_program(&kernel_env, PLAY_THREADS, false, true)),
            job("replay", replay_program(&kernel_env)),
        ];
        let preset = preset(spec.name)?;
        let wide = |hidden: usize| Config {
            hidden: vec![hidden, hidden],
            shared_trunk: true,
            num_envs: NUM_ENVS,
            ..Config::default()
        };
        let networks = [
            (wide(64), "shared 64-64", None),
            (wide(128), "shared 128-128", None),
            (preset.clone(), "preset", Some(describe(&preset))),
        ];
        for (config, shown, words) in networks {
            let network = Network::new(Architecture::of(&spec, &config)?);
            for precision in Precision::ALL {
                let specialisation = Specialisation::new(&network, &config, precision, self.limits)?;
                let facts = Facts {
                    policy: true,
                    draws_every_fourth: network.architecture.head.uniforms() == 1,
                    bits_a_word: bits_a_word(&env),
                };
                let work = Work::of(&network, precision);
                let measured = Measured { kernel: "rollout", facts, environments: 16.0, work: Some(work) };
                let with_network = |kernel, program, measured| Job {
                    network: Some(shown),
                    preset: words.clone(),
                    precision: Some(precision),
                    specialisation: Some(specialisation.clone()),
                    measured,
                    ..job(kernel, program)
                };
                let program = rollout_program(&kernel_env, &network, &config, &specialisation);
                jobs.push(with_network("rollout", program, read.then_some(measured)));
                // Networks that are too wide for an update in this precision are refused with words.
                if let Ok(update) = UpdateSpecialisation::new(&network, &config, precision, self.limits) {
                    let program = update_program(&kernel_env, &network, &config, &update);
                    let (weights_at, warps, shared) = (update.weights_at, update.warps, update.shared);
                    let adam = (read && STEPPED.contains(&(spec.name, shown))).then(|| Measurement {
                        network: network.clone(),
                        sample: 4 * SampleLayout::new(&network.architecture, E::MASKED).stride,
                        tile: Work::of_tile(&network, precision, update.warps),
                        update: update.clone(),
                    });
                    let placed = Specialisation { weights_at, warps, shared, ..update.forward };
                    let job = with_network("ppo_update", program, None);
                    jobs.push(Job { specialisation: Some(placed), adam, ..job });
                }
                if words.is_some() {
                    let program = pack_program(&network, &config, &specialisation);
                    jobs.push(Job { specialisation: None, ..with_network("pack", program, None) });
                }
            }
        }
        // A network that no kernel holds; its products are the library's.
        let config = Config { norm_reward: true, ..wide(512) };
        let network = Network::new(Architecture::of(&spec, &config)?);
        for precision in Precision::ALL {
            let form = Form::new(&network, precision);
            for (kernel, program) in [
                ("gemm_rollout", gemm_rollout_program(&kernel_env, &network, &config, &form, 1)),
                ("gemm_update", gemm_update_program(&kernel_env, &network, &form)),
                ("gemm_math", gemm_math_program(&form)),
            ] {
                // The last is the same for all environments.
                if kernel == "gemm_math" && spec.name != "cartpole" {
                    continue;
                }
                let (network, precision) = (Some("shared 512-512"), Some(precision));
                jobs.push(Job { network, precision, ..job(kernel, program) });
            }
        }
        Ok(jobs)
    }
}

/// The shipped preset of an environment for GPUs, with as many environments as the page is about.
fn preset(environment: &str) -> Result<Config> {
    let mut table = toml::Table::try_from(Config::default()).context("the defaults are no TOML")?;
    let preset: toml::Table = presets::preset(environment)
        .unwrap_or_default()
        .parse()
        .with_context(|| format!("the shipped preset of {environment} is no TOML"))?;
    let gpu = preset.get(presets::GPU_TABLE).and_then(toml::Value::as_table).cloned().unwrap_or_default();
    for (key, value) in preset.into_iter().chain(gpu) {
        // Keys that are none of the learner's are a run's: how often to evaluate, say.
        if let Some(default) = table.get_mut(&key) {
            *default = value;
        }
    }
    let config: Config = table.try_into().with_context(|| format!("the shipped preset of {environment}"))?;
    Ok(Config { num_envs: NUM_ENVS, ..config })
}

/// A configuration's network in words.
fn describe(config: &Config) -> String {
    let widths: Vec<String> = config.hidden.iter().map(usize::to_string).collect();
    let mut words = vec![
        if config.shared_trunk { "shared" } else { "two networks" }.to_owned(),
        widths.join("-"),
        match config.activation {
            Activation::Tanh => "tanh",
            Activation::Relu => "relu",
        }
        .to_owned(),
    ];
    words.extend(config.norm_obs.then(|| "normalised observations".to_owned()));
    words.extend(config.norm_reward.then(|| "normalised rewards".to_owned()));
    words.join(", ")
}

/// Bits that are set in a word of the first observation, on average; None where observations are numbers.
fn bits_a_word<E: Env>(env: &E) -> Option<f64> {
    let ObsSpace::Binary { .. } = env.spec().obs else { return None };
    let mut words = vec![0u32; env.spec().obs.words()];
    let state = env.reset(&mut Draws::<f32>::at(1, Wrapping(0), 0, Purpose::Init));
    env.observe(&state).store(&mut RowsMut::new(&mut words, 1, 0));
    let bits: u32 = words.iter().map(|word| word.count_ones()).sum();
    Some(f64::from(bits) / words.len() as f64)
}
