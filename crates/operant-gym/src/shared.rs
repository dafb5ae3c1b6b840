//! Memory that the trainer and its worker processes share: 32-bit words in a file without a name, and waiting for a word to change.
//!
//! Every access is atomic, so that whatever a worker process does to the memory, the trainer reads some number. On Linux the size
//! cannot change: a file that shrinks would end the process that reads it.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use memmap2::MmapRaw;

use crate::os;

/// Words that several processes map.
#[derive(Debug)]
pub struct SharedWords(MmapRaw);

impl SharedWords {
    /// Allocates zeroed words; returns the file that another process maps, too.
    ///
    /// # Errors
    /// When the system has no memory for them.
    pub fn create(words: usize) -> io::Result<(Self, File)> {
        let file = os::anonymous_file(words as u64 * 4)?;
        Ok((Self(MmapRaw::map_raw(&file)?), file))
    }

    /// The words of a file that [`SharedWords::create`] made.
    ///
    /// # Errors
    /// When it is another file.
    pub fn open(file: &File) -> io::Result<Self> {
        os::check_anonymous(file)?;
        Ok(Self(MmapRaw::map_raw(file)?))
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping lives as long as `self` and starts at a page, so it is aligned. Its file does not shrink: on Linux it is
        // sealed against that; on macOS only operant's own processes have it, and none shrinks it (if one did, an access would end the
        // process by SIGBUS). So each of its `len / 4` words can be read and written. `AtomicU32` has no invalid values, and this program
        // accesses the mapping through no other pointer; other processes, and Python by a mapping of its own, may write at any time,
        // which atomic accesses allow.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<AtomicU32>(), self.0.len() / 4) }
    }
}

/// Adds 1 to a word, after every write before it, and wakes the threads that wait for it.
pub fn post(word: &AtomicU32) {
    word.fetch_add(1, Ordering::Release);
    os::wake(word);
}

/// Waits until a word is no longer `seen`, for at most `timeout`, and returns it.
pub fn wait(word: &AtomicU32, seen: u32, timeout: Duration) -> u32 {
    let now = word.load(Ordering::Acquire);
    if now != seen {
        return now;
    }
    // It may end early: the caller checks the word.
    os::wait(word, seen, timeout);
    word.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_share_words_and_wake_each_other() {
        let (ours, file) = SharedWords::create(40).expect("memory");
        let theirs = SharedWords::open(&file).expect("the same file");
        assert_eq!((ours.words().len(), theirs.words().len()), (40, 40));
        assert!(cfg!(target_os = "macos") || file.set_len(8).is_err(), "a sealed file keeps its size");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while wait(&theirs.words()[0], 0, Duration::from_secs(60)) == 0 {}
                theirs.words()[39].store(7, Ordering::Relaxed);
                post(&theirs.words()[1]);
            });
            post(&ours.words()[0]);
            while wait(&ours.words()[1], 0, Duration::from_secs(60)) == 0 {}
            assert_eq!(ours.words()[39].load(Ordering::Relaxed), 7);
        });
        assert_eq!(wait(&ours.words()[1], 1, Duration::from_millis(1)), 1, "the wait ends without a change");
        let named = tempfile::NamedTempFile::new().expect("a temporary file");
        named.as_file().set_len(64).expect("room");
        assert!(SharedWords::open(named.as_file()).is_err(), "a file that can shrink is refused");
    }
}
