//! What a layer needs of an ONNX graph to add its nodes to it.

use crate::network::LayerSpec;

/// The input that holds the state of layers with memory; `LAYER.next` is the state of a layer after the step.
pub const STATE: &str = "core_state";

/// An attribute of a node.
#[derive(Debug, Clone, Copy)]
pub enum Attribute<'a> {
    /// A number.
    Int(&'a str, i64),
    /// Several numbers.
    Ints(&'a str, &'a [usize]),
}

/// A layer, and the names of its input and output.
#[derive(Debug, Clone, Copy)]
pub struct Exported<'a> {
    /// The layer.
    pub layer: &'a LayerSpec,
    /// The operator of its nonlinearity; `Identity` without one.
    pub op: &'a str,
    /// The operator of the network's nonlinearity.
    pub network_op: &'a str,
    /// `(batch, features)`.
    pub x: &'a str,
    /// `(batch, features)`.
    pub output: &'a str,
}

impl Exported<'_> {
    /// The name of something of this layer: a parameter, or an inner result.
    pub fn own(&self, what: &str) -> String {
        format!("{}.{what}", self.layer.name)
    }
}

/// A graph that grows. Every method returns the name of what it adds.
pub trait Graph {
    /// A node with one output.
    fn node(&mut self, op: &str, inputs: &[&str], output: &str, attributes: &[Attribute<'_>]) -> String;
    /// A constant list of extents, of which one may be -1: what is left.
    fn sizes(&mut self, name: &str, values: &[i64]) -> String;
    /// A constant.
    fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String;

    /// A constant list.
    fn ints(&mut self, name: &str, values: &[usize]) -> String {
        self.sizes(name, &values.iter().map(|&x| x as i64).collect::<Vec<_>>())
    }

    /// A node over the features: axis 1.
    fn along(&mut self, op: &str, inputs: &[&str], output: &str) -> String {
        self.node(op, inputs, output, &[Attribute::Int("axis", 1)])
    }

    /// `W x + b` of the parameters `layer.weight` and `layer.bias`.
    fn dense(&mut self, layer: &str, x: &str, output: &str) -> String {
        let (weight, bias) = (format!("{layer}.weight"), format!("{layer}.bias"));
        self.node("Gemm", &[x, &weight, &bias], output, &[Attribute::Int("transB", 1)])
    }
}
