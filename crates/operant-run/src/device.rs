//! From settings to a device that trains: which one it is, and the registered environments and any other on it.

use std::sync::Arc;

use operant_cuda::{Cuda, DeviceProperties};
use operant_env::{AnyEnv, EnvOptions, EnvSpec, OptionError, Registry, UnknownEnv};
use operant_learn::cpu::backend_with;
use operant_learn::cuda::{self, Choice, GpuOptions, NetworkOptions};
use operant_learn::network::{Architecture, Network};
use operant_learn::{Backend, LearnError, Precision};

use crate::config::{EnvFacts, RunConfig, Settings, Wish};
use crate::error::{Error, Result};
use crate::gpu;
use crate::machine;

/// The compute capability from which tensor cores multiply tf32 and bf16.
const TENSOR_CORES: (u32, u32) = (8, 0);

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

/// What a run trains on, with the settings that go with it.
pub struct Chosen {
    /// As they are layered for the device.
    pub settings: Settings,
    /// The device.
    pub device: Device,
    /// What trains on it.
    pub backend: Box<dyn Backend>,
}

/// The device that the settings ask for, or that `auto` takes on this machine for a run that trained on `before` if it is not
/// new; and the settings as they are layered for it.
///
/// # Errors
/// When it is not there, or does not train under these settings; each with its origin.
pub fn choose(settings: &Settings, before: Option<&str>) -> Result<(Settings, Device)> {
    match settings.wish() {
        Some(Wish::Cuda(ordinal)) => {
            let found = gpu::find_for(&settings.run.device, ordinal, settings.run.cache_dir.as_deref());
            on_gpu(settings, found.map_err(|error| settings.placed(error, "device"))?, None)
        }
        Some(Wish::Auto) => match gpu::for_auto(settings, before) {
            Ok((cuda, gpu)) => {
                let taken = format!("{}, which auto takes", gpu.name);
                on_gpu(settings, (cuda, gpu), Some(taken))
            }
            Err(reason) => on_cpu(settings, Some(reason)),
        },
        Some(Wish::Order(order)) => {
            let stays = staying(settings, &order, before);
            let (settings, mut device) = first_of(settings, &stays, Vec::new())?;
            if stays != order && before == Some(&device.name) {
                let why = "the run trained there before".to_owned();
                device.reason = lines([Some(why), device.reason]);
            }
            Ok((settings, device))
        }
        Some(Wish::Cpu) | None => on_cpu(settings, None),
    }
}

/// The order for a run that trained on `before` if it is not new: as with `auto` it stays where it is, but for an order that the
/// command line gives.
fn staying(settings: &Settings, order: &[Wish], before: Option<&str>) -> Vec<Wish> {
    let mut order = order.to_vec();
    let before = before.and_then(Wish::of).filter(|_| !settings.is_demanded("device"));
    if let Some(at) = order.iter().position(|wish| Some(wish) == before.as_ref()) {
        order[..=at].rotate_right(1);
    }
    order
}

/// The first of `order` that is there and takes the settings, after those that were `tried` and why they were not taken.
fn first_of(settings: &Settings, order: &[Wish], mut tried: Vec<String>) -> Result<(Settings, Device)> {
    let told = |tried: &[String]| (!tried.is_empty()).then(|| tried.join("; "));
    let mut last = None;
    for wish in order {
        let Wish::Cuda(ordinal) = wish else { return on_cpu(settings, told(&tried)) };
        let found = gpu::find(*ordinal, settings.run.cache_dir.as_deref());
        match found.and_then(|found| on_gpu(settings, found, told(&tried))) {
            Ok(chosen) => return Ok(chosen),
            Err(error) => {
                tried.push(format!("{} is not used: {}", gpu::name(*ordinal), first_line(&error)));
                last = Some(error);
            }
        }
    }
    let what = format!("device = \"{}\" cannot be used: {}", settings.run.device, tried.join("; "));
    let remedy =
        last.and_then(|error| error.remedy).map_or_else(String::new, |remedy| format!("{remedy}; or "));
    let error = Error::usage(what).remedy(format!("{remedy}end the order with cpu to train without a GPU"));
    Err(settings.placed(error, "device"))
}

/// A GPU, with the settings for it and what is to be known of the choice.
fn on_gpu(
    settings: &Settings,
    (cuda, gpu): (Cuda, DeviceProperties),
    reason: Option<String>,
) -> Result<(Settings, Device)> {
    let mut settings = settings.on_gpu()?;
    if settings.run.precision != Precision::F32.name() && gpu.compute_capability < TENSOR_CORES {
        let what = format!("precision = \"{}\" is not in {}", settings.run.precision, gpu.name);
        if settings.is_demanded("precision") {
            let error = Error::usage(what).remedy("leave precision out, or set it to f32");
            return Err(settings.placed(error, "precision"));
        }
        let f32 = toml::Value::String(Precision::F32.name().to_owned());
        settings = settings.giving_way([("precision", f32)], &gpu.name)?;
    }
    let mut device = Device::gpu(cuda, &gpu);
    device.reason = lines([reason, settings.gave_way(), device.reason]);
    Ok((settings, device))
}

/// What is to be known, in one line.
fn lines<const N: usize>(parts: [Option<String>; N]) -> Option<String> {
    let told: Vec<String> = parts.into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn first_line(error: &Error) -> &str {
    error.what.lines().next().unwrap_or_default()
}

/// Which kernels would run the network for this environment on that device; None on the CPU.
///
/// # Errors
/// When none would, or the driver fails.
pub fn kernels(env: &dyn AnyEnv, settings: &Settings, device: &Device) -> Result<Option<Choice>> {
    let Some((cuda, ordinal)) = &device.cuda else { return Ok(None) };
    let Some(gpu) = cuda.devices()?.into_iter().nth(*ordinal) else { return Ok(None) };
    let choose = || {
        let network = Network::new(Architecture::of(&env.spec(), &settings.learner)?);
        let options = network_options(settings);
        cuda::choose(&network, &settings.learner, options, (&gpu).into(), || cuda.has_blas())
    };
    choose().map(Some).map_err(|error| learn_error(settings, error))
}

/// Words that the keys take, and no others.
fn network_options(settings: &Settings) -> NetworkOptions {
    NetworkOptions {
        precision: settings.run.precision.parse().unwrap_or_default(),
        kernels: settings.run.kernels.parse().unwrap_or_default(),
    }
}

/// What `auto` or an order would take, with the settings as layered for it. Where one device is asked for by name, which need not be
/// there, or an order of which none can be used: none, and the settings as they are for such a device. Whether it has room for
/// the run is found out by training.
///
/// # Errors
/// When the CPU would have to be taken and the settings do not fit it.
pub fn foreseen(settings: &Settings) -> Result<(Settings, Option<Device>)> {
    let chosen = match settings.wish() {
        Some(Wish::Auto) => choose(settings, None)?,
        Some(Wish::Order(order)) => match choose(settings, None) {
            Err(_) if !order.contains(&Wish::Cpu) => return Ok((settings.on_gpu()?, None)),
            chosen => chosen?,
        },
        _ => return Ok((settings.clone(), None)),
    };
    Ok((chosen.0, Some(chosen.1)))
}

/// The CPU, which is taken for this reason where it was not asked for by name.
fn on_cpu(settings: &Settings, reason: Option<String>) -> Result<(Settings, Device)> {
    // What fits a GPU alone is found out only now.
    let settings = settings.on_cpu().map_err(|mut error| {
        if let Some(reason) = &reason {
            error.what = format!("{}, and the CPU is taken: {reason}", error.what);
        }
        error
    })?;
    let reason = lines([reason, settings.gave_way()]);
    Ok((settings, Device { reason, ..Device::cpu() }))
}

/// As [`choose`], with the backend that `make_backend` builds there. Where `auto` or an order chose a GPU that cannot train under
/// the settings, what comes after it is taken instead, with the settings for that.
///
/// # Errors
/// As [`choose`], and those of `make_backend`.
pub fn start(
    settings: &Settings,
    before: Option<&str>,
    mut make_backend: impl FnMut(&mut Settings, &Device) -> Result<Box<dyn Backend>>,
) -> Result<Chosen> {
    let (mut chosen, mut device) = choose(settings, before)?;
    let mut order = match settings.wish() {
        Some(Wish::Auto) => vec![Wish::Cpu],
        Some(Wish::Order(order)) => staying(settings, &order, before),
        _ => Vec::new(),
    };
    let mut tried = Vec::new();
    loop {
        let error = match make_backend(&mut chosen, &device) {
            Ok(backend) => return Ok(Chosen { settings: chosen, device, backend }),
            Err(error) => error,
        };
        let taken = device.cuda.as_ref().map(|(_, ordinal)| Wish::Cuda(*ordinal));
        // What stood before the one that failed was not there.
        let past = order.iter().position(|wish| Some(wish) == taken.as_ref()).map_or(0, |at| at + 1);
        order.drain(..past);
        if taken.is_none() || order.is_empty() {
            return Err(error);
        }
        tried.push(format!("{} cannot train this: {}", device.name, first_line(&error)));
        (chosen, device) = first_of(settings, &order, tried.clone())?;
    }
}

impl EnvFacts {
    /// What the configuration needs to know of an environment. An `operant.toml` may also hold tables for those of `registry`.
    pub fn of(spec: &EnvSpec, registry: &Registry) -> Self {
        let mut known = registry.known();
        for name in spec.aliases.iter().chain([&spec.name]) {
            known.insert(name.clone(), spec.name.clone());
        }
        EnvFacts { name: spec.name.clone(), preset: spec.preset.clone(), known }
    }

    /// The same for an environment of the registry, by name or alias.
    ///
    /// # Errors
    /// When there is none of that name, with the nearest that there is.
    pub fn registered(registry: &Registry, name: &str) -> Result<Self> {
        Ok(EnvFacts::of(&find(registry, name)?.spec(), registry))
    }
}

/// The environment of that name or alias.
///
/// # Errors
/// When there is none, with the nearest that there is.
pub fn find<'a>(registry: &'a Registry, name: &str) -> Result<&'a Arc<dyn AnyEnv>> {
    registry.find(name).map_err(|unknown| unknown_env(&unknown))
}

fn unknown_env(unknown: &UnknownEnv) -> Error {
    Error::usage(unknown.to_string()).remedy("`operant envs` lists them all")
}

/// The backend for an environment on the device that was chosen, with the options and threads that the settings
/// ask for, and the machine's plan where they do not. Where they leave `num_envs` to the device they have a number after this.
///
/// # Errors
/// When the environment refuses an option, or the learner the hyperparameters, each with its origin; or when the device has
/// no room or fails.
pub fn backend(env: &Arc<dyn AnyEnv>, settings: &mut Settings, device: &Device) -> Result<Box<dyn Backend>> {
    let env = with_options(&**env, settings)?;
    let gpu = device.cuda.is_some();
    let mut unbound = None;
    let (plan, made) = match &device.cuda {
        None => {
            settings.decide_num_envs(None)?;
            let num_envs = Some(settings.learner.num_envs);
            let plan = machine::plan(&settings.run, &settings.learner, num_envs, gpu);
            let started = backend_with(env, &settings.learner, &machine::cpu_options(&plan));
            let made = started.map(|started| -> Box<dyn Backend> {
                unbound = started.unbound;
                started.backend
            });
            (plan, made)
        }
        Some((cuda, ordinal)) => {
            let plan = machine::plan(&settings.run, &settings.learner, None, gpu);
            let gpu = cuda.open(*ordinal)?;
            let RunConfig { memory_fraction, overlap, .. } = settings.run;
            let network = network_options(settings);
            let options = GpuOptions { network, memory_fraction, threads: plan.threads, overlap };
            if settings.num_envs_is_open() {
                let most = settings.most_envs();
                let chosen =
                    operant_learn::cuda::choose_num_envs(&*env, &settings.learner, &gpu, options, most)
                        .map_err(|error| learn_error(settings, error))?;
                settings.decide_num_envs(Some((chosen.num_envs, chosen.reason)))?;
            }
            (plan, operant_learn::cuda::backend(env, &settings.learner, &gpu, options))
        }
    };
    let made = made.map_err(|error| learn_error(settings, error))?;
    settings.apply(machine::applied(&plan, &settings.run, gpu, unbound));
    Ok(made)
}

/// The environment with the options that the settings have for it, each checked where it came from.
fn with_options(env: &dyn AnyEnv, settings: &Settings) -> Result<Arc<dyn AnyEnv>> {
    for (name, value) in &settings.env_options {
        let one = EnvOptions::from([(name.clone(), *value)]);
        env.with_options(&one).map_err(|error| option_error(settings, name, &error))?;
    }
    env.with_options(&settings.env_options).map_err(|error| Error::usage(error.to_string()))
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
        LearnError::Environment(_) | LearnError::Snapshot(_) | LearnError::Cuda(_) => None,
    };
    let error = Error::from(error);
    match origin {
        Some(origin) => error.at(origin),
        None => error,
    }
}
