//! The layout of parameters in the flat vector that Adam, checkpoints and devices share.

use super::init::HIDDEN_GAIN;
use super::{
    Architecture, CellSpec, Continuous, Conv, Core, Dense, Dueling, Form, Head, Image, Init, Items, Norm,
    Outputs, Pointer, Residual,
};
use crate::config::{Activation, Config, LogStd, WeightInit};
use crate::layers::export::{Exported, Graph};

/// Gain of the policy's output layers: the first policy is nearly the same for all observations.
const POLICY_GAIN: f64 = 0.01;
/// Trunk and output layer of each critic of actions.
const CRITICS: [(&str, &str); 2] = [("critics.0", "critics.0.q"), ("critics.1", "critics.1.q")];
/// The output layer of the value of rewards for exploring.
const INTRINSIC_VALUE: &str = "intrinsic_value";
/// Gain of the values' output layers.
const VALUE_GAIN: f64 = 1.0;

/// A named block of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSpec {
    /// Such as `trunk.0.weight`.
    pub name: String,
    /// Extents, outermost first; weights are `(outputs, inputs)`.
    pub shape: Vec<usize>,
    /// Index of its first element.
    pub offset: usize,
    /// How it begins.
    pub init: Init,
}

impl TensorSpec {
    /// Elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its place in the flat vector.
    pub fn range(&self) -> core::ops::Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// A layer: `y = activation(W x + b)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSpec {
    /// Name of its parameters, such as `trunk.0`; the last layer of a shared trunk has two, `policy` and `value`.
    pub name: String,
    /// Its kind and shape.
    pub form: Form,
    /// Input features.
    pub inputs: usize,
    /// Output features.
    pub outputs: usize,
    /// The place of all its parameters in the flat vector.
    pub params: core::ops::Range<usize>,
    /// None for an output layer, and where a normalisation follows.
    pub activation: Option<Activation>,
}

impl LayerSpec {
    /// Outputs that pass the nonlinearity; those after them are inputs that skip the layer.
    pub fn active(&self) -> usize {
        self.form.kind().active(self.inputs)
    }

    /// Multiply-adds x 2 of the products of one sample.
    pub fn flops(&self) -> u64 {
        2 * self.form.kind().multiply_adds(self.inputs).iter().sum::<usize>() as u64
    }

    /// Those with its inputs, whose gradient the first layer does not need.
    fn input_flops(&self) -> u64 {
        2 * self.form.kind().multiply_adds(self.inputs)[0] as u64
    }

    /// Its shape in words, such as `4 -> 64`.
    pub fn describe(&self) -> String {
        self.form.kind().describe(self.inputs)
    }

    /// Adds its nodes, from `x` to `output`, to a graph; `op` is the operator of the network's nonlinearity.
    pub fn export(&self, graph: &mut dyn Graph, op: &str, x: &str, output: &str) {
        let own = if self.activation.is_some() { op } else { "Identity" };
        self.form.kind().export(graph, Exported { layer: self, op: own, network_op: op, x, output });
    }
}

/// Layers from the observation to outputs: A policy outputs, the value, or both in that order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// First to last.
    pub layers: Vec<LayerSpec>,
}

impl Chain {
    /// Layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there is none; never, for a chain with outputs.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

/// The layers of an architecture and their parameters.
///
/// A shared trunk is one chain ending in A + 1 outputs: the policy's and the value's last layers lie side by side, so
/// they are one layer to compute and two tensors to name. Without sharing, chain 0 is the actor and chain 1 the critic. Critics of
/// actions are chains 1 and 2; their inputs are those of the actor and the action.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// The architecture.
    pub architecture: Architecture,
    /// One chain, or actor and critic.
    pub chains: Vec<Chain>,
    /// Every block of parameters, in order, without gaps.
    pub tensors: Vec<TensorSpec>,
    /// Index of the first log standard deviation, where they are parameters.
    pub log_std: Option<usize>,
    /// Index of the logarithm of a learned temperature.
    pub log_alpha: Option<usize>,
    /// Numbers of state that an environment carries from step to step.
    pub states: usize,
    /// The unit that multiplies fully connected layers in bf16 on the CPU; None for f32. GPUs have their own options.
    pub bf16: Option<operant_bf16::Unit>,
}

impl Network {
    /// Lays out `architecture`.
    pub fn new(architecture: Architecture) -> Self {
        let mut network = Self {
            chains: Vec::new(),
            tensors: Vec::new(),
            log_std: None,
            log_alpha: None,
            states: 0,
            bf16: None,
            architecture,
        };
        let (outputs, policy) = (network.architecture.head.outputs(), network.architecture.head.layers());
        let features = network.architecture.input.features();
        let of_value = network.architecture.bins.map_or(1, |bins| bins.count);
        let mut values = vec![("value", of_value)];
        if network.architecture.intrinsic_value {
            values.push((INTRINSIC_VALUE, 1));
        }
        if network.architecture.outputs == Outputs::ActionValues {
            let chain = network.lay_chain("trunk", &[("q", outputs * of_value)], features);
            network.chains.push(chain);
        } else if network.architecture.outputs.has_critics() {
            let chain = network.lay_chain("actor", &policy, features);
            network.chains.push(chain);
            let inputs = features + network.architecture.head.components();
            for (trunk, head) in CRITICS {
                let chain = network.lay_chain(trunk, &[(head, of_value)], inputs);
                network.chains.push(chain);
            }
        } else if network.architecture.shared_trunk {
            let chain = network.lay_chain("trunk", &[policy, values].concat(), features);
            network.chains.push(chain);
        } else {
            for (trunk, heads) in [("actor", &policy), ("critic", &values)] {
                let chain = network.lay_chain(trunk, heads, features);
                network.chains.push(chain);
            }
        }
        if network.architecture.init == WeightInit::PyTorch {
            network.begin_as_pytorch();
        }
        if let Head::Continuous(of @ Continuous { actions, .. }) = network.architecture.head
            && of.has_log_std()
        {
            let init = Init::Constant(network.architecture.log_std_init);
            network.log_std = Some(network.lay("log_std".to_owned(), &[actions], init));
        }
        if let Some(alpha) = network.architecture.temperature {
            let init = Init::Constant(operant_lane::Float::ln(alpha));
            network.log_alpha = Some(network.lay("log_alpha".to_owned(), &[1], init));
        }
        network
    }

    /// Matrices and the biases after them begin uniform within 1 / sqrt(inputs), or 1 / sqrt(units) in PyTorch's cells. Tables, normalisations
    /// and what mingru remembers, which PyTorch has not, stay.
    fn begin_as_pytorch(&mut self) {
        for layer in self.chains.iter().flat_map(|chain| &chain.layers) {
            let of_cell = match &layer.form {
                Form::Cell(cell) if cell.cell.sees_state() => Some(1.0 / (cell.width as f64).sqrt()),
                _ => None,
            };
            let mut last = None;
            for tensor in self.tensors.iter_mut().filter(|tensor| layer.params.contains(&tensor.offset)) {
                let inputs: usize = tensor.shape[1..].iter().product();
                last = match tensor.init {
                    Init::Orthogonal(_) => of_cell.or(Some(1.0 / (inputs as f64).sqrt())),
                    Init::Constant(0.0) => last,
                    // It begins as `log_std_init` says.
                    _ if tensor.name == "log_std.bias" => continue,
                    _ => None,
                };
                tensor.init = last.map_or(tensor.init, |bound| Init::Uniform { bound });
            }
        }
    }

    /// Parameters.
    pub fn len(&self) -> usize {
        self.tensors.iter().map(TensorSpec::len).sum()
    }

    /// Whether there is none; never, for a network with outputs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A: policy outputs, or action values.
    pub fn policy_outputs(&self) -> usize {
        self.architecture.head.outputs()
    }

    /// Multiply-adds x 2 of the matrices in one forward pass of one sample; biases and nonlinearities are not counted.
    pub fn forward_flops(&self) -> u64 {
        self.layers().map(LayerSpec::flops).sum()
    }

    /// Those of a rollout, which leaves critics of actions out.
    pub fn acting_flops(&self) -> u64 {
        let acting = if self.architecture.outputs.has_critics() { 1 } else { self.chains.len() };
        self.chains[..acting].iter().flat_map(|chain| &chain.layers).map(LayerSpec::flops).sum()
    }

    /// Like `forward_flops`, for one forward and one backward pass: every layer's weight gradient, and the input gradient of every
    /// layer but the first.
    pub fn forward_backward_flops(&self) -> u64 {
        let first: u64 = self.chains.iter().map(|chain| chain.layers[0].input_flops()).sum();
        3 * self.forward_flops() - first
    }

    /// The multiply-adds x 2 for each environment step of an algorithm with a replay: acting, and minibatches. Those of a policy and two critics
    /// of its actions have actions and values after a step, the critics' gradient, and the policy's through the critics; those of action values
    /// have the values after a step, of a network or of two, and the gradient.
    pub fn replay_flops(&self, config: &Config) -> f64 {
        let forward = |chain: &Chain| chain.layers.iter().map(LayerSpec::flops).sum::<u64>();
        let back = |chain: &Chain| 3 * forward(chain) - chain.layers[0].input_flops();
        let [actor, critics @ ..] = &self.chains[..] else { return 0.0 };
        let samples = config.updates_per_step * config.batch_size as f64;
        if critics.is_empty() {
            if self.states > 0 {
                // Both networks go over all rows of a sequence, and the gradient over those that are learned from.
                let rows = config.sequence_rows() as f64 / config.sequence() as f64;
                let sample = 2.0 * rows * forward(actor) as f64 + (back(actor) - forward(actor)) as f64;
                return forward(actor) as f64 + samples * sample;
            }
            let after = forward(actor) << u32::from(config.algorithms.dqn.double_q);
            return forward(actor) as f64 + samples * (after + back(actor)) as f64;
        }
        let of_critics = |of: &dyn Fn(&Chain) -> u64| critics.iter().map(of).sum::<u64>() as f64;
        let critic = forward(actor) as f64 + of_critics(&forward) + of_critics(&back);
        let policy = back(actor) as f64 + 2.0 * of_critics(&forward);
        let sample = critic + policy / config.policy_frequency as f64;
        forward(actor) as f64 + samples * sample
    }

    /// The parameters of neighbouring chains.
    pub fn params_of(&self, chains: core::ops::Range<usize>) -> core::ops::Range<usize> {
        let layers = |chain: usize| &self.chains[chain].layers;
        let (first, last) = (layers(chains.start).first(), layers(chains.end - 1).last());
        first.map_or(0, |layer| layer.params.start)..last.map_or(0, |layer| layer.params.end)
    }

    /// The parameters of a separate value network.
    pub fn value_params(&self) -> Option<core::ops::Range<usize>> {
        (self.chains.len() == 2).then(|| self.params_of(1..2))
    }

    /// The matrices of hidden layers: a convolution's has a row for each output channel, and a layer with memory has one for each gate. Tables
    /// and outputs are none of them.
    pub fn hidden_matrices(&self) -> impl Iterator<Item = (core::ops::Range<usize>, [usize; 2])> {
        let of_chain = |chain: &Chain| {
            let has_bins = matches!(chain.layers.last(), Some(LayerSpec { form: Form::Bins(_), .. }));
            chain.len() - 1 - usize::from(has_bins)
        };
        let hidden = self.chains.iter().flat_map(move |chain| &chain.layers[..of_chain(chain)]);
        let hidden = hidden.filter(|layer| !matches!(layer.form, Form::Embed(_)));
        hidden.flat_map(|layer| {
            let gates = if let Form::Cell(cell) = &layer.form { cell.cell.gates() } else { 1 };
            let own = |tensor: &&TensorSpec| tensor.shape.len() > 1 && layer.params.contains(&tensor.offset);
            self.tensors.iter().filter(own).flat_map(move |tensor| {
                let (size, rows) = (tensor.len() / gates, tensor.shape[0] / gates);
                (0..gates).map(move |gate| {
                    let first = tensor.offset + gate * size;
                    (first..first + size, [rows, size / rows])
                })
            })
        })
    }

    /// The layers of all chains.
    pub fn layers(&self) -> impl Iterator<Item = &LayerSpec> {
        self.chains.iter().flat_map(|chain| &chain.layers)
    }

    /// Adds a block of parameters and returns the index of its first element.
    pub(crate) fn lay(&mut self, name: String, shape: &[usize], init: Init) -> usize {
        let offset = self.len();
        self.tensors.push(TensorSpec { name, shape: shape.to_vec(), offset, init });
        offset
    }

    /// Adds a layer to those of a chain.
    fn push(
        &mut self,
        layers: &mut Vec<LayerSpec>,
        name: String,
        form: impl Into<Form>,
        activation: Option<Activation>,
        features: usize,
    ) {
        let (form, first) = (form.into(), self.len());
        let inputs = layers.last().map_or(features, |layer| layer.outputs);
        let outputs = form.kind().outputs(inputs);
        form.kind().lay(self, &name, inputs);
        layers.push(LayerSpec { name, form, inputs, outputs, params: first..self.len(), activation });
    }

    /// Layers from that many features to the heads.
    fn lay_chain(&mut self, trunk: &str, heads: &[(&str, usize)], features: usize) -> Chain {
        let mut layers = Vec::new();
        let Architecture {
            embed, conv, items, hidden, layer_norm, residual_blocks, core, activation, ..
        } = self.architecture.clone();
        // A separate critic has only the state as input.
        let is_critic = heads.iter().all(|(head, _)| *head == "value");
        let mut items = items.map(|Image { first, extents: [count, _, depth] }| Image {
            first,
            extents: [if is_critic { 1 } else { count }, 1, depth],
        });
        if let Some(embed) = embed {
            self.push(&mut layers, format!("{trunk}.embed"), embed, None, features);
        }
        for (k, conv) in conv.into_iter().enumerate() {
            self.push(&mut layers, format!("{trunk}.conv.{k}"), conv, Some(activation), features);
        }
        let last = hidden.len().wrapping_sub(1);
        for (k, outputs) in hidden.into_iter().enumerate() {
            // Residual blocks add to the sums of the last hidden layer as they are.
            let (layer_norm, activation) =
                if residual_blocks > 0 && k == last { (false, None) } else { (layer_norm, Some(activation)) };
            // The sums of a hidden layer pass its normalisation first.
            let (name, own) = (format!("{trunk}.{k}"), activation.filter(|_| !layer_norm));
            if let Some(Image { first, extents: image }) = &mut items {
                let (channels, kernel, stride) = (outputs, 1, 1);
                let conv = Conv { first: *first, image: *image, channels, kernel, stride };
                (*first, image[2]) = (0, outputs);
                self.push(&mut layers, name, Items(conv), own, features);
            } else {
                self.push(&mut layers, name, Dense { outputs }, own, features);
            }
            if layer_norm {
                let norm = Norm { width: outputs };
                self.push(&mut layers, format!("{trunk}.{k}.norm"), norm, activation, features);
            }
        }
        if let (1.., Some(width)) = (residual_blocks, layers.last().map(|layer| layer.outputs)) {
            for k in 0..residual_blocks {
                self.push(
                    &mut layers,
                    format!("{trunk}.blocks.{k}"),
                    Residual { width, activation },
                    None,
                    features,
                );
            }
            self.push(&mut layers, format!("{trunk}.norm"), Norm { width }, None, features);
        }
        if let Some(Core { cell, width, layers: count }) = core {
            for k in 0..count {
                let spec = CellSpec { cell, width, state: self.states };
                self.states = spec.states().end;
                self.push(&mut layers, format!("{trunk}.core.{k}"), spec, None, features);
            }
        }
        let items = items.map(|Image { extents: [_, _, width], .. }| width);
        let inputs = layers.last().map_or(features, |layer| layer.outputs);
        let head = self.lay_head(heads, inputs, items);
        layers.push(head);
        if let (Some(mut bins), [policy @ .., (value, _)]) = (self.architecture.bins, heads)
            && (*value == "value" || value.ends_with('q'))
        {
            bins.passed = policy.iter().map(|(_, outputs)| outputs).sum();
            self.push(&mut layers, format!("{value}.values"), bins, None, features);
        }
        Chain { layers }
    }

    /// The outputs, one after the other; over items, of this many features, the policy makes a query.
    fn lay_head(&mut self, heads: &[(&str, usize)], inputs: usize, items: Option<usize>) -> LayerSpec {
        let outputs = heads.iter().map(|(_, outputs)| outputs).sum();
        let has_value = heads.iter().any(|(head, _)| *head == "value");
        let is_critic = has_value && heads.len() == 1;
        let form = items.map_or(Form::Dense(Dense { outputs }), |width| {
            let choices = if is_critic { 0 } else { self.policy_outputs() };
            Form::Pointer(Pointer { choices, width, value: has_value })
        });
        let rows = |head: &str, outputs: usize| items.filter(|_| head != "value").unwrap_or(outputs);
        let first = self.len();
        if let (true, Head::MultiDiscrete(choices)) = (self.architecture.dueling, &self.architecture.head) {
            let form = Form::Dueling(Dueling { choices: choices.clone() });
            form.kind().lay(self, heads[0].0, inputs);
            let (name, params) = (heads[0].0.to_owned(), first..self.len());
            return LayerSpec { name, form, inputs, outputs, params, activation: None };
        }
        for &(head, outputs) in heads {
            let gain = match head {
                "policy" | "log_std" => POLICY_GAIN,
                "value" | INTRINSIC_VALUE => VALUE_GAIN,
                _ => HIDDEN_GAIN,
            };
            let shape = [rows(head, outputs), items.unwrap_or(inputs)];
            self.lay(format!("{head}.weight"), &shape, Init::Orthogonal(gain));
        }
        for &(head, outputs) in heads {
            let begins =
                if head == "log_std" { LogStd::output(self.architecture.log_std_init) } else { None };
            let init = Init::Constant(begins.unwrap_or(0.0));
            self.lay(format!("{head}.bias"), &[rows(head, outputs)], init);
        }
        let name = heads.iter().map(|(head, _)| *head).collect::<Vec<_>>().join(", ");
        LayerSpec { name, form, inputs, outputs, params: first..self.len(), activation: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::network::{Cell, Image, Input};

    fn architecture(shared_trunk: bool, hidden: Vec<usize>, head: Head) -> Architecture {
        let config = Config { hidden, shared_trunk, log_std_init: 0.0, ..Config::default() };
        Architecture::new(&config, Input::Dense(4), head)
    }

    #[test]
    fn cartpole_network_has_the_published_size() {
        let network = Network::new(architecture(true, vec![64, 64], Head::MultiDiscrete(vec![2])));
        assert_eq!(network.len(), 4_675);
        assert_eq!(network.forward_flops(), 9_088);
        assert_eq!(network.forward_backward_flops(), 26_752);
    }

    #[test]
    fn convolutions_and_what_passes_them() {
        let image = Image { first: 3, extents: [10, 8, 4] };
        let conv = Conv::stack(image, &[[16, 3, 1], [6, 4, 2]]).expect("they fit");
        let mut architecture = architecture(true, vec![5], Head::MultiDiscrete(vec![2]));
        (architecture.input, architecture.conv) = (Input::Bits(3 + 320 + 2), conv);
        assert_eq!(architecture.to_string(), "325-conv3/1(8x6x16)-conv4/2(3x2x6)-5-(2+1)");
        let network = Network::new(architecture);
        let outputs: Vec<usize> = network.layers().map(|layer| layer.outputs).collect();
        assert_eq!(outputs, [8 * 6 * 16 + 5, 3 * 2 * 6 + 5, 5, 3]);
        let shapes: Vec<&[usize]> = network.tensors.iter().map(|tensor| &tensor.shape[..]).collect();
        assert_eq!(shapes[..4], [&[16, 4, 3, 3][..], &[16], &[6, 16, 4, 4], &[6]]);
        let flops = [48 * 16 * 36, 6 * 6 * 256, 5 * 41, 3 * 5].map(|products| 2 * products);
        assert_eq!(network.forward_flops(), flops.iter().sum::<u64>());
        assert_eq!(network.forward_backward_flops(), 3 * flops.iter().sum::<u64>() - flops[0]);
        for (convs, problem) in [
            (&[[4, 9, 1]][..], "kernel 9"),
            (&[[4, 3, 1], [4, 7, 1]], "convolution 1"),
            (&[[4, 0, 1]], "kernel 0"),
            (&[[4, 1, 0]], "stride 0"),
        ] {
            let error = Conv::stack(image, convs).expect_err("refused");
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn hidden_matrices_are_neither_tables_nor_outputs_and_gates_are_apart() {
        let image = Image { first: 0, extents: [10, 8, 4] };
        let mut architecture = architecture(false, vec![5], Head::gaussian(2));
        architecture.input = Input::Dense(320);
        architecture.conv = Conv::stack(image, &[[16, 3, 1]]).expect("it fits");
        architecture.core = Some(Core { cell: Cell::Gru, width: 7, layers: 1 });
        let network = Network::new(architecture);
        let shapes: Vec<[usize; 2]> = network.hidden_matrices().map(|(_, shape)| shape).collect();
        let own = [[16, 36], [5, 768], [7, 5], [7, 5], [7, 5], [7, 7], [7, 7], [7, 7]];
        assert_eq!(shapes, [own, own].concat());
        for (range, [rows, columns]) in network.hidden_matrices() {
            assert_eq!(range.len(), rows * columns);
            let of =
                |tensor: &&TensorSpec| tensor.range().start <= range.start && range.end <= tensor.range().end;
            let tensor = network.tensors.iter().find(of).expect("within one tensor");
            assert!(
                tensor.name.contains("weight")
                    && !["policy", "value"].iter().any(|head| tensor.name.contains(head))
            );
        }
        let value = network.value_params().expect("two networks");
        let of_value = |tensor: &&TensorSpec| value.contains(&tensor.offset);
        let names: Vec<&str> = network.tensors.iter().filter(of_value).map(|tensor| &*tensor.name).collect();
        assert!(
            names.iter().all(|name| name.starts_with("critic") || name.starts_with("value")),
            "{names:?}"
        );
        assert_eq!((names.len(), names.last()), (10, Some(&"value.bias")));
    }

    #[test]
    fn tensors_tile_the_vector() {
        for shared in [true, false] {
            for hidden in [vec![], vec![7], vec![33, 5, 64]] {
                let network = Network::new(architecture(shared, hidden, Head::gaussian(3)));
                let mut next = 0;
                for tensor in &network.tensors {
                    assert_eq!(tensor.offset, next, "{}", tensor.name);
                    next += tensor.len();
                }
                assert_eq!(next, network.len());
                let names: std::collections::BTreeSet<_> = network.tensors.iter().map(|t| &t.name).collect();
                assert_eq!(names.len(), network.tensors.len());
            }
        }
    }
}
