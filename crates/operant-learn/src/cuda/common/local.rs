//! The part of a run that one device trains.

use crate::config::{Config, MAX_ENV_BLOCKS, ShuffleKind};

/// Maximum parts in which the norm of a gradient is summed with `shuffle = "blocks"`, equal for any number of devices.
const NORM_PARTS: usize = 64;

/// Parameters of such a part, at least.
const NORM_PART: usize = 256;

/// A run, and the part of it that one of its devices trains.
#[derive(Debug, Clone)]
pub struct Local {
    /// The configuration of the whole run; its `num_envs` are those of all devices.
    pub run: Config,
    /// Environments of this device.
    pub num_envs: usize,
    /// Number of this device.
    pub rank: usize,
    /// Number of devices.
    pub devices: usize,
    /// Blocks of environments of this device; None unless `shuffle` is `blocks`.
    pub blocks: Option<usize>,
    /// Whether sums over samples do not depend on the number of devices.
    pub deterministic: bool,
}

impl From<&Config> for Local {
    /// All of it on one device.
    fn from(config: &Config) -> Self {
        Self::of(config, 0, 1, false)
    }
}

impl From<&Local> for Local {
    fn from(local: &Local) -> Self {
        local.clone()
    }
}

impl Local {
    /// The part of device `rank`. The number of devices divides the number of blocks.
    pub fn of(config: &Config, rank: usize, devices: usize, deterministic: bool) -> Self {
        let blocks = (config.shuffle == ShuffleKind::Blocks).then(|| config.blocks() / devices);
        Self {
            run: config.clone(),
            num_envs: config.num_envs / devices,
            rank,
            devices,
            blocks,
            deterministic,
        }
    }

    /// A copy with another number of environments on each device.
    pub fn with_envs(&self, num_envs: usize) -> Self {
        let run = Config { num_envs: num_envs.saturating_mul(self.devices), ..self.run.clone() };
        let blocks = self.blocks.map(|_| (run.blocks() / self.devices).max(1));
        Self { run, num_envs, blocks, ..self.clone() }
    }

    /// Samples of this device in an update.
    pub fn samples(&self) -> usize {
        self.num_envs.saturating_mul(self.run.num_steps)
    }

    /// Blocks of environments, at least one.
    pub fn env_blocks(&self) -> usize {
        self.blocks.unwrap_or(1)
    }

    /// Parts in which the norm of a gradient of P numbers is summed.
    pub fn norm_parts(&self, parameters: usize) -> usize {
        parameters.div_ceil(NORM_PART).clamp(1, NORM_PARTS)
    }

    /// Blocks of threads of an update: `blocks(samples)` suit a minibatch of that many samples, and each block of environments gets the same
    /// number. With `deterministic` it gets as many as if this device had all environments.
    pub fn update_blocks(&self, minibatch: usize, blocks: impl Fn(usize) -> usize) -> usize {
        let Some(own) = self.blocks else { return blocks(minibatch) };
        let of_block = match self.deterministic {
            true => blocks(minibatch * self.devices) / (own * self.devices),
            false => blocks(minibatch) / own,
        };
        of_block.max(1) * own
    }

    /// The preprocessor definitions that kernels need.
    pub fn defines(&self) -> impl Iterator<Item = (String, String)> {
        let define = |(name, value): (&str, usize)| (name.to_owned(), format!("{value}u"));
        let both = |blocks| [("ENV_BLOCKS", blocks), ("MAX_DEVICES", MAX_ENV_BLOCKS)].map(define);
        self.blocks.map(both).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_threads_are_divided_among_blocks_of_environments() {
        let config = Config { num_envs: 4096, shuffle: ShuffleKind::Blocks, ..Config::default() };
        assert_eq!(config.blocks(), 16);
        // As many blocks as are resident, each with at least 64 samples.
        let blocks = |samples: usize| samples.div_ceil(64).min(132);
        let of = |devices, deterministic, minibatch| {
            let local = Local::of(&config, 0, devices, deterministic);
            assert_eq!((local.num_envs * devices, local.run.num_envs), (4096, 4096));
            local.update_blocks(minibatch / devices, blocks) / local.env_blocks()
        };
        assert_eq!([1, 2, 4].map(|devices| of(devices, false, 1 << 15)), [8, 16, 32]);
        assert_eq!([1, 2, 4].map(|devices| of(devices, true, 1 << 15)), [8; 3]);
        assert_eq!([1, 2, 16].map(|devices| of(devices, true, 64)), [1; 3]);
        let samples = Local::from(&Config::default());
        assert_eq!((samples.update_blocks(1 << 15, blocks), samples.defines().count()), (132, 0));
    }
}
