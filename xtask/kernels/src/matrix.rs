//! The programs to compile: every kernel for every environment, for networks of several shapes, for every architecture.

use anyhow::{Context, Result};
use operant_cuda::{Peak, Program};
use operant_env::{AnyEnv, Autoreset, Registry, builtin};
use operant_learn::algorithms::Algorithm;
use operant_learn::cuda::specialise::{Limits, Specialisation, UpdateSpecialisation};
use operant_learn::cuda::{
    GemmLayout, KernelEnv, Kernels, Local, ahead_program, choose, gae_program, gemm_cells_program,
    gemm_lookup_program, gemm_math_program, gemm_minibatch_program, gemm_muon_program, gemm_rnd_program,
    gemm_rollout_program, gemm_update_program, pack_program, play_program, replay_program, rollout_program,
    step_program, update_program,
};
use operant_learn::network::{Architecture, Network};
use operant_learn::{
    ActionDistribution, Config, CoreKind, Encoder, Intrinsic, LogStd, Optimizer, Precision, presets,
};

/// N that kernels are specialised for.
pub const NUM_ENVS: usize = 8_192;

/// The architecture whose numbers the page shows: the H200's.
pub const SHOWN: u32 = 90;

/// Architectures and what a GPU of each gives a block.
const ARCHITECTURES: [(u32, Limits); 6] = [
    (80, Limits { shared: 166_912, multiprocessors: 108 }),
    (86, Limits { shared: 101_376, multiprocessors: 84 }),
    (89, Limits { shared: 101_376, multiprocessors: 128 }),
    (SHOWN, Limits { shared: 232_448, multiprocessors: 132 }),
    (100, Limits { shared: 232_448, multiprocessors: 132 }),
    (120, Limits { shared: 101_376, multiprocessors: 132 }),
];

/// The environment that is compiled for more than one architecture, and on the one that the page shows with every network.
const THOROUGH: &str = "cartpole";

/// Threads a block of `random_play`, as 8,192 environments get them.
const PLAY_THREADS: u32 = 64;

/// Hidden layers of the networks that are compiled in addition to the presets', the widest last.
const HIDDEN: [[usize; 2]; 3] = [[64, 64], [128, 128], [256, 256]];

/// The name of a network with tables for indices.
pub const WITH_TABLES: &str = "embed(8)-64-64";

/// Architectures of sm_80's generation, which the page leaves out: they spill as sm_80 does.
const LEFT_OUT: [u32; 2] = [86, 89];

/// The programs to compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramSelection {
    /// The rows of the page: CartPole with all networks on one architecture, with the widest and its preset's on one of each
    /// generation; the other environments with their presets on the first.
    Page,
    /// Every environment but those of [`LARGE`] families with every network for every architecture.
    All,
}

/// A network and its arithmetic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetworkVariant {
    /// Such as `64-64`, or `presets`.
    pub hidden: String,
    /// The name of the arithmetic.
    pub precision: &'static str,
    /// Whether training with `kernels = "auto"` takes the kernels with the network inside.
    pub fused: bool,
}

/// One program for one architecture.
#[derive(Debug, Clone)]
pub struct Job {
    /// The network that is compiled in.
    pub shape: Option<NetworkVariant>,
    /// 90 for sm_90.
    pub architecture: u32,
    /// Bytes of dynamic shared memory per block, if the network determines them.
    pub shared: Option<usize>,
    /// The program.
    pub program: Program,
}

impl Job {
    /// Its name in messages.
    pub fn name(&self) -> String {
        let shape = self.shape.as_ref().map(|shape| format!(", {} in {}", shape.hidden, shape.precision));
        format!("{}{}, sm_{}", self.program.name, shape.unwrap_or_default(), self.architecture)
    }
}

/// The environments that docs/results/kernels.md lists.
const PAGE: [&str; 7] = [
    "cartpole",
    "mountain_car",
    "mountain_car_continuous",
    "pendulum",
    "acrobot",
    "minatar_breakout",
    "minatar_freeway",
];

/// Families whose rules take the compiler seconds: MuJoCo's tasks and Craftax.
const LARGE: [&str; 2] = ["bodies", "craftax"];

/// Everything to compile, for the architectures that the compiler supports.
///
/// # Errors
/// When a shipped preset or a network does not fit.
pub fn jobs(extent: ProgramSelection, known: &[u32]) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    let selected = |number: &u32| {
        known.contains(number) && (extent == ProgramSelection::All || !LEFT_OUT.contains(number))
    };
    for (architecture, limits) in ARCHITECTURES.into_iter().filter(|(number, _)| selected(number)) {
        let with = |hidden| Programs { architecture, limits, hidden };
        let all = builtin();
        let alone = [gae_program(), Peak::program()].into_iter().chain(lookup_programs(&all)?);
        jobs.extend(alone.map(|program| with(&[]).job(program)));
        if extent == ProgramSelection::All || architecture == SHOWN {
            let (env, config) = with_tables(&all)?;
            for precision in Precision::ALL {
                jobs.extend(with(&[]).fused(env, WITH_TABLES, &config, precision)?);
            }
        }
        let is_shown = |env: &&std::sync::Arc<dyn AnyEnv>| {
            let spec = env.spec();
            PAGE.contains(&spec.name.as_str())
                || extent == ProgramSelection::All && !LARGE.contains(&spec.family.as_str())
        };
        for env in all.envs().iter().filter(is_shown) {
            let programs = match (extent, architecture == SHOWN, env.spec().name == THOROUGH) {
                (ProgramSelection::All, ..) | (ProgramSelection::Page, true, true) => with(&HIDDEN),
                (ProgramSelection::Page, false, true) => with(&HIDDEN[2..]),
                (ProgramSelection::Page, true, false) => with(&[]),
                (ProgramSelection::Page, false, false) => continue,
            };
            jobs.extend(programs.of(&**env)?);
        }
    }
    Ok(jobs)
}

/// The programs of each environment of a [`LARGE`] family, with each of its views, that contain its rules: random play, a step, first states
/// made ahead of time, and rollouts with its preset's network or around matrix products. For the architecture that the page shows, or for
/// every one; of all such families, or of one.
///
/// # Errors
/// When a shipped preset or a network does not fit.
pub fn large(every_architecture: bool, family: Option<&str>, known: &[u32]) -> Result<Vec<(String, Job)>> {
    let mut jobs = Vec::new();
    let selected = |number: &u32| known.contains(number) && (every_architecture || *number == SHOWN);
    let is_asked = |it: &str| LARGE.contains(&it) && family.is_none_or(|family| it == family);
    for (architecture, limits) in ARCHITECTURES.into_iter().filter(|(number, _)| selected(number)) {
        let programs = Programs { architecture, limits, hidden: &[] };
        for env in builtin().envs().iter().filter(|env| is_asked(&env.spec().family)) {
            for view in
                env.spec().variants().iter().filter(|options| options.keys().all(|name| name == "view"))
            {
                let env = env.with_options(view)?;
                let words = view.values().map(|word| format!(" {}", word.text()));
                let name = env.spec().name + &words.collect::<String>();
                jobs.extend(programs.with_rules(&*env)?.into_iter().map(|job| (name.clone(), job)));
            }
        }
    }
    Ok(jobs)
}

/// An environment of indices, and a network with tables for them.
fn with_tables(all: &Registry) -> Result<(&dyn AnyEnv, Config)> {
    let env = all.find("taxi").context("no environment with indices")?;
    Ok((&**env, Config { encoder: Encoder::Embed, embed_width: 8, ..wide([64, 64]) }))
}

/// The kernels of tables that indices look up, which do not depend on the environment.
fn lookup_programs(all: &Registry) -> Result<Vec<Program>> {
    let (env, config) = with_tables(all)?;
    let network = Network::new(Architecture::of(&env.spec(), &config)?);
    let of = |precision| gemm_lookup_program(&GemmLayout::new(&network, precision));
    Ok(Precision::ALL.into_iter().filter_map(of).collect())
}

/// Collects the programs of an environment.
#[derive(Debug, Clone, Copy)]
struct Programs {
    architecture: u32,
    limits: Limits,
    /// Networks apart from the preset's.
    hidden: &'static [[usize; 2]],
}

impl Programs {
    fn job(self, program: Program) -> Job {
        Job { shape: None, architecture: self.architecture, shared: None, program }
    }

    /// The fused kernels, if the network fits.
    fn fused(
        self,
        env: &dyn AnyEnv,
        hidden: &str,
        config: &Config,
        precision: Precision,
    ) -> Result<Vec<Job>> {
        let (network, env) = (Network::new(Architecture::of(&env.spec(), config)?), KernelEnv::of(env)?);
        let Ok(rollout) = Specialisation::new(&network, config, precision, self.limits) else {
            return Ok(Vec::new());
        };
        let choice = choose(&network, config, precision.into(), self.limits, || Ok(()))?;
        let shape = Some(NetworkVariant {
            hidden: hidden.to_owned(),
            precision: precision.name(),
            fused: choice.kernels == Kernels::Fused,
        });
        let job = |program, shared| Job { shape: shape.clone(), shared, ..self.job(program) };
        let mut jobs = vec![
            job(rollout_program(&env, &network, &config.into(), &rollout), Some(rollout.shared)),
            job(pack_program(&network, config, &rollout), None),
        ];
        if let Ok(update) = UpdateSpecialisation::new(&network, config, precision, self.limits) {
            jobs.push(job(update_program(&env, &network, &config.into(), &update), Some(update.shared)));
        }
        Ok(jobs)
    }

    /// Programs that contain an environment's rules, one of each kind.
    fn with_rules(self, env: &dyn AnyEnv) -> Result<Vec<Job>> {
        let kernel_env = KernelEnv::of(env)?;
        let alone = [
            play_program(&kernel_env, PLAY_THREADS, false, false),
            step_program(&kernel_env, Autoreset::SameStep),
        ];
        let ahead = kernel_env.ahead.then(|| ahead_program(&kernel_env));
        let mut jobs: Vec<Job> = alone.into_iter().chain(ahead).map(|program| self.job(program)).collect();
        // The first of each are the rollouts.
        let preset = preset(env)?;
        // A preset with memory has no fused kernels.
        let config = if preset.core == CoreKind::Mlp { preset } else { wide(HIDDEN[0]) };
        for precision in [Precision::F32, Precision::Bf16] {
            let fused = self.fused(env, "presets", &config, precision)?;
            let fits = !fused.is_empty();
            jobs.extend(fused.into_iter().take(1));
            if fits {
                break;
            }
        }
        jobs.extend(self.gemm(env, Precision::F32, CoreKind::Mlp)?.into_iter().take(1));
        Ok(jobs)
    }

    /// The kernels around matrix products.
    fn gemm(self, env: &dyn AnyEnv, precision: Precision, core: CoreKind) -> Result<Vec<Job>> {
        let config = Config { norm_reward: true, core, ..wide([512, 512]) };
        let (network, env) = (Network::new(Architecture::of(&env.spec(), &config)?), KernelEnv::of(env)?);
        let gemm_layout = GemmLayout::new(&network, precision);
        let programs = [
            gemm_rollout_program(&env, &network, &(&config).into(), &gemm_layout, 1),
            gemm_update_program(&env, &network, &(&config).into(), &gemm_layout),
            gemm_math_program(&gemm_layout),
        ];
        let programs = programs.into_iter().chain(gemm_cells_program(&gemm_layout));
        Ok(programs.map(|program| self.job(program)).collect())
    }

    /// Those of options that the fused kernels do not have: Muon, rewards for exploring, draws by priority, and values in other units.
    fn with_options(self, env: &dyn AnyEnv, precision: Precision) -> Result<Vec<Job>> {
        let of_updates = Config { optimizer: Optimizer::Muon, intrinsic: Intrinsic::Rnd, ..wide([512, 512]) };
        let config = Config { shared_trunk: false, norm_obs: true, ..of_updates };
        let config = config.ppo(|ppo| (ppo.norm_value, ppo.vf_epochs, ppo.prio_alpha) = (true, 1, 0.5));
        let (network, env) = (Network::new(Architecture::of(&env.spec(), &config)?), KernelEnv::of(env)?);
        let (gemm_layout, local) = (GemmLayout::new(&network, precision), Local::from(&config));
        let update = gemm_update_program(&env, &network, &local, &gemm_layout);
        let muon = gemm_muon_program(&network, &config, &gemm_layout);
        let rnd = gemm_rnd_program(&env, &network, &local, precision);
        Ok([update].into_iter().chain(muon).chain(rnd).map(|program| self.job(program)).collect())
    }

    /// Those of an algorithm with a replay, if it can learn there.
    fn with_replay(
        self,
        env: &dyn AnyEnv,
        precision: Precision,
        algorithm: Algorithm,
        core: CoreKind,
    ) -> Result<Vec<Job>> {
        let values = Config { algorithm, core, norm_obs: env.spec().obs.is_real(), ..wide([512, 512]) };
        let (action_distribution, log_std) = (ActionDistribution::Tanh, LogStd::Network);
        let config = match algorithm {
            Algorithm::Dqn => values,
            _ => Config { action_distribution, log_std, ..values },
        };
        let Ok(architecture) = Architecture::of(&env.spec(), &config) else { return Ok(Vec::new()) };
        let (network, env) = (Network::new(architecture), KernelEnv::of(env)?);
        let gemm_layout = GemmLayout::new(&network, precision);
        let norms = if config.norm_obs { network.architecture.input.features() } else { 0 };
        let rollout = gemm_rollout_program(&env, &network, &(&config).into(), &gemm_layout, norms);
        let minibatch = gemm_minibatch_program(&env, &network, &config, &gemm_layout);
        let cells = gemm_cells_program(&gemm_layout);
        Ok([rollout].into_iter().chain(minibatch).chain(cells).map(|program| self.job(program)).collect())
    }

    /// Cores of the networks around whose products kernels run: what memory adds hardly depends on the environment.
    fn cores(self, env: &dyn AnyEnv) -> &'static [CoreKind] {
        let all = &[CoreKind::Mlp, CoreKind::MinGru, CoreKind::Gru, CoreKind::Lstm];
        if env.spec().name == THOROUGH { all } else { &all[..1] }
    }

    /// All programs of an environment.
    fn of(self, env: &dyn AnyEnv) -> Result<Vec<Job>> {
        let kernel_env = KernelEnv::of(env)?;
        let play = |writes, hashes| play_program(&kernel_env, PLAY_THREADS, writes, hashes);
        let programs = [
            play(false, false),
            play(true, false),
            play(false, true),
            replay_program(&kernel_env),
            step_program(&kernel_env, Autoreset::SameStep),
            step_program(&kernel_env, Autoreset::NextStep),
        ];
        let mut jobs: Vec<Job> = programs.map(|program| self.job(program)).into();
        let preset = preset(env)?;
        for precision in Precision::ALL {
            for &hidden in self.hidden {
                let shown = hidden.map(|width| width.to_string()).join("-");
                jobs.extend(self.fused(env, &shown, &wide(hidden), precision)?);
            }
            jobs.extend(self.fused(env, "presets", &preset, precision)?);
            // The precision decides little of these.
            if precision == Precision::F32 || self.hidden.len() == HIDDEN.len() {
                for core in self.cores(env) {
                    jobs.extend(self.gemm(env, precision, *core)?);
                }
                for algorithm in [Algorithm::Sac, Algorithm::Td3] {
                    jobs.extend(self.with_replay(env, precision, algorithm, CoreKind::Mlp)?);
                }
                if env.spec().name == THOROUGH {
                    jobs.extend(self.with_options(env, precision)?);
                    for core in self.cores(env) {
                        jobs.extend(self.with_replay(env, precision, Algorithm::Dqn, *core)?);
                    }
                }
            }
        }
        Ok(jobs)
    }
}

/// Actor and critic share these hidden layers.
fn wide(hidden: [usize; 2]) -> Config {
    Config { hidden: hidden.to_vec(), shared_trunk: true, num_envs: NUM_ENVS, ..Config::default() }
}

/// The shipped preset of an environment for GPUs, with as many environments as the page is about.
fn preset(env: &dyn AnyEnv) -> Result<Config> {
    let environment = env.spec().name;
    let mut table = toml::Table::try_from(Config::default()).context("the defaults are no TOML")?;
    let preset: toml::Table = env
        .spec()
        .preset
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
