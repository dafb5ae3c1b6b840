//! `state.safetensors`: the snapshot's tensors.

use std::collections::{BTreeMap, HashMap};

use operant_learn::{Dtype, Snapshot, Tensor};
use safetensors::SafeTensors;
use safetensors::tensor::{self, TensorView};
use serde::{Deserialize, Serialize};

use super::CheckpointError;

/// Name of the one entry of the file's metadata. A second one would have no fixed order.
const METADATA: &str = "operant";

/// Configuration keys that are needed to compute the policy from its tensors.
const OF_NETWORK: &[&str] = &[
    "algorithm",
    "environment",
    "encoder",
    "embed_width",
    "conv",
    "hidden",
    "layer_norm",
    "residual_blocks",
    "core",
    "core_width",
    "core_layers",
    "activation",
    "shared_trunk",
    "pointer",
    "dueling",
    "intrinsic_gamma",
    "value_bins",
    "value_min",
    "value_max",
    "action_distribution",
    "norm_obs",
    "clip_obs",
    "end_e",
];

/// The file's metadata, for programs that read only this file: the network's configuration as JSON.
fn metadata(config: &str) -> Option<HashMap<String, String>> {
    let table: toml::Table = config.parse().ok()?;
    let network: BTreeMap<&str, &toml::Value> =
        OF_NETWORK.iter().filter_map(|key| Some((*key, table.get(*key)?))).collect();
    Some(HashMap::from([(METADATA.to_owned(), serde_json::to_string(&network).ok()?)]))
}

/// The file's bytes: a function of snapshot and configuration only.
///
/// # Errors
/// `Snapshot` when a name occurs twice or is reserved, or a tensor's data does not fit its shape.
pub fn encode(snapshot: &Snapshot, config: &str) -> Result<Vec<u8>, CheckpointError> {
    let invalid = |tensor: &Tensor, problem: &str| {
        let Tensor { name, dtype, shape, data } = tensor;
        CheckpointError::Snapshot(format!("{name} ({dtype:?}, {shape:?}, {} bytes): {problem}", data.len()))
    };
    let mut views = HashMap::new();
    for tensor in &snapshot.tensors {
        let dtype = to_safetensors(tensor.dtype);
        let size = tensor.shape.iter().try_fold(dtype.bitsize() / 8, |size, &n| size.checked_mul(n));
        if size != Some(tensor.data.len()) {
            return Err(invalid(tensor, "the data does not fit the shape"));
        }
        if tensor.name == "__metadata__" {
            return Err(invalid(tensor, "safetensors reserves this name"));
        }
        let view = TensorView::new(dtype, tensor.shape.clone(), &tensor.data)
            .map_err(|error| invalid(tensor, &error.to_string()))?;
        if views.insert(tensor.name.as_str(), view).is_some() {
            return Err(invalid(tensor, "the name occurs twice"));
        }
    }
    tensor::serialize(views, metadata(config)).map_err(|error| CheckpointError::Snapshot(error.to_string()))
}

/// What safetensors does not keep of a snapshot.
#[derive(Serialize, Deserialize)]
struct Header {
    /// Names of the tensors in their order.
    tensors: Vec<String>,
    counters: BTreeMap<String, u64>,
}

/// A snapshot as bytes, for another process: the length of the header, the header as JSON, the tensors.
///
/// # Errors
/// Same as [`encode`].
pub fn pack(snapshot: &Snapshot) -> Result<Vec<u8>, CheckpointError> {
    let tensors = snapshot.tensors.iter().map(|tensor| tensor.name.clone()).collect();
    let header = Header { tensors, counters: snapshot.counters.clone() };
    // Keys are strings, so this cannot fail.
    let header = serde_json::to_vec(&header).unwrap_or_default();
    Ok([&(header.len() as u64).to_le_bytes()[..], &header, &encode(snapshot, "")?].concat())
}

/// The inverse of [`pack`].
///
/// # Errors
/// A message about what is wrong.
pub fn unpack(bytes: &[u8]) -> Result<Snapshot, String> {
    let (length, rest) = bytes.split_first_chunk().ok_or("it is cut off")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (header, tensors) = rest.split_at_checked(length).ok_or("it is cut off")?;
    let Header { tensors: order, counters } =
        serde_json::from_slice(header).map_err(|error| error.to_string())?;
    Ok(Snapshot { tensors: decode(tensors, &order)?, counters })
}

/// The tensors in the given order, which must name each exactly once.
///
/// # Errors
/// A message about what is wrong.
pub fn decode(bytes: &[u8], order: &[String]) -> Result<Vec<Tensor>, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    if file.len() != order.len() {
        return Err(format!("{} tensors where meta.json names {}", file.len(), order.len()));
    }
    let tensor = |name: &String| {
        let view = file.tensor(name).map_err(|_| format!("tensor {name} is missing"))?;
        let dtype = from_safetensors(view.dtype())
            .ok_or_else(|| format!("tensor {name} has element type {:?}", view.dtype()))?;
        Ok(Tensor { name: name.clone(), dtype, shape: view.shape().to_vec(), data: view.data().to_vec() })
    };
    order.iter().map(tensor).collect()
}

fn to_safetensors(dtype: Dtype) -> tensor::Dtype {
    match dtype {
        Dtype::F32 => tensor::Dtype::F32,
        Dtype::F64 => tensor::Dtype::F64,
        Dtype::U32 => tensor::Dtype::U32,
        Dtype::I32 => tensor::Dtype::I32,
        Dtype::U64 => tensor::Dtype::U64,
    }
}

fn from_safetensors(dtype: tensor::Dtype) -> Option<Dtype> {
    match dtype {
        tensor::Dtype::F32 => Some(Dtype::F32),
        tensor::Dtype::F64 => Some(Dtype::F64),
        tensor::Dtype::U32 => Some(Dtype::U32),
        tensor::Dtype::I32 => Some(Dtype::I32),
        tensor::Dtype::U64 => Some(Dtype::U64),
        _ => None,
    }
}
