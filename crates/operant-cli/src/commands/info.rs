//! `operant info`: this machine's devices, what is missing, and the command that fixes it.

mod build;
mod show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use operant_cuda::{Compiler, DeviceProperties, Inspection, LibraryStatus};
use operant_env::Registry;
use operant_host::{CoreKind, CpuCore, PlannedSetting};
use operant_learn::cpu::Unit;
use operant_learn::cuda::fused_up_to;
use operant_learn::network::{Architecture, Head, Input, Network};
use operant_learn::{Config, Precision};
use operant_run::{Requested, config, gpu, machine, path_text};
use serde::Serialize;

use crate::output;

/// Show this machine's devices, what is missing, and how to get it
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print one JSON object; missing or unknown values are null
    #[arg(long)]
    json: bool,
    /// List every path that was searched for a missing library
    #[arg(long, short)]
    verbose: bool,
}

const AFTER_HELP: &str = "\
A missing component is not an error: the exit code is 0.

Search paths:
  OPERANT_CUDA_LIBRARIES  the directory searched first, for libcuda, libnvrtc,
                          libcublasLt and libnccl
  then the loader's paths, CUDA_HOME, CUDA_PATH, /usr/local/cuda*, and the
  packages of the active Python (`pip install nvidia-cuda-nvrtc` brings NVRTC)
  OPERANT_CACHE_DIR       directory of compiled kernels (key cache_dir), not
                          $XDG_CACHE_HOME/operant or ~/.cache/operant
  CUDA_VISIBLE_DEVICES    which GPUs the driver lists, and so their numbers";

/// Prints the report.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let info = Info::gather(registry);
    let text = if args.json { serde_json::to_string(&info)? + "\n" } else { show::text(&info, args.verbose) };
    if args.json {
        output::print(&text)?
    } else {
        output::print_painted(&text)?
    }
    Ok(0)
}

/// The report, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Info {
    version: &'static str,
    target: build::Target,
    cpu: Cpu,
    driver: Driver,
    compiler: Nvrtc,
    /// cuBLASLt, which is optional, with its own version.
    blas: Found,
    /// NCCL, which is optional, with its own version.
    nccl: Found,
    kernel_cache: Option<KernelCache>,
    gpus: Vec<Gpu>,
    auto: Auto,
    /// What is wrong, a line each: what makes training slower than this machine allows, or fail.
    problems: Vec<String>,
}

/// Memory in bytes.
#[derive(Debug, Serialize)]
struct Cpu {
    model: Option<String>,
    /// The cores that this process may use.
    cores: Vec<Core>,
    memory_total: Option<u64>,
    memory_available: Option<u64>,
    /// Environments per vector.
    lane_width: usize,
    /// What multiplies in bf16, or why nothing does.
    bf16: String,
    /// Threads used for training.
    threads: usize,
    /// The plan for training on the CPU.
    plan: Vec<Planned>,
    /// Why the plan ignores the configuration, if that is invalid.
    plan_problem: Option<String>,
}

/// A setting of the plan.
#[derive(Debug, Serialize)]
struct Planned {
    name: &'static str,
    value: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Core {
    number: u32,
    kind: &'static str,
}

/// A library, or the problem with it.
#[derive(Debug, Serialize)]
struct Found {
    #[serde(serialize_with = "path_text::serialize_option")]
    path: Option<PathBuf>,
    version: Option<String>,
    problem: Option<String>,
    remedy: Option<String>,
    /// Every searched path, in order.
    searched: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Driver {
    #[serde(flatten)]
    found: Found,
    /// The oldest supported driver, as its CUDA version.
    minimum: String,
}

#[derive(Debug, Serialize)]
struct Nvrtc {
    #[serde(flatten)]
    found: Found,
    /// Architectures it compiles for: 90 for compute capability 9.0.
    architectures: Option<Vec<u32>>,
}

#[derive(Debug, Serialize)]
struct KernelCache {
    #[serde(serialize_with = "path_text::serialize")]
    directory: PathBuf,
    kernels: u64,
    bytes: u64,
}

/// Sizes in bytes, clocks in hertz.
#[derive(Debug, Serialize)]
struct Gpu {
    device: String,
    name: String,
    uuid: String,
    compute_capability: String,
    multiprocessors: u32,
    memory_total: u64,
    memory_bus_bits: Option<u32>,
    memory_clock: Option<u64>,
    clock: Option<u64>,
    shared_per_block: usize,
    shared_per_multiprocessor: usize,
    registers_per_multiprocessor: u32,
    l2_bytes: Option<usize>,
    cooperative: bool,
    /// By precision: the largest width of two hidden layers for CartPole that runs inside the fused kernels; wider
    /// networks use GEMM.
    fused_up_to: BTreeMap<&'static str, usize>,
}

/// The device that `--device auto` chooses.
#[derive(Debug, Serialize)]
struct Auto {
    device: String,
    reason: String,
}

impl Info {
    fn gather(registry: &Registry) -> Self {
        let inspection = operant_cuda::inspect(None);
        let newest = inspection.driver.found.as_ref().and_then(|library| library.version);
        let compiler = inspection.compiler.found.as_ref().and_then(|_| Compiler::find(None, newest).ok());
        let missing = problem(&inspection);
        let first = inspection.devices.first().ok_or(gpu::SHOWS_NONE);
        let (device, reason) = gpu::auto_takes(missing.as_deref().map_or(first, Err), registry);
        let auto = Auto { device, reason };
        let cache = config::default_cache_dir(registry.known()).or_else(|| inspection.cache.clone());
        let of_gpu = missing.filter(|_| has_driver(&inspection.driver));
        let mut info = Info {
            version: env!("CARGO_PKG_VERSION"),
            target: build::Target::of_this_build(),
            cpu: Cpu::gather(registry),
            driver: Driver {
                found: Found::of(inspection.driver),
                minimum: inspection.minimum_driver.to_string(),
            },
            compiler: Nvrtc {
                found: Found::of(inspection.compiler),
                architectures: compiler.map(|compiler| compiler.architectures()),
            },
            blas: Found::of(inspection.blas),
            nccl: Found::of(inspection.nccl),
            kernel_cache: cache.map(|cache| KernelCache::of(&cache.join("kernels"))),
            gpus: inspection.devices.iter().map(Gpu::of).collect(),
            auto,
            problems: Vec::new(),
        };
        info.problems = info.problems(of_gpu);
        info
    }

    /// What is wrong; `of_gpu` is why a GPU cannot be used.
    fn problems(&self, of_gpu: Option<String>) -> Vec<String> {
        let unused = self.target.unused_features.join(", ");
        let build =
            (!unused.is_empty()).then(|| format!("this build does not use {unused}, which this CPU has"));
        let plan = self.cpu.plan_problem.as_ref().map(|problem| format!("invalid configuration: {problem}"));
        let cache = self.kernel_cache.is_none() && !self.gpus.is_empty();
        let cache = cache.then(|| "no directory for compiled kernels".to_owned());
        build.into_iter().chain(plan).chain(of_gpu).chain(cache).collect()
    }
}

/// Whether a driver is installed, usable or not. A machine without one has no GPU to miss.
fn has_driver(driver: &LibraryStatus) -> bool {
    let is_in = |place: &String| {
        ["libcuda.so.1", "libcuda.so"].iter().any(|name| Path::new(place).join(name).exists())
    };
    driver.found.is_some() || Path::new("/proc/driver/nvidia").exists() || driver.searched.iter().any(is_in)
}

/// The problem that prevents the use of GPUs, if any.
fn problem(inspection: &Inspection) -> Option<String> {
    let driver = inspection.driver.problem.clone();
    let none = || inspection.devices.is_empty().then(|| gpu::SHOWS_NONE.to_owned());
    driver.or_else(none).or_else(|| inspection.compiler.problem.clone())
}

impl Cpu {
    fn gather(registry: &Registry) -> Self {
        let memory = operant_host::machine::memory();
        let (plan, plan_problem) = match config::of_no_environment(registry.known()) {
            Ok(Requested { settings, .. }) => (machine::plan(&settings.run, None, false), None),
            Err(error) => {
                (machine::default_plan(), Some(error.to_string().lines().collect::<Vec<_>>().join("; ")))
            }
        };
        Cpu {
            model: operant_host::machine::processor(),
            cores: operant_host::cores::usable().into_iter().map(Core::of).collect(),
            memory_total: memory.map(|memory| memory.total),
            memory_available: memory.map(|memory| memory.available),
            lane_width: plan.lane_width,
            bf16: match Unit::fastest() {
                Ok(unit) => format!("by {unit}"),
                Err(reason) => format!("none: {reason}"),
            },
            threads: plan.threads,
            plan: plan.settings.into_iter().map(Planned::of).collect(),
            plan_problem,
        }
    }
}

impl Planned {
    fn of(setting: PlannedSetting) -> Self {
        Planned { name: setting.name, value: setting.value, reason: setting.reason }
    }
}

impl Core {
    fn of(core: CpuCore) -> Self {
        let kind = match core.kind {
            CoreKind::Uniform => "uniform",
            CoreKind::Performance => "performance",
            CoreKind::Efficiency => "efficiency",
        };
        Core { number: core.number, kind }
    }
}

impl Found {
    fn of(part: LibraryStatus) -> Self {
        let (path, version) =
            part.found.map_or((None, None), |library| (Some(library.path), library.version));
        let version = version.map(|version| version.to_string());
        Found { path, version, problem: part.problem, remedy: part.remedy, searched: part.searched }
    }
}

impl KernelCache {
    /// The cache's content; a directory that does not exist yet is empty.
    fn of(directory: &Path) -> Self {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let kernels = entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "cubin"));
        let sizes: Vec<u64> = kernels.filter_map(|kernel| Some(kernel.metadata().ok()?.len())).collect();
        KernelCache {
            directory: directory.to_path_buf(),
            kernels: sizes.len() as u64,
            bytes: sizes.iter().sum(),
        }
    }
}

impl Gpu {
    fn of(gpu: &DeviceProperties) -> Self {
        // The driver's properties are 0 if unknown.
        let clock = |khz: u32| Some(u64::from(khz) * 1000).filter(|hertz| *hertz > 0);
        let (major, minor) = gpu.compute_capability;
        Gpu {
            device: gpu::name(gpu.ordinal),
            name: gpu.name.clone(),
            uuid: gpu.uuid.clone(),
            compute_capability: format!("{major}.{minor}"),
            multiprocessors: gpu.multiprocessors,
            memory_total: gpu.memory_bytes,
            memory_bus_bits: Some(gpu.memory_bus_bits).filter(|bits| *bits > 0),
            memory_clock: clock(gpu.memory_clock_khz),
            clock: clock(gpu.clock_khz),
            shared_per_block: gpu.shared_per_block,
            shared_per_multiprocessor: gpu.shared_per_multiprocessor,
            registers_per_multiprocessor: gpu.registers_per_multiprocessor,
            l2_bytes: Some(gpu.l2_bytes).filter(|bytes| *bytes > 0),
            cooperative: gpu.cooperative,
            fused_up_to: Precision::ALL
                .map(|precision| (precision.name(), fused_up_to(two_layers, precision, gpu.into())))
                .into(),
        }
    }
}

/// A network for CartPole with two hidden layers of this width.
fn two_layers(width: usize) -> (Network, Config) {
    let config = Config { hidden: vec![width, width], shared_trunk: true, ..Config::default() };
    let (input, head) = (Input::Dense(4), Head::MultiDiscrete(vec![2]));
    (Network::new(Architecture::new(&config, input, head)), config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspection(driver: Option<&str>, compiler: Option<&str>) -> Inspection {
        let part = |name, problem: Option<&str>| LibraryStatus {
            name,
            found: None,
            problem: problem.map(str::to_owned),
            remedy: problem.map(|problem| format!("fix {problem}")),
            searched: Vec::new(),
        };
        Inspection {
            driver: part("driver", driver),
            compiler: part("compiler", compiler),
            blas: part("blas", None),
            nccl: part("nccl", None),
            devices: Vec::new(),
            minimum_driver: operant_cuda::MINIMUM_DRIVER,
            cache: None,
        }
    }

    #[test]
    fn the_first_missing_component_is_the_reason() {
        assert_eq!(problem(&inspection(Some("d"), Some("c"))).as_deref(), Some("d"));
        assert_eq!(problem(&inspection(None, Some("c"))).as_deref(), Some(gpu::SHOWS_NONE));
    }

    #[test]
    fn a_driver_that_cannot_be_loaded_is_installed() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let searched = vec![directory.path().display().to_string()];
        let driver = LibraryStatus { searched, ..inspection(Some("d"), None).driver };
        let before = has_driver(&driver);
        std::fs::write(directory.path().join("libcuda.so.1"), "not a library").expect("written");
        // On a machine with a driver it is always true.
        assert!(has_driver(&driver) && before == Path::new("/proc/driver/nvidia").exists());
    }

    #[test]
    fn the_cache_counts_only_kernels() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let count = || {
            let cache = KernelCache::of(directory.path());
            (cache.kernels, cache.bytes)
        };
        assert_eq!(count(), (0, 0));
        for (name, size) in [("a.cubin", 100), ("b.cubin", 20), (".c.1.partial", 3)] {
            std::fs::write(directory.path().join(name), vec![0; size]).expect("written");
        }
        assert_eq!(count(), (2, 120));
        assert_eq!(KernelCache::of(&directory.path().join("missing")).kernels, 0);
    }
}
