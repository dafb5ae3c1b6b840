//! From settings to a device that trains: which one it is, and the registered environments and any other on it.

use std::collections::BTreeMap;

use operant_cuda::DeviceProperties;
use operant_env::registry::{self, EnvError, Visitor};
use operant_env::{Env, EnvSpec, OptionError};
use operant_learn::{Backend, LearnError};

use crate::config::{EnvFacts, Settings, Wish};
use crate::error::{Error, Result};
use crate::gpu;

/// What a run trains on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// As results, run.json and the ring name it: `cpu`, or `cuda:K`.
    pub name: String,
    /// Of a GPU: what NVML, which counts GPUs in another order, knows it by.
    pub uuid: Option<String>,
    /// Why it was taken, in one line, where it was not asked for by name.
    pub reason: Option<String>,
}

impl Device {
    /// The CPU.
    pub fn cpu() -> Self {
        Device { name: "cpu".to_owned(), uuid: None, reason: None }
    }

    /// A GPU.
    pub fn gpu(gpu: &DeviceProperties) -> Self {
        Device { name: gpu::name(gpu.ordinal), uuid: Some(gpu.uuid.clone()), reason: None }
    }
}

/// The device that the settings ask for, or that `auto` takes on this machine.
///
/// # Errors
/// When it is not there or cannot train yet, or not in the precision that is asked for; each with its origin.
pub fn choose(settings: &Settings) -> Result<Device> {
    let device = match settings.wish() {
        Some(Wish::Cuda(ordinal)) => {
            return Err(settings.placed(gpu::refuse_to_train(&settings.run.device, ordinal), "device"));
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

/// The CPU backend for an environment of any crate, with the options and threads that the settings ask for.
///
/// # Errors
/// When the environment refuses an option, or the learner the hyperparameters; each with its origin.
pub fn cpu<E: Env>(mut env: E, settings: &Settings) -> Result<Box<dyn Backend>> {
    for (name, value) in &settings.env_options {
        env.set_option(name, *value).map_err(|error| option_error(settings, name, &error))?;
    }
    operant_learn::cpu::backend(env, &settings.learner, settings.threads())
        .map_err(|error| learn_error(settings, error))
}

/// The CPU backend for the registered environment that the settings name.
///
/// # Errors
/// As [`cpu`].
pub fn registered(settings: &Settings) -> Result<Box<dyn Backend>> {
    struct Make<'a>(&'a Settings);
    impl Visitor for Make<'_> {
        type Output = Result<Box<dyn Backend>>;

        fn visit<E: Env>(self, env: E) -> Self::Output {
            cpu(env, self.0)
        }
    }
    match registry::with_env(&settings.environment, &registry::EnvOptions::new(), Make(settings)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_named_by_cudas_number_and_known_to_nvml_by_its_uuid() {
        let gpu = DeviceProperties {
            ordinal: 3,
            name: "NVIDIA H200".to_owned(),
            uuid: "GPU-1".to_owned(),
            compute_capability: (9, 0),
            multiprocessors: 132,
            threads_per_multiprocessor: 2048,
            shared_per_block: 232_448,
            shared_per_multiprocessor: 233_472,
            registers_per_multiprocessor: 65_536,
            l2_bytes: 0,
            memory_bytes: 1 << 37,
            clock_khz: 0,
            memory_clock_khz: 0,
            memory_bus_bits: 0,
            cooperative: true,
        };
        let device = Device::gpu(&gpu);
        assert_eq!((device.name.as_str(), device.uuid.as_deref()), ("cuda:3", Some("GPU-1")));
        assert_eq!(Device::cpu(), Device { name: "cpu".to_owned(), uuid: None, reason: None });
    }
}
