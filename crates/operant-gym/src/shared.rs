//! Memory that the trainer and its worker processes share: 32-bit words in a memfd, and waiting for a word to change.
//!
//! Every access is atomic, so that whatever a worker process does to the memory, the trainer reads some number. The size cannot
//! change: a file that shrinks would end the process that reads it.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use memmap2::MmapRaw;
use rustix::fs::{MemfdFlags, SealFlags, Timespec, fcntl_add_seals, memfd_create};
use rustix::thread::futex;

/// Words that several processes map.
#[derive(Debug)]
pub struct SharedWords(MmapRaw);

impl SharedWords {
    /// Allocates zeroed words; returns the file that another process maps, too.
    ///
    /// # Errors
    /// When the system has no memory for them.
    pub fn create(words: usize) -> io::Result<(Self, File)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("operant-environments", flags)?);
        file.set_len(words as u64 * 4)?;
        fcntl_add_seals(file.as_fd(), SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self(MmapRaw::map_raw(&file)?), file))
    }

    /// The words of a file that [`SharedWords::create`] made.
    ///
    /// # Errors
    /// When it is another file.
    pub fn open(file: &File) -> io::Result<Self> {
        if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("the file can shrink"));
        }
        Ok(Self(MmapRaw::map_raw(file)?))
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping lives as long as `self`, starts at a page and so is aligned, and its file is sealed against
        // shrinking, so that each of its `len / 4` words can be read and written. `AtomicU32` has no invalid values, and this
        // program accesses the mapping through no other pointer; other processes, and Python by a mapping of its own, may write at any
        // time, which atomic accesses allow.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<AtomicU32>(), self.0.len() / 4) }
    }
}

/// Adds 1 to a word, after every write before it, and wakes the threads that wait for it.
pub fn post(word: &AtomicU32) {
    word.fetch_add(1, Ordering::Release);
    // It fails only for words that no process can wait for.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

/// Waits until a word is no longer `seen`, for at most `timeout`, and returns it.
pub fn wait(word: &AtomicU32, seen: u32, timeout: Duration) -> u32 {
    let now = word.load(Ordering::Acquire);
    if now != seen {
        return now;
    }
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    // Signals and spurious wake-ups end it too: the caller checks the word.
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&timeout));
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
        assert!(file.set_len(8).is_err(), "a sealed file keeps its size");
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
        let other = tempfile_like();
        assert!(SharedWords::open(&other).is_err(), "a file that can shrink is refused");
    }

    /// A file without seals.
    fn tempfile_like() -> File {
        let file = File::from(memfd_create("unsealed", MemfdFlags::CLOEXEC).expect("memory"));
        file.set_len(64).expect("room");
        file
    }
}
