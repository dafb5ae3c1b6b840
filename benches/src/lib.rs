//! What every measurement needs: a clock, the spread of repetitions, and the machine's own limit.

#![forbid(unsafe_code)]

use std::fmt;
use std::hint::black_box;
use std::time::Instant;

use operant_lane::Float;
use wide::f32x16;

/// Independent chains of multiply-adds per core: a latency of 4 on two units needs 8.
pub const CHAINS: usize = 16;

/// Seconds that `work` takes.
pub fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Median and extremes of repetitions.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of at least one repetition.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self { median: values[values.len() / 2], min: values[0], max: values[values.len() - 1] }
    }

    /// In other units.
    pub fn scaled(self, factor: f64) -> Self {
        Self { median: self.median * factor, min: self.min * factor, max: self.max * factor }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let Self { median, min, max } = self;
        write!(f, "{median:8.digits$} ({min:.digits$} .. {max:.digits$})")
    }
}

/// Floating-point operations per second of multiply-adds on all threads of the current rayon pool together, two a
/// multiply-add: the limit that no matrix product can pass.
pub fn peak_flops() -> f64 {
    const STEPS: usize = 4_000_000;
    let threads = rayon::current_num_threads();
    let seconds = time(|| {
        rayon::broadcast(|_| {
            let (a, b) = (black_box(f32x16::splat(0.999_9)), black_box(f32x16::splat(1e-4)));
            let mut chains: [f32x16; CHAINS] = core::array::from_fn(|i| f32x16::splat(black_box(i as f32)));
            for _ in 0..STEPS {
                for chain in &mut chains {
                    *chain = Float::mul_add(*chain, a, b);
                }
            }
            black_box(chains);
        });
    });
    (threads * STEPS * CHAINS * 16 * 2) as f64 / seconds
}
