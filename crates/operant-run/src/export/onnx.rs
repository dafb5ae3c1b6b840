//! A policy as an ONNX model.
//!
//! ```text
//! inputs    obs          of real numbers (batch, O) float, bits (batch, shape) bool, bytes (batch, shape) uint8 or indices
//!                        (batch, shape) int64; observations of parts are an input for each, with the name of the part, or `obs.NAME` if
//!                        that is the name of another input or output. Where the environment has spaces of its own, their shapes and types
//!           action_mask  (batch, A) bool, true where a choice is legal; only in environments with masks
//!           core_state   (batch, S) float, of policies with memory: zeros where an episode begins, else the last next_core_state
//! outputs   action       greedy: (batch) or (batch, components) int64, or (batch, A) float within the bounds; in the environment's own
//!                        shape, type and numbers if it has any, and `action.KEY` for each array of a Dict or Tuple
//!           logits       (batch, A), illegal choices at -1e8; of a continuous policy `mean` (batch, A) and `log_std`, (A) or
//!                        (batch, A) if the network computes it, or `alpha` and `beta` (batch, A); of action
//!                        values `q_values` (batch, A), illegal choices at -1e8
//!           value        (batch); of action values the greatest, the mean over components
//!           next_core_state (batch, S), of policies with memory
//! ```

use std::collections::HashSet;

use operant_env::{ActionSpace, ObsSpace, OwnArray, OwnSpace, OwnSpaces};
use operant_learn::layers::export::{Attribute, Graph, STATE};
use operant_learn::network::{Continuous, Form, Head, LayerSpec, Outputs, Pointer};
use operant_learn::{ActionDistribution, Activation, LogStd, TrainedPolicy};
use prost::Message;

use super::messages::{
    self, BOOL, DOUBLE, Dimension, FLOAT, INT64, Model, Node, OperatorSet, Property, Shape, Tensor,
    TensorType, Type, UINT8, Value, element,
};

/// The version of the file format, and of the operators: old enough for every recent runtime.
const IR_VERSION: i64 = 8;
const OPERATORS: i64 = 17;

/// The parameter behind the output `log_std`.
const LOG_STD: &str = "log_std.parameter";

/// Inputs and outputs whose names parts of an observation cannot have.
const OTHERS: [&str; 11] = [
    "action",
    "logits",
    "q_values",
    "value",
    "mean",
    "log_std",
    "alpha",
    "beta",
    "action_mask",
    STATE,
    "next_core_state",
];

/// How the builder marks names of inputs that hold observations, and what [`Builder::finish`] puts before names of inner results. No part has a
/// name with a dot.
const INPUT: &str = "input:";
const INNER: &str = "inner.";

/// Logit of an illegal choice, as in training.
const ILLEGAL: f32 = -1e8;

/// The model's bytes, with `metadata` as its property `operant`.
pub fn encode(policy: &TrainedPolicy, own: Option<&OwnSpaces>, metadata: &str) -> Vec<u8> {
    let property = Property { key: super::METADATA.to_owned(), value: metadata.to_owned() };
    Model {
        ir_version: IR_VERSION,
        producer_name: "operant".to_owned(),
        producer_version: env!("CARGO_PKG_VERSION").to_owned(),
        graph: Some(graph(policy, own)),
        opset_import: vec![OperatorSet { domain: String::new(), version: OPERATORS }],
        metadata_props: vec![property],
    }
    .encode_to_vec()
}

/// The model's graph.
pub fn graph(policy: &TrainedPolicy, own: Option<&OwnSpaces>) -> messages::Graph {
    let (policy, mut builder) = (&policy.for_playing(), Builder::default());
    for tensor in policy.tensors() {
        // An output has its name.
        let name = if tensor.name == "log_std" { LOG_STD } else { &tensor.name };
        builder.floats(name, &tensor.shape, &tensor.values);
    }
    let obs = builder.observations(policy, own);
    if policy.network.states > 0 {
        builder.input(STATE, FLOAT, &[policy.network.states]);
    }
    builder.actor(policy, own, &obs);
    builder.critic(policy, &obs);
    builder.next_state(policy);
    messages::Graph { name: policy.env.clone(), ..builder.finish() }
}

#[derive(Default)]
struct Builder {
    graph: messages::Graph,
}

impl Graph for Builder {
    fn node(&mut self, op: &str, inputs: &[&str], output: &str, attributes: &[Attribute<'_>]) -> String {
        let attribute = attributes.iter().map(|attribute| match *attribute {
            Attribute::Int(name, value) => messages::Attribute::int(name, value),
            Attribute::Ints(name, values) => messages::Attribute::ints(name, values),
        });
        self.graph.node.push(Node {
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            name: output.to_owned(),
            op_type: op.to_owned(),
            attribute: attribute.collect(),
        });
        output.to_owned()
    }

    fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        let data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.tensor(name, FLOAT, shape, data)
    }

    fn sizes(&mut self, name: &str, values: &[i64]) -> String {
        let data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.tensor(name, INT64, &[values.len()], data)
    }
}

impl Builder {
    fn tensor(&mut self, name: &str, data_type: i32, shape: &[usize], raw_data: Vec<u8>) -> String {
        let dims = shape.iter().map(|&n| n as i64).collect();
        self.graph.initializer.push(Tensor { dims, data_type, name: name.to_owned(), raw_data });
        name.to_owned()
    }

    fn input(&mut self, name: &str, elem_type: i32, extents: &[usize]) {
        self.graph.input.push(batched(name, elem_type, extents));
    }

    fn output(&mut self, name: &str, elem_type: i32, extents: &[usize]) {
        self.graph.output.push(batched(name, elem_type, extents));
    }

    /// The graph, in which no inner result has the name of an input or output.
    fn finish(mut self) -> messages::Graph {
        let mut public: HashSet<String> =
            self.graph.output.iter().map(|output| output.name.clone()).collect();
        public.extend(["action_mask", STATE].map(str::to_owned));
        let rename = |name: &mut String| {
            if let Some(input) = name.strip_prefix(INPUT) {
                *name = input.to_owned();
            } else if !public.contains(name) {
                name.insert_str(0, INNER);
            }
        };
        for node in &mut self.graph.node {
            node.input.iter_mut().chain(&mut node.output).for_each(rename);
            node.name.clone_from(&node.output[0]);
        }
        self.graph.initializer.iter_mut().for_each(|tensor| rename(&mut tensor.name));
        self.graph
    }

    /// The observations as the first layer sees them: `(batch, O)` floats, normalised.
    fn observations(&mut self, policy: &TrainedPolicy, own: Option<&OwnSpaces>) -> String {
        let mut own = own.map(|own| own.observation.arrays()).unwrap_or_default().into_iter();
        let parts = policy.obs.parts().into_iter();
        let features: Vec<_> = parts
            .map(|(name, space)| self.features(name, space, own.next().map(|(_, array)| array)))
            .collect();
        let mut obs = match &features[..] {
            [one] => one.clone(),
            many => {
                let inputs: Vec<&str> = many.iter().map(String::as_str).collect();
                self.along("Concat", &inputs, "obs_features")
            }
        };
        if let Some(norm) = &policy.obs_norm {
            let low = self.floats("obs_norm.low", &[], &[-norm.clip]);
            let high = self.floats("obs_norm.high", &[], &[norm.clip]);
            obs = self.node("Sub", &[&obs, "obs_norm.shift"], "obs_centred", &[]);
            obs = self.node("Mul", &[&obs, "obs_norm.scale"], "obs_scaled", &[]);
            obs = self.node("Clip", &[&obs, &low, &high], "obs_normalised", &[]);
        }
        obs
    }

    /// The features of the part `name`, an input of the model: `(batch, features)` floats.
    fn features(&mut self, name: &str, space: &ObsSpace, own_array: Option<&OwnArray>) -> String {
        let public = match name {
            "" => "obs".to_owned(),
            name if OTHERS.contains(&name) => format!("obs.{name}"),
            name => name.to_owned(),
        };
        let own = |what: &str| format!("obs/{name}.{what}");
        let (kind, shape) = match (own_array, space) {
            (Some(own), _) => (element(&own.dtype), own.shape.clone()),
            (None, ObsSpace::Box { low, .. }) => (FLOAT, vec![low.len()]),
            (None, ObsSpace::Binary { shape }) => (BOOL, shape.clone()),
            (None, ObsSpace::Bytes { shape }) => (UINT8, shape.clone()),
            (None, ObsSpace::Index { shape, .. }) => (INT64, shape.clone()),
            (None, ObsSpace::Parts(_)) => unreachable!("parts have no parts"),
        };
        self.input(&public, kind, &shape);
        let x = format!("{INPUT}{public}");
        let flat = |of: &mut Self, x: &str| of.along("Flatten", &[x], &own("flat"));
        if let ObsSpace::Index { below, .. } = space {
            let mut x = self.cast(&x, (kind, INT64), &own("index"));
            if let Some(own_array) = own_array.filter(|array| !array.start.is_empty()) {
                let data = own_array.start.iter().flat_map(|x| x.to_le_bytes()).collect();
                let start = self.tensor(&own("start"), INT64, &own_array.shape, data);
                x = self.node("Sub", &[&x, &start], &own("from_zero"), &[]);
            }
            let depth = below.iter().copied().max().unwrap_or(1) as usize;
            let counts = self.ints(&own("depth"), &[depth]);
            let values = self.floats(&own("values"), &[2], &[0.0, 1.0]);
            let x = self.node("OneHot", &[&x, &counts, &values], &own("one_hot"), &[]);
            let x = flat(self, &x);
            if below.iter().all(|&below| below as usize == depth) {
                return x;
            }
            // Without the columns that an index with a smaller bound never sets.
            let columns = space.bounds().enumerate();
            let columns: Vec<usize> =
                columns.flat_map(|(k, below)| k * depth..k * depth + below as usize).collect();
            let columns = self.ints(&own("columns"), &columns);
            return self.along("Gather", &[&x, &columns], &own("features"));
        }
        let mut x = self.cast(&x, (kind, FLOAT), &own("float"));
        if let ObsSpace::Bytes { .. } = space {
            let most = self.floats(&own("most"), &[], &[255.0]);
            x = self.node("Div", &[&x, &most], &own("scaled"), &[]);
        }
        if shape.len() == 1 { x } else { flat(self, &x) }
    }

    /// The numbers in another element type.
    fn cast(&mut self, x: &str, (from, to): (i32, i32), output: &str) -> String {
        if from == to {
            return x.to_owned();
        }
        self.node("Cast", &[x], output, &[Attribute::Int("to", i64::from(to))])
    }

    /// The inputs of a trunk's heads: its outputs; with items, the outputs of the state.
    fn seen(&mut self, policy: &TrainedPolicy, trunk: &str, hidden: &str) -> String {
        let Some(pointer) = head(policy, trunk) else { return hidden.to_owned() };
        let (items, output) = (format!("{trunk}.items"), format!("{trunk}.state"));
        if !self.graph.node.iter().any(|node| node.name == output) {
            let shape = self.sizes(
                &format!("{trunk}.items_shape"),
                &[-1, pointer.choices as i64 + 1, pointer.width as i64],
            );
            self.node("Reshape", &[hidden, &shape], &items, &[]);
            let first = self.ints(&format!("{trunk}.state_item"), &[0]);
            let state = self.along("Gather", &[&items, &first], &format!("{trunk}.state_row"));
            self.along("Flatten", &[&state], &output);
        }
        output
    }

    /// The logits of all actions under this name.
    fn logits(&mut self, policy: &TrainedPolicy, trunk: &str, hidden: &str, output: &str) {
        let state = self.seen(policy, trunk, hidden);
        let name = if has_values(policy) { "q" } else { "policy" };
        let Some(pointer) = head(policy, trunk) else {
            return self.outputs_of(policy, name, &state, output);
        };
        let query = self.dense(name, &state, "query");
        let column = self.ints("query.shape", &[0, pointer.width, 1]);
        let query = self.node("Reshape", &[&query, &column], "query_column", &[]);
        let others = self.ints("candidates.items", &(1..=pointer.choices).collect::<Vec<_>>());
        let items = format!("{trunk}.items");
        let candidates = self.along("Gather", &[&items, &others], "candidates");
        let scores = self.node("MatMul", &[&candidates, &query], "scores", &[]);
        let scores = self.along("Flatten", &[&scores], "scores_row");
        let scale = self.floats("scores.scale", &[], &[pointer.scale()]);
        self.node("Mul", &[&scores, &scale], output, &[]);
    }

    /// The outputs of a head, of distributions their means.
    fn outputs_of(&mut self, policy: &TrainedPolicy, head: &str, state: &str, output: &str) {
        let find = |name: &str| policy.network.layers().find(|layer| layer.name == name);
        if let Some(means) = find(&format!("{head}.values")) {
            let logits = self.dense(head, state, &format!("{head}.logits"));
            means.export(self, "Identity", &logits, output);
        } else if let Some(layer @ LayerSpec { form: Form::Dueling(_), .. }) = find(head) {
            layer.export(self, "Identity", state, output);
        } else {
            self.dense(head, state, output);
        }
    }

    /// The state after the step, of all layers with memory.
    fn next_state(&mut self, policy: &TrainedPolicy) {
        let cells = policy.network.layers().filter(|layer| matches!(layer.form, Form::Cell(_)));
        let parts: Vec<String> = cells.map(|layer| format!("{}.next", layer.name)).collect();
        if !parts.is_empty() {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            self.along("Concat", &parts, "next_core_state");
            self.output("next_core_state", FLOAT, &[policy.network.states]);
        }
    }

    /// The hidden layers of `trunk`, unless another head has added them.
    fn hidden(&mut self, policy: &TrainedPolicy, trunk: &str, obs: &str) -> String {
        let architecture = &policy.network.architecture;
        let op = match architecture.activation {
            Activation::Tanh => "Tanh",
            Activation::Relu => "Relu",
        };
        let mut x = obs.to_owned();
        let layers = policy.network.layers();
        for layer in layers.filter(|layer| layer.name.starts_with(&format!("{trunk}."))) {
            let output = format!("{}.out", layer.name);
            if !self.graph.node.iter().any(|node| node.name == output) {
                layer.export(self, op, &x, &output);
            }
            x = output;
        }
        x
    }

    fn actor(&mut self, policy: &TrainedPolicy, own: Option<&OwnSpaces>, obs: &str) {
        let trunk = if policy.network.architecture.shared_trunk { "trunk" } else { "actor" };
        let hidden = self.hidden(policy, trunk, obs);
        let own = own.map(|own| &own.action);
        match &policy.actions {
            ActionSpace::Discrete(choices) => {
                let shown = if has_values(policy) { "q_values" } else { "logits" };
                let all = if policy.masked { format!("{shown}_of_all") } else { shown.to_owned() };
                self.logits(policy, trunk, &hidden, &all);
                self.choices(choices, (&all, shown), own);
                if has_values(policy) {
                    self.greatest(choices, &all);
                }
            }
            ActionSpace::Box { low, .. } => {
                let Head::Continuous(of) = policy.network.architecture.head else {
                    unreachable!("real actions have a distribution of real numbers")
                };
                let greedy = self.greedy(&of, &hidden);
                let above = self.node("Max", &[&greedy, "action_low"], "action_above", &[]);
                let output = if own.is_some() { "action_within" } else { "action" };
                let action = self.node("Min", &[&above, "action_high"], output, &[]);
                match own {
                    Some(own) => self.own_actions(own, &action, FLOAT),
                    None => self.output("action", FLOAT, &[low.len()]),
                }
                let parameters = if of.distribution == ActionDistribution::Beta {
                    &["alpha", "beta"][..]
                } else {
                    &["mean"]
                };
                parameters.iter().for_each(|name| self.output(name, FLOAT, &[low.len()]));
                if of.has_log_std() {
                    self.node("Identity", &[LOG_STD], "log_std", &[]);
                    self.graph.output.push(value("log_std", FLOAT, vec![extent(low.len())]));
                } else if of.computes_log_std() {
                    self.dense("log_std", &hidden, "log_std.output");
                    self.bounded_log_std("log_std.output");
                    self.output("log_std", FLOAT, &[low.len()]);
                }
            }
        }
    }

    /// The greedy action before it is clipped, and the output `mean`, or `alpha` and `beta`.
    fn greedy(&mut self, of: &Continuous, hidden: &str) -> String {
        match of.distribution {
            ActionDistribution::Normal => self.dense("policy", hidden, "mean"),
            ActionDistribution::Tanh => {
                let mean = self.dense("policy", hidden, "mean");
                self.squashed(&mean)
            }
            ActionDistribution::Beta => {
                let both = self.dense("policy", hidden, "policy.output");
                let softplus = self.node("Softplus", &[&both], "policy.softplus", &[]);
                let one = self.floats("policy.one", &[], &[1.0]);
                let shapes = self.node("Add", &[&softplus, &one], "policy.shapes", &[]);
                for (side, name) in ["alpha", "beta"].into_iter().enumerate() {
                    let columns = (side * of.actions..(side + 1) * of.actions).collect::<Vec<_>>();
                    let columns = self.ints(&format!("{name}.columns"), &columns);
                    self.along("Gather", &[&shapes, &columns], name);
                }
                let sum = self.node("Add", &["alpha", "beta"], "policy.sum", &[]);
                let mean = self.node("Div", &["alpha", &sum], "policy.mean", &[]);
                let range = self.node("Sub", &["action_high", "action_low"], "action.range", &[]);
                let scaled = self.node("Mul", &[&mean, &range], "action.scaled", &[]);
                self.node("Add", &[&scaled, "action_low"], "action.between", &[])
            }
        }
    }

    /// Numbers that tanh squashes into the bounds of the actions.
    fn squashed(&mut self, x: &str) -> String {
        let half = self.floats("action.half", &[], &[0.5]);
        let sum = self.node("Add", &["action_low", "action_high"], "action.sum", &[]);
        let range = self.node("Sub", &["action_high", "action_low"], "action.range", &[]);
        let [centre, radius] = [(sum, "action.centre"), (range, "action.radius")]
            .map(|(x, output)| self.node("Mul", &[&x, &half], output, &[]));
        let share = self.node("Tanh", &[x], "action.share", &[]);
        let scaled = self.node("Mul", &[&share, &radius], "action.scaled", &[]);
        self.node("Add", &[&scaled, &centre], "action.squashed", &[])
    }

    /// The output `log_std`, within its bounds, of the layer's output `x`.
    fn bounded_log_std(&mut self, x: &str) {
        let [centre, radius] = LogStd::CENTRE_AND_RADIUS;
        let centre = self.floats("log_std.centre", &[], &[centre]);
        let radius = self.floats("log_std.radius", &[], &[radius]);
        let distance = self.node("Sub", &[x, &centre], "log_std.distance", &[]);
        let share = self.node("Div", &[&distance, &radius], "log_std.share", &[]);
        let bounded = self.node("Tanh", &[&share], "log_std.bounded", &[]);
        let scaled = self.node("Mul", &[&bounded, &radius], "log_std.scaled", &[]);
        self.node("Add", &[&scaled, &centre], "log_std", &[]);
    }

    /// The greatest value of each component, and the mean over them.
    fn greatest(&mut self, choices: &[usize], values: &str) {
        let axis = self.ints("value.axis", &[1]);
        let (mut first, mut parts) = (0, Vec::new());
        for (k, &count) in choices.iter().enumerate() {
            let own = |what: &str| format!("value.{k}.{what}");
            let (start, end) = (self.ints(&own("start"), &[first]), self.ints(&own("end"), &[first + count]));
            first += count;
            let part = self.node("Slice", &[values, &start, &end, &axis], &own("choices"), &[]);
            let reduced = [Attribute::Ints("axes", &[1]), Attribute::Int("keepdims", 0)];
            parts.push(self.node("ReduceMax", &[&part], &own("greatest"), &reduced));
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        self.node("Mean", &parts, "value", &[]);
        self.output("value", FLOAT, &[]);
    }

    /// `all` logits or values, masked as `shown` if that is another name, and the argmax of each component (the first of equal ones).
    fn choices(&mut self, choices: &[usize], (values, shown): (&str, &str), own: Option<&OwnSpace>) {
        let all: usize = choices.iter().sum();
        if values != shown {
            self.input("action_mask", BOOL, &[all]);
            let illegal = self.floats("illegal", &[], &[ILLEGAL]);
            self.node("Where", &["action_mask", values, &illegal], shown, &[]);
        }
        let argmax = |keep| [Attribute::Int("axis", 1), Attribute::Int("keepdims", keep)];
        if let ([_], None) = (choices, own) {
            self.node("ArgMax", &[shown], "action", &argmax(0));
            self.output("action", INT64, &[]);
        } else {
            let axis = self.ints("component.axis", &[1]);
            let mut first = 0;
            let mut parts = Vec::new();
            for (k, &count) in choices.iter().enumerate() {
                let start = self.ints(&format!("component.{k}.start"), &[first]);
                let end = self.ints(&format!("component.{k}.end"), &[first + count]);
                first += count;
                let inputs = [shown, &start, &end, &axis];
                let part = self.node("Slice", &inputs, &format!("component.{k}.logits"), &[]);
                parts.push(self.node("ArgMax", &[&part], &format!("component.{k}.action"), &argmax(1)));
            }
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            match own {
                Some(own) => {
                    let all = self.along("Concat", &parts, "action_indices");
                    self.own_actions(own, &all, INT64);
                }
                None => {
                    self.along("Concat", &parts, "action");
                    self.output("action", INT64, &[choices.len()]);
                }
            }
        }
        self.output(shown, FLOAT, &[all]);
    }

    /// The actions `all`, `(batch, numbers)` of type `from`, as the environment takes them: an output for each array of its space.
    fn own_actions(&mut self, own: &OwnSpace, all: &str, from: i32) {
        let arrays = own.arrays();
        let mut first = 0;
        for (path, array) in &arrays {
            let mut label = "action".to_owned();
            for key in path {
                label = format!("{label}.{}", key.as_str().map_or_else(|| key.to_string(), str::to_owned));
            }
            while self.graph.output.iter().any(|output| output.name == label) {
                label.push('_');
            }
            let own = |what: &str| format!("{label}/{what}");
            let columns = self.ints(&own("columns"), &(first..first + array.size()).collect::<Vec<_>>());
            first += array.size();
            let mut x = self.along("Gather", &[all, &columns], &own("numbers"));
            if !array.start.is_empty() {
                let data = array.start.iter().flat_map(|x| x.to_le_bytes()).collect();
                let start = self.tensor(&own("start"), INT64, &[array.size()], data);
                x = self.node("Add", &[&x, &start], &own("from_start"), &[]);
            }
            let extents: Vec<i64> =
                std::iter::once(-1).chain(array.shape.iter().map(|&n| n as i64)).collect();
            let extents = self.sizes(&own("shape"), &extents);
            x = self.node("Reshape", &[&x, &extents], &own("shaped"), &[]);
            let to = element(&array.dtype);
            x = self.cast(&x, (from, to), &own("cast"));
            if to == DOUBLE {
                // A bound rounded to single precision may be outside the space.
                for (op, bounds) in [("Max", &array.low), ("Min", &array.high)] {
                    let data = bounds.iter().flat_map(|x| x.to_le_bytes()).collect();
                    let bound = self.tensor(&own(&format!("{op}_bound")), DOUBLE, &array.shape, data);
                    x = self.node(op, &[&x, &bound], &own(op), &[]);
                }
            }
            self.node("Identity", &[&x], &label, &[]);
            self.output(&label, to, &array.shape);
        }
    }

    /// The value of the observation; critics of actions stay behind.
    fn critic(&mut self, policy: &TrainedPolicy, obs: &str) {
        if policy.network.architecture.outputs != Outputs::PolicyAndValue {
            return;
        }
        let trunk = if policy.network.architecture.shared_trunk { "trunk" } else { "critic" };
        let hidden = self.hidden(policy, trunk, obs);
        let state = self.seen(policy, trunk, &hidden);
        self.outputs_of(policy, "value", &state, "value_column");
        let axis = self.ints("value.axis", &[1]);
        self.node("Squeeze", &["value_column", &axis], "value", &[]);
        self.output("value", FLOAT, &[]);
    }
}

/// Whether the network computes action values.
fn has_values(policy: &TrainedPolicy) -> bool {
    policy.network.architecture.outputs == Outputs::ActionValues
}

/// The head over a trunk's items, if it has any.
fn head(policy: &TrainedPolicy, trunk: &str) -> Option<Pointer> {
    let chains = &policy.network.chains;
    let chain = if trunk == "critic" { chains.last() } else { chains.first() };
    match chain?.layers.last()?.form {
        Form::Pointer(pointer) => Some(pointer),
        _ => None,
    }
}

/// An input or output whose first extent is the batch.
fn batched(name: &str, elem_type: i32, extents: &[usize]) -> Value {
    let batch = Dimension { dim_value: None, dim_param: Some("batch".to_owned()) };
    value(name, elem_type, std::iter::once(batch).chain(extents.iter().map(|&n| extent(n))).collect())
}

fn extent(n: usize) -> Dimension {
    Dimension { dim_value: Some(n as i64), dim_param: None }
}

fn value(name: &str, elem_type: i32, dim: Vec<Dimension>) -> Value {
    let tensor_type = Some(TensorType { elem_type, shape: Some(Shape { dim }) });
    Value { name: name.to_owned(), r#type: Some(Type { tensor_type }) }
}
