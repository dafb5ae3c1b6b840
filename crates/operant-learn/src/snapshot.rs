//! The state of training as named tensors: the content of a checkpoint, independent of the device.

use std::collections::BTreeMap;

/// Element type of a [`Tensor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 64-bit integer.
    U64,
}

/// A named tensor in row-major order, little-endian.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Unique within a snapshot, such as `policy.0.weight` or `env.x_dot`.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extents, outermost first; the state of environments is `(N, ...)`.
    pub shape: Vec<usize>,
    /// The elements' bytes.
    pub data: Vec<u8>,
}

/// Weights, moments, environment states and counters: everything needed to continue bit for bit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Tensors, in a fixed order.
    pub tensors: Vec<Tensor>,
    /// Whole-number counters such as `env_steps` and `updates`.
    pub counters: BTreeMap<String, u64>,
}
