//! GPUs as a run asks for them: by the CUDA driver's numbers, found or missed with words that say what to do.

use std::path::Path;

use operant_cuda::{Cuda, CudaError, DeviceProperties};

use crate::error::{Error, Result};

/// What keeps `auto` from a GPU that is there.
const NO_PRESETS: &str = "auto stays on the CPU until there are presets for thousands of environments";

/// What is wrong where the driver starts and has no GPU.
pub const SHOWS_NONE: &str = "the NVIDIA driver shows none";

/// Files of the kernel's drivers, one of which every process that uses a GPU opens: the usual one, that of WSL, and that
/// of Tegra.
const DRIVER_FILES: &[&str] = &["/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu"];

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

/// A GPU as a device is called: `cuda:0`.
pub fn name(ordinal: usize) -> String {
    format!("cuda:{ordinal}")
}

/// The libraries, and the GPU of this number as the driver counts them: `CUDA_VISIBLE_DEVICES` applies.
///
/// # Errors
/// What is missing: the driver, a compiler, or a GPU of that number.
pub fn find(ordinal: usize) -> Result<(Cuda, DeviceProperties)> {
    let cuda = Cuda::find()?;
    let mut devices = cuda.devices()?;
    if ordinal >= devices.len() {
        return Err(CudaError::NoSuchDevice { ordinal, count: devices.len() }.into());
    }
    Ok((cuda, devices.swap_remove(ordinal)))
}

/// The same for a run that asks for `device`, whose error says how to train without.
pub(crate) fn find_for(device: &str, ordinal: usize) -> Result<(Cuda, DeviceProperties)> {
    find(ordinal).map_err(|error| {
        let remedy = error.remedy.map_or_else(String::new, |remedy| format!("{remedy}; or "));
        Error::usage(format!("device = \"{device}\" cannot be used: {}", error.what))
            .remedy(format!("{remedy}train with --device cpu"))
    })
}

/// Why each start takes seconds longer than it need, where compiled kernels cannot be kept.
pub(crate) fn why_compiled_again(cuda: &Cuda) -> Option<String> {
    let Some(cache) = cuda.compiler().cache_directory() else {
        return Some("kernels are compiled at every start; set OPERANT_CACHE_DIR to keep them".to_owned());
    };
    let probe = cache.join(format!(".writable-{}", std::process::id()));
    let written = std::fs::create_dir_all(cache).and_then(|()| std::fs::write(&probe, []));
    let _ = std::fs::remove_file(&probe);
    written.err().map(|error| {
        format!(
            "kernels are compiled at every start, since {} cannot be written ({error}); set OPERANT_CACHE_DIR to another",
            cache.display()
        )
    })
}

/// Why `auto` takes the CPU, in one line. Where there may be a GPU no driver is started to tell, since that can take as
/// long as a short run.
pub(crate) fn why_cpu() -> String {
    if DRIVER_FILES.iter().any(|file| Path::new(file).exists()) {
        return why_cpu_when(None);
    }
    let problem = match Cuda::find().and_then(|cuda| cuda.devices()) {
        Ok(devices) if !devices.is_empty() => return why_cpu_when(None),
        Ok(_) => SHOWS_NONE.to_owned(),
        Err(error) => error.parts().0,
    };
    format!("{}; `operant info` says more", why_cpu_when(Some(&problem)))
}

/// Why `auto` takes the CPU, in one line, given what is wrong with the GPU; None where there is one.
pub fn why_cpu_when(problem: Option<&str>) -> String {
    match problem {
        None => {
            format!("{NO_PRESETS}; --device cuda trains on the GPU")
        }
        Some(problem) => format!("no usable GPU: {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_name_their_gpu() {
        let ordinals = ["cuda", "cuda:0", "cuda:3", "cpu", "cuda:", "cuda:x", "cuda3", "cuda:+1", "cuda:-1"]
            .map(ordinal);
        assert_eq!(ordinals, [Some(0), Some(0), Some(3), None, None, None, None, None, None]);
        assert_eq!(ordinal(&name(12)), Some(12));
    }

    #[test]
    fn why_the_cpu_is_one_line() {
        for line in [why_cpu(), why_cpu_when(None), why_cpu_when(Some("no driver"))] {
            assert!(!line.contains('\n') && !line.is_empty(), "{line}");
        }
    }
}
