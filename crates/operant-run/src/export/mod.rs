//! A trained policy as a file for other programs: ONNX, safetensors, or C.

pub mod c;
mod messages;
mod onnx;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use operant_env::{ActionSpace, ObsSpace, OwnSpaces};
use operant_learn::TrainedPolicy;
use operant_learn::network::{Conv, Core, Embed, EmbedPart, Head, Image, Outputs};
use safetensors::tensor::{self, Dtype, TensorView};
use serde_json::{Value, json};

use crate::dir;
use crate::error::{Error, Result};
use crate::policy::SavedPolicy;

/// Key of the metadata in both formats.
const METADATA: &str = "operant";

/// Writes the policy as an ONNX model (docs/checkpoints.md describes inputs and outputs). A file of this name is replaced.
///
/// # Errors
/// When the file cannot be written.
pub fn write_onnx(saved: &SavedPolicy, path: &Path) -> Result<()> {
    write(path, onnx::encode(&saved.policy, saved.env.own_spaces().as_ref(), &metadata(saved)))
}

/// Writes the policy's tensors as a safetensors file under the names of PyTorch's `state_dict`. A file of this name is
/// replaced.
///
/// # Errors
/// When the file cannot be written.
pub fn write_safetensors(saved: &SavedPolicy, path: &Path) -> Result<()> {
    let tensors: BTreeMap<_, _> = saved.policy.tensors().into_iter().map(bytes_of).collect();
    let views = tensors.iter().map(|(name, (shape, data))| {
        let view = TensorView::new(Dtype::F32, shape.clone(), data);
        (name, view.expect("a tensor's data have its shape"))
    });
    let metadata = HashMap::from([(METADATA.to_owned(), metadata(saved))]);
    let encoded = tensor::serialize(views, Some(metadata));
    write(path, encoded.expect("names are unique and no tensor is too large"))
}

fn bytes_of(tensor: operant_learn::PolicyTensor) -> (String, (Vec<usize>, Vec<u8>)) {
    let data = tensor.values.iter().flat_map(|x| x.to_le_bytes()).collect();
    (tensor.name, (tensor.shape, data))
}

fn write(path: &Path, content: Vec<u8>) -> Result<()> {
    dir::write_output(path, content).map_err(|error| {
        Error::disk("the policy cannot be written", path, &error)
            .remedy("name a file in a directory that exists and has space")
    })
}

/// The parts of the observations; where the environment has spaces of its own, with the keys and positions that lead to each.
fn parts(obs: &ObsSpace, own: Option<&OwnSpaces>) -> Vec<Value> {
    let mut parts: Vec<Value> = obs.parts().into_iter().map(part).collect();
    let paths = own.map(|own| own.observation.arrays()).unwrap_or_default();
    parts.iter_mut().zip(paths).for_each(|(part, (path, _))| part["path"] = path.into());
    parts
}

/// A part of the observations: its name if it has one, type and shape, and of indices the bounds, which repeat over them.
fn part((name, space): (&str, &ObsSpace)) -> Value {
    let mut part = match space {
        ObsSpace::Box { low, .. } => json!({"type": "float", "shape": [low.len()]}),
        ObsSpace::Binary { shape } => json!({"type": "binary", "shape": shape}),
        ObsSpace::Bytes { shape } => json!({"type": "bytes", "shape": shape}),
        ObsSpace::Index { shape, below } => json!({"type": "index", "shape": shape, "below": below}),
        ObsSpace::Parts(_) => unreachable!("parts have no parts"),
    };
    if !name.is_empty() {
        part["name"] = json!(name);
    }
    part
}

/// A convolution: its image, as the first of its features and height, width and depth, and its shape.
fn conv(conv: &Conv) -> Value {
    let Conv { first, image, channels, kernel, stride } = conv;
    json!({"first": first, "image": image, "channels": channels, "kernel": kernel, "stride": stride})
}

/// Tables: for each part its name, its first feature, its positions and the rows of a position.
fn embed(embed: &Embed) -> Value {
    let part = |part: &EmbedPart| {
        let EmbedPart { name, first, positions, rows, .. } = part;
        json!({"name": name, "first": first, "positions": positions, "rows": rows})
    };
    let parts: Vec<Value> = embed.parts.iter().map(part).collect();
    json!({"pool": embed.pool.encoder().name(), "width": embed.width, "parts": parts})
}

/// Spaces and network as JSON, so that a file describes itself.
pub fn metadata(saved: &SavedPolicy) -> String {
    let TrainedPolicy { env, obs, actions, masked, network, obs_norm, .. } = &saved.policy;
    let architecture = &network.architecture;
    let own = saved.env.own_spaces();
    json!({
        "environment": env,
        "run": saved.run,
        "env_steps": saved.env_steps,
        "observation": parts(obs, own.as_ref()),
        "action_type": match actions { ActionSpace::Box { .. } => "continuous", ActionSpace::Discrete(_) => "discrete" },
        "action_sizes": match actions {
            ActionSpace::Box { low, .. } => vec![low.len()],
            ActionSpace::Discrete(choices) => choices.clone(),
        },
        "action_distribution": match architecture.head {
            Head::Continuous(of) => Some(of.distribution.name()),
            Head::MultiDiscrete(_) => None,
        },
        "outputs": network.policy_outputs(),
        "action_mask": masked,
        "spaces": own,
        "embed": architecture.embed.as_ref().map(embed),
        "conv": architecture.conv.iter().map(conv).collect::<Vec<_>>(),
        "items": architecture.items.map(|Image { first, extents: [count, _, features] }| {
            json!({"first": first, "count": count, "features": features})
        }),
        "hidden": architecture.hidden,
        "layer_norm": architecture.layer_norm,
        "residual_blocks": architecture.residual_blocks,
        "bins": architecture.bins.filter(|_| !architecture.outputs.has_critics()).map(|bins| {
            let [least, greatest] = bins.bounds();
            json!({"count": bins.count, "least": least, "greatest": greatest})
        }),
        "core": architecture.core.map(|Core { cell, width, layers }| {
            json!({"cell": cell.name(), "width": width, "layers": layers})
        }),
        "state_size": network.states,
        "activation": architecture.activation.name(),
        "shared_trunk": architecture.shared_trunk,
        "exploration": matches!(architecture.outputs, Outputs::ActionValues | Outputs::ActionAndCritics).then_some(architecture.exploration),
        "clip_obs": obs_norm.as_ref().map(|norm| norm.clip),
    })
    .to_string()
}
