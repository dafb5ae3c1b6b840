//! Noise that an update adds to the mean of a policy of real actions (docs/ppo.md, 2).

use operant_lane::{Draws, Float, Lane, Packed, Purpose, Uint, Wide};

use crate::config::Config;
use crate::cpu::network::policy::Activations;
use crate::cpu::network::tile::{LANES, TILE_VECTORS};

/// The noise of an epoch of a block of environments: uniform in [-alpha, alpha), a function of the seed, the update, the epoch, the block and
/// the sample's position in the order of the epoch.
#[derive(Debug, Clone, Copy)]
pub struct MeanNoise {
    alpha: f64,
    seed: u64,
    update: u32,
    epoch: u32,
    block: u32,
}

impl MeanNoise {
    /// That of epoch `epoch` of update `update`; None where `rpo_alpha` is 0.
    pub fn new(config: &Config, update: u64, epoch: usize, block: usize) -> Option<Self> {
        let (alpha, seed) = (config.algorithms.ppo.rpo_alpha, config.seed);
        let (update, epoch, block) = (update as u32, epoch as u32, block as u32);
        (alpha > 0.0).then_some(Self { alpha, seed, update, epoch, block })
    }

    /// The noise of each action of the samples at these positions.
    pub fn of<L: Lane>(&self, position: L::Uint) -> impl FnMut() -> L::Float {
        let word = L::Uint::splat;
        let seed = [word(self.seed as u32), word((self.seed >> 32) as u32)];
        // There are at most 10,000 epochs; 1,024 blocks of four actions follow each.
        let tag = word((Purpose::MeanNoise as u32) << 24 | self.epoch << 10);
        let mut draws = Draws::<L>::tagged(seed, position, [word(self.block), word(self.update)], tag);
        let alpha = self.alpha;
        move || draws.unit().mul_add(L::Float::splat(2.0 * alpha), L::Float::splat(-alpha))
    }

    /// Adds it to the first `actions` outputs of a tile of samples at `positions`.
    pub(crate) fn add(
        &self,
        positions: impl Fn(usize) -> usize,
        actions: usize,
        to: &mut Activations<TILE_VECTORS>,
    ) {
        for v in 0..TILE_VECTORS {
            let positions: [u32; LANES] = core::array::from_fn(|l| positions(v * LANES + l) as u32);
            let mut noise = self.of::<Wide<LANES>>(Wide::<LANES>::load_uint(&positions));
            to.policy_mut()[..actions].iter_mut().for_each(|mean| mean[v] += noise());
        }
    }
}
