//! A dueling head as the fully connected layer that its parts make together: row k is the advantage's row k less their mean, and the value's.

use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope};
use crate::cpu::network::tile::Row;
use crate::cpu::network::weight_gradient::WeightGradient;
use crate::layers::dense::cpu::Dense;
use crate::layers::{LayerContext, OnCpu, dueling};

/// The layer and its shape.
#[derive(Debug, Clone)]
pub(crate) struct Dueling {
    dense: Dense,
    choices: Vec<usize>,
    inputs: usize,
    /// `(choices, inputs)` of weights, then biases.
    together: Vec<f32>,
}

impl OnCpu for dueling::Dueling {
    type Packed = Dueling;
    fn on_cpu(&self, at: &LayerContext<'_>) -> Dueling {
        let (choices, inputs) = (self.choices.clone(), at.inputs);
        let outputs = choices.iter().sum::<usize>();
        let together = vec![0.0; outputs * (inputs + 1)];
        Dueling { dense: Dense::new(inputs, outputs), choices, inputs, together }
    }
}

impl Dueling {
    fn outputs(&self) -> usize {
        self.choices.iter().sum()
    }

    /// Weights of advantages and of the value, and their biases.
    fn parts(&self) -> [usize; 4] {
        let [first, second] = dueling::Dueling::halves(self.inputs);
        [self.outputs() * first, second, self.outputs(), 1]
    }

    /// Subtracts from each row of a component, `(rows, columns)`, their mean.
    fn centre(&self, rows: &mut [f32], columns: usize) {
        let mut rest = rows;
        for &count in &self.choices {
            let (component, after) = rest.split_at_mut(count * columns);
            rest = after;
            for column in 0..columns {
                let sum: f32 = component.iter().skip(column).step_by(columns).sum();
                let mean = sum / count as f32;
                component.iter_mut().skip(column).step_by(columns).for_each(|x| *x -= mean);
            }
        }
    }

    fn join(&mut self, params: &[f32]) {
        let [of_advantages, of_value, outputs, _] = self.parts();
        let (advantages, rest) = params.split_at(of_advantages);
        let (value, biases) = rest.split_at(of_value);
        let mut advantages = advantages.to_vec();
        let first = of_advantages / outputs;
        self.centre(&mut advantages, first);
        let weights = &mut self.together[..outputs * self.inputs];
        for (row, advantage) in weights.chunks_exact_mut(self.inputs).zip(advantages.chunks_exact(first)) {
            row[..first].copy_from_slice(advantage);
            row[first..].copy_from_slice(value);
        }
        let mut over_mean = biases[..outputs].to_vec();
        self.centre(&mut over_mean, 1);
        let together = &mut self.together[outputs * self.inputs..];
        together.iter_mut().zip(over_mean).for_each(|(to, bias)| *to = bias + biases[outputs]);
    }
}

impl LayerKind for Dueling {
    type Sums = DuelingGradient;

    fn sums(&self) -> DuelingGradient {
        DuelingGradient(self.dense.sums())
    }

    fn pack(&mut self, params: &[f32]) {
        self.join(params);
        self.dense.pack(&self.together);
    }

    fn pack_backward(&mut self, params: &[f32]) {
        self.join(params);
        self.dense.pack_backward(&self.together);
    }

    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        self.dense.forward(pass, finish);
    }

    fn backward(&self, sums: &mut DuelingGradient, pass: Backward<'_>, slope: impl Slope) {
        self.dense.backward(&mut sums.0, pass, slope);
    }

    fn finish(&self, sums: &DuelingGradient, params: &mut [f32]) {
        let mut together = vec![0.0; self.together.len()];
        self.dense.finish(&sums.0, &mut together);
        let [of_advantages, of_value, outputs, _] = self.parts();
        let first = of_advantages / outputs;
        let (advantages, rest) = params.split_at_mut(of_advantages);
        let (value, biases) = rest.split_at_mut(of_value);
        let (weights, of_biases) = together.split_at(outputs * self.inputs);
        value.fill(0.0);
        for (row, advantage) in weights.chunks_exact(self.inputs).zip(advantages.chunks_exact_mut(first)) {
            advantage.copy_from_slice(&row[..first]);
            value.iter_mut().zip(&row[first..]).for_each(|(sum, x)| *sum += x);
        }
        self.centre(advantages, first);
        biases[..outputs].copy_from_slice(of_biases);
        self.centre(&mut biases[..outputs], 1);
        biases[outputs] = of_biases.iter().sum();
    }
}

/// Running sums of the gradient of the layer that the parts make together.
#[derive(Debug, Clone)]
pub(crate) struct DuelingGradient(WeightGradient);

impl LayerSums for DuelingGradient {
    fn clear(&mut self) {
        self.0.clear();
    }
}
