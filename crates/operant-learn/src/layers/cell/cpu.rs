//! Units with memory: minimal gated recurrent units with a highway gate, gated recurrent units, long short-term memory.
//!
//! The products with a tile's inputs are a dense layer over all of its samples. The products with the state follow step by step,
//! and the gates' arithmetic is elementwise. A rollout has one step of V x 16 environments, an update V steps of 16 sequences: a
//! sample's numbers are computed in the same order in both, so they are equal bit for bit.
//!
//! Rows that are kept: `[gates][state before the step][extra]`, H rows each.

use operant_lane::isa::f32x16;
use operant_lane::{Float, Mask};

use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Memory, Slope};
use crate::cpu::network::policy::Observation;
use crate::cpu::network::tile::{Row, TILE_VECTORS, fma};
use crate::cpu::network::weight_gradient::WeightGradient;
use crate::layers::cell::{Cell, CellSpec};
use crate::layers::dense::cpu::Panels;
use crate::layers::{LayerContext, OnCpu};

/// Maximum gates of a unit.
const GATES: usize = 4;
/// Maximum numbers of a unit's state.
const STATES: usize = 2;

/// Rows that a layer keeps for its gradient.
pub(crate) fn kept(cell: &CellSpec) -> usize {
    cell.width * (cell.cell.gates() + cell.cell.states() + usize::from(cell.cell.sees_state()))
}

/// Vectors of scratch space that a layer needs for that many vectors of samples.
pub(crate) fn scratch(cell: &CellSpec, vectors: usize) -> usize {
    if cell.cell.sees_state() { vectors * cell.rows() + cell.width } else { 0 }
}

impl OnCpu for CellSpec {
    type Packed = CellLayer;
    fn on_cpu(&self, at: &LayerContext<'_>) -> CellLayer {
        assert!(!at.bits, "units with memory have a hidden layer before them");
        CellLayer::new(self, at.inputs)
    }
}

/// A layer's packed weights.
#[derive(Debug, Clone)]
pub(crate) struct CellLayer {
    spec: CellSpec,
    inputs: usize,
    /// From the inputs to the gates, and back.
    of_inputs: [Panels; 2],
    /// From the state to the gates, and back, if they see it.
    of_state: Option<Box<[Panels; 2]>>,
}

/// Running sums of a layer's gradient.
#[derive(Debug, Clone)]
pub(crate) struct CellGradient {
    of_inputs: WeightGradient,
    of_state: Option<Box<WeightGradient>>,
}

/// A unit's step.
struct Stepped {
    /// The gates after their nonlinearities.
    gates: [f32x16; GATES],
    after: [f32x16; STATES],
    extra: f32x16,
    y: f32x16,
}

/// The gradient of a unit's step.
struct Slopes {
    /// The gradients of the gates before their nonlinearities, with respect to the inputs' contribution.
    gates: [f32x16; GATES],
    /// The gradient of the last gate with respect to the state's contribution, where it differs.
    last_of_state: f32x16,
    /// The gradient of the state before the step, without its contribution through the gates.
    before: [f32x16; STATES],
    /// The gradient of the input through the highway gate.
    x: f32x16,
}

trait Unit {
    const CELL: Cell;
    /// `z` and `hz` are what inputs and state add to the gates.
    fn step(z: [f32x16; GATES], hz: [f32x16; GATES], before: [f32x16; STATES], x: f32x16) -> Stepped;
    /// `after` is the gradient of the state after the step, `dy` the gradient of the output.
    fn slopes(
        gates: [f32x16; GATES],
        extra: f32x16,
        before: [f32x16; STATES],
        x: f32x16,
        dy: f32x16,
        after: [f32x16; STATES],
    ) -> Slopes;
}

#[inline(always)]
fn sigmoid(x: f32x16) -> f32x16 {
    let half = f32x16::splat(0.5);
    fma(half, Float::tanh(half * x), half)
}

/// The gradient of a sigmoid's input.
#[inline(always)]
fn of_sigmoid(y: f32x16, dy: f32x16) -> f32x16 {
    dy * (y * (f32x16::ONE - y))
}

/// The gradient of a hyperbolic tangent's input.
#[inline(always)]
fn of_tanh(y: f32x16, dy: f32x16) -> f32x16 {
    dy * fma(-y, y, f32x16::ONE)
}

/// `h' = h + z (c - h)`, `y = x + p (h' - x)`, where the candidate c is x + 1/2 from 0 on and a sigmoid below.
struct MinGru;

impl Unit for MinGru {
    const CELL: Cell = Cell::MinGru;

    #[inline(always)]
    fn step(z: [f32x16; GATES], _: [f32x16; GATES], [h, _]: [f32x16; STATES], x: f32x16) -> Stepped {
        let above = z[0] + f32x16::splat(0.5);
        let candidate = Float::lt(z[0], f32x16::ZERO).select(sigmoid(z[0]), above);
        let (update, highway) = (sigmoid(z[1]), sigmoid(z[2]));
        let after = fma(update, candidate - h, h);
        Stepped {
            gates: [candidate, update, highway, f32x16::ZERO],
            after: [after, f32x16::ZERO],
            extra: f32x16::ZERO,
            y: fma(highway, after - x, x),
        }
    }

    #[inline(always)]
    fn slopes(
        [candidate, update, highway, _]: [f32x16; GATES],
        _: f32x16,
        [h, _]: [f32x16; STATES],
        x: f32x16,
        dy: f32x16,
        [after, _]: [f32x16; STATES],
    ) -> Slopes {
        let new = fma(update, candidate - h, h);
        let d = fma(dy, highway, after);
        let by_candidate = d * update;
        let inside = Float::lt(candidate, f32x16::splat(0.5));
        let gates = [
            inside.select(of_sigmoid(candidate, by_candidate), by_candidate),
            of_sigmoid(update, d * (candidate - h)),
            of_sigmoid(highway, dy * (new - x)),
            f32x16::ZERO,
        ];
        Slopes {
            gates,
            last_of_state: f32x16::ZERO,
            before: [d * (f32x16::ONE - update), f32x16::ZERO],
            x: dy * (f32x16::ONE - highway),
        }
    }
}

/// PyTorch's GRUCell; extra is what the state adds to the candidate.
struct Gru;

impl Unit for Gru {
    const CELL: Cell = Cell::Gru;

    #[inline(always)]
    fn step(z: [f32x16; GATES], hz: [f32x16; GATES], [h, _]: [f32x16; STATES], _: f32x16) -> Stepped {
        let (reset, update) = (sigmoid(z[0] + hz[0]), sigmoid(z[1] + hz[1]));
        let candidate = Float::tanh(fma(reset, hz[2], z[2]));
        let after = fma(update, h - candidate, candidate);
        Stepped {
            gates: [reset, update, candidate, f32x16::ZERO],
            after: [after, f32x16::ZERO],
            extra: hz[2],
            y: after,
        }
    }

    #[inline(always)]
    fn slopes(
        [reset, update, candidate, _]: [f32x16; GATES],
        extra: f32x16,
        [h, _]: [f32x16; STATES],
        _: f32x16,
        dy: f32x16,
        [after, _]: [f32x16; STATES],
    ) -> Slopes {
        let d = dy + after;
        let by_candidate = of_tanh(candidate, d * (f32x16::ONE - update));
        let gates = [
            of_sigmoid(reset, by_candidate * extra),
            of_sigmoid(update, d * (h - candidate)),
            by_candidate,
            f32x16::ZERO,
        ];
        Slopes {
            gates,
            last_of_state: by_candidate * reset,
            before: [d * update, f32x16::ZERO],
            x: f32x16::ZERO,
        }
    }
}

/// PyTorch's LSTMCell; extra is tanh(c').
struct Lstm;

impl Unit for Lstm {
    const CELL: Cell = Cell::Lstm;

    #[inline(always)]
    fn step(z: [f32x16; GATES], hz: [f32x16; GATES], [_, c]: [f32x16; STATES], _: f32x16) -> Stepped {
        let (input, forget) = (sigmoid(z[0] + hz[0]), sigmoid(z[1] + hz[1]));
        let (candidate, output) = (Float::tanh(z[2] + hz[2]), sigmoid(z[3] + hz[3]));
        let cell = fma(forget, c, input * candidate);
        let extra = Float::tanh(cell);
        let y = output * extra;
        Stepped { gates: [input, forget, candidate, output], after: [y, cell], extra, y }
    }

    #[inline(always)]
    fn slopes(
        [input, forget, candidate, output]: [f32x16; GATES],
        extra: f32x16,
        [_, c]: [f32x16; STATES],
        _: f32x16,
        dy: f32x16,
        [after, after_cell]: [f32x16; STATES],
    ) -> Slopes {
        let d = dy + after;
        let by_cell = after_cell + of_tanh(extra, d * output);
        let gates = [
            of_sigmoid(input, by_cell * candidate),
            of_sigmoid(forget, by_cell * c),
            of_tanh(candidate, by_cell * input),
            of_sigmoid(output, d * extra),
        ];
        let before = [f32x16::ZERO, by_cell * forget];
        Slopes { gates, last_of_state: gates[3], before, x: f32x16::ZERO }
    }
}

impl CellLayer {
    /// Zero weights.
    pub fn new(spec: &CellSpec, inputs: usize) -> Self {
        let pair = |inputs, outputs| [Panels::new(inputs, outputs), Panels::new(outputs, inputs)];
        Self {
            spec: *spec,
            inputs,
            of_inputs: pair(inputs, spec.rows()),
            of_state: spec.cell.sees_state().then(|| Box::new(pair(spec.width, spec.rows()))),
        }
    }

    /// The parameters by parts: weights and biases of the inputs, then of the state.
    fn split<'a>(&self, params: &'a [f32]) -> [&'a [f32]; 4] {
        let rows = self.spec.rows();
        let (weight, rest) = params.split_at(rows * self.inputs);
        let (bias, rest) = rest.split_at(rows);
        let (weight_hh, bias_hh) = rest.split_at(if rest.is_empty() { 0 } else { rows * self.spec.width });
        [weight, bias, weight_hh, bias_hh]
    }

    fn forward_with<U: Unit, const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        let Forward { x, y, kept, memory, scratch, .. } = pass;
        let (width, [gates, states]) = (self.spec.width, [U::CELL.gates(), U::CELL.states()]);
        let x = numbers(x);
        let (z, rest) = kept.split_at_mut(gates * width);
        let (before, extra) = rest.split_at_mut(states * width);
        self.of_inputs[0].apply(x, z, |_, sum| sum);
        let zero = f32x16::ZERO;
        // One unit of one vector; what the state adds is `hz[gate]`.
        let unit = |j: usize,
                    v: usize,
                    hz: [f32x16; GATES],
                    z: &mut [Row<V>],
                    before: &[Row<V>],
                    extra: &mut [Row<V>],
                    y: &mut [Row<V>]| {
            let of_input = core::array::from_fn(|g| if g < gates { z[g * width + j][v] } else { zero });
            let state = core::array::from_fn(|s| if s < states { before[s * width + j][v] } else { zero });
            let of_highway = if U::CELL.sees_state() { zero } else { x[j][v] };
            let step = U::step(of_input, hz, state, of_highway);
            for g in 0..gates {
                z[g * width + j][v] = step.gates[g];
            }
            if U::CELL.sees_state() {
                extra[j][v] = step.extra;
            }
            y[j][v] = step.y;
            step.after
        };
        match memory {
            Memory::Step { before: state, after } => {
                let after = &mut after[self.spec.states()];
                before.copy_from_slice(&state[self.spec.states()]);
                let (hz, _) = scratch.as_chunks_mut::<V>();
                if let Some(panels) = &self.of_state {
                    panels[0].apply(&before[..width], &mut hz[..gates * width], |_, sum| sum);
                }
                for j in 0..width {
                    for v in 0..V {
                        let of_state = core::array::from_fn(|g| {
                            if U::CELL.sees_state() && g < gates { hz[g * width + j][v] } else { zero }
                        });
                        let new = unit(j, v, of_state, z, before, extra, y);
                        for s in 0..states {
                            after[s * width + j][v] = new[s];
                        }
                    }
                }
            }
            Memory::Sequence { state, keep, mut sides } => {
                let state = &mut state[self.spec.states()];
                let (hz, _) = scratch.as_chunks_mut::<1>();
                for v in 0..V {
                    if let Some(sides) = &mut sides {
                        sides.clear(self.spec.states(), keep[v]);
                        sides.read(v, self.spec.states(), state);
                    }
                    let goes_on = Float::gt(keep[v], zero);
                    for (state, before) in state.iter_mut().zip(before.iter_mut()) {
                        state[0] = goes_on.select(state[0], zero);
                        before[v] = state[0];
                    }
                    if let Some(panels) = &self.of_state {
                        panels[0].apply(&state[..width], &mut hz[..gates * width], |_, sum| sum);
                    }
                    for j in 0..width {
                        let of_state = core::array::from_fn(|g| {
                            if U::CELL.sees_state() && g < gates { hz[g * width + j][0] } else { zero }
                        });
                        let new = unit(j, v, of_state, z, before, extra, y);
                        for s in 0..states {
                            state[s * width + j][0] = new[s];
                        }
                    }
                    if let Some(sides) = &mut sides {
                        sides.write(v, self.spec.states(), state);
                    }
                }
            }
        }
        for y in y {
            *y = finish(*y);
        }
    }

    fn backward_with<U: Unit>(&self, sums: &mut CellGradient, pass: Backward<'_>, slope: impl Slope) {
        let Backward { x, kept, dz: dy, dx, work, state, keep, mut sides, scratch, .. } = pass;
        let (width, [gates, states]) = (self.spec.width, [U::CELL.gates(), U::CELL.states()]);
        let x = numbers(x);
        let (values, rest) = kept.split_at(gates * width);
        let (before, extra) = rest.split_at(states * width);
        // Gradients of the gates; then the last gate's gradient with respect to the state, or the gradient through the highway gate.
        let (dz, other) = work[..(gates + 1) * width].split_at_mut(gates * width);
        let state = &mut state[self.spec.states()];
        let (rows, back) = scratch.as_chunks_mut::<1>().0.split_at_mut(if self.of_state.is_some() {
            gates * width
        } else {
            0
        });
        let zero = f32x16::ZERO;
        for v in (0..TILE_VECTORS).rev() {
            if let Some(sides) = &sides {
                sides.read(v, self.spec.states(), state);
            }
            for j in 0..width {
                let slopes = U::slopes(
                    core::array::from_fn(|g| if g < gates { values[g * width + j][v] } else { zero }),
                    if U::CELL.sees_state() { extra[j][v] } else { zero },
                    core::array::from_fn(|s| if s < states { before[s * width + j][v] } else { zero }),
                    if U::CELL.sees_state() { zero } else { x[j][v] },
                    dy[j][v],
                    core::array::from_fn(|s| if s < states { state[s * width + j][0] } else { zero }),
                );
                for g in 0..gates {
                    dz[g * width + j][v] = slopes.gates[g];
                }
                if U::CELL.sees_state() {
                    for g in 0..gates - 1 {
                        rows[g * width + j][0] = slopes.gates[g];
                    }
                    rows[(gates - 1) * width + j][0] = slopes.last_of_state;
                    other[j][v] = slopes.last_of_state;
                } else {
                    other[j][v] = slopes.x;
                }
                for s in 0..states {
                    state[s * width + j][0] = slopes.before[s];
                }
            }
            if let Some(panels) = &self.of_state {
                let back = &mut back[..width];
                panels[1].apply(rows, back, |_, sum| sum);
                for (state, back) in state.iter_mut().zip(back) {
                    state[0] += back[0];
                }
            }
            if let Some(sides) = &mut sides {
                sides.write(v, self.spec.states(), state);
                sides.clear(self.spec.states(), keep[v]);
            }
            let goes_on = Float::gt(keep[v], zero);
            for state in state.iter_mut() {
                state[0] = goes_on.select(state[0], zero);
            }
        }
        sums.of_inputs.add(Observation::Dense(x), dz);
        if let Some(dx) = dx {
            let back = &self.of_inputs[1];
            if U::CELL.sees_state() {
                back.apply(dz, dx, |i, sum| slope(i, &x[i], sum));
            } else {
                back.apply(dz, dx, |i, sum| slope(i, &x[i], core::array::from_fn(|v| sum[v] + other[i][v])));
            }
        }
        if let Some(of_state) = &mut sums.of_state {
            dz[(gates - 1) * width..].copy_from_slice(other);
            of_state.add(Observation::Dense(&before[..width]), dz);
        }
    }
}

fn numbers<const V: usize>(x: Observation<'_, V>) -> &[Row<V>] {
    match x {
        Observation::Dense(x) => x,
        Observation::Bits(_) => panic!("units with memory have a hidden layer before them"),
    }
}

impl LayerKind for CellLayer {
    type Sums = CellGradient;

    fn sums(&self) -> CellGradient {
        let of_state = || Box::new(WeightGradient::new(self.spec.width, self.spec.rows(), false));
        CellGradient {
            of_inputs: WeightGradient::new(self.inputs, self.spec.rows(), false),
            of_state: self.spec.cell.sees_state().then(of_state),
        }
    }

    fn pack(&mut self, params: &[f32]) {
        let [weight, bias, weight_hh, bias_hh] = self.split(params);
        self.of_inputs[0].pack(weight, bias);
        if let Some(panels) = &mut self.of_state {
            panels[0].pack(weight_hh, bias_hh);
        }
    }

    fn pack_backward(&mut self, params: &[f32]) {
        let [weight, _, weight_hh, _] = self.split(params);
        self.of_inputs[1].pack_transposed(weight);
        if let Some(panels) = &mut self.of_state {
            panels[1].pack_transposed(weight_hh);
        }
    }

    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        match self.spec.cell {
            Cell::MinGru => self.forward_with::<MinGru, V>(pass, finish),
            Cell::Gru => self.forward_with::<Gru, V>(pass, finish),
            Cell::Lstm => self.forward_with::<Lstm, V>(pass, finish),
        }
    }

    fn backward(&self, sums: &mut CellGradient, pass: Backward<'_>, slope: impl Slope) {
        match self.spec.cell {
            Cell::MinGru => self.backward_with::<MinGru>(sums, pass, slope),
            Cell::Gru => self.backward_with::<Gru>(sums, pass, slope),
            Cell::Lstm => self.backward_with::<Lstm>(sums, pass, slope),
        }
    }

    fn finish(&self, sums: &CellGradient, params: &mut [f32]) {
        let (of_inputs, of_state) = params.split_at_mut(self.spec.rows() * (self.inputs + 1));
        sums.of_inputs.finish(of_inputs);
        if let Some(sums) = &sums.of_state {
            sums.finish(of_state);
        }
    }
}

impl LayerSums for CellGradient {
    fn clear(&mut self) {
        self.of_inputs.clear();
        self.of_state.iter_mut().for_each(|sums| sums.clear());
    }
}
