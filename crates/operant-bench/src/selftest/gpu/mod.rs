//! The GPU's self-test: environments, the fused kernels, and PQN on the GEMM path against the CPU, and training with the presets.

mod learning;
mod parity;
mod prepare;

use std::sync::Arc;

use operant_cuda::{Cuda, CudaError, Device};
use operant_env::{AnyEnv, EnvOptions, EnvSpec, Registry};
use operant_learn::algorithms::Algorithm;
use operant_learn::{Config, LearnError};
use serde_json::json;

use super::SelftestOptions;
use super::report::Report;

/// Runs the self-test of GPU `ordinal`, with these environments; if none are named with one of each kind.
///
/// # Errors
/// When there is no such GPU, or no driver or compiler for it.
pub fn check_gpu(
    report: &mut Report,
    registry: &Registry,
    extent: SelftestOptions,
    (ordinal, envs): (usize, &[String]),
) -> Result<(), CudaError> {
    let cuda = Cuda::find()?;
    let device = cuda.open(ordinal)?;
    let properties = device.properties();
    let memory = device.memory()?;
    report.gpu = Some(json!({
        "device": operant_run::gpu::name(ordinal),
        "name": properties.name,
        "uuid": properties.uuid,
        "compute_capability": [properties.compute_capability.0, properties.compute_capability.1],
        "multiprocessors": properties.multiprocessors,
        "clock_mhz": properties.clock_khz / 1000,
        "memory_bytes": memory.total,
        "driver": cuda.driver_version().to_string(),
        "compiler": cuda.compiler().version().to_string(),
    }));
    // Programs for every environment would take hours to compile.
    let registry = &if envs.is_empty() { registry.of_each_kind() } else { registry.clone() };
    let gpu = Gpu { registry, device: &device, ordinal, name: operant_run::gpu::name(ordinal), extent, envs };
    if let Some(share) = extent.compile {
        gpu.compile(share);
        return Ok(());
    }
    gpu.prepare(report);
    gpu.parity(report);
    gpu.learning(report);
    Ok(())
}

struct Gpu<'a> {
    registry: &'a Registry,
    device: &'a Device,
    ordinal: usize,
    name: String,
    extent: SelftestOptions,
    envs: &'a [String],
}

impl Gpu<'_> {
    /// The environments.
    fn specs(&self) -> Vec<EnvSpec> {
        let mut specs = self.registry.specs();
        specs.retain(|spec| self.envs.is_empty() || self.envs.contains(&spec.name));
        specs
    }

    fn names(&self) -> Vec<String> {
        self.specs().into_iter().map(|spec| spec.name).collect()
    }

    /// Calls a closure with the environment of this name.
    fn with<T>(
        &self,
        name: &str,
        run: impl FnOnce(&Arc<dyn AnyEnv>) -> Result<T, LearnError>,
    ) -> Result<T, String> {
        self.with_options(name, &EnvOptions::new(), run)
    }

    /// Like `with`, with options of the environment.
    fn with_options<T>(
        &self,
        name: &str,
        options: &EnvOptions,
        run: impl FnOnce(&Arc<dyn AnyEnv>) -> Result<T, LearnError>,
    ) -> Result<T, String> {
        let env = self.registry.make(name, options).map_err(|error| error.to_string())?;
        run(&env).map_err(|error| error.to_string())
    }
}

/// The environments of PQN's checks: without masks, and with them.
const PQN: [&str; 2] = ["cartpole", "taxi"];

/// PQN with half of the actions random, on the GEMM path.
fn pqn(num_envs: usize, num_steps: usize) -> Config {
    let base = config(num_envs, num_steps, &[64, 64]);
    Config { algorithm: Algorithm::Pqn, layer_norm: true, start_e: 0.5, end_e: 0.5, ..base }
}

fn config(num_envs: usize, num_steps: usize, hidden: &[usize]) -> Config {
    Config { seed: 3, num_envs, num_steps, hidden: hidden.to_vec(), shared_trunk: true, ..Config::default() }
}
