//! Random numbers of searches and of the bootstrap: a function of a seed and a stream, the same on every machine.

use std::num::Wrapping;

use operant_lane::philox::philox;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random {
    key: [u32; 2],
    stream: u64,
    block: u64,
    words: Vec<u32>,
}

impl Random {
    /// Stream `stream` of a seed. Different streams are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { key: split(seed), stream, block: 0, words: Vec::new() }
    }

    /// 32 random bits.
    fn word(&mut self) -> u32 {
        if let Some(word) = self.words.pop() {
            return word;
        }
        let ([low, high], [first, second]) = (split(self.block), split(self.stream));
        self.block += 1;
        let words = philox::<f64>([low, high, first, second].map(Wrapping), self.key.map(Wrapping));
        self.words = words.map(|word| word.0).to_vec();
        self.word()
    }

    /// A number in [0, 1) with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        let bits = u64::from(self.word()) << 32 | u64::from(self.word());
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number below `bound`, which is at least 1 and far below 2^32.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.uniform() * bound as f64) as usize
    }

    /// A number of the standard normal distribution, by the method of Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn split(bits: u64) -> [u32; 2] {
    [bits as u32, (bits >> 32) as u32]
}
