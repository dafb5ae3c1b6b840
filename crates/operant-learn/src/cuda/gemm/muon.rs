//! Muon's step of hidden matrices (`muon.cu`): after the kernel of Adam's steps, which moves their momentum too, the rounds of all
//! matrices together.

use std::ops::Range;

use operant_cuda::{
    Buffer, CudaError, Device, Function, LaunchConfig, Program, Stream, params, plain_struct,
};

use super::layout::GemmLayout;
use super::products::Weights;
use super::update::{GemmWeightSizes, GemmWeights};
use crate::LearnError;
use crate::config::{Config, Optimizer};
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::phases::{Adam, Progress, UpdateParams, UpdateReport};
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text, owned};
use crate::network::Network;

/// `muon.cu`: the rounds.
pub const MUON: KernelText = kernel_text!("gemm_muon", "gemm/muon.cu", [GemmMuonParams]);

/// Rounds of a step.
const ROUNDS: u32 = 5;
/// Products of a round.
const PRODUCTS: usize = 3;
/// Numbers of a matrix whose squares a block adds up.
const PART: usize = 4_096;
/// The edge of a tile of a product.
const EDGE: usize = 32;
/// Threads of a block.
const THREADS: u32 = 128;
/// Bytes of shared memory of a block: a tile of each operand, its rows padded by 4 numbers.
const SHARED: u32 = (2 * EDGE * (EDGE + 4) * 4) as u32;

/// `gemm/muon.cu` for a network; None if Muon steps nothing of it.
pub fn gemm_muon_program(network: &Network, config: &Config, gemm_layout: &GemmLayout) -> Option<Program> {
    muon_define(network, config)?;
    let mut defines = gemm_layout.muon_defines(network, config);
    let own =
        [("EDGE", EDGE), ("PART", PART), ("THREADS", THREADS as usize), ("BLOCK_BYTES", SHARED as usize)];
    defines.extend(owned(own.map(|(name, count)| (name, format!("{count}u")))));
    Some(ProgramText { kernel: MUON, name: "its network", environment: None, defines }.program())
}

/// The matrices that Muon steps.
fn matrices(network: &Network, config: &Config) -> impl Iterator<Item = (Range<usize>, [usize; 2])> {
    network.hidden_matrices().filter(|_| config.optimizer == Optimizer::Muon)
}

/// What tells `update.cu` the parameters of these matrices, as ranges; None if there is none.
pub fn muon_define(network: &Network, config: &Config) -> Option<(String, String)> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (range, _) in matrices(network, config) {
        match ranges.last_mut() {
            Some(before) if before.end == range.start => before.end = range.end,
            _ => ranges.push(range),
        }
    }
    let ranges: Vec<String> =
        ranges.iter().map(|range| format!("{{{}u, {}u}}", range.start, range.end)).collect();
    (!ranges.is_empty()).then(|| ("MUON".to_owned(), format!("{{{}}}", ranges.join(", "))))
}

plain_struct! {
    /// A matrix that Muon steps.
    pub struct MuonMatrix {
        /// Its first parameter.
        first: u32,
        rows: u32,
        columns: u32,
        /// Its first number in `other`.
        other: u32,
        /// The first number of its square.
        square: u32,
        /// The first of its sums, and their number.
        parts: u32,
        num_parts: u32,
        /// Where products read it, and numbers from one row to the next.
        place: u32,
        row_stride: u32,
    }
}

plain_struct! {
    /// What a block computes: a tile of a product of a matrix, or the sum of part `row`.
    pub struct MuonTile {
        matrix: u32,
        row: u32,
        column: u32,
    }
}

/// The matrices and the tiles of each launch.
#[derive(Debug, Default)]
struct MuonLayout {
    matrices: Vec<MuonMatrix>,
    /// Of the sums, and of a round's products.
    tiles: [Vec<MuonTile>; 1 + PRODUCTS],
    /// Numbers of all matrices, of their squares, and sums.
    numbers: usize,
    squares: usize,
    parts: usize,
}

impl MuonLayout {
    fn new(network: &Network, config: &Config, gemm_layout: &GemmLayout) -> Self {
        let mut layout = Self::default();
        for (range, [rows, columns]) in matrices(network, config) {
            let (matrix, shortest) = (layout.matrices.len() as u32, rows.min(columns));
            let [short, long] = [shortest, rows.max(columns)].map(|side| side.div_ceil(EDGE) as u32);
            let num_parts = range.len().div_ceil(PART) as u32;
            let [place, row_stride] = gemm_layout.matrix_at(range.start).map(|at| at as u32);
            layout.matrices.push(MuonMatrix {
                first: range.start as u32,
                rows: rows as u32,
                columns: columns as u32,
                other: layout.numbers as u32,
                square: layout.squares as u32,
                parts: layout.parts as u32,
                num_parts,
                place,
                row_stride,
            });
            // Those of a square below its diagonal are the mirrored ones above it.
            let kinds =
                [(num_parts, 1, false), (short, short, true), (short, short, false), (short, long, false)];
            for (tiles, (rows, columns, is_symmetric)) in layout.tiles.iter_mut().zip(kinds) {
                let all = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
                let own = all.filter(|(row, column)| !is_symmetric || row <= column);
                tiles.extend(own.map(|(row, column)| MuonTile { matrix, row, column }));
            }
            layout.numbers += range.len();
            layout.squares += shortest * shortest;
            layout.parts += num_parts as usize;
        }
        layout
    }
}

/// Sizes of the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MuonSizes {
    weights: GemmWeightSizes,
    parameters: usize,
    matrices: usize,
    tiles: [usize; 1 + PRODUCTS],
    numbers: usize,
    squares: usize,
    parts: usize,
}

impl MuonSizes {
    /// Those of a network; None if Muon steps nothing of it.
    pub fn new(network: &Network, config: &Config, gemm_layout: &GemmLayout) -> Option<Self> {
        let layout = MuonLayout::new(network, config, gemm_layout);
        (!layout.matrices.is_empty()).then(|| Self {
            weights: GemmWeightSizes::new(network.len(), gemm_layout),
            parameters: network.len(),
            matrices: layout.matrices.len(),
            tiles: layout.tiles.each_ref().map(Vec::len),
            numbers: layout.numbers,
            squares: layout.squares,
            parts: layout.parts,
        })
    }
}

/// Sizes of a launch: those of the rounds, and its tiles.
#[derive(Debug, Clone, Copy)]
struct LaunchSizes {
    all: MuonSizes,
    tiles: usize,
}

params! {
    /// Parameters of the kernels: each block has a tile of a matrix.
    struct GemmMuonParams<'a>(of: LaunchSizes) for ["muon_sums", "muon_product"], blocks of.tiles, {
        matrices: reads [MuonMatrix; of.all.matrices],
        tiles: reads [MuonTile; of.tiles],
        /// (P).
        parameters: writes [f32; of.all.parameters],
        /// (P): of the matrices X, in every other round.
        gradient: writes [f32; of.all.parameters],
        /// X in the rounds between.
        other: writes [f32; of.all.numbers],
        /// A = X X^T of all matrices.
        squares: writes [f32; of.all.squares],
        /// b A + c A A.
        factors: writes [f32; of.all.squares],
        /// The sums of squares of all parts.
        sums: writes [f64; of.all.parts],
        weights: part [GemmWeights, &of.all.weights],
        report: reads [UpdateReport; 1],
        progress: reads [Progress; 1],
        round: value [u32],
        /// Which of a round's products.
        product: value [u32],
        /// 1: the step follows.
        last: value [u32],
        /// 1: the epoch trains the critic alone; other gradients are 0.
        critic: value [u32],
        adam: value [Adam],
    }
}

/// Memory of the rounds.
#[derive(Debug)]
pub struct MuonMemory {
    matrices: Buffer<MuonMatrix>,
    tiles: [Buffer<MuonTile>; 1 + PRODUCTS],
    other: Buffer<f32>,
    squares: Buffer<f32>,
    factors: Buffer<f32>,
    sums: Buffer<f64>,
}

impl MuonMemory {
    /// # Errors
    /// If there is not enough memory.
    pub fn new(allocator: &Allocator, of: &MuonSizes) -> Result<Self, CudaError> {
        let [sums, square, polynomial, next] = of.tiles;
        Ok(Self {
            matrices: allocator.alloc(of.matrices)?,
            tiles: [
                allocator.alloc(sums)?,
                allocator.alloc(square)?,
                allocator.alloc(polynomial)?,
                allocator.alloc(next)?,
            ],
            other: allocator.alloc(of.numbers)?,
            squares: allocator.alloc(of.squares)?,
            factors: allocator.alloc(of.squares)?,
            sums: allocator.alloc(of.parts)?,
        })
    }
}

/// The kernels of the rounds.
#[derive(Debug)]
pub struct Muon {
    sums: Function,
    product: Function,
    sizes: MuonSizes,
}

impl Muon {
    /// Loads the kernels and writes the tables; None if Muon steps nothing.
    ///
    /// # Errors
    /// When the kernels do not compile, or the device fails.
    pub fn new(
        (device, stream): (&Device, &Stream),
        (network, config, gemm_layout): (&Network, &Config, &GemmLayout),
        memory: Option<(&MuonMemory, MuonSizes)>,
    ) -> Result<Option<Self>, LearnError> {
        let program = gemm_muon_program(network, config, gemm_layout);
        let Some(((memory, sizes), program)) = memory.zip(program) else { return Ok(None) };
        let (module, layout) = (device.load(&program)?, MuonLayout::new(network, config, gemm_layout));
        memory.matrices.write(stream, &layout.matrices)?;
        for (to, tiles) in memory.tiles.iter().zip(&layout.tiles) {
            to.write(stream, tiles)?;
        }
        let [sums, product] = ["muon_sums", "muon_product"].map(|name| module.function(name));
        Ok(Some(Self { sums: sums?, product: product?, sizes }))
    }

    /// Takes the step of a minibatch whose momentum has moved, unless that is skipped.
    pub fn run(
        &self,
        stream: &Stream,
        (memory, weights): (&MuonMemory, &Weights),
        update: UpdateParams<'_>,
    ) -> Result<(), CudaError> {
        let first = GemmMuonParams {
            matrices: &memory.matrices,
            tiles: &memory.tiles[0],
            parameters: update.parameters,
            gradient: update.gradient,
            other: &memory.other,
            squares: &memory.squares,
            factors: &memory.factors,
            sums: &memory.sums,
            weights: GemmWeights::of(weights),
            report: update.report,
            progress: update.progress,
            round: 0,
            product: 0,
            last: 0,
            critic: u32::from(update.is_of_critic()),
            adam: update.adam,
        };
        let launch = |function: &Function, params: &GemmMuonParams<'_>| {
            let tiles = params.tiles.len();
            let grid = LaunchConfig { blocks: tiles as u32, threads: THREADS, shared: SHARED };
            function.run(stream, grid, params, &LaunchSizes { all: self.sizes, tiles })
        };
        launch(&self.sums, &first)?;
        for round in 0..ROUNDS {
            for (product, tiles) in memory.tiles[1..].iter().enumerate() {
                let last = u32::from(round + 1 == ROUNDS && product + 1 == PRODUCTS);
                let product = product as u32;
                launch(&self.product, &GemmMuonParams { tiles, round, product, last, ..first })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Architecture, Head, Input};
    use crate::precision::Precision;

    #[test]
    fn the_worked_example_of_the_kernels_holds() {
        let config = Config {
            hidden: vec![512, 512],
            shared_trunk: true,
            optimizer: Optimizer::Muon,
            ..Config::default()
        };
        let network = Network::new(Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2])));
        let gemm_layout = GemmLayout::new(&network, Precision::Bf16);
        let layout = MuonLayout::new(&network, &config, &gemm_layout);
        assert_eq!(layout.tiles.each_ref().map(Vec::len), [65, 137, 257, 272]);
        assert_eq!((layout.numbers, layout.squares, layout.parts), (264_192, 262_160, 65));
        let places: Vec<_> = layout.matrices.iter().map(|matrix| (matrix.place, matrix.row_stride)).collect();
        assert_eq!(places, [(0, 8), (4_096, 512)]);
        let ranges = "{{0u, 2048u}, {2560u, 264704u}}".to_owned();
        assert_eq!(muon_define(&network, &config), Some(("MUON".to_owned(), ranges)));
        let adam = Config { optimizer: Optimizer::Adam, ..config };
        assert_eq!(muon_define(&network, &adam), None);
        assert_eq!(MuonSizes::new(&network, &adam, &gemm_layout), None);
    }
}
