//! The cases of a command line: every requested bench for every environment, device, precision, number of environments and
//! number of threads.
//!
//! The work is the same everywhere: CleanRL's hyperparameters with the changes of the command line. Presets and files do not
//! change it; only their execution settings apply: device, precision, threads, kernels. A run that is named on the command line
//! replaces all of these: its environment and its settings are measured.

use std::sync::Arc;

use operant_env::{AnyEnv, EnvOptions, Registry, running_words};
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::{CpuOptions, unit_for};
use operant_learn::cuda::NetworkOptions;
use operant_learn::network::Architecture;
use operant_learn::sample::SampleLayout;
use operant_learn::{Config, Precision};
use operant_run::config::{self, EnvFacts, Layers, Origin, Requested, RunConfig};
use operant_run::{CommandLine, Error, Result, SavedRun, device, machine};

use super::Bench;
use super::case::Case;
use super::device::BenchDevice;

/// What to measure, as typed on the command line; lists are empty if an option is not given.
#[derive(Debug, Clone, clap::Args)]
pub struct Request {
    /// What to measure: env, rollout, train [default: all three]
    #[arg(value_name = "BENCH")]
    pub benches: Vec<String>,
    /// Environments as of `operant train`, or all
    #[arg(long = "env", value_name = "NAME,..", value_delimiter = ',', default_value = "cartpole")]
    pub envs: Vec<String>,
    /// Environments stepped in parallel; several sweep [default: 8192; with a replay 1]
    #[arg(long = "envs", value_name = "N,..", value_delimiter = ',', allow_negative_numbers = true)]
    pub num_envs: Vec<String>,
    /// Threads of the CPU; several sweep; 0 takes all [default: as configured]
    #[arg(long, value_name = "N,..", value_delimiter = ',', allow_negative_numbers = true)]
    pub threads: Vec<String>,
    /// auto, cpu, cuda or cuda:K, or several; auto takes a GPU where one is usable [default: as configured]
    #[arg(long = "device", value_name = "DEVICE,..", value_delimiter = ',')]
    pub devices: Vec<String>,
    /// What the network's matrix products are computed in: f32, on a GPU tf32 or bf16, on some CPUs bf16, or several
    #[arg(long = "precision", value_name = "PRECISION,..", value_delimiter = ',')]
    pub precisions: Vec<String>,
    /// Learning algorithm [default: ppo]
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<String>,
    /// Widths of the hidden layers [default: 64,64; with a replay 256,256]
    #[arg(long, value_name = "WIDTHS")]
    pub hidden: Option<String>,
    /// Layers between the hidden layers and the heads: mlp (none), mingru, gru or lstm [default: mlp]
    #[arg(long, value_name = "CORE")]
    pub core: Option<String>,
    /// Steps of a rollout (num_steps) [default: 128; with a replay 250]
    #[arg(long = "steps", value_name = "T", allow_negative_numbers = true)]
    pub num_steps: Option<String>,
    /// Samples of a minibatch, as near as whole minibatches allow [default: 32768; with a replay 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub minibatch: Option<u32>,
    /// Set any other key of the configuration; repeatable (env.NAME=VALUE sets an option of the environment)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// The cases and devices to measure.
#[derive(Debug)]
pub struct BenchPlan {
    /// In the order in which rows are printed.
    pub cases: Vec<Case>,
    pub devices: Vec<BenchDevice>,
}

/// A flag that sets a key: (key, flag, value as typed).
type Flag = (&'static str, &'static str, String);

/// Keys that have their own flags, and so cannot be set with `--set`.
const FLAGS: [(&str, &str); 7] = [
    ("num_envs", "--envs"),
    ("num_steps", "--steps"),
    ("hidden", "--hidden"),
    ("core", "--core"),
    ("device", "--device"),
    ("precision", "--precision"),
    ("threads", "--threads"),
];

impl BenchPlan {
    /// Checks the request and finds the devices; measures nothing yet. The environment and the settings are those of `run`, if there
    /// is one, except for those that the request sets. `warn` receives what is omitted and why.
    ///
    /// # Errors
    /// The first invalid value, with its place and a remedy.
    pub fn new(
        registry: &Registry,
        request: &Request,
        run: Option<&SavedRun>,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        let planner = Planner { registry, request, run };
        let benches = benches(&request.benches)?;
        let envs = match run {
            Some(run) => vec![Arc::clone(&run.env)],
            None => environments(registry, &request.envs)?,
        };
        planner.check_set()?;
        let Some(first) = envs.first().or(registry.envs().first()) else {
            return Ok(Self { cases: Vec::new(), devices: Vec::new() });
        };
        let (defaults, config) = planner.settings(&**first, Vec::new())?;
        let devices = planner.devices(&**first, &defaults, warn)?;
        let with_gpu = devices.iter().any(|device| !device.is_cpu());
        let mut cases = Vec::new();
        for (number, device) in devices.iter().enumerate() {
            let precisions = planner.precisions(device, with_gpu, &defaults, warn);
            // The threads of a GPU's host are not varied.
            let threads = match device.is_cpu() {
                true => or(&request.threads, &defaults.threads.to_string()),
                false => vec!["0".to_owned()],
            };
            let sizes = or(&request.num_envs, &config.num_envs.to_string());
            for (env, precision) in product(&envs, &precisions) {
                for (num_envs, threads) in product(&sizes, &threads) {
                    let flags = vec![
                        ("device", "--device", device.name().to_owned()),
                        ("precision", "--precision", precision.clone()),
                        ("num_envs", "--envs", num_envs.clone()),
                        ("threads", "--threads", threads.clone()),
                    ];
                    let case = planner.case(env, number, device, flags)?;
                    // The bench of environments alone has no network and always computes in f32.
                    let is_new = |bench: &&Bench| **bench != Bench::Env || *precision == precisions[0];
                    for &bench in benches.iter().filter(is_new) {
                        let case = case.clone().of(bench);
                        case.check_memory()?;
                        cases.push(case);
                    }
                }
            }
        }
        Ok(Self { cases, devices })
    }
}

/// Turns a request into settings, devices and cases.
struct Planner<'a> {
    registry: &'a Registry,
    request: &'a Request,
    /// The run whose settings are measured.
    run: Option<&'a SavedRun>,
}

impl std::ops::Deref for Planner<'_> {
    type Target = Request;

    fn deref(&self) -> &Request {
        self.request
    }
}

impl Planner<'_> {
    /// Refuses a key in `--set` that has its own flag.
    fn check_set(&self) -> Result<()> {
        for assignment in &self.set {
            let key = assignment.split('=').next().unwrap_or_default().trim();
            if let Some((key, flag)) = FLAGS.iter().find(|(name, _)| *name == key) {
                let error = Error::usage(format!("{key} has its own flag here")).at("--set");
                return Err(error.remedy(format!("give it as {flag}")));
            }
        }
        Ok(())
    }

    /// The requested devices, each once.
    fn devices(
        &self,
        first: &dyn AnyEnv,
        defaults: &Run,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Vec<BenchDevice>> {
        let mut devices: Vec<BenchDevice> = Vec::new();
        for device in or(&self.devices, &defaults.device.to_string()) {
            // Validates the name of the device.
            self.settings(first, vec![("device", "--device", device.clone()), f32()])?;
            let device = BenchDevice::find(self.registry, &device, warn)?;
            if devices.iter().all(|known| known.name() != device.name()) {
                devices.push(device);
            }
        }
        Ok(devices)
    }

    /// The precisions of a device. If GPUs are measured too, the CPU takes those that it supports, or is omitted.
    fn precisions(
        &self,
        device: &BenchDevice,
        with_gpu: bool,
        defaults: &Run,
        warn: &mut dyn FnMut(&str),
    ) -> Vec<String> {
        // A run's precision that the CPU lacks is f32 there, as where the run trains.
        let on_cpu = || self.run.map(|_| defaults.precision).filter(|precision| unit_for(*precision).is_ok());
        let default = if device.is_cpu() { on_cpu().unwrap_or(Precision::F32) } else { defaults.precision };
        let mut precisions = or(&self.precisions, default.name());
        if device.is_cpu() && with_gpu {
            let is_known = |precision: Precision| unit_for(precision).is_ok();
            precisions.retain(|name| Precision::ALL.iter().any(|it| it.name() == name && is_known(*it)));
            if precisions.is_empty() {
                warn("the CPU supports none of these precisions and is not measured");
            }
        }
        precisions
    }

    /// The run configuration and the hyperparameters, with these flags in addition to those for all cases.
    fn settings(&self, env: &dyn AnyEnv, more: Vec<Flag>) -> Result<(Run, Config)> {
        let facts = EnvFacts::of(&env.spec(), self.registry);
        // Settings that this command does not use must not cause errors.
        let mut flags: Vec<Flag> = vec![("overlap", "--device", "false".to_owned())];
        // So long that annealing has no effect, unless it is set.
        if self.sets("total_timesteps").is_none() {
            flags.push(("total_timesteps", "operant bench", "1e12".to_owned()));
        }
        flags.extend(self.algorithm.clone().map(|name| ("algorithm", "--algorithm", name)));
        let has_replay = self.algorithm(&facts)?.declaration().has_replay();
        let of_replay = |ours: &'static str, other: &'static str| if has_replay { ours } else { other };
        let mut typed = vec![
            ("num_envs", "--envs", self.num_envs.first(), of_replay("1", "8192")),
            ("num_steps", "--steps", self.num_steps.as_ref(), of_replay("250", "128")),
            ("hidden", "--hidden", self.hidden.as_ref(), of_replay("256,256", "64,64")),
            ("core", "--core", self.core.as_ref(), "mlp"),
        ];
        if !has_replay {
            // A preset's length need not divide the steps that are measured.
            typed.push(("sequence_length", "--core", None, "0"));
        }
        for (key, flag, value, default) in typed {
            let has_default = self.run.is_none() && self.sets(key).is_none();
            let value = value.cloned().or(has_default.then(|| default.to_owned()));
            flags.extend(value.map(|value| (key, flag, value)));
        }
        flags.extend(more);
        let minibatch =
            self.minibatch.or(self.run.is_none().then_some(if has_replay { 256 } else { 32_768 }));
        if has_replay {
            // Learning begins as soon as there is a minibatch.
            let size = minibatch.filter(|_| self.sets("batch_size").is_none());
            flags.extend(size.map(|size| ("batch_size", "--minibatch", size.to_string())));
            if let Some(size) = size.filter(|_| self.sets("learning_starts").is_none()) {
                // The largest numbers are always valid; they give the environments and the steps that a sequence takes.
                let mut latest = flags.clone();
                let most = (1u64 << 32).to_string();
                latest
                    .extend(["buffer_size", "learning_starts"].map(|key| (key, "--minibatch", most.clone())));
                let config = self.hyperparameters(&facts, &latest)?;
                let starts = (size as usize).max(config.num_envs * config.rows_to_learn());
                flags.push(("learning_starts", "--minibatch", starts.to_string()));
            }
        } else if let Some(minibatch) = minibatch.filter(|_| self.sets("num_minibatches").is_none()) {
            // One minibatch is always valid; it gives the number of samples.
            let mut one = flags.clone();
            one.push(("num_minibatches", "--minibatch", "1".to_owned()));
            let config = self.hyperparameters(&facts, &one)?;
            // With memory, of whole sequences.
            let (length, samples) = (config.sequence(), config.num_envs * config.num_steps);
            let count = minibatches((samples / length).max(1), minibatch as usize / length);
            flags.push(("num_minibatches", "--minibatch", count.to_string()));
        }
        let config = self.hyperparameters(&facts, &flags)?;
        let settings = self.requested(&facts, &flags)?.settings;
        // Defaults are part of the environment, not of the work that a row names.
        let is_set = |name: &str| settings.option_origin(name).is_some_and(Origin::is_explicit);
        let is_default = |name: &str, value| facts.options.get(name) == Some(value);
        let options = settings.env_options.iter();
        let options = options.filter(|(name, value)| is_set(name) && !is_default(name, value));
        let options = options.map(|(name, value)| (name.clone(), value.clone())).collect();
        let run = Run { options, config: settings.run.clone() };
        Ok((run, config))
    }

    /// The algorithm of the command line, or of the run.
    fn algorithm(&self, facts: &EnvFacts) -> Result<Algorithm> {
        let set = self.sets("algorithm").and_then(|text| text.split_once('=')).map(|(_, name)| name.trim());
        let name = self.algorithm.as_deref().or(set).map(|name| name.trim_matches('"'));
        match (Algorithm::ALL.into_iter().find(|algorithm| Some(algorithm.name()) == name), self.run) {
            (Some(algorithm), _) => Ok(algorithm),
            (None, Some(_)) => Ok(self.requested(facts, &[])?.settings.learner.algorithm),
            (None, None) => Ok(Config::default().algorithm),
        }
    }

    /// Every layer of configuration, the run's included.
    fn requested(&self, facts: &EnvFacts, flags: &[Flag]) -> Result<Requested> {
        let line = CommandLine { set: self.set.clone(), flags: flags.to_vec(), ..CommandLine::default() };
        let run = self.run.map(|run| (run.name.as_str(), run.config.as_str()));
        config::requested(facts.clone(), &line, run)
    }

    /// The hyperparameters of the run, or the built-in defaults; overridden by the command line.
    fn hyperparameters(&self, facts: &EnvFacts, flags: &[Flag]) -> Result<Config> {
        let requested = match self.run {
            Some(_) => self.requested(facts, flags)?,
            None => {
                let facts = EnvFacts { known: self.registry.known(), ..EnvFacts::default() };
                let mut layers = Layers::new(facts)?;
                for assignment in &self.set {
                    layers.set(assignment)?;
                }
                for (key, flag, value) in flags {
                    layers.flag(key, flag, value)?;
                }
                layers.build()?
            }
        };
        if requested.num_envs_is_open() {
            return Err(Error::usage("num_envs = auto cannot be measured")
                .at("--envs")
                .remedy("give numbers, such as --envs 1024,8192"));
        }
        Ok(requested.settings.learner)
    }

    /// The last `--set` of this key.
    fn sets(&self, key: &str) -> Option<&String> {
        self.set.iter().rev().find(|text| text.split('=').next().is_some_and(|name| name.trim() == key))
    }

    fn case(
        &self,
        env: &Arc<dyn AnyEnv>,
        number: usize,
        device: &BenchDevice,
        flags: Vec<Flag>,
    ) -> Result<Case> {
        let (run, config) = self.settings(&**env, flags)?;
        let env = env.with_options(&run.options).map_err(|error| {
            Error::usage(error.to_string()).at("--set").remedy("`operant envs` lists the options of each")
        })?;
        let spec = env.spec();
        let architecture = Architecture::of(&spec, &config)?;
        // As in a training run.
        let chunks = || operant_learn::cpu::chunks(&*env, &config);
        let threads = || CpuOptions {
            bf16: unit_for(run.precision).ok().flatten(),
            ..machine::cpu_options(&machine::shared_plan(&run.config, config.num_envs, chunks(), 1))
        };
        Ok(Case {
            bench: Bench::Env,
            device: number,
            threads: device.is_cpu().then(threads),
            network: NetworkOptions { precision: run.precision, kernels: run.kernels },
            options: run.options,
            layout: SampleLayout::of_sides(&architecture, env.masked(), spec.sides()),
            architecture,
            state_words: running_words(&*env),
            name: spec.name,
            env,
            config,
        })
    }
}

/// The settings that are not hyperparameters.
struct Run {
    options: EnvOptions,
    config: RunConfig,
}

impl std::ops::Deref for Run {
    type Target = RunConfig;

    fn deref(&self) -> &RunConfig {
        &self.config
    }
}

/// The precision that every device supports.
fn f32() -> Flag {
    ("precision", "--precision", Precision::F32.name().to_owned())
}

/// The list, or the default if it is empty.
fn or(list: &[String], default: &str) -> Vec<String> {
    if list.is_empty() { vec![default.to_owned()] } else { list.to_vec() }
}

fn product<'a, A, B>(a: &'a [A], b: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}

fn benches(names: &[String]) -> Result<Vec<Bench>> {
    if names.is_empty() {
        return Ok(Bench::ALL.to_vec());
    }
    let mut benches = names.iter().map(|name| Bench::named(name)).collect::<Result<Vec<_>>>()?;
    benches.sort_unstable();
    benches.dedup();
    Ok(benches)
}

fn environments(registry: &Registry, names: &[String]) -> Result<Vec<Arc<dyn AnyEnv>>> {
    let mut envs: Vec<Arc<dyn AnyEnv>> = Vec::new();
    for name in names {
        let asked = match name.as_str() {
            "all" => registry.envs().to_vec(),
            name => vec![
                device::find(registry, name)
                    .map_err(|error| Error { place: error.place.or(Some("--env".into())), ..error })?,
            ],
        };
        for env in asked {
            if !envs.iter().any(|known| known.spec().name == env.spec().name) {
                envs.push(env);
            }
        }
    }
    Ok(envs)
}

/// The number of minibatches that divides N T and is nearest to minibatches of `size` samples.
fn minibatches(samples: usize, size: usize) -> usize {
    let requested = (samples as f64 / size.max(1) as f64).round().clamp(1.0, samples as f64) as usize;
    let divides = |count: &usize| samples.is_multiple_of(*count);
    let below = (1..=requested).rev().find(divides).unwrap_or(1);
    // Only if it is nearer.
    (requested..2 * requested - below).find(divides).unwrap_or(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use operant_env::builtin;

    fn request() -> Request {
        let texts = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        Request {
            benches: Vec::new(),
            envs: texts(&["cartpole"]),
            num_envs: texts(&["32", "64"]),
            threads: texts(&["1", "2"]),
            devices: texts(&["cpu"]),
            precisions: Vec::new(),
            hidden: Some("8".to_owned()),
            algorithm: None,
            core: None,
            num_steps: Some("16".to_owned()),
            minibatch: Some(256),
            set: Vec::new(),
        }
    }

    #[test]
    fn minibatches_are_as_near_as_whole_ones_allow() {
        assert_eq!(minibatches(8192 * 128, 32_768), 32);
        assert_eq!(minibatches(16 * 128, 32_768), 1);
        assert_eq!(minibatches(3 * 5, 4), 3, "15 samples are 3 of 5, not 4");
        assert_eq!(minibatches(7 * 13, 1), 91);
        assert_eq!(minibatches(101, 30), 1, "a prime");
        for (n, t, size) in [(17usize, 9usize, 20), (1_000, 3, 70), (65, 64, 100)] {
            assert!((n * t).is_multiple_of(minibatches(n * t, size)));
        }
    }

    #[test]
    fn every_combination_is_a_case_once() {
        let plan =
            BenchPlan::new(&builtin(), &request(), None, &mut |note| panic!("{note}")).expect("a plan");
        assert_eq!(plan.cases.len(), 12);
        let case = &plan.cases[5];
        assert_eq!((case.bench, case.config.num_envs), (Bench::Train, 32));
        assert_eq!(case.threads.as_ref().map(|options| options.threads), Some(2));
        assert_eq!((case.config.num_minibatches, case.config.algorithms.ppo.target_kl), (2, 0.0));
        assert_eq!(case.work(), "4-8-2 and 4-8-1, 16 steps, 2 minibatches, 4 epochs");
        let all = Request { envs: vec!["all".to_owned(), "cartpole".to_owned()], ..request() };
        let plan = BenchPlan::new(&builtin(), &all, None, &mut |_| {}).expect("a plan");
        assert_eq!(plan.cases.len(), 12 * builtin().envs().len());
    }

    #[test]
    fn what_is_set_counts_and_changes_the_work() {
        let set = vec!["num_minibatches=4".to_owned(), "learning_rate=0.1".to_owned()];
        let plan =
            BenchPlan::new(&builtin(), &Request { set, ..request() }, None, &mut |_| {}).expect("a plan");
        let case = &plan.cases[2];
        assert_eq!((case.config.num_minibatches, case.config.learning_rate), (4, 0.1));
        assert!(case.work().ends_with("4 minibatches, 4 epochs, other hyperparameters"), "{}", case.work());
        assert_eq!(plan.cases[0].work(), "16 steps", "the environments have no changed settings");
    }
}
