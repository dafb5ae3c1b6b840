//! From settings to a device that trains: which one it is, and the registered environments and any other on it.

use std::collections::BTreeMap;

use operant_cuda::{Cuda, DeviceProperties};
use operant_env::registry::{self, EnvError, Visitor};
use operant_env::{Env, EnvSpec, OptionError};
use operant_learn::cuda::GpuOptions;
use operant_learn::{Backend, LearnError};

use crate::config::{EnvFacts, Settings, Wish};
use crate::error::{Error, Result};
use crate::gpu;

/// What a run trains on.
#[derive(Debug, Clone)]
pub struct Device {
    /// As results, run.json and the ring name it: `cpu`, or `cuda:K`.
    pub name: String,
    /// Of a GPU: what NVML, which counts GPUs in another order, knows it by.
    pub uuid: Option<String>,
    /// What is to be known of the choice, in one line: why it was taken where it was not asked for by name, what slows it down.
    pub reason: Option<String>,
    /// The libraries and the number of a GPU.
    cuda: Option<(Cuda, usize)>,
}

impl Device {
    /// The CPU.
    pub fn cpu() -> Self {
        Device { name: "cpu".to_owned(), uuid: None, reason: None, cuda: None }
    }

    /// A GPU that these libraries show.
    fn gpu(cuda: Cuda, gpu: &DeviceProperties) -> Self {
        let (uuid, reason) = (Some(gpu.uuid.clone()), gpu::why_compiled_again(&cuda));
        Device { name: gpu::name(gpu.ordinal), uuid, reason, cuda: Some((cuda, gpu.ordinal)) }
    }
}

/// The device that the settings ask for, or that `auto` takes on this machine.
///
/// # Errors
/// When it is not there, or the CPU does not train in the precision that is asked for; each with its origin.
pub fn choose(settings: &Settings) -> Result<Device> {
    let device = match settings.wish() {
        Some(Wish::Cuda(ordinal)) => {
            let (cuda, gpu) = gpu::find_for(&settings.run.device, ordinal)
                .map_err(|error| settings.placed(error, "device"))?;
            return Ok(Device::gpu(cuda, &gpu));
        }
        Some(Wish::Auto) => Device { reason: Some(gpu::why_cpu()), ..Device::cpu() },
        Some(Wish::Cpu) | None => Device::cpu(),
    };
    settings.check_precision_of_cpu()?;
    Ok(device)
}

impl EnvFacts {
    /// What the configuration needs to know of an environment, registered or not.
    pub fn of(spec: &EnvSpec) -> Self {
        let mut facts =
            EnvFacts { name: spec.name.to_string(), solved_at: spec.solved_at, ..EnvFacts::default() };
        facts.known = EnvFacts::known();
        for name in spec.aliases.iter().chain([&spec.name]) {
            facts.known.insert((*name).to_string(), spec.name.to_string());
        }
        facts
    }

    /// Every registered name and alias, with the name that it stands for.
    pub fn known() -> BTreeMap<String, String> {
        let mut known = BTreeMap::new();
        for spec in registry::specs() {
            for name in spec.aliases.iter().chain([&spec.name]) {
                known.insert((*name).to_string(), spec.name.to_string());
            }
        }
        known
    }

    /// The same for a registered environment, by name or alias.
    ///
    /// # Errors
    /// When there is none of that name, with the nearest that there is.
    pub fn registered(name: &str) -> Result<Self> {
        match registry::spec(name) {
            Ok(spec) => Ok(EnvFacts::of(&spec)),
            Err(unknown) => Err(unknown_env(&unknown)),
        }
    }
}

fn unknown_env(unknown: &registry::UnknownEnv) -> Error {
    let specs = registry::specs();
    let names = specs.iter().flat_map(|spec| std::iter::once(spec.name).chain(spec.aliases.iter().copied()));
    let hint = crate::error::did_you_mean(&unknown.name, names);
    Error::usage(format!("there is no environment \"{}\"{hint}", unknown.name))
        .remedy("`operant envs` lists them all")
}

/// The backend for an environment of any crate on the device that was chosen, with the options and threads that the settings
/// ask for.
///
/// # Errors
/// When the environment refuses an option, or the learner the hyperparameters, each with its origin; or when the device has
/// no room or fails.
pub fn backend<E: Env>(mut env: E, settings: &Settings, device: &Device) -> Result<Box<dyn Backend>> {
    for (name, value) in &settings.env_options {
        env.set_option(name, *value).map_err(|error| option_error(settings, name, &error))?;
    }
    let (config, threads) = (&settings.learner, settings.threads());
    let made = match &device.cuda {
        None => operant_learn::cpu::backend(env, config, threads),
        Some((cuda, ordinal)) => {
            let gpu = cuda.open(*ordinal)?;
            let memory_fraction = settings.run.memory_fraction;
            // One of the words that the key takes.
            let precision = settings.run.precision.parse().unwrap_or_default();
            operant_learn::cuda::backend(
                env,
                config,
                &gpu,
                GpuOptions { precision, memory_fraction, threads },
            )
        }
    };
    made.map_err(|error| learn_error(settings, error))
}

/// The backend for the registered environment that the settings name.
///
/// # Errors
/// As [`backend`].
pub fn registered(settings: &Settings, device: &Device) -> Result<Box<dyn Backend>> {
    struct Make<'a>(&'a Settings, &'a Device);
    impl Visitor for Make<'_> {
        type Output = Result<Box<dyn Backend>>;

        fn visit<E: Env>(self, env: E) -> Self::Output {
            backend(env, self.0, self.1)
        }
    }
    match registry::with_env(&settings.environment, &registry::EnvOptions::new(), Make(settings, device)) {
        Ok(made) => made,
        Err(EnvError::Unknown(unknown)) => Err(unknown_env(&unknown)),
        Err(EnvError::Option(error)) => Err(Error::usage(error.to_string())),
    }
}

fn option_error(settings: &Settings, name: &str, error: &OptionError) -> Error {
    let message = error.to_string();
    let (what, remedy) = message.split_once("; ").unwrap_or((&message, "see `operant envs` for its options"));
    let error = Error::usage(what).remedy(remedy);
    match settings.option_origin(name) {
        Some(origin) => error.at(origin.to_string()),
        None => error,
    }
}

fn learn_error(settings: &Settings, error: LearnError) -> Error {
    let origin = match &error {
        LearnError::Config { key, .. } => settings.origin(key).map(ToString::to_string),
        LearnError::Snapshot(_) | LearnError::Cuda(_) => None,
    };
    let error = Error::from(error);
    match origin {
        Some(origin) => error.at(origin),
        None => error,
    }
}
