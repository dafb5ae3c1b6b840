//! Embeddings: each index of an observation takes a row of a table. Inputs are indices as one-hot features, bits or floats; W is row-major
//! `(rows, width)`, table after table, and there is no b.

pub(crate) mod cpu;

use operant_env::ObsSpace;

use super::conv::Image;
use super::export::{Attribute, Exported, Graph};
use super::{LayerForm, LayerMemory, LayerSizes};
use crate::config::Encoder;
use crate::cpu::network::sparse;
#[cfg(feature = "cuda")]
use crate::cuda::gemm::layout::{GemmLayout, Layer, Operation, PAD};
use crate::network::{Init, LayerSpec, Network};

/// The tables of the index parts of an observation. Its outputs are those of the parts in order, then the inputs that are not indices.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Embed {
    /// The index parts.
    pub parts: Vec<EmbedPart>,
    /// Columns of the tables.
    pub width: usize,
    /// What becomes of the positions of a part.
    pub pool: Pool,
}

/// Indices at equal positions, such as the cells of a grid, with one or more indices each.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EmbedPart {
    /// The part's name; empty where the observation has no parts.
    pub name: String,
    /// Its first feature. An index below n is n features, of which one is 1.
    pub first: usize,
    /// Positions.
    pub positions: usize,
    /// Indices of a position, whose rows are added.
    pub indices: usize,
    /// Rows of the table: the sum of the bounds of a position's indices.
    pub rows: usize,
}

/// What becomes of the vectors of a part's positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Pool {
    /// They lie side by side.
    Concat,
    /// They are added.
    Sum,
    /// Their mean.
    Mean,
}

impl Pool {
    /// How an encoder pools; None for one without embeddings.
    pub fn of(encoder: Encoder) -> Option<Self> {
        match encoder {
            Encoder::Auto => None,
            Encoder::Embed => Some(Self::Concat),
            Encoder::EmbedSum => Some(Self::Sum),
            Encoder::EmbedMean => Some(Self::Mean),
        }
    }

    /// The word in configurations.
    pub const fn encoder(self) -> Encoder {
        match self {
            Self::Concat => Encoder::Embed,
            Self::Sum => Encoder::EmbedSum,
            Self::Mean => Encoder::EmbedMean,
        }
    }
}

impl Embed {
    /// Tables for the index parts of an observation.
    ///
    /// # Errors
    /// A description of the problem if it has no indices.
    pub fn of(space: &ObsSpace, width: usize, pool: Pool) -> Result<Self, String> {
        let (mut first, mut parts) = (0, Vec::new());
        for (name, part) in space.parts() {
            if let ObsSpace::Index { below, .. } = part {
                let rows = below.iter().map(|&below| below as usize).sum();
                let indices = below.len();
                let positions = part.size() / indices;
                parts.push(EmbedPart { name: name.to_owned(), first, positions, indices, rows });
            }
            first += part.features();
        }
        if parts.is_empty() {
            return Err("no part of the observation has indices".to_owned());
        }
        Ok(Self { parts, width, pool })
    }

    /// A copy with one shared table for the parts of an image.
    pub fn shared(self, image: Image) -> Self {
        let range = image.first..image.first + image.extents.iter().product::<usize>();
        let mut parts: Vec<EmbedPart> = Vec::new();
        for part in self.parts {
            match parts.last_mut().filter(|last| range.contains(&last.first) && range.contains(&part.first)) {
                Some(last) => last.positions += part.positions,
                None => parts.push(part),
            }
        }
        Self { parts, ..self }
    }

    /// Outputs of a part.
    pub fn outputs_of(&self, part: &EmbedPart) -> usize {
        if self.pool == Pool::Concat { part.positions * self.width } else { self.width }
    }

    /// Outputs of all parts.
    pub fn outputs(&self) -> usize {
        self.parts.iter().map(|part| self.outputs_of(part)).sum()
    }

    /// Rows of all tables.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// The inputs that are not indices, out of `inputs`.
    pub fn passed(&self, inputs: usize) -> impl Iterator<Item = usize> {
        let is_index = |k: &usize| {
            self.parts.iter().any(|part| (part.first..part.first + part.positions * part.rows).contains(k))
        };
        (0..inputs).filter(move |k| !is_index(k))
    }

    /// The output that feature `feature` of the observation becomes, if it begins a part that keeps its positions.
    pub fn output(&self, feature: usize) -> Option<usize> {
        let mut first = 0;
        for part in &self.parts {
            if part.first == feature {
                return (self.pool == Pool::Concat).then_some(first);
            }
            first += self.outputs_of(part);
        }
        Some(first + self.passed(feature).count())
    }
}

impl LayerForm for Embed {
    fn outputs(&self, inputs: usize) -> usize {
        Embed::outputs(self) + self.passed(inputs).count()
    }

    /// The tables of the parts with indices: `embed.weight`, or `embed.PART.weight` where there are parts. The rows of a position's indices
    /// add up to unit variance.
    fn lay(&self, network: &mut Network, name: &str, _inputs: usize) {
        for part in &self.parts {
            let dot = if part.name.is_empty() { "" } else { "." };
            let init = Init::Normal { scale: 1.0 / (part.indices as f32).sqrt() };
            network.lay(format!("{name}{dot}{}.weight", part.name), &[part.rows, self.width], init);
        }
    }

    /// Lookups are no products.
    fn multiply_adds(&self, _inputs: usize) -> [usize; 2] {
        [0, 0]
    }

    fn describe(&self, inputs: usize) -> String {
        format!("{inputs} -> {}, {} rows of {}", LayerForm::outputs(self, inputs), self.rows(), self.width)
    }

    fn needs(&self, at: &LayerSizes) -> LayerMemory {
        if !at.bits {
            return LayerMemory {
                scratch: cpu::scratch(self, at.vectors),
                words: [0, cpu::words(self)],
                ..LayerMemory::default()
            };
        }
        let (places, taps) = (
            Embed::outputs(self) / self.width,
            self.parts.iter().map(|part| part.positions * part.rows).sum(),
        );
        LayerMemory {
            scratch: sparse::scratch(places, self.width),
            words: sparse::words(at.inputs, taps, places, self.width),
            ..LayerMemory::default()
        }
    }

    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, layer: &LayerSpec) -> Vec<Layer> {
        let lookups = gemm.lay_tables(self, [layer.inputs, layer.outputs]);
        // Inputs that are no indices; device buffers cannot be empty.
        let read = self.passed(layer.inputs).count().max(1);
        vec![Layer { inputs: read.next_multiple_of(PAD), ..Layer::of(layer, Operation::Embed(lookups)) }]
    }

    /// Rows of tables, as products of one-hot features; then the other features.
    fn export(&self, graph: &mut dyn Graph, of: Exported<'_>) {
        let mut made = Vec::new();
        for part in &self.parts {
            let dot = if part.name.is_empty() { "" } else { "." };
            let name = format!("{}{dot}{}", of.layer.name, part.name);
            let own = |what: &str| format!("{name}.{what}");
            let features = part.first..part.first + part.positions * part.rows;
            let columns = graph.ints(&own("columns"), &features.collect::<Vec<_>>());
            let ones = graph.along("Gather", &[of.x, &columns], &own("features"));
            // 0 keeps the batch.
            let shape = graph.ints(&own("shape"), &[0, part.positions, part.rows]);
            let ones = graph.node("Reshape", &[&ones, &shape], &own("one_hot"), &[]);
            let rows = graph.node("MatMul", &[&ones, &own("weight")], &own("rows"), &[]);
            let pooled = own("pooled");
            made.push(match self.pool {
                Pool::Concat => graph.along("Flatten", &[&rows], &pooled),
                Pool::Sum | Pool::Mean => {
                    let sizes = graph.ints(&own("sizes"), &[0, self.width]);
                    let axes = graph.ints(&own("axes"), &[1]);
                    let kept = if self.pool == Pool::Sum {
                        graph.node("ReduceSum", &[&rows, &axes], &own("reduced"), &[])
                    } else {
                        graph.node("ReduceMean", &[&rows], &own("reduced"), &[Attribute::Ints("axes", &[1])])
                    };
                    graph.node("Reshape", &[&kept, &sizes], &pooled, &[])
                }
            });
        }
        let passed: Vec<usize> = self.passed(of.layer.inputs).collect();
        if !passed.is_empty() {
            let columns = graph.ints(&of.own("passed_columns"), &passed);
            made.push(graph.along("Gather", &[of.x, &columns], &of.own("passed")));
        }
        let made: Vec<&str> = made.iter().map(String::as_str).collect();
        graph.along("Concat", &made, of.output);
    }
}
