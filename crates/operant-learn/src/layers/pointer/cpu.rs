//! Pointer heads: the score of a candidate is the product of its features with a query, `W s + b` of the state's features s, over
//! sqrt(H). The value of the state is one more row of W.
//!
//! The query is all that is kept. A score is `q0 e0 + q1 e1 + ..` in that order, whatever V is.

use operant_lane::isa::f32x16;

use crate::cpu::network::layers::{Backward, Forward, LayerKind, Slope};
use crate::cpu::network::policy::Observation;
use crate::cpu::network::tile::{Row, TILE_VECTORS, fma, splat};
use crate::cpu::network::weight_gradient::WeightGradient;
use crate::layers::dense::cpu::Panels;
use crate::layers::pointer::Pointer;
use crate::layers::{LayerContext, OnCpu};

impl OnCpu for Pointer {
    type Packed = PointerPanels;
    fn on_cpu(&self, _at: &LayerContext<'_>) -> PointerPanels {
        PointerPanels::new(self)
    }
}

/// A head's packed weights.
#[derive(Debug, Clone)]
pub(crate) struct PointerPanels {
    pointer: Pointer,
    /// W, and its transpose for the gradient of the state's features.
    panels: [Panels; 2],
}

impl PointerPanels {
    /// Zero weights.
    pub fn new(pointer: &Pointer) -> Self {
        let (width, rows) = (pointer.width, pointer.rows());
        Self { pointer: *pointer, panels: [Panels::new(width, rows), Panels::new(rows, width)] }
    }

    fn weights(&self) -> usize {
        self.pointer.rows() * self.pointer.width
    }

    /// The query among the rows that W makes.
    fn query(&self) -> usize {
        if self.pointer.choices == 0 { 0 } else { self.pointer.width }
    }
}

impl LayerKind for PointerPanels {
    type Sums = WeightGradient;

    fn sums(&self) -> WeightGradient {
        WeightGradient::new(self.pointer.width, self.pointer.rows(), false)
    }

    fn pack(&mut self, params: &[f32]) {
        let (weight, bias) = params.split_at(self.weights());
        self.panels[0].pack(weight, bias);
    }

    fn pack_backward(&mut self, params: &[f32]) {
        let weights = self.weights();
        self.panels[1].pack_transposed(&params[..weights]);
    }

    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        let Pointer { choices, width, .. } = self.pointer;
        let (state, candidates) = pass.x.numbers().split_at(width);
        self.panels[0].apply(state, pass.kept, |_, sum| sum);
        let (query, value) = pass.kept.split_at(self.query());
        let scale = f32x16::splat(self.pointer.scale());
        for (y, candidate) in pass.y[..choices].iter_mut().zip(candidates.chunks_exact(width)) {
            let mut score: Row<V> = splat(0.0);
            for (q, e) in query.iter().zip(candidate) {
                score = core::array::from_fn(|v| fma(q[v], e[v], score[v]));
            }
            *y = finish(score.map(|score| score * scale));
        }
        pass.y[choices..].iter_mut().zip(value).for_each(|(y, value)| *y = finish(*value));
    }

    fn backward(&self, sums: &mut WeightGradient, pass: Backward<'_>, slope: impl Slope) {
        let Pointer { choices, width, .. } = self.pointer;
        let x = pass.x.numbers();
        let scale = f32x16::splat(self.pointer.scale());
        let (scores, value) = pass.dz.split_at(choices);
        let query = &pass.kept[..self.query()];
        for (d, work) in pass.work[..query.len()].iter_mut().enumerate() {
            let mut sum: Row<TILE_VECTORS> = splat(0.0);
            for (k, score) in scores.iter().enumerate() {
                let e = &x[(k + 1) * width + d];
                sum = core::array::from_fn(|v| fma(score[v], e[v], sum[v]));
            }
            *work = sum.map(|sum| sum * scale);
        }
        pass.work[query.len()..].copy_from_slice(value);
        let (work, state) = (&*pass.work, &x[..width]);
        sums.add(Observation::Dense(state), work);
        let Some(dx) = pass.dx else { return };
        let (of_state, of_candidates) = dx.split_at_mut(width);
        self.panels[1].apply(work, of_state, |i, sum| slope(i, &x[i], sum));
        // A network for values alone sees no candidates.
        for (k, (dx, score)) in of_candidates.chunks_exact_mut(width).zip(scores).enumerate() {
            for (d, (dx, q)) in dx.iter_mut().zip(query).enumerate() {
                let i = (k + 1) * width + d;
                *dx = slope(i, &x[i], core::array::from_fn(|v| score[v] * q[v] * scale));
            }
        }
    }

    fn finish(&self, sums: &WeightGradient, params: &mut [f32]) {
        sums.finish(params);
    }
}
