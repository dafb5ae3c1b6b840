//! A hash over the words that an environment produces, in which suites compare trajectories.

/// FNV-1a over the words that one environment produced.
pub fn fold(hash: &mut u64, word: u32) {
    for byte in word.to_le_bytes() {
        *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

/// Start of [`fold`].
pub const HASH: u64 = 0xcbf2_9ce4_8422_2325;
