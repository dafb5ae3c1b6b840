//! Episodic counts of observations: how often the running episode of each environment has shown each of its observations. An observation is known
//! by a hash of its words.

use operant_lane::isa::{f32x16, u32x16};
use wide::bytemuck;

use crate::config::{Config, Intrinsic};
use crate::cpu::network::tile::{LANES, Row, splat};

/// Observations that the table of an environment holds. In a full bucket a new one takes the place, and the count, of the least counted.
const SLOTS: usize = 1024;
/// Slots of a bucket, a cache line.
const BUCKET: usize = 16;
/// The greatest count. A slot has the count in these bits and the hash in the others; the hash's lowest bits choose the bucket.
const MOST: u32 = 0x3ff;

/// The counts of V x 16 environments.
pub struct Counts<const V: usize> {
    /// `(V x 16, SLOTS)`, or empty if nothing is counted.
    tables: Vec<u32>,
}

/// Numbers of the table of an environment.
pub fn words(config: &Config) -> usize {
    if config.intrinsic == Intrinsic::Counts { SLOTS } else { 0 }
}

impl<const V: usize> Counts<V> {
    /// Empty tables, if the configuration needs any.
    pub fn new(config: &Config) -> Self {
        Self { tables: vec![0; V * LANES * words(config)] }
    }

    /// Whether it counts.
    pub fn is_on(&self) -> bool {
        !self.tables.is_empty()
    }

    /// The tables of the first environments.
    pub fn of(&self, environments: usize) -> &[u32] {
        &self.tables[..environments * self.tables.len() / (V * LANES)]
    }

    /// Replaces the tables of the first environments.
    pub fn set(&mut self, tables: &[u32]) {
        self.tables[..tables.len()].copy_from_slice(tables);
    }

    /// Begins an episode of each environment with its first observation, `(words, V)`.
    pub fn begin(&mut self, obs: &[f32x16]) {
        if self.is_on() {
            self.rewards(obs, &splat(1.0));
        }
    }

    /// Counts the observations after a step, `(words, V)`: `1 / sqrt(n)` for the nth time, or 0 for the first of an episode, which begins where the
    /// previous one is `done`.
    pub fn rewards(&mut self, obs: &[f32x16], done: &Row<V>) -> Row<V> {
        let mut rewards = splat(0.0);
        let mut tables = self.tables.chunks_exact_mut(SLOTS);
        for (v, hashes) in hashes::<V>(bytemuck::cast_slice(obs)).iter().enumerate() {
            let done = done[v].as_array();
            let rewards: &mut [f32; LANES] = rewards[v].as_mut_array();
            for ((hash, table), (reward, done)) in
                hashes.as_array().iter().zip(&mut tables).zip(rewards.iter_mut().zip(done))
            {
                if *done > 0.0 {
                    table.fill(0);
                }
                let n = count(table, *hash);
                *reward = if *done > 0.0 { 0.0 } else { 1.0 / (n as f32).sqrt() };
            }
        }
        rewards
    }
}

/// Counts an observation in a table, and returns its number of times so far.
fn count(table: &mut [u32], hash: u32) -> u32 {
    let buckets = table.as_chunks_mut::<BUCKET>().0;
    let (number, name) = (hash as usize % buckets.len(), hash & !MOST);
    let bucket = &mut buckets[number];
    let known = bucket.iter().position(|slot| slot & !MOST == name && slot & MOST > 0);
    let least = || (0..BUCKET).min_by_key(|slot| bucket[*slot] & MOST).unwrap_or(0);
    let slot = known.unwrap_or_else(least);
    let n = ((bucket[slot] & MOST) + 1).min(MOST);
    bucket[slot] = name | n;
    n
}

/// The hashes of observations laid out `(words, V)`: MurmurHash3 (x86, 32 bits) of each lane's words.
fn hashes<const V: usize>(obs: &[u32x16]) -> [u32x16; V] {
    let by = |x: u32x16, factor: u32| x * u32x16::splat(factor);
    let rotated = |x: u32x16, bits: u32| x << bits | x >> (32 - bits);
    let mut hashes = [u32x16::ZERO; V];
    for row in obs.as_chunks::<V>().0 {
        for (hash, word) in hashes.iter_mut().zip(row) {
            let word = by(rotated(by(*word, 0xcc9e_2d51), 15), 0x1b87_3593);
            *hash = by(rotated(*hash ^ word, 13), 5) + u32x16::splat(0xe654_6b64);
        }
    }
    hashes.map(|hash| {
        let hash = by(hash ^ hash >> 16u32, 0x85eb_ca6b);
        let hash = by(hash ^ hash >> 13u32, 0xc2b2_ae35);
        hash ^ hash >> 16u32
    })
}
