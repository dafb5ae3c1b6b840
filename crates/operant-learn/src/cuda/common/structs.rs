//! Structs with the same layout on host and device.

use operant_cuda::plain_struct;

use crate::config::Config;

plain_struct! {
    /// Episodes that ended during a launch, as the kernels merge them.
    pub struct EpisodeTotals {
        /// Episodes.
        count: f64,
        /// Sum of their undiscounted returns.
        sum: f64,
        /// Sum of the squares of the returns.
        squares: f64,
        /// Sum of their lengths in steps.
        length: f64,
        /// Minimum return; infinity if no episode ended.
        min: f32,
        /// Maximum return; minus infinity if no episode ended.
        max: f32,
    }
}

plain_struct! {
    /// Mean and population variance of a quantity, and how many values were seen.
    pub struct RunningNorm {
        /// Mean.
        mean: f64,
        /// Population variance.
        var: f64,
        /// Values seen.
        count: f64,
    }
}

plain_struct! {
    /// A seed.
    pub struct Seed {
        low: u32,
        high: u32,
    }
}

impl From<u64> for Seed {
    fn from(seed: u64) -> Self {
        Self { low: seed as u32, high: (seed >> 32) as u32 }
    }
}

plain_struct! {
    /// The factors of GAE.
    pub struct Discounts {
        /// Discount.
        gamma: f32,
        /// gamma x lambda.
        decay: f32,
    }
}

plain_struct! {
    /// The share of random actions, see [`crate::algorithms::Ramp`].
    pub struct Exploration {
        start: f64,
        end: f64,
        /// Updates over which it changes.
        updates: f64,
    }
}

impl Exploration {
    /// That of a run, of which a device has a part.
    pub fn of(run: &Config) -> Self {
        let of_run = (run.algorithm.declaration().exploration)(run);
        Self { start: of_run.start, end: of_run.end, updates: of_run.updates }
    }
}

impl Discounts {
    /// The factors of a configuration.
    pub fn of(config: &Config) -> Self {
        let [gamma, decay] = config.discounts();
        Self { gamma, decay }
    }

    /// Those of rewards for exploring that have a value of their own; 0 if they have none.
    pub fn intrinsic(config: &Config) -> Self {
        let [gamma, decay] = config.intrinsic_discounts().unwrap_or_default();
        Self { gamma, decay }
    }
}
