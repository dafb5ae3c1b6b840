//! The mapping: a ring file as atomic words. With `sigbus.rs`, the only unsafe code of this crate.
//!
//! Every access to the file's bytes is an atomic load or store of a whole word, so that processes that map the same
//! file do not race as Rust's memory model defines it. A read-only mapping is only loaded from.
#![allow(unsafe_code)]

mod sigbus;

use std::fs::File;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// The words of a ring: a mapped file, or memory of this process.
pub struct Mapping {
    words: Words,
}

enum Words {
    Mapped {
        // Declared before the mapping so that it is dropped first: the handler must not touch an unmapped range.
        guard: sigbus::Guard,
        map: MmapRaw,
        file: File,
    },
    Owned(Vec<AtomicU64>),
}

impl Mapping {
    /// Maps a whole file for writing. The file keeps its lock as long as the mapping lives.
    pub fn writable(file: File) -> std::io::Result<Option<Self>> {
        let map = MmapOptions::new().map_raw(&file)?;
        Ok(Self::guarded(map, file, true))
    }

    /// Maps a whole file for reading.
    pub fn readable(file: File) -> std::io::Result<Option<Self>> {
        let map = MmapOptions::new().map_raw_read_only(&file)?;
        Ok(Self::guarded(map, file, false))
    }

    /// None if too many files are mapped already.
    fn guarded(map: MmapRaw, file: File, writable: bool) -> Option<Self> {
        let guard = sigbus::Guard::over(map.as_ptr() as usize, map.len(), writable)?;
        Some(Self { words: Words::Mapped { guard, map, file } })
    }

    /// Words in this process's memory, without a file.
    pub fn owned(words: Vec<AtomicU64>) -> Self {
        Self { words: Words::Owned(words) }
    }

    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        match &self.words {
            Words::Mapped { map, .. } => {
                let length = map.len() / size_of::<AtomicU64>();
                // SAFETY: the range belongs to `map` and lives as long as `self`. It begins on a page, so it is
                // aligned. AtomicU64 has the layout of u64, every bit pattern is valid, and this crate touches the
                // range through atomics only; other processes that do the same are other threads to the language.
                // Words of a mapping for reading are never stored to: `writable` mappings are the writers' alone.
                // Pages that lose their file are replaced by zeros (see `sigbus.rs`), so a load always succeeds.
                unsafe { std::slice::from_raw_parts(map.as_ptr().cast::<AtomicU64>(), length) }
            }
            Words::Owned(words) => words,
        }
    }

    pub fn file(&self) -> Option<&File> {
        match &self.words {
            Words::Mapped { file, .. } => Some(file),
            Words::Owned(_) => None,
        }
    }

    /// Whether an accessed page was missing from the file: the words are then private zeros.
    #[inline(always)]
    pub fn lost(&self) -> bool {
        match &self.words {
            Words::Mapped { guard, .. } => guard.hit(),
            Words::Owned(_) => false,
        }
    }
}
