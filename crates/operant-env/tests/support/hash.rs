//! Hashes over the words that environments produce, in which suites compare trajectories.

/// Folds a word into the hash of one environment, as FNV-1a does with a byte. It is a bijection of the word and of the hash.
pub fn fold(hash: &mut u64, word: u32) {
    *hash = (*hash ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3);
}

/// Folds `(words, R)` into the hashes of R environments.
pub fn fold_rows(hashes: &mut [u64], words: &[u32]) {
    for row in words.chunks_exact(hashes.len()) {
        hashes.iter_mut().zip(row).for_each(|(hash, &word)| fold(hash, word));
    }
}

/// Start of [`fold`].
pub const HASH: u64 = 0xcbf2_9ce4_8422_2325;
