//! Matrix products through the stand-in for cuBLASLt: no GPU is needed.

#![cfg(target_os = "linux")]

mod case;
mod libraries;
mod products;
mod refusals;
#[path = "../support/stand_in.rs"]
mod stand_in;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use operant_cuda::{Blas, Cuda, Device, SearchPaths, Stream};

/// The stand-in's directory; None, with a message, without a C++ compiler.
fn directory() -> Option<&'static PathBuf> {
    static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
    DIRECTORY.get_or_init(|| stand_in::directory("the tests of matrix products")).as_ref()
}

fn cuda(directory: &Path) -> Cuda {
    Cuda::find_at(&SearchPaths::only(&[directory])).unwrap_or_else(|error| panic!("{error}"))
}

/// A device of the stand-in, its library for products, and a stream; None without a C++ compiler.
fn device(ordinal: usize) -> Option<(Device, Blas, Stream)> {
    let device = cuda(directory()?).open(ordinal).unwrap_or_else(|error| panic!("{error}"));
    let blas = device.blas().unwrap_or_else(|error| panic!("{error}"));
    let stream = device.stream().expect("a stream");
    Some((device, blas, stream))
}
