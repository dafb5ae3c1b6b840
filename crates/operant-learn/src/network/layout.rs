//! The layout of parameters in the flat vector that Adam, checkpoints and devices share.

use super::{Architecture, CellSpec, Conv, Core, Embed, Head, Image, Outputs, Pointer};
use crate::config::Activation;

/// A named block of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Such as `trunk.0.weight`.
    pub name: String,
    /// Extents, outermost first; weights are `(outputs, inputs)`.
    pub shape: Vec<usize>,
    /// Index of its first element.
    pub offset: usize,
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
    /// What W is applied to.
    pub form: Form,
    /// Input features.
    pub inputs: usize,
    /// Output features.
    pub outputs: usize,
    /// Index of W's first element.
    pub weight: usize,
    /// Index of b's first element.
    pub bias: usize,
    /// None for an output layer.
    pub activation: Option<Activation>,
}

/// The inputs to which the weights of a layer are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// All inputs: W is row-major `(outputs, inputs)`.
    Dense,
    /// Patches of an image: W is row-major `(channels, depth, kernel, kernel)`, as in PyTorch.
    Conv(Conv),
    /// Each item of an image of one column, with the same W `(outputs of an item, features of an item)`; other inputs are dropped.
    Items(Conv),
    /// Indices as one-hot features (bits or floats): W is row-major `(rows, width)`, table after table; there is no b.
    Embed(Embed),
    /// Layer normalisation over groups of this many features, the whole sample or each item: W is the scale and b the shift of each
    /// feature.
    Norm(usize),
    /// All inputs, and the state of units with memory: W is row-major `(gates x H, inputs)`. If the gates see the state, `(gates x H, H)`
    /// and its bias follow.
    Cell(CellSpec),
    /// The state's features among those of items: W is row-major `(rows, H)`, of the query and the value.
    Pointer(Pointer),
}

impl LayerSpec {
    /// Rows of W, which is the length of b if there is one.
    pub fn rows(&self) -> usize {
        match &self.form {
            Form::Embed(embed) => embed.rows(),
            Form::Dense => self.outputs,
            Form::Norm(width) => *width,
            Form::Conv(conv) | Form::Items(conv) => conv.channels,
            Form::Pointer(pointer) => pointer.rows(),
            Form::Cell(cell) => cell.rows(),
        }
    }

    /// Elements of a row of W.
    pub fn columns(&self) -> usize {
        match &self.form {
            Form::Dense | Form::Cell(_) => self.inputs,
            Form::Embed(embed) => embed.width,
            Form::Norm(_) => 1,
            Form::Conv(conv) | Form::Items(conv) => conv.patch(),
            Form::Pointer(pointer) => pointer.width,
        }
    }

    /// How many times W is applied to one sample.
    fn places(&self) -> usize {
        match &self.form {
            Form::Dense | Form::Cell(_) | Form::Pointer(_) => 1,
            // Lookups and normalisation are no products.
            Form::Embed(_) | Form::Norm(_) => 0,
            Form::Conv(conv) | Form::Items(conv) => conv.places(),
        }
    }

    /// Outputs that pass the nonlinearity; those after them are inputs that skip the layer.
    pub fn active(&self) -> usize {
        match &self.form {
            Form::Conv(conv) => conv.outputs(),
            _ => self.outputs,
        }
    }

    /// Multiply-adds x 2 of the products of one sample.
    pub fn flops(&self) -> u64 {
        let of_state = match &self.form {
            Form::Cell(cell) if cell.cell.sees_state() => 2 * (cell.rows() * cell.width) as u64,
            Form::Pointer(pointer) => 2 * (pointer.choices * pointer.width) as u64,
            _ => 0,
        };
        self.input_flops() + of_state
    }

    /// Those with its inputs, whose gradient the first layer does not need.
    fn input_flops(&self) -> u64 {
        2 * (self.rows() * self.columns() * self.places()) as u64
    }

    /// The range of all its parameters in the flat vector: W, b, and the weights of the state.
    pub fn params(&self) -> core::ops::Range<usize> {
        let of_state = match &self.form {
            Form::Cell(cell) => cell.state_params(),
            _ => 0,
        };
        self.weight..self.bias + self.bias_len() + of_state
    }

    /// W's place in the flat vector.
    pub fn weight_range(&self) -> core::ops::Range<usize> {
        self.weight..self.weight + self.rows() * self.columns()
    }

    /// b's place in the flat vector.
    pub fn bias_range(&self) -> core::ops::Range<usize> {
        self.bias..self.bias + self.bias_len()
    }

    fn bias_len(&self) -> usize {
        if matches!(self.form, Form::Embed(_)) { 0 } else { self.rows() }
    }
}

/// Layers from the observation to outputs: A policy outputs, the value, or both in that order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// First to last.
    pub layers: Vec<LayerSpec>,
}

/// The layers of an architecture and their parameters.
///
/// A shared trunk is one chain ending in A + 1 outputs: the policy's and the value's last layers lie side by side, so
/// they are one layer to compute and two tensors to name. Without sharing, chain 0 is the actor and chain 1 the critic.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// The architecture.
    pub architecture: Architecture,
    /// One chain, or actor and critic.
    pub chains: Vec<Chain>,
    /// Every block of parameters, in order, without gaps.
    pub tensors: Vec<TensorSpec>,
    /// Index of the first log standard deviation, for a Gaussian head.
    pub log_std: Option<usize>,
    /// Numbers of state that an environment carries from step to step.
    pub states: usize,
    /// The unit that multiplies fully connected layers in bf16 on the CPU; None for f32. GPUs have their own options.
    pub bf16: Option<operant_amx::Unit>,
}

impl Network {
    /// Lays out `architecture`.
    pub fn new(architecture: Architecture) -> Self {
        let mut network = Self {
            chains: Vec::new(),
            tensors: Vec::new(),
            log_std: None,
            states: 0,
            bf16: None,
            architecture,
        };
        let outputs = network.architecture.head.outputs();
        if network.architecture.outputs == Outputs::ActionValues {
            let chain = network.lay_chain("trunk", &[("q", outputs)]);
            network.chains.push(chain);
        } else if network.architecture.shared_trunk {
            let chain = network.lay_chain("trunk", &[("policy", outputs), ("value", 1)]);
            network.chains.push(chain);
        } else {
            for (trunk, head, outputs) in [("actor", "policy", outputs), ("critic", "value", 1)] {
                let chain = network.lay_chain(trunk, &[(head, outputs)]);
                network.chains.push(chain);
            }
        }
        if let Head::DiagonalGaussian(actions) = network.architecture.head {
            network.log_std = Some(network.lay("log_std".to_owned(), vec![actions]));
        }
        network
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

    /// Like `forward_flops`, for one forward and one backward pass: every layer's weight gradient, and the input gradient of every
    /// layer but the first.
    pub fn forward_backward_flops(&self) -> u64 {
        let first: u64 = self.chains.iter().map(|chain| chain.layers[0].input_flops()).sum();
        3 * self.forward_flops() - first
    }

    /// The layers of all chains.
    pub fn layers(&self) -> impl Iterator<Item = &LayerSpec> {
        self.chains.iter().flat_map(|chain| &chain.layers)
    }

    fn lay(&mut self, name: String, shape: Vec<usize>) -> usize {
        let offset = self.len();
        self.tensors.push(TensorSpec { name, shape, offset });
        offset
    }

    fn lay_chain(&mut self, trunk: &str, heads: &[(&str, usize)]) -> Chain {
        let mut inputs = self.architecture.input.features();
        let mut layers = Vec::new();
        let Architecture { embed, conv, items, hidden, layer_norm, activation, .. } =
            self.architecture.clone();
        // A separate critic has only the state as input.
        let is_critic = heads.iter().all(|(head, _)| *head == "value");
        let mut items = items.map(|Image { first, extents: [count, _, depth] }| Image {
            first,
            extents: [if is_critic { 1 } else { count }, 1, depth],
        });
        if let Some(embed) = embed {
            let layer = self.lay_embed(&format!("{trunk}.embed"), embed, inputs);
            inputs = layer.outputs;
            layers.push(layer);
        }
        let convs = conv.into_iter().enumerate();
        let convs = convs.map(|(k, conv)| (format!("{trunk}.conv.{k}"), 0, Form::Conv(conv)));
        let hidden = hidden.into_iter().enumerate().flat_map(|(k, outputs)| {
            let norm = layer_norm.then(|| (format!("{trunk}.{k}.norm"), outputs, Form::Norm(outputs)));
            [(format!("{trunk}.{k}"), outputs, Form::Dense)].into_iter().chain(norm)
        });
        for (name, outputs, mut form) in convs.chain(hidden) {
            if let (Form::Dense, Some(Image { first, extents: image })) = (&form, &mut items) {
                form = Form::Items(Conv {
                    first: *first,
                    image: *image,
                    channels: outputs,
                    kernel: 1,
                    stride: 1,
                });
                (*first, image[2]) = (0, outputs);
            }
            let (outputs, shape) = match &form {
                Form::Conv(conv) => {
                    let Conv { image: [_, _, depth], kernel, channels, .. } = *conv;
                    (conv.outputs() + inputs - conv.image_len(), vec![channels, depth, kernel, kernel])
                }
                Form::Items(conv) => (conv.outputs(), vec![outputs, conv.image[2]]),
                Form::Norm(width) => (inputs, vec![*width]),
                _ => (outputs, vec![outputs, inputs]),
            };
            let rows = shape[0];
            let weight = self.lay(format!("{name}.weight"), shape);
            let bias = self.lay(format!("{name}.bias"), vec![rows]);
            // The sums of a hidden layer pass its normalisation first.
            let is_normalised = layer_norm && matches!(form, Form::Dense | Form::Items(_));
            let activation = (!is_normalised).then_some(activation);
            layers.push(LayerSpec { name, form, inputs, outputs, weight, bias, activation });
            inputs = outputs;
        }
        if let Some(core) = self.architecture.core {
            for k in 0..core.layers {
                let layer = self.lay_cell(format!("{trunk}.core.{k}"), core, inputs);
                layers.push(layer);
                inputs = core.width;
            }
        }
        let outputs = heads.iter().map(|(_, outputs)| outputs).sum();
        let form = items.map_or(Form::Dense, |Image { extents: [_, _, width], .. }| {
            let choices = if is_critic { 0 } else { self.policy_outputs() };
            Form::Pointer(Pointer { choices, width, value: heads.iter().any(|(head, _)| *head == "value") })
        });
        // A pointer head's policy makes a query.
        let columns = if let Form::Pointer(pointer) = &form { pointer.width } else { inputs };
        let rows = heads.iter().map(|(head, outputs)| match &form {
            Form::Pointer(pointer) if *head != "value" => (head, pointer.width),
            _ => (head, *outputs),
        });
        let rows: Vec<_> = rows.collect();
        let weight = self.len();
        for (head, rows) in &rows {
            self.lay(format!("{head}.weight"), vec![*rows, columns]);
        }
        let bias = self.len();
        for (head, rows) in &rows {
            self.lay(format!("{head}.bias"), vec![*rows]);
        }
        let name = heads.iter().map(|(head, _)| *head).collect::<Vec<_>>().join(", ");
        layers.push(LayerSpec { name, form, inputs, outputs, weight, bias, activation: None });
        Chain { layers }
    }

    /// The tables of the parts with indices: `embed.weight`, or `embed.PART.weight` where there are parts.
    fn lay_embed(&mut self, name: &str, embed: Embed, inputs: usize) -> LayerSpec {
        let weight = self.len();
        for part in &embed.parts {
            let dot = if part.name.is_empty() { "" } else { "." };
            self.lay(format!("{name}{dot}{}.weight", part.name), vec![part.rows, embed.width]);
        }
        let outputs = embed.outputs() + embed.passed(inputs).count();
        let (name, bias, form) = (name.to_owned(), self.len(), Form::Embed(embed));
        LayerSpec { name, form, inputs, outputs, weight, bias, activation: None }
    }

    /// A layer with memory, under the names of PyTorch's cells where it has them.
    fn lay_cell(&mut self, name: String, Core { cell, width, .. }: Core, inputs: usize) -> LayerSpec {
        let spec = CellSpec { cell, width, state: self.states };
        self.states = spec.states().end;
        let suffix = if cell.sees_state() { "_ih" } else { "" };
        let weight = self.lay(format!("{name}.weight{suffix}"), vec![spec.rows(), inputs]);
        let bias = self.lay(format!("{name}.bias{suffix}"), vec![spec.rows()]);
        if cell.sees_state() {
            self.lay(format!("{name}.weight_hh"), vec![spec.rows(), width]);
            self.lay(format!("{name}.bias_hh"), vec![spec.rows()]);
        }
        LayerSpec { name, form: Form::Cell(spec), inputs, outputs: width, weight, bias, activation: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::network::{Image, Input};

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
    fn tensors_tile_the_vector() {
        for shared in [true, false] {
            for hidden in [vec![], vec![7], vec![33, 5, 64]] {
                let network = Network::new(architecture(shared, hidden, Head::DiagonalGaussian(3)));
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
