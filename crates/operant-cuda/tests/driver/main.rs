//! Tests of all device operations on the stand-in for the driver and the compiler: no GPU is needed.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // Launches.

mod launches;
mod lost;
mod machine;
mod memory;
mod nightly_sanitized;
#[path = "../support/stand_in.rs"]
mod stand_in;
mod streams;

use std::path::PathBuf;
use std::sync::OnceLock;

use operant_cuda::{Cuda, Device, Plain, Program, SearchPaths};

/// The stand-in's directory; None, with a message, without a C++ compiler.
fn directory() -> Option<&'static PathBuf> {
    static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
    DIRECTORY.get_or_init(|| stand_in::directory("the tests of devices")).as_ref()
}

/// Ends a test early if the stand-in cannot be built.
macro_rules! needs_stand_in {
    () => {
        if crate::directory().is_none() {
            return;
        }
    };
}
pub(crate) use needs_stand_in;

/// Only the stand-in, even if this machine has a driver.
fn search_paths() -> SearchPaths {
    SearchPaths::only(&[directory().expect("the stand-in")])
}

/// The stand-in, started once for all tests.
fn cuda() -> Cuda {
    static FOUND: OnceLock<Cuda> = OnceLock::new();
    let find = || {
        let cuda = Cuda::find_at(&search_paths()).unwrap_or_else(|error| panic!("{error}"));
        cuda.cached_in(Some(&stand_in::cache(directory().expect("the stand-in"))))
    };
    FOUND.get_or_init(find).clone()
}

/// A device of the stand-in: 0 to 2 differ in the order of threads, 3 has 1 MiB, 4 no cooperative launch, and 5 is lost at its
/// fourth launch.
fn device(ordinal: usize) -> Device {
    cuda().open(ordinal).unwrap_or_else(|error| panic!("{error}"))
}

/// `to[i] = from[i] * factor`, and kernels that use shared memory and a grid barrier.
const SOURCE: &str = r#"
struct Scale { const float* from; float* to; unsigned count; float factor; };

KERNEL(scale, Scale, 64, 1) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < params.count) params.to[i] = params.from[i] * params.factor;
}

struct Turn { unsigned* to; };

// Each block writes its threads' numbers in reverse, by way of shared memory.
KERNEL(turn, Turn, 64, 1) {
    SHARED_ARENA(arena);
    unsigned* const numbers = (unsigned*)arena;
    numbers[threadIdx.x] = threadIdx.x;
    __syncthreads();
    params.to[blockIdx.x * blockDim.x + threadIdx.x] = numbers[blockDim.x - 1u - threadIdx.x];
}

struct Meet { unsigned* numbers; unsigned* sums; unsigned* barrier; };

// Every block sums what all blocks wrote before the barrier.
KERNEL(meet, Meet, 64, 1) {
    unsigned passed = 0u;
    if (threadIdx.x == 0u) params.numbers[blockIdx.x] = blockIdx.x + 1u;
    GRID_BARRIER(params.barrier, passed);
    unsigned sum = 0u;
    for (unsigned block = 0u; block < gridDim.x; ++block) sum += params.numbers[block];
    if (threadIdx.x == 0u) params.sums[blockIdx.x] = sum;
}
"#;

fn program() -> Program {
    Program { name: "scale.cu".to_owned(), source: SOURCE.to_owned(), ..Program::default() }
}

/// The parameter of `scale`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Scale {
    from: u64,
    to: u64,
    count: u32,
    factor: f32,
}

// SAFETY: numbers only.
unsafe impl Plain for Scale {}
