//! The replay on a GPU: a ring of rows for each environment, which a rollout writes and minibatches are drawn from.

use std::sync::{Mutex, PoisonError};

use operant_cuda::{Buffer, CudaError, Stream};

use crate::LearnError;
use crate::config::Config;
use crate::cpu::off_policy::priorities::Priorities;
use crate::cpu::off_policy::replay::{Replay, ReplayLayout};
use crate::cuda::common::local::Local;
use crate::cuda::common::memory::Allocator;
use crate::network::Network;
use crate::state::SavedPriorities;

/// Sizes of a replay; all 0 without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingSizes {
    pub num_envs: usize,
    /// Rows of an environment.
    pub rows: usize,
    /// Words of a row.
    pub stride: usize,
    /// Whether samples are drawn by priority.
    pub has_priorities: bool,
}

impl RingSizes {
    /// Those of a configuration; `masked` environments have a mask of legal actions.
    pub fn new(network: &Network, local: &Local, masked: bool) -> Self {
        if !local.run.algorithm.declaration().has_replay() {
            return Self::default();
        }
        let stride = ReplayLayout::new(&network.architecture, masked).stride;
        let has_priorities = local.run.priority_exponent > 0.0;
        Self { num_envs: local.num_envs, rows: ReplayLayout::rows(&local.run), stride, has_priorities }
    }

    /// Priorities of all rows.
    pub fn priorities(&self) -> usize {
        if self.has_priorities { self.num_envs.saturating_mul(self.rows) } else { 0 }
    }

    /// Bytes of a row of an environment, with its share of the sums over priorities: 1 / 64 of a number, of that, and so on.
    pub fn row_bytes(&self) -> f64 {
        (4 * self.stride) as f64 + if self.has_priorities { 8.0 * 64.0 / 63.0 } else { 0.0 }
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
        /// (N, rows): priorities, with their exponent; (1): the greatest so far, without it.
        priorities: writes_any [f64; of.priorities()],
        greatest: writes_any [f64; usize::from(of.has_priorities)],
        priority_exponent: value [f64],
        rows: value [u32],
        num_envs: value [u32],
    }
}

/// Memory of a replay.
#[derive(Debug)]
pub struct RingMemory {
    heads: Buffer<u64>,
    words: Buffer<u32>,
    /// Of each row, and the greatest.
    priorities: Option<[Buffer<f64>; 2]>,
    /// Those of a checkpoint, until the replay has its rows.
    saved: Mutex<Option<SavedPriorities>>,
    priority_exponent: f64,
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
        let priorities = match sizes.priorities() {
            0 => None,
            count => Some([allocator.alloc(count)?, allocator.alloc(1)?]),
        };
        let (saved, priority_exponent) = (Mutex::default(), local.run.priority_exponent);
        Ok(Some(Self { heads, words, priorities, saved, priority_exponent, sizes, layout }))
    }

    /// Its address on the device.
    pub fn pointer(&self) -> u64 {
        self.words.pointer()
    }

    /// Removes all rows; those that are written next may have priorities from a checkpoint.
    pub fn clear(&self, stream: &Stream, saved: Option<SavedPriorities>) -> Result<(), CudaError> {
        *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = saved;
        self.heads.fill(stream, 0)?;
        if let Some([priorities, greatest]) = &self.priorities {
            priorities.fill(stream, 0)?;
            greatest.write(stream, &[1.0])?;
        }
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
    ///
    /// # Errors
    /// When the checkpoint's priorities are those of another replay, or the device fails.
    pub fn write(&self, stream: &Stream, replay: &Replay, config: &Config) -> Result<(), LearnError> {
        let (heads, words) = replay.parts();
        self.heads.write(stream, heads)?;
        self.words.write(stream, words)?;
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(([priorities, greatest], mut own)) =
            self.priorities.as_ref().zip(Priorities::of(replay, config))
        {
            own.restore(replay, saved.as_ref())?;
            let all = own.saved(self.sizes.rows);
            priorities.write(stream, &all.rows)?;
            greatest.write(stream, &[all.greatest])?;
        }
        Ok(())
    }

    /// What a snapshot holds of the priorities.
    ///
    /// # Errors
    /// When the device fails.
    pub fn saved(&self, stream: &Stream) -> Result<Option<SavedPriorities>, LearnError> {
        let Some([priorities, greatest]) = &self.priorities else { return Ok(None) };
        let (all, heads) = (priorities.read(stream)?, self.heads.read(stream)?);
        let written = heads.iter().map(|&head| head.min(self.sizes.rows as u64) as usize).max().unwrap_or(0);
        let rows = all.chunks_exact(self.sizes.rows).flat_map(|rows| &rows[..written]).copied().collect();
        Ok(Some(SavedPriorities { rows, greatest: greatest.read(stream)?[0] }))
    }

    /// The kernels' parameters, of a replay or none.
    pub fn params(ring: Option<&Self>) -> Ring<'_> {
        let RingSizes { num_envs, rows, .. } = ring.map_or(RingSizes::default(), |ring| ring.sizes);
        let priorities = ring.and_then(|ring| ring.priorities.as_ref());
        Ring {
            heads: ring.map(|ring| &ring.heads),
            words: ring.map(|ring| &ring.words),
            priorities: priorities.map(|[all, _]| all),
            greatest: priorities.map(|[_, greatest]| greatest),
            priority_exponent: ring.map_or(0.0, |ring| ring.priority_exponent),
            rows: rows as u32,
            num_envs: num_envs as u32,
        }
    }
}
