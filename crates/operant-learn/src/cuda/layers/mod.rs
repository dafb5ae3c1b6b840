//! Networks that no kernel holds: every layer is a matrix product of cuBLASLt, and a horizon or an update is a graph of products
//! and of the small kernels between them.

mod choice;
mod form;
mod products;
mod rollout;
mod update;

pub use choice::{Choice, Kernels, NetworkOptions, choose, fused_up_to};
pub use form::{Form, THREADS};
pub use rollout::LayersPolicy;
pub use update::LayersEngine;

use operant_cuda::Device;
use operant_cuda::kernels::LayerMath;

use super::program::math_program;
use crate::LearnError;

/// The kernels between layers.
fn math(device: &Device, form: &Form) -> Result<LayerMath, LearnError> {
    Ok(LayerMath::new(&device.load(&math_program(form))?, form.halves())?)
}
