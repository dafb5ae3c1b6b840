//! The devices that are measured, CPU or GPU, and a series of repetitions on one.

use std::sync::Arc;
use std::time::Duration;

use operant_cuda::{Device, Peak};
use operant_env::Registry;
use operant_learn::LearnError;
use operant_learn::cpu::CpuOptions;
use operant_learn::cuda::{CudaPlay, CudaRollout, GpuOptions, PlayOptions, backend};
use operant_parity::differing_environments;
use operant_run::{Error, ErrorKind, Result, config, gpu};
use serde_json::{Value, json};

use super::Bench;
use super::case::Case;
use crate::measure::{self, Phases, RepetitionBudget, Speed, TrainingSpeed};
use crate::profile::{self, Profile};

/// A device to measure.
#[derive(Debug)]
pub enum BenchDevice {
    /// This machine's processor.
    Cpu {
        /// Its name.
        about: String,
    },
    Gpu {
        /// `cuda:K`.
        name: String,
        device: Device,
    },
}

/// Environments and steps of a comparison of bits.
const COMPARED: [usize; 2] = [65, 1_024];

/// The result of a series of repetitions.
#[derive(Debug, Clone)]
pub struct Series {
    /// Speed of the repetitions.
    pub speed: Speed,
    /// Phases of training.
    pub phases: Option<Phases>,
    pub more: Value,
}

impl BenchDevice {
    /// The device of this name; `auto` is the first GPU if one is usable, else the CPU, and `warn` gets the reason.
    ///
    /// # Errors
    /// When a requested GPU does not exist.
    pub fn find(registry: &Registry, device: &str, warn: &mut dyn FnMut(&str)) -> Result<Self> {
        let open = |ordinal| -> Result<BenchDevice> {
            let (cuda, properties) =
                gpu::find(ordinal, config::default_cache_dir(registry.known()).as_deref())?;
            Ok(BenchDevice::Gpu { name: gpu::name(properties.ordinal), device: cuda.open(ordinal)? })
        };
        match gpu::ordinal(device) {
            Some(ordinal) => open(ordinal).map_err(|error| {
                let remedy = error.remedy.map_or_else(String::new, |remedy| format!("{remedy}; or "));
                Error::usage(format!("device = \"{device}\" cannot be used: {}", error.what))
                    .at("--device")
                    .remedy(format!("{remedy}measure with --device cpu"))
            }),
            None if device == "auto" => Ok(open(0).unwrap_or_else(|error| {
                warn(&format!("auto uses the CPU: {}", error.what));
                BenchDevice::cpu()
            })),
            None => Ok(BenchDevice::cpu()),
        }
    }

    fn cpu() -> Self {
        let about = operant_host::machine::processor().unwrap_or_else(|| "CPU".to_owned());
        BenchDevice::Cpu { about }
    }

    /// Its name in rows.
    pub fn name(&self) -> &str {
        match self {
            Self::Cpu { .. } => "cpu",
            Self::Gpu { name, .. } => name,
        }
    }

    /// The vendor's name for it.
    pub fn about(&self) -> &str {
        match self {
            Self::Cpu { about } => about,
            Self::Gpu { device, .. } => &device.properties().name,
        }
    }

    /// Whether it is the CPU.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu { .. })
    }

    /// Measures a case for about the time of `effort`.
    ///
    /// # Errors
    /// When the case cannot run, or the device fails.
    pub fn measure(&self, case: &Case, effort: RepetitionBudget) -> Result<Series> {
        self.try_to_measure(case, effort).map_err(|error| of_case(case, error))
    }

    fn try_to_measure(
        &self,
        case: &Case,
        effort: RepetitionBudget,
    ) -> std::result::Result<Series, LearnError> {
        let Case { config, env, .. } = case;
        let shape = [config.num_steps, config.num_envs];
        let alone = |speed| Series { speed, phases: None, more: json!({}) };
        let trained = |trained: TrainingSpeed| Series {
            speed: trained.speed,
            phases: Some(trained.phases),
            more: json!({ "sample_epochs_per_s": trained.sample_epochs }),
        };
        Ok(match (self, case.bench) {
            (BenchDevice::Cpu { .. }, Bench::Env) => {
                alone(measure::cpu::environments(&**env, shape, &threads(case), effort)?)
            }
            (BenchDevice::Cpu { .. }, Bench::Rollout) => {
                alone(measure::cpu::rollout(env, config, &threads(case), effort)?)
            }
            (BenchDevice::Cpu { .. }, Bench::Train) => {
                trained(measure::cpu::training(env, config, &threads(case), effort)?)
            }
            (BenchDevice::Gpu { device, .. }, Bench::Env) => {
                alone(measure::gpu::environments(device, &**env, shape, effort.budget)?)
            }
            (BenchDevice::Gpu { device, .. }, Bench::Rollout) => {
                let measured = measure::gpu::rollout(device, &**env, config, case.network, effort.budget)?;
                let kernel = measured.kernel.map(|kernel| {
                    json!({
                        "registers": kernel.registers,
                        "blocks_per_multiprocessor": kernel.blocks_per_multiprocessor,
                        "weights_at": format!("{:?}", kernel.weights_at).to_lowercase(),
                    })
                });
                Series { more: json!({ "kernel": kernel }), ..alone(measured.speed) }
            }
            (BenchDevice::Gpu { device, .. }, Bench::Train) => {
                trained(measure::gpu::training(device, env, config, case.network, effort.budget)?)
            }
        })
    }

    /// Compiles the kernels of a case, and with `bits` those of [`BenchDevice::differing`], which later processes then find in the
    /// cache. A CPU needs none.
    ///
    /// # Errors
    /// When kernels do not compile, or the device has no room.
    pub fn compile(&self, case: &Case, bits: bool) -> Result<()> {
        let Self::Gpu { device, .. } = self else { return Ok(()) };
        let Case { config, env, network, .. } = case;
        let compiled = || -> std::result::Result<(), LearnError> {
            device.load(&Peak::program())?;
            match case.bench {
                Bench::Env => {
                    CudaPlay::new(device, &**env, config.num_envs, PlayOptions::new(1))?;
                    if bits {
                        CudaPlay::new(
                            device,
                            &**env,
                            COMPARED[0],
                            PlayOptions { hashes: true, ..PlayOptions::new(1) },
                        )?;
                    }
                }
                Bench::Rollout => drop(CudaRollout::new(device, &**env, config, *network)?),
                Bench::Train => {
                    let options = GpuOptions { network: *network, ..GpuOptions::default() };
                    backend(Arc::clone(env), config, device, options)?;
                }
            }
            Ok(())
        };
        compiled().map_err(|error| of_case(case, error))
    }

    /// The number of environments whose random play differs from the scalar CPU's in any bit; None where nothing is to compare.
    ///
    /// # Errors
    /// Same as [`BenchDevice::measure`].
    pub fn differing(&self, case: &Case) -> Result<Option<usize>> {
        let (Self::Gpu { device, .. }, Bench::Env) = (self, case.bench) else { return Ok(None) };
        let differing = differing_environments(device, &*case.env, COMPARED[0], COMPARED[1]);
        differing.map(|environments| Some(environments.len())).map_err(|error| of_case(case, error))
    }

    /// Profiles training.
    ///
    /// # Errors
    /// Same as [`BenchDevice::measure`].
    pub fn profile(&self, case: &Case, budget: Duration) -> Result<Profile> {
        let Case { config, env, .. } = case;
        let profile = match self {
            BenchDevice::Cpu { .. } => profile::cpu::profile(
                env,
                config,
                &threads(case),
                RepetitionBudget { budget, min_repetitions: 1 },
            ),
            BenchDevice::Gpu { device, .. } => {
                profile::gpu::profile(device, env, config, case.network, budget)
            }
        };
        profile.map_err(|error| of_case(case, error))
    }
}

fn of_case(case: &Case, error: LearnError) -> Error {
    let (bench, env) = (case.bench, &case.name);
    let error = Error::from(error);
    match error.kind {
        ErrorKind::Usage => error.at(format!("{bench} of {env}")),
        _ => Error { what: format!("{bench} of {env}: {}", error.what), ..error },
    }
}

/// The threads of a case on the CPU.
pub fn threads(case: &Case) -> CpuOptions {
    case.threads.clone().unwrap_or_else(|| CpuOptions::new(1))
}
