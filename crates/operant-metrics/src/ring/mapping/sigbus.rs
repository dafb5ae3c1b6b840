//! Handles SIGBUS, which the kernel raises on access to a page of a mapped file that was truncated. The handler
//! replaces the whole mapping with zero pages and sets a flag, so that a truncated file ends neither a trainer nor a
//! monitor.

use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Maximum number of guarded mappings.
const RANGES: usize = 256;

static GUARDED: [Range; RANGES] = [const { Range::free() }; RANGES];

/// A guarded range. Only its owner changes it; `sequence` is odd during a change.
struct Range {
    taken: AtomicBool,
    sequence: AtomicUsize,
    start: AtomicUsize,
    length: AtomicUsize,
    writable: AtomicBool,
    hit: AtomicBool,
}

impl Range {
    const fn free() -> Self {
        Range {
            taken: AtomicBool::new(false),
            sequence: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            writable: AtomicBool::new(false),
            hit: AtomicBool::new(false),
        }
    }

    /// Changes a range that the caller has taken; of length 0 it contains nothing.
    fn set(&self, start: usize, length: usize, writable: bool) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.length.store(length, Ordering::Relaxed);
        self.writable.store(writable, Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// Start, length and whether it is writable; None while that changes.
    fn get(&self) -> Option<(usize, usize, bool)> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let found = (
            self.start.load(Ordering::Relaxed),
            self.length.load(Ordering::Relaxed),
            self.writable.load(Ordering::Relaxed),
        );
        fence(Ordering::Acquire);
        let is_whole = sequence.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == sequence;
        is_whole.then_some(found)
    }
}

/// Keeps one mapping guarded for as long as it lives.
pub struct Guard(&'static Range);

impl Guard {
    /// Guards `length` bytes from `start`; none if all ranges are in use.
    pub fn over(start: usize, length: usize, writable: bool) -> Option<Self> {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        let free = |range: &&Range| !range.taken.swap(true, Ordering::AcqRel);
        let range = GUARDED.iter().find(free)?;
        range.hit.store(false, Ordering::Relaxed);
        range.set(start, length, writable);
        Some(Guard(range))
    }

    /// Whether the handler has replaced its pages.
    #[inline(always)]
    pub fn hit(&self) -> bool {
        self.0.hit.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(0, 0, false);
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Installs the handler for the process. It does not call the previous handler: the Rust runtime's handler would reset
/// the signal.
fn install() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a sigaction of zeros is valid (no flags, empty mask); the fields that matter are set before it is used.
    // `handle` has the signature that SA_SIGINFO asks for and calls async-signal-safe functions only.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handle as extern "C" fn(_, _, _) as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(libc::SIGBUS, action, std::ptr::null_mut());
    }
}

/// Runs on the thread that touched the page. Only atomics and raw system calls.
extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler with SA_SIGINFO, and SIGBUS carries an address.
    let address = unsafe { (*info).si_addr() } as usize;
    for range in &GUARDED {
        // The range with this address does not change, since its mapping is in use.
        let Some((start, length, writable)) = range.get() else { continue };
        if address.wrapping_sub(start) >= length {
            continue;
        }
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the range is a mapping that lives (its guard is dropped before it), words in it are accessed
        // through atomics only, and zeros are valid words. MAP_FIXED replaces the pages in one step.
        let replaced =
            unsafe { mmap_anonymous(start as *mut _, length, access, MapFlags::PRIVATE | MapFlags::FIXED) };
        if replaced.is_ok() {
            range.hit.store(true, Ordering::Relaxed);
            return;
        }
    }
    // Not a guarded range: the access is repeated and ends the process, as without this handler.
    // SAFETY: restoring the default action is async-signal-safe.
    unsafe {
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mapping;
    use std::fs::File;
    use std::sync::atomic::Ordering;

    fn file(dir: &std::path::Path) -> File {
        let path = dir.join("words");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        file.set_len(3 * 4096).unwrap();
        file
    }

    #[test]
    fn a_range_is_read_whole_or_not_at_all() {
        static RANGE: super::Range = super::Range::free();
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                for k in 0..400_000 {
                    RANGE.set(k, 3 * k, k % 2 == 1);
                }
            });
            let mut read = 0;
            while !changing.is_finished() || read == 0 {
                if let Some((start, length, writable)) = RANGE.get() {
                    assert!(
                        length == 3 * start && writable == (start % 2 == 1),
                        "{start}, {length}, {writable}"
                    );
                    read += 1;
                }
            }
        });
    }

    #[test]
    fn truncated_files_become_zeros_and_are_reported_repeatedly() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..3 {
            let file = file(dir.path());
            let writer = Mapping::writable(file.try_clone().unwrap()).unwrap().unwrap();
            let reader = Mapping::readable(file.try_clone().unwrap()).unwrap().unwrap();
            writer.words()[1000].store(7, Ordering::Relaxed);
            assert_eq!(reader.words()[1000].load(Ordering::Relaxed), 7);
            file.set_len(0).unwrap();
            writer.words()[1000].store(8, Ordering::Relaxed);
            assert!(writer.lost() && !reader.lost());
            assert_eq!(reader.words()[1000].load(Ordering::Relaxed), 0);
            assert!(reader.lost());
            assert_eq!(writer.words()[1000].load(Ordering::Relaxed), 8);
        }
    }
}
