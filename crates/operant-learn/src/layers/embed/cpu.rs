//! Embeddings in observations that also have real numbers or bytes: all features are floats, and each position's output is the product
//! `x T` of its one-hot features and the table. `sparse.rs` has the embeddings over packed bits.

use operant_lane::isa::f32x16;

use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope, one_of};
use crate::cpu::network::policy::Observation;
use crate::cpu::network::sparse::Sparse;
use crate::cpu::network::tile::{Row, TILE, TILE_VECTORS, splat};
use crate::cpu::network::weight_gradient::WeightGradient;
use crate::layers::dense::cpu::Panels;
use crate::layers::embed::{Embed, EmbedPart, Pool};
use crate::layers::{LayerContext, OnCpu};

one_of! {
    /// Tables of one-hot floats, or of packed bits.
    Lookup, LookupSums {
        Numbers: Tables;
        Bits: Sparse;
    }
}

impl OnCpu for Embed {
    type Packed = Lookup;
    fn on_cpu(&self, at: &LayerContext<'_>) -> Lookup {
        if at.bits {
            Lookup::Bits(Sparse::embed(self, at.inputs))
        } else {
            Lookup::Numbers(Tables::new(self, at.inputs))
        }
    }
}

/// Vectors of scratch space that the tables need for that many vectors of samples.
pub(crate) fn scratch(embed: &Embed, vectors: usize) -> usize {
    vectors * embed.parts.iter().map(|part| pooled(embed, part.rows)).max().unwrap_or(0)
}

/// `rows`, needed only where positions are pooled.
fn pooled(embed: &Embed, rows: usize) -> usize {
    if embed.pool == Pool::Concat { 0 } else { rows }
}

/// Words of memory that a thread's update needs for the tables' inputs and gradients of outputs.
pub(crate) fn words(embed: &Embed) -> usize {
    // A product's gradient has a transposed copy of its inputs, in panels of 64.
    let rows = |part: &EmbedPart| part.rows.next_multiple_of(64) + pooled(embed, part.rows + embed.width);
    embed.parts.iter().map(|part| TILE * rows(part)).sum()
}

/// Tables, packed, of the parts in order.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    embed: Embed,
    panels: Vec<Panels>,
    /// Features that are outputs as they are.
    passed: Vec<usize>,
}

/// Running sums of their gradient.
#[derive(Debug, Clone)]
pub(crate) struct TablesGradient {
    embed: Embed,
    parts: Vec<PartGradient>,
}

#[derive(Debug, Clone)]
struct PartGradient {
    sums: WeightGradient,
    /// The features of all positions added up, where they are pooled.
    x: Vec<Row<TILE_VECTORS>>,
    /// The gradient of the outputs, scaled, where positions are pooled.
    dy: Vec<Row<TILE_VECTORS>>,
}

/// The features of a part, row by row of its table.
fn features<'a, const V: usize>(part: &EmbedPart, x: &'a [Row<V>]) -> core::slice::ChunksExact<'a, Row<V>> {
    x[part.first..][..part.positions * part.rows].chunks_exact(part.rows)
}

/// The features of all positions, added up.
fn add_positions<const V: usize>(part: &EmbedPart, x: &[Row<V>], sum: &mut [Row<V>]) {
    sum.fill(splat(0.0));
    for position in features(part, x) {
        for (sum, x) in sum.iter_mut().zip(position) {
            *sum = core::array::from_fn(|v| sum[v] + x[v]);
        }
    }
}

/// What the sum of a part's rows is multiplied by.
fn scale(embed: &Embed, part: &EmbedPart) -> f32x16 {
    f32x16::splat(if embed.pool == Pool::Mean { 1.0 / part.positions as f32 } else { 1.0 })
}

impl Tables {
    /// Zero tables.
    pub fn new(embed: &Embed, inputs: usize) -> Self {
        let panels = embed.parts.iter().map(|part| Panels::new(part.rows, embed.width)).collect();
        Self { embed: embed.clone(), panels, passed: embed.passed(inputs).collect() }
    }
}

impl LayerKind for Tables {
    type Sums = TablesGradient;

    fn sums(&self) -> TablesGradient {
        let zeros = |rows| vec![splat(0.0); pooled(&self.embed, rows)];
        let of_part = |part: &EmbedPart| PartGradient {
            sums: WeightGradient::new(part.rows, self.embed.width, false),
            x: zeros(part.rows),
            dy: zeros(self.embed.width),
        };
        TablesGradient { embed: self.embed.clone(), parts: self.embed.parts.iter().map(of_part).collect() }
    }

    fn pack(&mut self, mut params: &[f32]) {
        for (panels, part) in self.panels.iter_mut().zip(&self.embed.parts) {
            let (table, rest) = params.split_at(part.rows * self.embed.width);
            panels.pack_transposed(table);
            params = rest;
        }
    }

    fn pack_backward(&mut self, _params: &[f32]) {}

    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        let (x, width) = (pass.x.numbers(), self.embed.width);
        let mut y = pass.y;
        for (panels, part) in self.panels.iter().zip(&self.embed.parts) {
            let own;
            (own, y) = y.split_at_mut(self.embed.outputs_of(part));
            if self.embed.pool == Pool::Concat {
                for (x, y) in features(part, x).zip(own.chunks_exact_mut(width)) {
                    panels.apply(x, y, |_, sum| finish(sum));
                }
            } else {
                let sum = &mut pass.scratch.as_chunks_mut::<V>().0[..part.rows];
                add_positions(part, x, sum);
                let scale = scale(&self.embed, part);
                panels.apply(sum, own, |_, sum| finish(sum.map(|sum| sum * scale)));
            }
        }
        y.iter_mut().zip(&self.passed).for_each(|(to, &from)| *to = x[from]);
    }

    /// Tables are the first layer, whose inputs need no gradient.
    fn backward(&self, sums: &mut TablesGradient, pass: Backward<'_>, _slope: impl Slope) {
        assert!(pass.dx.is_none(), "tables are the first layer");
        let (x, mut dz) = (pass.x.numbers(), pass.dz);
        for (PartGradient { sums, x: sum, dy }, part) in sums.parts.iter_mut().zip(&self.embed.parts) {
            let own;
            (own, dz) = dz.split_at(self.embed.outputs_of(part));
            if self.embed.pool == Pool::Concat {
                for (x, dz) in features(part, x).zip(own.chunks_exact(self.embed.width)) {
                    sums.add(Observation::Dense(x), dz);
                }
            } else {
                add_positions(part, x, sum);
                let scale = scale(&self.embed, part);
                dy.iter_mut().zip(own).for_each(|(to, from)| *to = from.map(|dz| dz * scale));
                sums.add(Observation::Dense(sum), dy);
            }
        }
    }

    fn finish(&self, sums: &TablesGradient, mut params: &mut [f32]) {
        let width = sums.embed.width;
        for (of_part, part) in sums.parts.iter().zip(&sums.embed.parts) {
            let table;
            (table, params) = params.split_at_mut(part.rows * width);
            let (mut turned, mut bias) = (vec![0.0; table.len()], vec![0.0; width]);
            of_part.sums.write(&mut turned, &mut bias);
            for (k, weight) in table.iter_mut().enumerate() {
                *weight = turned[k % width * part.rows + k / width];
            }
        }
    }
}

impl LayerSums for TablesGradient {
    fn clear(&mut self) {
        self.parts.iter_mut().for_each(|part| part.sums.clear());
    }
}
