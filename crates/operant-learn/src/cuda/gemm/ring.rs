//! The replay on a GPU: a ring of rows for each environment, which a rollout writes and minibatches are drawn from.

use operant_cuda::{Buffer, CudaError, Stream};

use crate::cpu::off_policy::replay::{Replay, ReplayLayout};
use crate::cuda::common::local::Local;
use crate::cuda::common::memory::Allocator;
use crate::network::Network;

/// Sizes of a replay; all 0 without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingSizes {
    pub num_envs: usize,
    /// Rows of an environment.
    pub rows: usize,
    /// Words of a row.
    pub stride: usize,
}

impl RingSizes {
    /// Those of a configuration; `masked` environments have a mask of legal actions.
    pub fn new(network: &Network, local: &Local, masked: bool) -> Self {
        if !local.run.algorithm.declaration().has_replay() {
            return Self::default();
        }
        let stride = ReplayLayout::new(&network.architecture, masked).stride;
        Self { num_envs: local.num_envs, rows: ReplayLayout::rows(&local.run), stride }
    }

    /// Words of all rows.
    fn words(&self) -> usize {
        self.num_envs.saturating_mul(self.rows).saturating_mul(self.stride)
    }
}

operant_cuda::params! {
    /// The last rows of every environment.
    pub struct Ring<'a>(of: RingSizes) for [], blocks usize::MAX, {
        /// (N): rows that each environment ever completed.
        heads: writes_any [u64; of.num_envs],
        /// (N, rows, stride).
        words: writes_any [u32; of.words()],
        rows: value [u32],
        num_envs: value [u32],
    }
}

/// Memory of a replay.
#[derive(Debug)]
pub struct RingMemory {
    heads: Buffer<u64>,
    words: Buffer<u32>,
    sizes: RingSizes,
    layout: ReplayLayout,
}

impl RingMemory {
    /// That of a configuration, if its algorithm has a replay.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(
        allocator: &Allocator,
        (network, local): (&Network, &Local),
        masked: bool,
    ) -> Result<Option<Self>, CudaError> {
        let sizes = RingSizes::new(network, local, masked);
        if sizes == RingSizes::default() {
            return Ok(None);
        }
        let layout = ReplayLayout::new(&network.architecture, masked);
        let (heads, words) = (allocator.alloc(sizes.num_envs)?, allocator.alloc(sizes.words())?);
        Ok(Some(Self { heads, words, sizes, layout }))
    }

    /// Its address on the device.
    pub fn pointer(&self) -> u64 {
        self.words.pointer()
    }

    /// Removes all rows.
    pub fn clear(&self, stream: &Stream) -> Result<(), CudaError> {
        self.heads.fill(stream, 0)?;
        self.words.fill(stream, 0)
    }

    /// An empty one of the host.
    pub fn empty(&self) -> Replay {
        Replay::new(self.layout.clone(), self.sizes.num_envs, self.sizes.rows)
    }

    /// Its rows on the host.
    pub fn read(&self, stream: &Stream) -> Result<Replay, CudaError> {
        let mut replay = self.empty();
        replay.set(self.heads.read(stream)?, self.words.read(stream)?);
        Ok(replay)
    }

    /// Takes the rows of a replay of the same size.
    pub fn write(&self, stream: &Stream, replay: &Replay) -> Result<(), CudaError> {
        let (heads, words) = replay.parts();
        self.heads.write(stream, heads)?;
        self.words.write(stream, words)
    }

    /// The kernels' parameters, of a replay or none.
    pub fn params(ring: Option<&Self>) -> Ring<'_> {
        let RingSizes { num_envs, rows, .. } = ring.map_or(RingSizes::default(), |ring| ring.sizes);
        Ring {
            heads: ring.map(|ring| &ring.heads),
            words: ring.map(|ring| &ring.words),
            rows: rows as u32,
            num_envs: num_envs as u32,
        }
    }
}
