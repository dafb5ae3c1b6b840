//! The protocol of every slot that is written while it is read: a sequence lock in atomic words.
//!
//! The first word of a slot is its sequence: 0 before the first write, `2 n + 1` while content number n is written, `2
//! n + 2` once it is complete. One thread writes; readers only load, so a read-only mapping serves them, and a reader
//! during a write gets nothing instead of a mixture. Generic over the word, so that loom can try every interleaving.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A word that one thread writes while others read it.
pub trait Word {
    /// Atomic load.
    fn load(&self, order: Ordering) -> u64;
    /// Atomic store.
    fn store(&self, value: u64, order: Ordering);
    /// A fence in the same memory model.
    fn fence(order: Ordering);
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Writes content number `number` into a slot. Words past the slot's end are dropped.
#[inline(always)]
pub fn write<W: Word>(slot: &[W], number: u64, words: impl IntoIterator<Item = u64>) {
    let Some((sequence, content)) = slot.split_first() else {
        return;
    };
    let complete = number.wrapping_mul(2).wrapping_add(2);
    sequence.store(complete.wrapping_sub(1), Ordering::Relaxed);
    // A reader that loads a word of this content also loads the odd sequence on its second check.
    W::fence(Ordering::Release);
    for (word, value) in content.iter().zip(words) {
        word.store(value, Ordering::Relaxed);
    }
    sequence.store(complete, Ordering::Release);
}

/// Loads words of a slot with `load`, and returns them with their content's number if no write overlapped.
#[inline(always)]
pub fn read<W: Word, T>(slot: &[W], load: impl FnOnce(&[W]) -> T) -> Option<(u64, T)> {
    let (sequence, content) = slot.split_first()?;
    let before = sequence.load(Ordering::Relaxed);
    W::fence(Ordering::Acquire);
    if before == 0 || before % 2 == 1 {
        return None;
    }
    let value = load(content);
    W::fence(Ordering::Acquire);
    (sequence.load(Ordering::Relaxed) == before).then_some((before / 2 - 1, value))
}

/// All words of a slot's content.
pub fn copy<W: Word>(content: &[W]) -> Vec<u64> {
    content.iter().map(|word| word.load(Ordering::Relaxed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(words: usize) -> Vec<AtomicU64> {
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn a_written_slot_is_read_with_its_number() {
        let slot = slot(4);
        assert_eq!(read(&slot, copy), None);
        write(&slot, 0, [1, 2, 3]);
        assert_eq!(read(&slot, copy), Some((0, vec![1, 2, 3])));
        write(&slot, 41, [4, 5, 6, 7, 8]);
        assert_eq!(read(&slot, copy), Some((41, vec![4, 5, 6])));
    }

    #[test]
    fn a_write_that_never_ended_is_not_read() {
        let slot = slot(3);
        write(&slot, 7, [1, 2]);
        slot[0].store(17, Ordering::Relaxed);
        assert_eq!(read(&slot, copy), None);
    }

    #[test]
    fn a_write_during_the_read_is_detected() {
        let slot = slot(3);
        write(&slot, 0, [1, 2]);
        let torn = read(&slot, |content| {
            let first = content[0].load(Ordering::Relaxed);
            write(&slot, 1, [3, 4]);
            (first, content[1].load(Ordering::Relaxed))
        });
        assert_eq!(torn, None);
    }

    #[test]
    fn an_empty_slice_is_not_a_slot() {
        let none: [AtomicU64; 0] = [];
        write(&none, 1, [1]);
        assert_eq!(read(&none, copy), None);
    }
}
