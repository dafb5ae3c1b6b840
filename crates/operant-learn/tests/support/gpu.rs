//! A GPU of the host's stand-in, for the tests of the backend that runs there.

#[path = "../../../operant-cuda/tests/support/stand_in.rs"]
pub mod stand_in;

use operant_cuda::{Cuda, Device};

/// The stand-in's device of this number; None, and a loud line on stderr, where there is no C++ compiler.
pub fn device(ordinal: usize) -> Option<Device> {
    let directory = stand_in::directory(env!("CARGO_CRATE_NAME"))?;
    let cuda = Cuda::find_in(Some(&directory)).expect("the stand-in is found");
    let cuda = cuda.cached_in(Some(&stand_in::cache(&directory)));
    Some(cuda.open(ordinal).expect("the stand-in has this device"))
}
