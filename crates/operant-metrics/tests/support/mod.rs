//! Shared by the ring's tests: records whose values follow from their update, and small rings.
#![allow(dead_code)] // no test uses all of it

pub mod draft;

use std::path::PathBuf;

use operant_metrics::{COUNT, Capacity, Record, RingOptions, position};

/// The value of a metric in the record of an update: exact as f32, too, and so are its means over 16 and 256 updates
/// as long as `update` is below 10,000.
pub fn value(update: u64, metric: usize) -> f64 {
    update as f64 + metric as f64 / 64.0
}

/// The record of an update.
pub fn record(update: u64) -> Record {
    let values: [f64; COUNT] = std::array::from_fn(|metric| value(update, metric));
    Record { update: update as f64, ..Record::from_values(values) }
}

/// Index of a metric in the table.
pub fn at(name: &str) -> usize {
    position(name).expect("a metric of the table")
}

/// A ring of some kilobytes.
pub fn small() -> RingOptions {
    let capacity = Capacity { records: 8, archives: [4, 4, 2, 2], events: 4, cores: 3, scene: 64 };
    RingOptions { capacity, ..RingOptions::default() }
}

/// A file of the tests' data.
pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join("data").join(name)
}

/// Whether to rewrite the checked-in files.
pub fn write_goldens() -> bool {
    std::env::var_os("OPERANT_WRITE_GOLDENS").is_some()
}

/// Bytes as words; an incomplete last word is dropped.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// Words as bytes.
pub fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
