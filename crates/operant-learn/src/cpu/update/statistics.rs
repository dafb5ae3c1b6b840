//! The order of an epoch's samples, and moments of a field of them. In f64, tiles within blocks within the whole, so threads do not matter.

use crate::cpu::batch::Batch;
use crate::cpu::network::tile::TILE;
use crate::shuffle::Shuffle;

/// Samples per block.
pub(crate) const BLOCK: usize = 4_096;
/// Number of tiles to prefetch.
const AHEAD: usize = 4;

/// The moments of a field of the samples at positions `first .. end`.
pub(crate) fn moments_of(
    batch: &Batch,
    field: usize,
    order: &Order<'_>,
    first: usize,
    end: usize,
) -> Moments {
    let ask = |tile: usize| {
        let indices = order.tile(batch, tile, end);
        batch.prefetch_field(&indices, field);
        indices
    };
    // Several tiles are prefetched, because one is summed faster than the next arrives.
    let mut coming: [[u32; TILE]; AHEAD] = core::array::from_fn(|k| ask((first + k * TILE).min(end - 1)));
    let mut moments = Moments::default();
    for block in (first..end).step_by(BLOCK) {
        let mut part = Moments::default();
        for tile in (block..end.min(block + BLOCK)).step_by(TILE) {
            let coming = &mut coming[(tile - first) / TILE % AHEAD];
            let indices = core::mem::replace(coming, ask((tile + AHEAD * TILE).min(end - 1)));
            let size = TILE.min(end - tile);
            let mut values = [0.0; TILE];
            for (value, &index) in values[..size].iter_mut().zip(&indices) {
                *value = f64::from(batch.float(index as usize, field));
            }
            part.add(&values[..size]);
        }
        moments.merge(&part);
    }
    moments
}

/// A block of neighbouring environments: a minibatch has the same share of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EnvBlock {
    /// Its number among those of all machines.
    pub number: usize,
    /// Its first sequence in this batch.
    pub first: usize,
    pub sequences: usize,
}

/// The order of an epoch's samples of a block: a shuffle of sequences, whose steps stay together, or draws of them.
#[derive(Debug, Clone)]
pub(crate) struct Order<'a> {
    shuffle: Shuffle,
    /// The block's first sequence.
    first: u32,
    /// The sequence of each position, relative to the first, if they are drawn.
    drawn: Option<&'a [u32]>,
}

impl<'a> Order<'a> {
    /// The order of epoch `epoch` of update `update`.
    pub fn new(seed: u64, update: u64, epoch: usize, block: EnvBlock, drawn: Option<&'a [u32]>) -> Self {
        let EnvBlock { number, first, sequences } = block;
        let shuffle = Shuffle::of_block(seed, update, epoch as u32, number as u32, sequences as u32);
        Self { shuffle, first: first as u32, drawn }
    }

    /// The sequences at some positions of sequences.
    #[inline]
    fn at<const L: usize>(&self, positions: [u32; L]) -> [u32; L] {
        let sequences = match self.drawn {
            None => self.shuffle.indices(positions),
            Some(drawn) => positions.map(|position| drawn[position as usize]),
        };
        sequences.map(|sequence| self.first + sequence)
    }

    /// The samples at 64 positions from `first`; those from `end` on repeat the last one, and carry no weight.
    #[inline]
    pub fn tile(&self, batch: &Batch, first: usize, end: usize) -> [u32; TILE] {
        let last = end as u32 - 1;
        let positions: [u32; TILE] = core::array::from_fn(|s| (first as u32 + s as u32).min(last));
        if !batch.has_memory() {
            return self.at(positions);
        }
        let length = batch.sequence() as u32;
        let sequences = self.at(positions.map(|position| position / length));
        core::array::from_fn(|s| {
            let [first, stride] = batch.steps_of(sequences[s] as usize);
            (first + (positions[s] % length) as usize * stride) as u32
        })
    }

    /// The sequences at L positions of sequences from `first`; those from `end` on repeat the last one.
    pub fn sequences<const L: usize>(&self, first: usize, end: usize) -> [u32; L] {
        let last = end as u32 - 1;
        self.at(core::array::from_fn(|s| (first as u32 + s as u32).min(last)))
    }
}

/// Running mean and squared distances from it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// The sums as numbers, for the exchange between processes.
    pub fn numbers(&self) -> [f64; 3] {
        [self.count, self.mean, self.squares]
    }

    /// The inverse of [`Moments::numbers`].
    pub fn of([count, mean, squares]: [f64; 3]) -> Self {
        Self { count, mean, squares }
    }

    /// Adds some numbers.
    pub fn add(&mut self, values: &[f64]) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|x| (x - mean) * (x - mean)).sum();
        self.merge(&Self { count, mean, squares });
    }

    /// Adds the numbers of another.
    pub fn merge(&mut self, other: &Self) {
        let total = self.count + other.count;
        let delta = other.mean - self.mean;
        self.squares += other.squares + delta * delta * (self.count * other.count / total);
        self.mean += delta * (other.count / total);
        self.count = total;
    }

    /// Each merged with its neighbours, in their order.
    pub fn merged<const K: usize>(parts: impl IntoIterator<Item = [Self; K]>) -> [Self; K] {
        let mut whole = [Self::default(); K];
        for parts in parts {
            for (whole, part) in whole.iter_mut().zip(&parts) {
                whole.merge(part);
            }
        }
        whole
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The variance of the numbers themselves.
    pub fn variance(&self) -> f64 {
        self.squares / self.count
    }

    /// The variance with Bessel's correction; 0 of a single number.
    pub fn sample_variance(&self) -> f64 {
        if self.count > 1.0 { self.squares / (self.count - 1.0) } else { 0.0 }
    }
}
