//! The host's stand-in for a GPU behaves as kernels require, and detects the errors that it must detect: missing barriers,
//! divergent lanes, accesses out of bounds.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // launches

#[path = "support/stand_in.rs"]
mod stand_in;

use std::ffi::c_void;
use std::path::Path;

use operant_cuda::{Cuda, CudaError, Device, Function, LaunchConfig, Plain, Program, Stream};

/// What the kernels of these tests take: where to write, and a number.
#[repr(C)]
#[derive(Clone, Copy)]
struct Params {
    out: u64,
    count: u32,
    padding: u32,
}

// SAFETY: two words and a pointer of eight bytes; any bits will do.
unsafe impl Plain for Params {}

const HEAD: &str = r#"
#include "params.cuh"
__device__ __forceinline__ unsigned number() { return blockIdx.x * blockDim.x + threadIdx.x; }
"#;
const PARAMS: &str = "#pragma once\nstruct Params { unsigned* out; unsigned count, padding; };\n";

const KERNELS: &str = r#"
// Every thread: the sum of its block's numbers (through shared memory and shuffles), the ballot of its warp, and its
// neighbour's number.
KERNEL(collectives, Params, 128, 1) {
    SHARED_ARENA(arena);
    unsigned* sums = (unsigned*)arena;
    unsigned sum = number();
    for (unsigned distance = 16u; distance > 0u; distance /= 2u) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % 32u == 0u) sums[threadIdx.x / 32u] = sum;
    __syncthreads();
    sum = 0u;
    for (unsigned warp = 0u; warp < blockDim.x / 32u; ++warp) sum += sums[warp];
    const unsigned lane = threadIdx.x % 32u;
    const unsigned votes = __ballot_sync(0xffffffffu, lane % 3u == 0u);
    const unsigned next = __shfl_down_sync(0xffffffffu, number(), 1);
    const int any = __any_sync(0xffffffffu, lane == 7u), all = __all_sync(0xffffffffu, lane < 31u);
    const double half = __shfl_sync(0xffffffffu, 0.5 * lane, 9);
    const int odd = __syncthreads_count(threadIdx.x % 2u);
    unsigned* out = params.out + 6u * number();
    out[0] = sum;
    out[1] = votes;
    out[2] = next;
    out[3] = (unsigned)(2 * any + all);
    out[4] = (unsigned)(2.0 * half);
    out[5] = (unsigned)odd;
}

// The first word counts the blocks that are running, the second has the most that there were.
KERNEL(side_by_side, Params, 64, 1) {
    if (threadIdx.x == 0u) atomicMax(params.out + 1, atomicAdd(params.out, 1u) + 1u);
    __syncthreads();
    if (threadIdx.x == 0u) atomicAdd(params.out, 0xffffffffu);
}

// Reads what the thread across wrote, without waiting for it.
KERNEL(impatient, Params, 64, 1) {
    SHARED_ARENA(arena);
    unsigned* values = (unsigned*)arena;
    values[threadIdx.x] = threadIdx.x;
    params.out[number()] = values[blockDim.x - 1u - threadIdx.x];
}

KERNEL(no_syncwarp, Params, 32, 1) {
    SHARED_ARENA(arena);
    unsigned* value = (unsigned*)arena;
    if (threadIdx.x == 0u) *value = 0u;
    __syncwarp();
    params.out[number()] = (*value)++;
}

// Adds up over the grid, three times; the next round reads what all blocks wrote.
KERNEL(together, Params, 64, 1) {
    unsigned passed = 0u;
    for (unsigned round = 0u; round < 3u; ++round) {
        const unsigned threads = gridDim.x * blockDim.x;
        const unsigned across = params.out[threads - 1u - number()];
        GRID_BARRIER(params.out, passed);
        params.out[number()] = across + 1u;
        GRID_BARRIER(params.out, passed);
    }
}

KERNEL(barrier_in_a_branch, Params, 64, 1) {
    if (threadIdx.x < 40u) __syncthreads();
    params.out[number()] = 1u;
}

KERNEL(parted, Params, 32, 1) {
    unsigned x = threadIdx.x;
    if (x == 5u) x = __shfl_sync(0xffffffffu, x, 0);
    else x = __ballot_sync(0xffffffffu, x);
    params.out[number()] = x;
}

KERNEL(part_of_the_warp, Params, 32, 1) { params.out[number()] = __shfl_sync(0xffffu, threadIdx.x, 0); }

KERNEL(warps_parted, Params, 64, 1) {
    if (threadIdx.x < 32u) return;
    __syncthreads();
    params.out[number()] = 1u;
}

KERNEL(beyond_shared, Params, 32, 1) {
    SHARED_ARENA(arena);
    ((unsigned*)arena)[threadIdx.x + params.count] = 1u;
    __syncthreads();
    params.out[number()] = ((unsigned*)arena)[threadIdx.x];
}

KERNEL(beyond_memory, Params, 32, 1) { params.out[number() + params.count] = 1u; }

KERNEL(shift_too_far, Params, 32, 1) { params.out[number()] = 1u << (threadIdx.x + params.count); }

// The transpose of a 32 x 32 matrix, one row a lane, as one instruction of the warp.
KERNEL(transpose, Params, 32, 1) {
    unsigned row[32];
    for (unsigned i = 0u; i < 32u; ++i) row[i] = 100u * threadIdx.x + i;
    host_warp(row, sizeof row, row, sizeof row, [](const void* const* in, void* const* out) {
        for (unsigned lane = 0u; lane < 32u; ++lane) {
            for (unsigned i = 0u; i < 32u; ++i) ((unsigned*)out[lane])[i] = ((const unsigned*)in[i])[lane];
        }
    });
    for (unsigned i = 0u; i < 32u; ++i) params.out[32u * threadIdx.x + i] = row[i];
}

KERNEL(many_shuffles, Params, 32, 1) {
    unsigned x = threadIdx.x;
    for (unsigned i = 0u; i < params.count; ++i) x = __shfl_xor_sync(0xffffffffu, x, 1) + 1u;
    params.out[number()] = x;
}

KERNEL(count_up, Params, 64, 1) { params.out[number()] += params.count; }

KERNEL(adds, Params, 64, 1) {
    atomicAdd(params.out, 1u);
    atomicAdd((float*)params.out + 1, 0.5f);
    atomicMax(params.out + 2, number());
}
"#;

struct Host {
    device: Device,
    stream: Stream,
    module: operant_cuda::Module,
}

fn cuda(directory: &Path) -> Cuda {
    let cuda = Cuda::find_in(Some(directory)).expect("the stand-in's libraries");
    cuda.cached_in(Some(&stand_in::cache(directory)))
}

fn program(source: &str) -> Program {
    Program {
        name: "test.cu".to_owned(),
        source: format!("{HEAD}{source}"),
        headers: vec![("params.cuh".to_owned(), PARAMS.to_owned())],
        defines: Vec::new(),
    }
}

/// The stand-in's device of that number with the kernels above; None where it cannot be built.
fn host(ordinal: usize) -> Option<Host> {
    let directory = stand_in::directory("tests of the stand-in")?;
    let device = cuda(&directory).open(ordinal).expect("a device of the stand-in");
    let stream = device.stream().expect("a stream");
    let module = device.load(&program(KERNELS)).expect("the kernels compile");
    Some(Host { device, stream, module })
}

impl Host {
    fn kernel(&self, name: &str) -> Function {
        self.module.function(name).expect("a kernel of this name")
    }

    /// Runs a kernel on `words` zeros of its own and returns them.
    fn run(
        &self,
        kernel: &str,
        grid: LaunchConfig,
        words: usize,
        count: u32,
        together: bool,
    ) -> Result<Vec<u32>, CudaError> {
        let out = self.device.alloc::<u32>(words)?;
        out.fill(&self.stream, 0)?;
        let params = Params { out: out.pointer(), count, padding: 0 };
        let kernel = self.kernel(kernel);
        // SAFETY: `Params` is what the kernels take; those that leave `out` do so in a process of their own.
        unsafe {
            if together {
                kernel.launch_cooperative(&self.stream, grid, &params)?;
            } else {
                kernel.launch(&self.stream, grid, &params)?;
            }
        }
        out.read(&self.stream)
    }
}

fn grid(blocks: u32, threads: u32, shared: u32) -> LaunchConfig {
    LaunchConfig { blocks, threads, shared }
}

#[test]
fn collectives_are_right_in_every_order() {
    for ordinal in 0..3 {
        let Some(host) = host(ordinal) else { return };
        let out = host.run("collectives", grid(3, 128, 16), 3 * 128 * 6, 0, false).expect("it runs");
        let votes = (0..32).filter(|lane| lane % 3 == 0).fold(0, |votes, lane| votes | 1u32 << lane);
        for (thread, got) in (0u32..).zip(out.chunks_exact(6)) {
            let (block, lane) = (thread / 128, thread % 32);
            let sum: u32 = (128 * block..128 * (block + 1)).sum();
            let next = if lane == 31 { thread } else { thread + 1 };
            assert_eq!(got, [sum, votes, next, 2, 9, 64], "thread {thread} on device {ordinal}");
        }
    }
}

#[test]
fn a_missing_barrier_shows_between_the_orders() {
    for (kernel, threads) in [("impatient", 64), ("no_syncwarp", 32)] {
        let mut results = Vec::new();
        for ordinal in 0..3 {
            let Some(host) = host(ordinal) else { return };
            results
                .push(host.run(kernel, grid(1, threads, 256), threads as usize, 0, false).expect("it runs"));
        }
        assert_ne!(results[0], results[1], "{kernel}: in order, and in reverse");
        // Without a barrier in between, two warps have no third order.
        let third = results[2] != results[0] && results[2] != results[1];
        assert!(third || kernel == "impatient", "{kernel}: shuffled");
    }
}

#[test]
fn only_a_shuffled_device_runs_two_blocks_of_an_ordinary_launch_at_once() {
    for (ordinal, most) in [(0, 1), (1, 1), (2, 2)] {
        let Some(host) = host(ordinal) else { return };
        let out = host.run("side_by_side", grid(33, 64, 0), 2, 0, false).expect("it runs");
        assert_eq!(out, [0, most], "device {ordinal}");
    }
}

#[test]
fn the_shuffled_order_is_the_same_each_time() {
    let Some(host) = host(2) else { return };
    let run = || host.run("no_syncwarp", grid(1, 32, 4), 32, 0, false).expect("it runs");
    assert_eq!(run(), run());
}

#[test]
fn all_blocks_of_a_cooperative_launch_wait_for_each_other() {
    for ordinal in 0..3 {
        let Some(host) = host(ordinal) else { return };
        let out = host.run("together", grid(33, 64, 0), 33 * 64, 0, true).expect("it runs");
        assert_eq!(out, vec![3; 33 * 64], "device {ordinal}");
    }
}

#[test]
fn a_warps_instruction_may_work_in_place() {
    for ordinal in 0..3 {
        let Some(host) = host(ordinal) else { return };
        let out = host.run("transpose", grid(1, 32, 0), 1024, 0, false).expect("it runs");
        let expected: Vec<u32> =
            (0..32).flat_map(|column| (0..32).map(move |row| 100 * row + column)).collect();
        assert_eq!(out, expected);
    }
}

#[test]
fn atomics_lose_nothing() {
    for ordinal in 0..3 {
        let Some(host) = host(ordinal) else { return };
        let out = host.run("adds", grid(5, 64, 0), 3, 0, false).expect("it runs");
        assert_eq!((out[0], f32::from_bits(out[1]), out[2]), (320, 160.0, 319));
    }
}

#[test]
fn a_graph_replays_its_launches_and_copies() {
    let Some(host) = host(0) else { return };
    let Host { device, stream, .. } = &host;
    let counters = device.alloc::<u32>(64).expect("memory");
    counters.fill(stream, 0).expect("filled");
    let mut copy = device.pinned::<u32>(64).expect("pinned memory");
    let kernel = host.kernel("count_up");
    let params = Params { out: counters.pointer(), count: 5, padding: 0 };
    let graph = stream.capture(|stream| {
        counters.keep_in(stream);
        // SAFETY: the kernel's own parameters; the graph keeps the memory.
        unsafe { kernel.launch(stream, grid(1, 64, 0), &params) }?;
        counters.read_into(stream, &mut copy)
    });
    let graph = graph.expect("captured");
    assert_eq!(counters.read(stream).expect("read"), vec![0; 64], "a capture runs nothing");
    for _ in 0..3 {
        graph.launch(stream).expect("launched");
    }
    stream.synchronize().expect("done");
    assert_eq!(copy.to_vec().expect("read"), vec![15; 64]);
}

#[test]
fn several_host_threads_launch_at_once() {
    let Some(first) = host(0) else { return };
    let expected = first.run("collectives", grid(3, 128, 16), 3 * 128 * 6, 0, false).expect("it runs");
    std::thread::scope(|scope| {
        for ordinal in [0, 0, 1, 2] {
            let expected = &expected;
            scope.spawn(move || {
                let host = host(ordinal).expect("built before");
                for _ in 0..20 {
                    let out = host.run("collectives", grid(3, 128, 16), 3 * 128 * 6, 0, false);
                    assert_eq!(&out.expect("it runs"), expected);
                }
            });
        }
    });
}

#[test]
fn launches_beyond_the_device_are_refused() {
    let Some(host) = host(0) else { return };
    let refused = |kernel: &str, grid: LaunchConfig, together: bool| {
        let error = host.run(kernel, grid, 64, 0, together).expect_err("a refusal");
        assert!(!error.is_lost(), "{error}");
    };
    refused("count_up", grid(1, 96, 0), false); // more than its launch bounds
    refused("count_up", grid(1, 64, 49_153), false); // more than 48 KiB without permission
    refused("together", grid(132 * 32 + 1, 64, 0), true); // more than are resident at once
    let mut kernel = host.kernel("count_up");
    kernel.shared(227 * 1024).expect("all of a block's shared memory");
    assert_eq!(kernel.blocks_per_multiprocessor(64, 227 * 1024).expect("an answer"), 1);
    assert!(kernel.shared(227 * 1024 + 1).is_err());
}

#[test]
fn devices_lack_what_their_names_say() {
    let Some(poor) = host(3) else { return };
    let error = poor.device.alloc::<u8>(2 << 20).expect_err("more than it has");
    assert!(matches!(error, CudaError::OutOfMemory { .. }), "{error}");
    let Some(alone) = host(4) else { return };
    assert!(alone.run("together", grid(2, 64, 0), 128, 0, true).is_err());
    assert!(!alone.device.properties().cooperative);
    let Some(lossy) = host(5) else { return };
    let run = || lossy.run("count_up", grid(1, 64, 0), 64, 1, false);
    for _ in 0..3 {
        run().expect("the first three");
    }
    assert!(run().expect_err("the fourth").is_lost());
    assert!(lossy.device.memory().expect_err("and all after it").is_lost());
}

#[test]
fn errors_of_a_kernels_text_name_its_line() {
    let Some(directory) = stand_in::directory("errors of a kernel's text") else { return };
    let device = cuda(&directory).open(0).expect("device 0");
    let broken = program("\nKERNEL(broken, Params, 32, 1) { params.out[0] = missing; }\n");
    let error = device.load(&broken).expect_err("it does not compile").to_string();
    assert!(error.contains("test.cu:5") && error.contains("missing"), "{error}");
}

#[test]
fn the_driver_checks_its_arguments() {
    type Allocate = unsafe extern "C" fn(*mut u64, usize) -> u32;
    type Free = unsafe extern "C" fn(u64) -> u32;
    type Read = unsafe extern "C" fn(*mut c_void, u64, usize, *mut c_void) -> u32;
    type Destroy = unsafe extern "C" fn(*mut c_void) -> u32;
    type Context = unsafe extern "C" fn(*mut *mut c_void, i32) -> u32;
    type SetCurrent = unsafe extern "C" fn(*mut c_void) -> u32;
    const INVALID_VALUE: u32 = 1;
    const INVALID_CONTEXT: u32 = 201;
    const INVALID_HANDLE: u32 = 400;

    let Some(directory) = stand_in::directory("the driver's checks") else { return };
    let _started = cuda(&directory);
    // SAFETY: the library is the stand-in, and the types are those of its calls.
    unsafe {
        let library = libloading::Library::new(directory.join("libcuda.so")).expect("the stand-in's driver");
        let allocate = library.get::<Allocate>("cuMemAlloc_v2").expect("cuMemAlloc_v2");
        let free = library.get::<Free>("cuMemFree_v2").expect("cuMemFree_v2");
        let read = library.get::<Read>("cuMemcpyDtoHAsync_v2").expect("cuMemcpyDtoHAsync_v2");
        let destroy = library.get::<Destroy>("cuStreamDestroy_v2").expect("cuStreamDestroy_v2");
        let retain = library.get::<Context>("cuDevicePrimaryCtxRetain").expect("cuDevicePrimaryCtxRetain");
        let set = library.get::<SetCurrent>("cuCtxSetCurrent").expect("cuCtxSetCurrent");
        let (mut context, mut memory, none) = (std::ptr::null_mut(), 0, std::ptr::null_mut());
        assert_eq!(retain(&mut context, 1), 0);
        assert_eq!(set(std::ptr::null_mut()), 0);
        assert_eq!(allocate(&mut memory, 64), INVALID_CONTEXT);
        assert_eq!(set(context), 0);
        assert_eq!(allocate(&mut memory, 64), 0);
        let mut bytes = [0u8; 65];
        let to = bytes.as_mut_ptr().cast::<c_void>();
        assert_eq!(read(to, memory, 64, none), 0);
        assert_eq!(bytes[..64], [0xff; 64], "fresh memory is not zero");
        assert_eq!(read(to, memory + 1, 64, none), INVALID_VALUE, "one byte beyond");
        assert_eq!(free(memory + 1), INVALID_VALUE);
        assert_eq!(free(memory), 0);
        assert_eq!(read(to, memory, 1, none), INVALID_VALUE, "freed memory");
        assert_eq!(free(memory), INVALID_VALUE, "freed twice");
        assert_eq!(destroy(to), INVALID_HANDLE);
    }
}

/// A faulty kernel that ends its process with a message; run in a process of its own.
macro_rules! fault {
    ($(#[$tier:meta])? $name:ident, $rerun:path, $threads:expr, $count:expr, $words:expr) => {
        #[test]
        $(#[$tier])?
        fn $name() {
            if !stand_in::is_child() {
                let Some(child) = $rerun(stringify!($name)) else { return };
                return stand_in::must_fail(&child, &$words);
            }
            let Some(host) = host(0) else { return };
            let kernel = stringify!($name).trim_start_matches("nightly_").trim_start_matches("fault_");
            // Just the shared memory that the kernels need, and just the words of one block of 64 or two of 32.
            let _ = host.run(kernel, grid(64 / $threads, $threads, 128), 64, $count, false);
        }
    };
}

fault!(
    fault_barrier_in_a_branch,
    stand_in::rerun,
    64,
    0,
    ["warp 1 of block 0", "thread 32 waits at __syncthreads (test.cu:", "thread 40 has ended"]
);
fault!(
    fault_parted,
    stand_in::rerun,
    32,
    0,
    ["kernel parted", "waits at a shuffle (test.cu:", "waits at a vote"]
);
fault!(fault_part_of_the_warp, stand_in::rerun, 32, 0, ["does not name all 32 lanes (test.cu:"]);
fault!(
    fault_warps_parted,
    stand_in::rerun,
    64,
    0,
    ["threads wait for ever", "waits at __syncthreads", "has ended"]
);
fault!(fault_together, stand_in::rerun, 64, 0, ["GRID_BARRIER", "in an ordinary launch"]);
fault!(
    #[ignore = "cargo xtask test --nightly"]
    nightly_fault_beyond_shared,
    stand_in::rerun_sanitized,
    32,
    1,
    ["AddressSanitizer: heap-buffer-overflow", "test.cu:"]
);
fault!(
    #[ignore = "cargo xtask test --all"]
    fault_beyond_memory,
    stand_in::rerun_sanitized,
    32,
    1,
    ["AddressSanitizer: heap-buffer-overflow", "test.cu:"]
);
fault!(
    #[ignore = "cargo xtask test --nightly"]
    nightly_fault_shift_too_far,
    stand_in::rerun_sanitized,
    32,
    1,
    ["shift exponent 32 is too large"]
);

#[test]
fn the_portable_switch_of_threads_does_the_same() {
    for test in
        ["collectives_are_right_in_every_order", "all_blocks_of_a_cooperative_launch_wait_for_each_other"]
    {
        let Some(child) = stand_in::rerun_portable(test) else { return };
        stand_in::must_pass(&child);
    }
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_sanitizers_find_nothing_in_good_kernels() {
    for test in [
        "collectives_are_right_in_every_order",
        "all_blocks_of_a_cooperative_launch_wait_for_each_other",
        "a_warps_instruction_may_work_in_place",
        "a_graph_replays_its_launches_and_copies",
        "several_host_threads_launch_at_once",
        "the_driver_checks_its_arguments",
    ] {
        let Some(child) = stand_in::rerun_sanitized(test) else { return };
        stand_in::must_pass(&child);
    }
}

#[test]
fn ten_thousand_collectives_of_a_warp_agree() {
    let Some(host) = host(0) else { return };
    let out = host.run("many_shuffles", grid(1, 32, 0), 32, 10_000, false).expect("it runs");
    assert_eq!(out[0], 10_000);
}
