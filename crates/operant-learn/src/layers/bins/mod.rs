//! Values as distributions over fixed values (C51, Bellemare et al. 2017): inputs are the logits of each distribution, outputs the expected
//! values.

pub(crate) mod cpu;

use super::LayerForm;
use super::export::{Attribute, Exported, Graph};
use crate::config::Config;
#[cfg(feature = "cuda")]
use crate::cuda::gemm::layout::{GemmLayout, Layer};
use crate::network::{LayerSpec, Network};

/// Expected values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Bins {
    /// Values of a distribution.
    pub count: usize,
    /// Inputs before the logits, which are outputs as they are.
    pub passed: usize,
    /// The bits of the least and the greatest.
    bounds: [u32; 2],
}

impl Bins {
    /// Those of a configuration, if it has any.
    pub fn of(config: &Config) -> Option<Self> {
        let Config { value_bins: count, value_min, value_max, .. } = *config;
        let bounds = [value_min, value_max].map(|bound| (bound as f32).to_bits());
        (count > 1).then_some(Self { count, passed: 0, bounds })
    }

    /// The least and the greatest value.
    pub fn bounds(&self) -> [f32; 2] {
        self.bounds.map(f32::from_bits)
    }

    /// The distance from one value to the next.
    pub fn step(&self) -> f32 {
        let [least, greatest] = self.bounds();
        (greatest - least) / (self.count - 1) as f32
    }

    /// What kernels call them.
    #[cfg(feature = "cuda")]
    pub fn defines(&self) -> [(&'static str, String); 4] {
        let [least, greatest] = self.bounds().map(|bound| format!("({bound:?}f)"));
        let (count, step) = (format!("{}u", self.count), format!("({:?}f)", self.step()));
        [("BINS", count), ("BIN_LEAST", least), ("BIN_GREATEST", greatest), ("BIN_STEP", step)]
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = f32> {
        let ([least, _], step) = (self.bounds(), self.step());
        (0..self.count).map(move |k| (k as f32).mul_add(step, least))
    }
}

impl LayerForm for Bins {
    fn outputs(&self, inputs: usize) -> usize {
        self.passed + (inputs - self.passed) / self.count
    }

    fn lay(&self, _network: &mut Network, _name: &str, _inputs: usize) {}

    /// Expectations are no products with parameters.
    fn multiply_adds(&self, _inputs: usize) -> [usize; 2] {
        [0, 0]
    }

    fn describe(&self, inputs: usize) -> String {
        let (count, [least, greatest]) = (self.count, self.bounds());
        let choices = self.outputs(inputs) - self.passed;
        format!("{choices} x ({count}), values from {least} to {greatest}")
    }

    /// None: kernels compute the means from the logits that they read.
    #[cfg(feature = "cuda")]
    fn gemm(&self, _gemm: &mut GemmLayout, _layer: &LayerSpec) -> Vec<Layer> {
        Vec::new()
    }

    /// `x` has the logits alone.
    fn export(&self, graph: &mut dyn Graph, of: Exported<'_>) {
        let choices = (of.layer.outputs - self.passed) as i64;
        let shape = graph.sizes(&of.own("shape"), &[-1, choices, self.count as i64]);
        let logits = graph.node("Reshape", &[of.x, &shape], &of.own("logits"), &[]);
        let shares = graph.node("Softmax", &[&logits], &of.own("shares"), &[Attribute::Int("axis", 2)]);
        let values = graph.floats(&of.own("bins"), &[self.count, 1], &self.values().collect::<Vec<_>>());
        let means = graph.node("MatMul", &[&shares, &values], &of.own("means"), &[]);
        graph.along("Flatten", &[&means], of.output);
    }
}
