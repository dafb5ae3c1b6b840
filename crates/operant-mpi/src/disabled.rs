//! Without MPI.

use std::sync::Arc;

use operant_learn::Group;

use super::Unavailable;

/// Fails: this build has no MPI.
///
/// # Errors
/// Always.
pub fn start() -> Result<Arc<dyn Group>, Unavailable> {
    Err(Unavailable {
        what: "this build of operant does not include MPI".to_owned(),
        remedy: "install Open MPI or MPICH and libclang (Debian: apt install libopenmpi-dev openmpi-bin libclang-dev), then rebuild with \
                 `cargo build --release --features mpi`",
    })
}
