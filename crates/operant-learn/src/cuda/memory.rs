//! How much device memory training takes, and the most environments that fit: told before anything is allocated.

use operant_cuda::kernels::SUMS;
use operant_cuda::{Device, Memory};

use crate::LearnError;
use crate::config::Config;
use crate::network::Network;
use crate::sample::SampleLayout;

/// Bytes beside what is counted: the driver's, the kernels' code, the alignment of buffers, and partial gradients of blocks past
/// two a multiprocessor.
const MARGIN: usize = 32 << 20;

/// Bytes of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// For each environment.
    pub an_environment: usize,
    /// Whatever their number.
    pub fixed: usize,
}

impl Footprint {
    /// Of training `network` on `multiprocessors`, with environments of `running_words` between horizons.
    pub fn new(
        network: &Network,
        layout: &SampleLayout,
        config: &Config,
        running_words: usize,
        multiprocessors: usize,
    ) -> Self {
        // A step: the packed sample; reward, value and flags as GAE reads them.
        let step = 4 * layout.stride + 4 + 4 + 1;
        // An environment: its state, the bootstrap value, the discounted return; a share of its block's partial sums.
        let an_environment = config.num_steps * step + 4 * running_words + 4 + 4 + 16;
        // Parameters, moments, gradient, two packed forms; partial gradients and sums of two blocks a multiprocessor.
        let blocks = 2 * multiprocessors;
        let fixed = 4 * network.len() * (6 + blocks) + 8 * SUMS * blocks;
        Self { an_environment, fixed }
    }

    /// Bytes for N environments.
    pub fn of(&self, num_envs: usize) -> usize {
        self.fixed + num_envs.saturating_mul(self.an_environment)
    }

    /// The most environments that `bytes` hold.
    pub fn most(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.fixed) / self.an_environment
    }

    /// Whether N environments fit into `fraction` of what is free.
    ///
    /// # Errors
    /// They do not: how much is needed, how much there is, and the most environments that fit.
    pub fn check(&self, device: &Device, num_envs: usize, fraction: f64) -> Result<(), LearnError> {
        let Memory { free, total } = device.memory()?;
        let usable = ((free as f64 * fraction) as usize).saturating_sub(MARGIN.min(total as usize / 16));
        let needed = self.of(num_envs);
        if needed <= usable {
            return Ok(());
        }
        // Need is rounded up, room down, to tenths.
        let up = |bytes: usize| (bytes as f64 / 104_857.6).ceil() / 10.0;
        let down = |bytes: usize| (bytes as f64 / 104_857.6).floor() / 10.0;
        let problem = format!(
            "{num_envs} environments take {} MiB of memory, and {} may use {} of its {} MiB ({} free)",
            up(needed),
            device.properties().name,
            down(usable),
            down(total as usize),
            down(free as usize)
        );
        let remedy = match self.most(usable) {
            0 => {
                "use a smaller network, fewer num_steps, a greater memory_fraction, or a GPU with more memory"
                    .to_owned()
            }
            most => format!("at most {most} fit: lower num_envs or num_steps, or raise memory_fraction"),
        };
        Err(LearnError::Config { key: "num_envs", problem, remedy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Architecture, Head, Input};

    #[test]
    fn the_most_that_fit_do_and_one_more_does_not() {
        let config = Config { num_steps: 128, ..Config::default() };
        let architecture = Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
        let layout = SampleLayout::new(&architecture, false);
        let footprint = Footprint::new(&Network::new(architecture), &layout, &config, 6, 132);
        // 41 bytes a step of CartPole.
        assert_eq!(footprint.an_environment, 128 * 41 + 48);
        let bytes = 1 << 30;
        let most = footprint.most(bytes);
        assert!(footprint.of(most) <= bytes && footprint.of(most + 1) > bytes);
        assert_eq!(footprint.most(0), 0);
    }
}
