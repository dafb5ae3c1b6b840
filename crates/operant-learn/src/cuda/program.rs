//! The programs of an environment: emitted rules, kernel texts and defines put together.

use operant_cuda::Program;
use operant_cuda::kernels::{KernelText, ProgramText};
use operant_env::{AnyEnv, ObsSpace};

use super::layers::Form;
use super::specialise::{Specialisation, UpdateSpecialisation};
use crate::LearnError;
use crate::config::Config;
use crate::network::Network;
use crate::sample::SampleLayout;

fn define(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

fn of_environment(
    env: &dyn AnyEnv,
    kernel: KernelText,
    defines: Vec<(String, String)>,
) -> Result<Program, LearnError> {
    let name = env.spec().name;
    let source = env.emit().ok_or_else(|| LearnError::Config {
        key: "device",
        problem: format!("a GPU, but the environment {name} has no CUDA source"),
        remedy: "set device = \"cpu\"".to_owned(),
    })?;
    Ok(ProgramText { kernel, name: &name, environment: Some(&source), defines }.program())
}

/// `rollout.cu` for an environment and a network.
pub fn rollout_program(
    env: &dyn AnyEnv,
    network: &Network,
    config: &Config,
    specialisation: &Specialisation,
) -> Result<Program, LearnError> {
    let layout = SampleLayout::new(&network.architecture, env.masked());
    of_environment(env, KernelText::Rollout, specialisation.defines(network, config, &layout))
}

/// `ppo_update.cu` for an environment and a network.
pub fn update_program(
    env: &dyn AnyEnv,
    network: &Network,
    config: &Config,
    specialisation: &UpdateSpecialisation,
) -> Result<Program, LearnError> {
    let layout = SampleLayout::new(&network.architecture, env.masked());
    of_environment(env, KernelText::Update, specialisation.defines(network, config, &layout))
}

/// `layers.cu` for a network.
pub fn math_program(form: &Form) -> Program {
    let defines = form.math_defines();
    ProgramText { kernel: KernelText::Layers, name: "its network", environment: None, defines }.program()
}

/// `layers_rollout.cu` for an environment and a network.
pub fn layers_rollout_program(
    env: &dyn AnyEnv,
    network: &Network,
    config: &Config,
    form: &Form,
    norms: usize,
) -> Result<Program, LearnError> {
    let layout = SampleLayout::new(&network.architecture, env.masked());
    of_environment(env, KernelText::LayersRollout, form.rollout_defines(network, config, &layout, norms))
}

/// `layers_update.cu` for an environment and a network.
pub fn layers_update_program(
    env: &dyn AnyEnv,
    network: &Network,
    form: &Form,
) -> Result<Program, LearnError> {
    let layout = SampleLayout::new(&network.architecture, env.masked());
    of_environment(env, KernelText::LayersUpdate, form.update_defines(network, &layout))
}

/// `pack.cu` for a network.
pub fn pack_program(network: &Network, config: &Config, specialisation: &Specialisation) -> Program {
    let layout = SampleLayout::new(&network.architecture, false);
    // What the packing does not depend on must not make it be compiled again.
    let unused = [
        "THREADS",
        "WARP_BYTES",
        "WEIGHTS_AT",
        "SAMPLE_STRIDE",
        "NORM_OBS",
        "NORM_REWARD",
        "ACTIVATION_RELU",
    ];
    let mut defines = specialisation.defines(network, config, &layout);
    defines.retain(|(name, _)| !unused.contains(&name.as_str()));
    ProgramText { kernel: KernelText::Pack, name: "its network", environment: None, defines }.program()
}

/// `random_play.cu` for an environment.
pub fn play_program(
    env: &dyn AnyEnv,
    threads: u32,
    writes: bool,
    hashes: bool,
) -> Result<Program, LearnError> {
    let bits = matches!(env.spec().obs, ObsSpace::Binary { .. });
    let defines = vec![
        define("THREADS", threads),
        define("OBS_BITS", u8::from(bits)),
        define("WRITES", u8::from(writes)),
        define("HASHES", u8::from(hashes)),
    ];
    of_environment(env, KernelText::RandomPlay, defines)
}

/// `replay.cu` for an environment.
pub fn replay_program(env: &dyn AnyEnv) -> Result<Program, LearnError> {
    let bits = matches!(env.spec().obs, ObsSpace::Binary { .. });
    of_environment(env, KernelText::Replay, vec![define("OBS_BITS", u8::from(bits))])
}

/// `gae.cu`, the same for all.
pub fn gae_program() -> Program {
    ProgramText { kernel: KernelText::Gae, name: "all", environment: None, defines: Vec::new() }.program()
}
