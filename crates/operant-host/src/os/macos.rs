//! macOS: the programs `sysctl` and `vm_stat`, `proc_pidinfo`, and the times of CPUs from the Mach kernel.
#![allow(unsafe_code)]

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::cores::{CoreKind, CpuCore};
use crate::machine::{self, Memory};
use crate::topology::{Topology, of_sysctl};

/// What a program of the system prints; empty if it cannot be run.
fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// What `sysctl` prints of the machine, which does not change.
fn sysctl() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| printed("/usr/sbin/sysctl", &["hw", "machdep.cpu"]))
}

/// This machine.
pub fn topology(parallelism: usize) -> Topology {
    let memory_available = memory().map(|memory| memory.available);
    Topology { memory_available, ..of_sysctl(sysctl(), parallelism) }
}

/// The CPUs of this machine, kind by kind.
pub fn usable() -> Vec<CpuCore> {
    let cores = of_sysctl(sysctl(), 0).cores;
    let threads = |core: &crate::topology::Core| {
        let kind = core.kind;
        core.threads.iter().map(move |&number| CpuCore { number, kind }).collect::<Vec<_>>()
    };
    cores.iter().flat_map(threads).collect()
}

/// The CPUs that [`read_cpu_times`] lists: the system does not document which of them are of which kind.
pub fn sampled_cores() -> Vec<CpuCore> {
    let numbers = 0..u32::try_from(cpu_ticks().len()).unwrap_or(0);
    numbers.map(|number| CpuCore { number, kind: CoreKind::Uniform }).collect()
}

pub fn processor() -> Option<String> {
    of_sysctl(sysctl(), 0).processor
}

pub fn memory() -> Option<Memory> {
    let total = of_sysctl(sysctl(), 0).memory_total?;
    machine::of_vm_stat(total, &printed("/usr/bin/vm_stat", &[]))
}

/// Bytes of this process that are in memory now; NaN where the system does not report it.
pub fn resident_memory() -> f64 {
    let size = size_of::<libc::proc_taskinfo>() as libc::c_int;
    // SAFETY: the structure consists of integers, for which zeros are valid.
    let mut info: libc::proc_taskinfo = unsafe { std::mem::zeroed() };
    let pid = std::process::id() as libc::c_int;
    // SAFETY: the call writes at most `size` bytes to `info`, which has that size.
    let written = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTASKINFO, 0, (&raw mut info).cast(), size) };
    if written == size { info.pti_resident_size as f64 } else { f64::NAN }
}

/// Writes the times of CPUs in the format of Linux's `/proc/stat`.
pub fn read_cpu_times(_: &Path, text: &mut Vec<u8>) -> io::Result<()> {
    for (cpu, [user, system, idle, nice]) in cpu_ticks().into_iter().enumerate() {
        writeln!(text, "cpu{cpu} {user} {nice} {system} {idle}")?;
    }
    Ok(())
}

/// Ticks of each CPU since the boot: user, system, idle, nice. Empty where the kernel does not report them.
fn cpu_ticks() -> Vec<[u32; 4]> {
    let (mut count, mut length) = (0, 0);
    let mut info: libc::processor_info_array_t = std::ptr::null_mut();
    // SAFETY: the call writes the three values; on success `info` is an array of `length` numbers that the kernel mapped for this process,
    // four of each of `count` CPUs.
    #[allow(deprecated)] // in favour of a crate
    let status = unsafe {
        libc::host_processor_info(
            libc::mach_host_self(),
            libc::PROCESSOR_CPU_LOAD_INFO,
            &raw mut count,
            &raw mut info,
            &raw mut length,
        )
    };
    if status != libc::KERN_SUCCESS || info.is_null() {
        return Vec::new();
    }
    // SAFETY: see above; the array is not changed while it is read.
    let numbers = unsafe { std::slice::from_raw_parts(info.cast::<u32>(), length as usize) };
    let ticks = numbers.as_chunks().0.to_vec();
    // SAFETY: the array was mapped by the call above, has this size, and is not used any more.
    #[allow(deprecated)] // in favour of a crate
    unsafe {
        libc::vm_deallocate(libc::mach_task_self(), info as usize, length as usize * size_of::<u32>());
    }
    ticks
}
