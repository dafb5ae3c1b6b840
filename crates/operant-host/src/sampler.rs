//! The sampler: one call returns the machine's utilization since the previous call.

use std::path::{Path, PathBuf};

use crate::cores::CpuCore;
use crate::cpu::{CoreSample, CpuMeter};
use crate::gpu::{Gpu, GpuSample};
use crate::memory::resident_memory;
use crate::os;

/// The machine's utilization; NaN where unknown. CPU values are shares of the time since the previous sample, 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSample {
    /// Resident memory of this process, in bytes.
    pub resident_memory: f64,
    /// Mean over the cores that the process may use, busy with any process.
    pub cpu_utilization: f64,
    /// `cpu_utilization` of the performance cores; NaN if the machine has one kind of core, or the process may use none of this kind.
    pub cpu_performance: f64,
    /// `cpu_utilization` of the efficiency cores.
    pub cpu_efficiency: f64,
    /// Efficiency over performance: 1 is even. NaN where either is NaN or the performance cores are idle.
    pub cpu_balance: f64,
    /// The least busy of these cores over the most busy one: 1 is even. NaN where all are idle or there is one.
    pub core_balance: f64,
    /// The online cores that the process may use, by number.
    pub cores: Vec<CoreSample>,
    /// The GPU, where one is sampled.
    pub gpu: Option<GpuSample>,
}

/// Samples the machine; meant for one thread and a few calls a second.
#[derive(Debug)]
pub struct Sampler {
    stat: PathBuf,
    text: Vec<u8>,
    cpu: CpuMeter,
    gpu: Option<Gpu>,
    gpu_missing: Option<String>,
}

impl Sampler {
    /// Samples CPU and memory and no GPU: NVML, which costs time and memory to start, is not touched.
    ///
    /// The cores are those that the process may use now. The first reading is taken here, so that the first sample has
    /// rates, if a tick (10 ms) or more lies between.
    pub fn new() -> Self {
        Sampler::over(os::sampled_cores(), Path::new("/"))
    }

    /// Also samples the GPU of this UUID, as `nvidia-smi -L` and CUDA report it. If it is missing, everything else is still
    /// sampled, and [`Sampler::gpu_missing`] returns the reason.
    ///
    /// An index would be ambiguous: NVML counts all GPUs of the machine in bus order, CUDA only those in
    /// `CUDA_VISIBLE_DEVICES`, the fastest first.
    pub fn with_gpu(uuid: &str) -> Self {
        let (gpu, gpu_missing) = match Gpu::open(uuid) {
            Ok(gpu) => (Some(gpu), None),
            Err(reason) => (None, Some(reason)),
        };
        Sampler { gpu, gpu_missing, ..Sampler::new() }
    }

    /// Why the requested GPU is not sampled, in one line; `None` if it is sampled or none was requested.
    pub fn gpu_missing(&self) -> Option<&str> {
        self.gpu_missing.as_deref()
    }

    /// The machine's use since the previous call, or since the sampler was made.
    ///
    /// If no tick of a core has passed since, it returns that core's previous share.
    pub fn sample(&mut self) -> HostSample {
        self.read();
        let cpu = self.cpu.summary();
        HostSample {
            resident_memory: resident_memory(),
            cpu_utilization: cpu.all,
            cpu_performance: cpu.performance,
            cpu_efficiency: cpu.efficiency,
            cpu_balance: cpu.balance,
            core_balance: cpu.evenness,
            cores: self.cpu.cores().collect(),
            gpu: self.gpu.as_ref().map(Gpu::sample),
        }
    }

    /// Samples these cores; their times are read below `root`.
    fn over(cores: Vec<CpuCore>, root: &Path) -> Self {
        let mut sampler = Sampler {
            stat: root.join("proc/stat"),
            text: Vec::new(),
            cpu: CpuMeter::new(cores),
            gpu: None,
            gpu_missing: None,
        };
        sampler.read();
        sampler
    }

    fn read(&mut self) {
        self.text.clear();
        // A file that cannot be read counts as empty: every core is unknown.
        let read = os::read_cpu_times(&self.stat, &mut self.text);
        self.cpu.read(read.ok().and_then(|_| str::from_utf8(&self.text).ok()).unwrap_or(""));
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Sampler::new()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::CoreKind::{Efficiency, Performance};
    use crate::cores::usable_below;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn a_whole_sample_of_a_hybrid_machine() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let root = tree.path();
        write(root, "proc/self/status", "Name:\tx\nCpus_allowed_list:\t1-2\n");
        write(root, "sys/devices/cpu_core/cpus", "0-1\n");
        write(root, "sys/devices/cpu_atom/cpus", "2-3\n");
        write(root, "proc/stat", "cpu 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\ncpu2 0 0 0 0\ncpu3 0 0 0 0\n");
        let mut sampler = Sampler::over(usable_below(root), root);
        write(root, "proc/stat", "cpu 0 0 0 0\ncpu0 9 0 0 0\ncpu1 8 0 0 2\ncpu2 4 0 0 6\ncpu3 9 0 0 0\n");
        let sample = sampler.sample();
        let core = |number, kind, utilization| CoreSample { number, kind, utilization };
        assert_eq!(sample.cores, [core(1, Performance, 0.8), core(2, Efficiency, 0.4)]);
        assert!((sample.cpu_utilization - 0.6).abs() < 1e-12, "the first sample is complete: {sample:?}");
        assert_eq!((sample.cpu_performance, sample.cpu_efficiency, sample.cpu_balance), (0.8, 0.4, 0.5));
        assert_eq!(sample.gpu, None);
    }

    #[test]
    fn a_missing_or_invalid_file_is_unknown() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let root = tree.path();
        let mut nowhere = Sampler::over(usable_below(root), root);
        assert!(nowhere.sample().cpu_utilization.is_nan() && nowhere.sample().cores.is_empty());
        write(root, "proc/self/status", "Cpus_allowed_list:\t0\n");
        write(root, "proc/stat", "cpu0 0 0 0 0\n");
        let mut sampler = Sampler::over(usable_below(root), root);
        write(root, "proc/stat", "cpu0 1 0 0 1\n");
        assert_eq!(sampler.sample().cpu_utilization, 0.5);
        fs::write(root.join("proc/stat"), [0xff, 0xfe, 0]).expect("a file");
        assert!(sampler.sample().cpu_utilization.is_nan());
        fs::remove_file(root.join("proc/stat")).expect("removed");
        assert!(sampler.sample().cores.is_empty());
    }

    #[test]
    fn it_may_move_to_a_thread_of_its_own() {
        fn sendable<T: Send>() {}
        sendable::<Sampler>();
    }
}
