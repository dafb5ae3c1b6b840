//! Chooses the device of a run, and builds its backend.

use std::path::Path;
use std::sync::Arc;

use operant_cuda::{Cuda, DeviceProperties};
use operant_env::{AnyEnv, EnvSpec, OptionValues, Registry, UnknownEnv};
use operant_learn::cpu::CpuOptions;
use operant_learn::cuda::{self, GpuOptions, KernelChoice, NetworkOptions};
use operant_learn::group::agreed;
use operant_learn::network::{Architecture, Network};
use operant_learn::{Alone, Backend, Group, LearnError, Precision, Snapshot, cpu};

use crate::config::{DeviceName, DeviceRequest, EnvFacts, Origin, Requested, RunConfig, Settings};
use crate::error::{Error, Result};
use crate::gpu;
use crate::machine::{self, AppliedPlan};
use crate::opponent::opposed;
use crate::trust::Trust;
use crate::world;

/// The compute capability from which tensor cores multiply tf32 and bf16.
const TENSOR_CORES: (u32, u32) = (8, 0);

/// The device that trains a run.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its name in results, run.json and the ring: `cpu` or `cuda:K`.
    pub name: String,
    /// UUID of a GPU, for NVML, which numbers GPUs in another order.
    pub uuid: Option<String>,
    /// A note on the choice, in one line: why it was chosen if it was not requested by name, and what slows it down.
    pub reason: Option<String>,
    /// The CUDA libraries and the number of a GPU.
    cuda: Option<(Cuda, usize)>,
}

impl Device {
    /// The CPU.
    pub fn cpu() -> Self {
        Device { name: "cpu".to_owned(), uuid: None, reason: None, cuda: None }
    }

    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> bool {
        self.cuda.is_some()
    }

    /// A GPU that these libraries list.
    fn gpu(cuda: Cuda, gpu: &DeviceProperties) -> Self {
        let (uuid, reason) = (Some(gpu.uuid.clone()), gpu::why_compiled_again(&cuda));
        Device { name: gpu::name(gpu.ordinal), uuid, reason, cuda: Some((cuda, gpu.ordinal)) }
    }
}

/// A backend, with the settings that it was built for.
pub struct Built {
    /// The backend.
    pub backend: Box<dyn Backend>,
    /// The settings, final.
    pub settings: Settings,
    /// The applied part of the plan for this machine, such as the number of threads.
    pub applied: AppliedPlan,
    /// The text of the world that it trains, which the run keeps; None for environments of the program.
    pub world: Option<String>,
}

/// Chooses the requested device, or the one that `auto` selects on this machine, and adapts the request to it. `before`
/// is the device that a resumed run trained on.
///
/// # Errors
/// When it does not exist or cannot train with these settings; each error with its origin.
pub fn choose(requested: &Requested, before: Option<&str>) -> Result<(Requested, Device)> {
    let settings = &requested.settings;
    match &settings.run.device {
        DeviceRequest::Only(DeviceName::Cuda(ordinal)) => {
            let found =
                gpu::find_for(&settings.assignment("device"), *ordinal, settings.run.cache_dir.as_deref());
            on_gpu(requested, found.map_err(|error| requested.placed(error, "device"))?, None)
        }
        DeviceRequest::Auto => match gpu::for_auto(requested, before) {
            Ok((cuda, gpu)) => {
                let taken = format!("{}, which auto takes", gpu.name);
                on_gpu(requested, (cuda, gpu), Some(taken))
            }
            Err(reason) => on_cpu(requested, Some(reason)),
        },
        DeviceRequest::FirstOf(order) => {
            let order_now = resumed_order(requested, order, before);
            let (chosen, mut device) = first_of(requested, &order_now, Vec::new())?;
            if order_now != *order && before == Some(&device.name) {
                let why = "the run trained there before".to_owned();
                device.reason = lines([Some(why), device.reason]);
            }
            Ok((chosen, device))
        }
        DeviceRequest::Only(DeviceName::Cpu) => on_cpu(requested, None),
    }
}

/// The order of devices for a run that trained on `before`, if it is resumed: that device comes first, unless the
/// command line gives the order.
fn resumed_order(requested: &Requested, order: &[DeviceName], before: Option<&str>) -> Vec<DeviceName> {
    let mut order = order.to_vec();
    let before: Option<DeviceName> = before.and_then(|name| name.parse().ok());
    let before = before.filter(|_| !requested.is_from_command_line("device"));
    if let Some(at) = order.iter().position(|name| Some(*name) == before) {
        order[..=at].rotate_right(1);
    }
    order
}

/// The first device of `order` that exists and fits the request. `tried` lists devices tried before, with the reason
/// why each was not used.
fn first_of(
    requested: &Requested,
    order: &[DeviceName],
    mut tried: Vec<String>,
) -> Result<(Requested, Device)> {
    let settings = &requested.settings;
    let reason = |tried: &[String]| (!tried.is_empty()).then(|| tried.join("; "));
    let mut last = None;
    for name in order {
        let DeviceName::Cuda(ordinal) = name else { return on_cpu(requested, reason(&tried)) };
        let found = gpu::find(*ordinal, settings.run.cache_dir.as_deref());
        match found.and_then(|found| on_gpu(requested, found, reason(&tried))) {
            Ok(chosen) => return Ok(chosen),
            Err(error) => {
                tried.push(format!("{name} is not used: {}", first_line(&error)));
                last = Some(error);
            }
        }
    }
    let what = format!("{} cannot be used: {}", settings.assignment("device"), tried.join("; "));
    let remedy =
        last.and_then(|error| error.remedy).map_or_else(String::new, |remedy| format!("{remedy}; or "));
    let error = Error::usage(what).remedy(format!("{remedy}end the order with cpu to train without a GPU"));
    Err(requested.placed(error, "device"))
}

/// A GPU, with the request adapted to it and notes on the choice.
fn on_gpu(
    requested: &Requested,
    (cuda, gpu): (Cuda, DeviceProperties),
    reason: Option<String>,
) -> Result<(Requested, Device)> {
    let mut requested = requested.on_gpu()?;
    let settings = &requested.settings;
    if settings.run.precision != Precision::F32 && gpu.compute_capability < TENSOR_CORES {
        let what = format!("{} is not in {}", settings.assignment("precision"), gpu.name);
        if requested.is_from_command_line("precision") {
            let error = Error::usage(what).remedy("leave precision out, or set it to f32");
            return Err(requested.placed(error, "precision"));
        }
        let f32 = toml::Value::String(Precision::F32.name().to_owned());
        requested = requested.overriding([("precision", f32, None)], &gpu.name)?;
    }
    let mut device = Device::gpu(cuda, &gpu);
    device.reason = lines([reason, requested.overridden(), device.reason]);
    Ok((requested, device))
}

/// The GPU of a process of a group, with the request adapted to it: the one that has its number among the processes of the machine,
/// or the only one that it sees.
///
/// # Errors
/// When there is none, or it cannot train with these settings.
pub(crate) fn gpu_of(requested: &Requested, group: &dyn Group) -> Result<(Requested, Device)> {
    let cache = requested.settings.run.cache_dir.as_deref();
    let (cuda, _) = gpu::find(0, cache)?;
    let (count, near) = (cuda.devices()?.len(), group.neighbours());
    if count > 1 && near.on_machine > count {
        let what = format!("{} processes on this machine have {count} GPUs", near.on_machine);
        return Err(Error::usage(what).remedy("start a process for each GPU"));
    }
    on_gpu(requested, gpu::find(near.index % count.max(1), cache)?, None)
}

/// Joins the notes into one line.
fn lines<const N: usize>(parts: [Option<String>; N]) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn first_line(error: &Error) -> &str {
    error.what.lines().next().unwrap_or_default()
}

/// The network that these settings give an environment.
///
/// # Errors
/// When the settings do not fit the environment.
pub fn network(env: &dyn AnyEnv, settings: &Settings) -> Result<Network> {
    Architecture::of(&with_options(env, settings)?.spec(), &settings.learner)
        .map(Network::new)
        .map_err(|error| learn_error(error, |key| settings.origin(key).cloned()))
}

/// The kernels that would run this environment's network on that device; None on the CPU.
///
/// # Errors
/// When there are none, or the driver fails.
pub fn kernels(env: &dyn AnyEnv, settings: &Settings, device: &Device) -> Result<Option<KernelChoice>> {
    let Some((cuda, ordinal)) = &device.cuda else { return Ok(None) };
    let Some(gpu) = cuda.devices()?.into_iter().nth(*ordinal) else { return Ok(None) };
    let (network, options) = (network(env, settings)?, network_options(settings));
    cuda::choose(&network, &settings.learner, options, (&gpu).into(), || cuda.has_blas())
        .map(Some)
        .map_err(|error| learn_error(error, |key| settings.origin(key).cloned()))
}

fn network_options(settings: &Settings) -> NetworkOptions {
    NetworkOptions { precision: settings.run.precision, kernels: settings.run.kernels }
}

/// The device that `auto` or an order would select, with the request adapted to it. If one device is requested by name,
/// which need not exist, or no device of an order can be used: none, and the request adapted to such a device. Its
/// memory is not checked.
///
/// # Errors
/// When only the CPU is left and the request does not fit it.
pub fn foreseen(requested: &Requested) -> Result<(Requested, Option<Device>)> {
    let chosen = match &requested.settings.run.device {
        DeviceRequest::Auto => choose(requested, None)?,
        DeviceRequest::FirstOf(order) => match choose(requested, None) {
            Err(_) if !order.contains(&DeviceName::Cpu) => return Ok((requested.on_gpu()?, None)),
            chosen => chosen?,
        },
        DeviceRequest::Only(_) => return Ok((requested.clone(), None)),
    };
    Ok((chosen.0, Some(chosen.1)))
}

/// The CPU, with the reason why it was chosen if it was not requested by name.
fn on_cpu(requested: &Requested, reason: Option<String>) -> Result<(Requested, Device)> {
    // Settings that only GPUs support are detected only now.
    let requested = requested.on_cpu().map_err(|mut error| {
        if let Some(reason) = &reason {
            error.what = format!("{}, and the CPU is used: {reason}", error.what);
        }
        error
    })?;
    let reason = lines([reason, requested.overridden()]);
    Ok((requested, Device { reason, ..Device::cpu() }))
}

/// As [`choose`], and builds the backend there with `make_backend`. If `auto` or an order chose a GPU that cannot train
/// this request, the next device is used instead.
///
/// # Errors
/// The errors of [`choose`], and those of `make_backend`.
pub fn start(
    requested: &Requested,
    before: Option<&str>,
    mut make_backend: impl FnMut(&Requested, &Device) -> Result<Built>,
) -> Result<(Built, Device)> {
    let (mut chosen, mut device) = choose(requested, before)?;
    let mut order = match &requested.settings.run.device {
        DeviceRequest::Auto => vec![DeviceName::Cpu],
        DeviceRequest::FirstOf(order) => resumed_order(requested, order, before),
        DeviceRequest::Only(_) => Vec::new(),
    };
    let mut tried = Vec::new();
    loop {
        let error = match make_backend(&chosen, &device) {
            Ok(built) => return Ok((built, device)),
            Err(error) => error,
        };
        let taken = device.cuda.as_ref().map(|(_, ordinal)| DeviceName::Cuda(*ordinal));
        // The devices before the one that failed do not exist.
        let past = order.iter().position(|name| Some(*name) == taken).map_or(0, |at| at + 1);
        order.drain(..past);
        if taken.is_none() || order.is_empty() {
            return Err(error);
        }
        tried.push(format!("{} cannot train this: {}", device.name, first_line(&error)));
        (chosen, device) = first_of(requested, &order, tried.clone())?;
    }
}

impl EnvFacts {
    /// The facts about an environment; a variant without a preset has its base's. An `operant.toml` may also hold tables for those of `registry`.
    pub fn of(spec: &EnvSpec, registry: &Registry) -> Self {
        let mut known = registry.known();
        for name in spec.aliases.iter().chain([&spec.name]) {
            known.insert(name.clone(), spec.name.clone());
        }
        let options =
            spec.options.iter().map(|option| (option.name.clone(), option.default.clone())).collect();
        let base = || registry.find(spec.variant_of.as_deref()?).ok()?.spec().preset;
        let preset = spec.preset.clone().or_else(base);
        let named = |is_asked: fn(&operant_env::EnvOption) -> bool| {
            spec.options.iter().filter(|it| is_asked(it)).map(|it| it.name.clone()).collect()
        };
        let paths = named(|option| option.values == OptionValues::Path);
        let rules = named(|option| option.is_rule);
        let is_foreign = spec.family.is_empty();
        let metrics = spec.run_metrics();
        EnvFacts { name: spec.name.clone(), preset, is_foreign, options, paths, rules, metrics, known }
    }

    /// Like `of`, for an environment of the registry, by name or alias.
    ///
    /// # Errors
    /// When there is none, with the nearest name.
    pub fn registered(registry: &Registry, name: &str) -> Result<Self> {
        Ok(EnvFacts::of(&find(registry, name)?.spec(), registry))
    }
}

/// The environment that a user names: one of the registry, a file of a world, or a class in Python.
///
/// # Errors
/// When there is none, with the nearest name; or the world cannot be read or recorded.
pub fn find(registry: &Registry, name: &str) -> Result<Arc<dyn AnyEnv>> {
    match registry.find(name) {
        Ok(env) => Ok(Arc::clone(env)),
        Err(_) if world::is_file(name) => world::load(Path::new(name), registry),
        Err(_) if world::is_python(name) => world::record(name, registry),
        Err(unknown) => Err(unknown_env(&unknown)),
    }
}

/// The environment of a run: the world that its directory keeps, or the one of that name in the registry. `trained`, `trust` and
/// `only_evaluates` are those of [`world::of_run`].
///
/// # Errors
/// When there is none, or [`world::of_run`] refuses it.
pub fn find_of_run(
    registry: &Registry,
    run: &Path,
    name: &str,
    trained: Option<&Snapshot>,
    trust: Trust,
    only_evaluates: bool,
) -> Result<Arc<dyn AnyEnv>> {
    match world::of_run(run, name, registry, trained, trust, only_evaluates)? {
        Some(env) => Ok(env),
        None => registry.find(name).map(Arc::clone).map_err(|unknown| unknown_env(&unknown)),
    }
}

fn unknown_env(unknown: &UnknownEnv) -> Error {
    Error::usage(unknown.to_string()).remedy(
        "`operant envs` lists the built-in ones; a Gymnasium environment is gym:ID, your own is a class in Python (module:Class), a file NAME.world, or a crate (`operant new DIR`)",
    )
}

/// Builds the backend of an environment on the chosen device, with the requested options and threads, and the plan's
/// values for the others.
///
/// # Errors
/// When the environment refuses an option or the learner the hyperparameters, each with its origin; or when the device
/// lacks memory or fails.
pub fn backend(env: &Arc<dyn AnyEnv>, requested: &Requested, device: &Device) -> Result<Built> {
    backend_in(env, requested, device, &(Arc::new(Alone) as Arc<dyn Group>))
}

/// Like [`backend`], for one process of a group; see [`cpu::backend_in`].
///
/// # Errors
/// The errors of [`backend`]; and when the processes cannot share the run.
pub fn backend_in(
    env: &Arc<dyn AnyEnv>,
    requested: &Requested,
    device: &Device,
    group: &Arc<dyn Group>,
) -> Result<Built> {
    let game = with_options(&**env, &requested.settings);
    let game = game.and_then(|game| Ok((game.file(), opposed(game, &requested.settings)?)));
    let (world, env) = agreed(&**group, game)?;
    let metrics = env.spec().run_metrics();
    let built = match &device.cuda {
        None => on_cores(env, requested, group),
        Some((cuda, ordinal)) => {
            let gpu = agreed(&**group, cuda.open(*ordinal).map_err(Error::from))?;
            on_cuda(env, requested, &gpu, group)
        }
    }?;
    // Options may change what it measures.
    let settings = built.settings.with_metrics(metrics);
    Ok(Built { world, settings, ..built })
}

fn on_cores(env: Arc<dyn AnyEnv>, requested: &Requested, group: &Arc<dyn Group>) -> Result<Built> {
    let settings = agreed(&**group, requested.resolve(None))?;
    let Settings { learner, run, .. } = &settings;
    let own = learner.num_envs / group.size();
    // Of this process's part of a minibatch.
    let chunks = cpu::chunks(&*env, learner).map(|chunks| chunks.div_ceil(group.size()));
    let plan = machine::shared_plan(run, own, chunks, group.neighbours().on_cpus);
    // Before any process takes memory.
    agreed(&**group, machine::check_memory(&*env, &settings, plan.threads, &**group))?;
    // A request for a precision that this CPU lacks has been resolved to f32, or refused.
    let bf16 = cpu::unit_for(run.precision).ok().flatten();
    let options = CpuOptions { bf16, ..machine::cpu_options(&plan) };
    let started = cpu::backend_in(env, learner, &options, Arc::clone(group));
    let started = started.map_err(|error| learn_error(error, |key| settings.origin(key).cloned()))?;
    let applied = machine::applied(&plan, run, false, started.unbound);
    Ok(Built { backend: started.backend, settings, applied, world: None })
}

fn on_cuda(
    env: Arc<dyn AnyEnv>,
    requested: &Requested,
    gpu: &operant_cuda::Device,
    group: &Arc<dyn Group>,
) -> Result<Built> {
    let settings = &requested.settings;
    let plan = machine::plan(&settings.run, None, true);
    let RunConfig { memory_fraction, overlap, deterministic, .. } = settings.run;
    let (network, threads) = (network_options(settings), plan.threads);
    let options = GpuOptions { network, memory_fraction, threads, overlap, deterministic };
    let chosen = if requested.num_envs_is_open() {
        let most = settings.max_envs();
        let chosen = cuda::choose_num_envs(&*env, &settings.learner, gpu, options, most)
            .map_err(|error| learn_error(error, |key| requested.origin(key).cloned()))?;
        Some((chosen.num_envs, chosen.reason))
    } else {
        None
    };
    let settings = agreed(&**group, requested.resolve(chosen))?;
    let backend = cuda::backend_in(env, &settings.learner, gpu, options, Arc::clone(group));
    let backend = backend.map_err(|error| learn_error(error, |key| settings.origin(key).cloned()))?;
    let applied = machine::applied(&plan, &settings.run, true, None);
    Ok(Built { backend, settings, applied, world: None })
}

pub(crate) fn with_options(env: &dyn AnyEnv, settings: &Settings) -> Result<Arc<dyn AnyEnv>> {
    env.with_options(&settings.env_options).map_err(|error| match settings.option_origin(error.option()) {
        Some(origin) => Error::from(&error).at(origin.to_string()),
        None => Error::from(&error),
    })
}

/// The learner's error, at the origin of the invalid key.
pub(crate) fn learn_error(error: LearnError, origin: impl FnOnce(&str) -> Option<Origin>) -> Error {
    let origin = match &error {
        LearnError::Config { key, .. } => origin(key),
        _ => None,
    };
    let error = Error::from(error);
    match origin {
        Some(origin) => error.at(origin.to_string()),
        None => error,
    }
}
