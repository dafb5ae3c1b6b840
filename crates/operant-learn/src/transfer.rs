//! Starts a training from the weights of another one: copies the tensors of its snapshot whose name and shape fit. Everything
//! else is that of the new training: the optimiser's moments, counters, random streams, environments and statistics of rewards.

use std::fmt;

use crate::snapshot::{Snapshot, Tensor};
use crate::state::PLAYING;

/// The prefix of the network's parameters.
const PARAMS: &str = "params.";

/// Of target networks.
const TARGETS: &str = "targets.";

/// The prefix of the statistics of observations.
const OBS_NORM: &str = "norm_obs.";

/// How the tensors begin that only policies of continuous actions have.
const LOG_STD: &str = "params.log_std";

/// The initial snapshot of a training that starts from the weights of another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// The snapshot of the new training with those weights.
    pub snapshot: Snapshot,
    /// Parameters that keep their initial values.
    pub new: Vec<NewTensor>,
    /// The statistics of observations.
    pub statistics: ObsStatistics,
    /// Whether the weights of at least one layer before the outputs were taken.
    pub has_hidden_layer: bool,
}

/// A parameter that keeps its initial values, since the other network has none of its name and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTensor {
    /// Such as `policy.weight`.
    pub name: String,
    /// Its shape.
    pub here: Vec<usize>,
    /// The shape of the other network's; None if it has none of this name.
    pub there: Option<Vec<usize>>,
}

/// The statistics of observations of a training with the weights of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObsStatistics {
    /// Neither training has any.
    Unused,
    /// They were taken.
    Taken,
    /// They keep their initial values: numbers of features, 0 without `norm_obs`.
    New {
        /// Of the new training.
        here: usize,
        /// Of the other one.
        there: usize,
    },
}

impl NewTensor {
    /// The layer that it belongs to: its name without `weight` or `bias`.
    fn layer(&self) -> &str {
        self.name.rsplit_once('.').map_or(&self.name, |(layer, _)| layer)
    }

    /// How it differs from the other network's, such as `2 -> 3 outputs`.
    fn difference(&self) -> String {
        let (here, Some(there)) = (&self.here, &self.there) else {
            return "not in the checkpoint".to_owned();
        };
        let differing: Vec<usize> =
            (0..here.len()).filter(|&axis| there.get(axis) != Some(&here[axis])).collect();
        let is_table = self.layer().contains(".embed");
        match (&differing[..], here.len() == there.len()) {
            ([], true) => "other kind of actions".to_owned(),
            ([0], true) if is_table => format!("{} -> {} rows", there[0], here[0]),
            ([0], true) => format!("{} -> {} outputs", there[0], here[0]),
            ([1], true) => format!("{} -> {} inputs", there[1], here[1]),
            _ => format!("{there:?} -> {here:?}"),
        }
    }
}

impl Transfer {
    /// The initial state of a training whose own snapshot is `begun`, with the weights in the snapshot of another one.
    pub fn new(begun: &Snapshot, from: &Snapshot) -> Self {
        let mut snapshot = begun.clone();
        // The first rollout plays the new weights.
        snapshot.tensors.retain(|tensor| tensor.name != PLAYING);
        let statistics = obs_statistics(begun, from);
        let is_real =
            |snapshot: &Snapshot| snapshot.tensors.iter().any(|tensor| tensor.name.starts_with(LOG_STD));
        let same_actions = is_real(begun) == is_real(from);
        let (mut new, mut has_hidden_layer) = (Vec::new(), false);
        for tensor in &mut snapshot.tensors {
            if let Some(name) = tensor.name.strip_prefix(PARAMS) {
                let fits = same_actions || !name.starts_with("policy.");
                let there = find(from, &tensor.name);
                match there.filter(|there| fits && is_alike(tensor, there)) {
                    Some(there) => {
                        has_hidden_layer |= !is_output(name) && tensor.shape.len() > 1;
                        tensor.data.clone_from(&there.data);
                    }
                    None => new.push(NewTensor {
                        name: name.to_owned(),
                        here: tensor.shape.clone(),
                        there: there.map(|there| there.shape.clone()),
                    }),
                }
            } else if tensor.name.starts_with(OBS_NORM)
                && statistics == ObsStatistics::Taken
                && let Some(there) = find(from, &tensor.name)
            {
                tensor.data.clone_from(&there.data);
            }
        }
        // Targets begin with the weights of the networks that they follow.
        let (params, rest): (Vec<_>, Vec<_>) =
            snapshot.tensors.iter_mut().partition(|tensor| tensor.name.starts_with(PARAMS));
        for target in rest {
            let of = target.name.strip_prefix(TARGETS);
            let is_its = |param: &&&mut Tensor| of.is_some() && param.name.strip_prefix(PARAMS) == of;
            if let Some(param) = params.iter().find(is_its) {
                target.data.clone_from(&param.data);
            }
        }
        Self { snapshot, new, statistics, has_hidden_layer }
    }

    /// The layers that are new, in words: `policy (2 -> 3 outputs)`. Empty if there are none.
    pub fn new_layers(&self) -> String {
        // (difference, layers with it), in the order of the network.
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for tensor in &self.new {
            let (difference, layer) = (tensor.difference(), tensor.layer());
            match groups.iter_mut().find(|(known, _)| *known == difference) {
                Some((_, layers)) if layers.contains(&layer) => {}
                Some((_, layers)) => layers.push(layer),
                None => groups.push((difference, vec![layer])),
            }
        }
        let groups: Vec<String> = groups
            .iter()
            .map(|(difference, layers)| format!("{} ({difference})", layers.join(", ")))
            .collect();
        groups.join(", ")
    }
}

impl fmt::Display for ObsStatistics {
    /// What a user should know about them; empty if there is nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused | Self::Taken => Ok(()),
            Self::New { here, there: 0 } => {
                write!(
                    f,
                    "statistics of the {here} observed features are new: the weights were trained without norm_obs"
                )
            }
            Self::New { here: 0, .. } => {
                f.write_str("observations are not normalised: the weights were trained with norm_obs")
            }
            Self::New { here, there } => {
                write!(f, "statistics of observations are new ({there} -> {here} features)")
            }
        }
    }
}

fn find<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Tensor> {
    snapshot.tensors.iter().find(|tensor| tensor.name == name)
}

fn is_alike(a: &Tensor, b: &Tensor) -> bool {
    (a.dtype, &a.shape, a.data.len()) == (b.dtype, &b.shape, b.data.len())
}

/// Whether a parameter is one of the outputs; those of the layers before them begin with the name of a trunk.
fn is_output(name: &str) -> bool {
    !["trunk.", "actor.", "critic.", "critics."].iter().any(|trunk| name.starts_with(trunk))
}

fn obs_statistics(begun: &Snapshot, from: &Snapshot) -> ObsStatistics {
    let parts = ["norm_obs.mean", "norm_obs.var", "norm_obs.count"];
    let features = |snapshot| find(snapshot, parts[0]).map_or(0, |mean| mean.shape.iter().product());
    let alike = |part: &&str| find(begun, part).zip(find(from, part)).is_some_and(|(a, b)| is_alike(a, b));
    match (features(begun), features(from)) {
        (0, 0) => ObsStatistics::Unused,
        (here, there) if here == there && parts.iter().all(alike) => ObsStatistics::Taken,
        (here, there) => ObsStatistics::New { here, there },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Dtype;

    /// A tensor whose bytes are all `fill`.
    fn tensor(name: &str, shape: &[usize], fill: u8) -> Tensor {
        let dtype = if name.starts_with(OBS_NORM) { Dtype::F64 } else { Dtype::F32 };
        let bytes = shape.iter().product::<usize>() * if dtype == Dtype::F64 { 8 } else { 4 };
        Tensor { name: name.to_owned(), dtype, shape: shape.to_vec(), data: vec![fill; bytes] }
    }

    /// A network of these inputs and outputs, with normalised features.
    fn snapshot(inputs: usize, outputs: usize, features: usize, fill: u8) -> Snapshot {
        let tensors = [
            ("params.trunk.0.weight", vec![8, inputs]),
            ("params.trunk.0.bias", vec![8]),
            ("params.trunk.1.weight", vec![8, 8]),
            ("params.policy.weight", vec![outputs, 8]),
            ("params.policy.bias", vec![outputs]),
            ("exp_avg.policy.bias", vec![outputs]),
            ("norm_obs.mean", vec![features]),
            ("norm_obs.var", vec![features]),
            ("norm_obs.count", vec![1]),
            (PLAYING, vec![outputs]),
        ];
        let tensors = tensors.iter().map(|(name, shape)| tensor(name, shape, fill)).collect();
        Snapshot { tensors, counters: [("updates".to_owned(), u64::from(fill))].into() }
    }

    /// The tensors with the bytes of the other training.
    fn taken(transfer: &Transfer) -> Vec<&str> {
        let tensors = transfer.snapshot.tensors.iter();
        tensors.filter(|tensor| tensor.data.contains(&9)).map(|tensor| &*tensor.name).collect()
    }

    #[test]
    fn parameters_and_statistics_of_observations_are_taken_and_nothing_else() {
        let transfer = Transfer::new(&snapshot(4, 2, 4, 0), &snapshot(4, 2, 4, 9));
        let expected = ["params.trunk.0.weight", "params.trunk.0.bias", "params.trunk.1.weight"];
        let heads = ["params.policy.weight", "params.policy.bias"];
        let statistics = ["norm_obs.mean", "norm_obs.var", "norm_obs.count"];
        assert_eq!(taken(&transfer), [&expected[..], &heads, &statistics].concat());
        assert_eq!(transfer.snapshot.counters["updates"], 0);
        assert!(find(&transfer.snapshot, PLAYING).is_none(), "the first rollout would play old weights");
        assert_eq!((transfer.new_layers(), transfer.statistics), (String::new(), ObsStatistics::Taken));
    }

    #[test]
    fn targets_begin_with_the_weights_that_were_taken_or_are_new() {
        let with_targets = |mut snapshot: Snapshot| {
            for name in ["targets.trunk.1.weight", "targets.trunk.0.weight"] {
                let param = name.replace(TARGETS, PARAMS);
                let shape = find(&snapshot, &param).expect("there").shape.clone();
                snapshot.tensors.push(tensor(name, &shape, 77));
            }
            snapshot
        };
        // The first layer has other inputs and is new.
        let Transfer { snapshot, .. } =
            Transfer::new(&with_targets(snapshot(6, 3, 6, 0)), &with_targets(snapshot(4, 2, 4, 9)));
        for layer in ["trunk.0.weight", "trunk.1.weight"] {
            let [target, param] = [TARGETS, PARAMS].map(|of| find(&snapshot, &format!("{of}{layer}")));
            assert_eq!(target.expect("there").data, param.expect("there").data, "{layer}");
        }
    }

    #[test]
    fn layers_of_other_spaces_are_new_and_named() {
        let transfer = Transfer::new(&snapshot(6, 3, 6, 0), &snapshot(4, 2, 4, 9));
        assert_eq!(taken(&transfer), ["params.trunk.0.bias", "params.trunk.1.weight"]);
        assert_eq!(transfer.new_layers(), "trunk.0 (4 -> 6 inputs), policy (2 -> 3 outputs)");
        assert_eq!(transfer.statistics.to_string(), "statistics of observations are new (4 -> 6 features)");
        assert!(transfer.has_hidden_layer);
    }

    #[test]
    fn without_a_hidden_layer_nothing_useful_is_taken() {
        let without = |mut snapshot: Snapshot| {
            snapshot.tensors.retain(|tensor| tensor.name != "params.trunk.1.weight");
            snapshot
        };
        let transfer = Transfer::new(&without(snapshot(6, 2, 0, 0)), &without(snapshot(4, 2, 0, 9)));
        assert!(!transfer.has_hidden_layer);
        assert_eq!(transfer.statistics, ObsStatistics::Unused);
    }

    #[test]
    fn logits_and_means_of_one_shape_differ() {
        let mut continuous = snapshot(4, 2, 0, 0);
        continuous.tensors.push(tensor(LOG_STD, &[2], 0));
        let transfer = Transfer::new(&continuous, &snapshot(4, 2, 4, 9));
        assert_eq!(transfer.new_layers(), "policy (other kind of actions), log_std (not in the checkpoint)");
        assert!(transfer.statistics.to_string().contains("trained with norm_obs"));
        let back = Transfer::new(&snapshot(4, 2, 4, 0), &continuous);
        assert_eq!(back.new_layers(), "policy (other kind of actions)");
        assert!(back.statistics.to_string().contains("trained without norm_obs"));
    }
}
