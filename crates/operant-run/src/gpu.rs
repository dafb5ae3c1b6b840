//! Finds GPUs by the CUDA driver's numbers, with remedies if they are missing.

use std::path::Path;

use operant_cuda::{Cuda, CudaError, DeviceProperties};
use operant_env::{EnvSpec, Registry};
use operant_learn::{Config, presets};

use crate::config::Requested;
use crate::error::{Error, Result};

/// The problem when the driver works and lists no GPU.
pub const SHOWS_NONE: &str = "the NVIDIA driver lists none";

/// The number of the GPU in `cuda` (0) or `cuda:K`.
pub fn ordinal(device: &str) -> Option<usize> {
    match device.strip_prefix("cuda")? {
        "" => Some(0),
        rest => {
            let digits =
                rest.strip_prefix(':').filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse().ok()
        }
    }
}

/// The device name of a GPU: `cuda:0`.
pub fn name(ordinal: usize) -> String {
    format!("cuda:{ordinal}")
}

/// The CUDA libraries, with compiled kernels kept in `cache_dir` if one is given, and the GPU of this number as the
/// driver counts: `CUDA_VISIBLE_DEVICES` applies.
///
/// # Errors
/// What is missing: the driver, a compiler, or a GPU of that number.
pub fn find(ordinal: usize, cache_dir: Option<&Path>) -> Result<(Cuda, DeviceProperties)> {
    let mut cuda = Cuda::find()?;
    if let Some(directory) = cache_dir {
        cuda = cuda.cached_in(Some(directory));
    }
    let mut devices = cuda.devices()?;
    if ordinal >= devices.len() {
        return Err(CudaError::NoSuchDevice { ordinal, count: devices.len() }.into());
    }
    Ok((cuda, devices.swap_remove(ordinal)))
}

/// How many GPUs the driver lists.
///
/// # Errors
/// What is missing: the driver, a compiler, or any GPU.
pub fn count() -> Result<usize> {
    Ok(Cuda::find()?.devices()?.len())
}

/// Like `find`, for a run that requests only this GPU, as `requested` (`device = "cuda"`); the error's remedy includes
/// training without it.
pub(crate) fn find_for(
    requested: &str,
    ordinal: usize,
    cache_dir: Option<&Path>,
) -> Result<(Cuda, DeviceProperties)> {
    find(ordinal, cache_dir).map_err(|error| {
        let remedy = error.remedy.map_or_else(String::new, |remedy| format!("{remedy}; or "));
        Error::usage(format!("{requested} cannot be used: {}", error.what))
            .remedy(format!("{remedy}train with --device cpu"))
    })
}

/// Why kernels are compiled at every start, if they cannot be cached.
pub(crate) fn why_compiled_again(cuda: &Cuda) -> Option<String> {
    let Some(cache) = cuda.compiler().cache_directory() else {
        return Some("kernels are compiled at every start; set cache_dir to keep them".to_owned());
    };
    let probe = cache.join(format!(".writable-{}", std::process::id()));
    let written = std::fs::create_dir_all(cache).and_then(|()| std::fs::write(&probe, []));
    let _ = std::fs::remove_file(&probe);
    written.err().map(|error| {
        format!(
            "kernels are compiled at every start, since {} cannot be written ({error}); set cache_dir to another",
            cache.display()
        )
    })
}

/// The GPU that `auto` selects for this request, or the reason for the CPU, in one line. `before` is the device that a
/// resumed run trained on.
///
/// A resumed run keeps its kind of device: its number of environments would suit no other.
pub(crate) fn for_auto(
    requested: &Requested,
    before: Option<&str>,
) -> std::result::Result<(Cuda, DeviceProperties), String> {
    let algorithm = requested.settings.learner.algorithm;
    if before == Some("cpu") {
        return Err("the run trained there before; --device cuda continues it on a GPU".to_owned());
    }
    if algorithm.declaration().has_replay() {
        let problem = "does not use a GPU by default, because its speed there has not been measured";
        return Err(format!("{algorithm} {problem}; --device cuda trains on a GPU"));
    }
    if !requested.has_gpu_preset() {
        let (env, is_default) = (&requested.settings.environment, algorithm == Config::default().algorithm);
        let with = if is_default { String::new() } else { format!(" with {algorithm}") };
        return Err(format!("{env} has no preset for GPUs{with}; --device cuda trains on a GPU"));
    }
    let used = before.and_then(ordinal).unwrap_or(0);
    let find = |ordinal| find(ordinal, requested.settings.run.cache_dir.as_deref());
    let found = match find(used) {
        Err(_) if used > 0 => find(0),
        found => found,
    };
    found.map_err(|error| format!("{}; see `operant info`", no_usable(&error.what)))
}

/// The device that `auto` selects on this machine and the reason, in one line, given its first GPU or the problem with it.
pub fn auto_takes(
    first: std::result::Result<&DeviceProperties, &str>,
    registry: &Registry,
) -> (String, String) {
    match first {
        Ok(gpu) => {
            let with_gpu =
                |spec: EnvSpec| spec.preset.filter(|text| presets::has_gpu(text)).map(|_| spec.name);
            let names: Vec<String> = registry.specs().into_iter().filter_map(with_gpu).collect();
            (name(gpu.ordinal), format!("{}, which {} have presets for", gpu.name, names.join(", ")))
        }
        Err(problem) => ("cpu".to_owned(), no_usable(problem)),
    }
}

fn no_usable(problem: &str) -> String {
    format!("no usable GPU: {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CommandLine, EnvFacts, requested};

    #[test]
    fn device_names_contain_the_gpus_number() {
        let ordinals = ["cuda", "cuda:0", "cuda:3", "cpu", "cuda:", "cuda:x", "cuda3", "cuda:+1", "cuda:-1"]
            .map(ordinal);
        assert_eq!(ordinals, [Some(0), Some(0), Some(3), None, None, None, None, None, None]);
        assert_eq!(ordinal(&name(12)), Some(12));
    }

    #[test]
    fn auto_gives_a_one_line_reason_for_the_cpu() {
        let of = |facts| requested(facts, &CommandLine::default(), None).expect("valid");
        let corridor = of(EnvFacts { name: "corridor".to_owned(), ..EnvFacts::default() });
        let reason = for_auto(&corridor, None).expect_err("no preset");
        assert!(reason.starts_with("corridor has no preset for GPUs"), "{reason}");
        let cartpole = of(EnvFacts::registered(&operant_env::builtin(), "cartpole").expect("registered"));
        let reason = for_auto(&cartpole, Some("cpu")).expect_err("it trained on the CPU");
        assert!(reason.starts_with("the run trained there before"), "{reason}");
        if let Err(reason) = for_auto(&cartpole, None) {
            assert!(reason.starts_with("no usable GPU: ") && !reason.contains('\n'), "{reason}");
        }
        let line = CommandLine { set: vec!["algorithm=pqn".to_owned()], ..CommandLine::default() };
        let facts = EnvFacts::registered(&operant_env::builtin(), "cartpole").expect("registered");
        let reason = for_auto(&requested(facts, &line, None).expect("valid"), None).expect_err("no preset");
        assert!(reason.starts_with("cartpole has no preset for GPUs with pqn; --device cuda"), "{reason}");
        assert_eq!(
            auto_takes(Err("no driver"), &Registry::default()),
            ("cpu".to_owned(), "no usable GPU: no driver".to_owned())
        );
    }
}
