//! The slot protocol under loom, which tries every interleaving and every value that the memory model allows a load to
//! return. The same protocol with one ordering or fence missing must fail, which shows that the tests detect it.

use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;
use operant_metrics::slot::{self, Word};

/// A word in loom's memory.
struct Modelled(AtomicU64);

impl Word for Modelled {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }

    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Words of content in a slot: two are enough to detect a mixture.
const CONTENT: usize = 2;

fn words(slots: usize) -> Vec<Modelled> {
    (0..slots * (1 + CONTENT)).map(|_| Modelled(AtomicU64::new(0))).collect()
}

/// Words that encode their content's number and their position.
fn content(number: u64) -> [u64; CONTENT] {
    [100 + number, 200 + number]
}

/// Result of a read: the content's number, and its words.
type Found = Option<(u64, Vec<u64>)>;

/// A way to write and read a slot: the real one, or one with a defect.
#[derive(Clone, Copy)]
struct Protocol {
    write: fn(&[Modelled], u64),
    read: fn(&[Modelled]) -> Found,
    /// Orderings of the store and load of the published counter.
    publish: Ordering,
    look: Ordering,
}

const REAL: Protocol = Protocol {
    write: |slot, number| slot::write(slot, number, content(number)),
    read: |slot| slot::read(slot, slot::copy),
    publish: Release,
    look: Acquire,
};

/// The write, step by step: the ordering of the last store, and whether each of the other two orderings is present.
fn write_in_steps(slot: &[Modelled], number: u64, odd: bool, fenced: bool, last: Ordering) {
    if odd {
        slot[0].store(2 * number + 1, Relaxed);
    }
    if fenced {
        fence(Release);
    }
    for (word, value) in slot[1..].iter().zip(content(number)) {
        word.store(value, Relaxed);
    }
    slot[0].store(2 * number + 2, last);
}

/// The read, step by step, with or without the fences around the words and the second check.
fn read_in_steps(slot: &[Modelled], first_fence: bool, second_fence: bool, second_look: bool) -> Found {
    let before = slot[0].load(Relaxed);
    if first_fence {
        fence(Acquire);
    }
    if before == 0 || before % 2 == 1 {
        return None;
    }
    let found = slot::copy(&slot[1..]);
    if second_fence {
        fence(Acquire);
    }
    (!second_look || slot[0].load(Relaxed) == before).then_some((before / 2 - 1, found))
}

/// Checks every execution, or those with at most `preemptions` involuntary switches where all would take too long.
fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// A reader gets nothing, or one complete content, no older than the one before.
fn assert_whole(found: Found, newest: &mut u64) {
    if let Some((number, found)) = found {
        assert_eq!(found, content(number), "a mixture came as content {number}");
        assert!(number >= *newest, "content {number} came after {newest}");
        *newest = number;
    }
}

/// A slot that is written `contents` times while each of `readers` reads it `reads` times.
fn one_slot(protocol: Protocol, contents: u64, readers: usize, reads: usize, preemptions: Option<usize>) {
    check(preemptions, move || {
        let slot = Arc::new(words(1));
        let watch = |slot: Arc<Vec<Modelled>>| {
            move || {
                let mut newest = 0;
                (0..reads).for_each(|_| assert_whole((protocol.read)(&slot), &mut newest));
            }
        };
        let watchers: Vec<_> = (0..readers).map(|_| thread::spawn(watch(Arc::clone(&slot)))).collect();
        (0..contents).for_each(|number| (protocol.write)(&slot, number));
        watchers.into_iter().for_each(|watcher| watcher.join().unwrap());
        assert_eq!(slot::read(&slot, slot::copy), Some((contents - 1, content(contents - 1).to_vec())));
    });
}

/// A ring of two slots with a counter of what was published, into which `records` records are written while a reader
/// reads the newest one `looks` times.
fn ring(protocol: Protocol, records: u64, looks: usize, preemptions: Option<usize>) {
    const SLOTS: u64 = 2;
    let slot_of = |number: u64| {
        let start = (number % SLOTS) as usize * (1 + CONTENT);
        start..start + 1 + CONTENT
    };
    check(preemptions, move || {
        let ring = Arc::new((words(SLOTS as usize), AtomicU64::new(0)));
        let theirs = Arc::clone(&ring);
        let watcher = thread::spawn(move || {
            let (words, published) = &*theirs;
            let mut newest = 0;
            for _ in 0..looks {
                let count = published.load(protocol.look);
                assert!(count >= newest, "the counter went back");
                newest = count;
                let Some(last) = count.checked_sub(1) else { continue };
                match (protocol.read)(&words[slot_of(last)]) {
                    Some((number, found)) => {
                        assert_eq!(found, content(number), "a mixture came as record {number}");
                        assert!(number >= last, "record {last} was announced, {number} found");
                        assert_eq!(number % SLOTS, last % SLOTS);
                    }
                    // Nothing only while a newer record overwrites it.
                    None => assert!(last + SLOTS < records, "record {last} was published but not readable"),
                }
            }
        });
        let (words, published) = &*ring;
        for number in 0..records {
            (protocol.write)(&words[slot_of(number)], number);
            published.store(number + 1, protocol.publish);
        }
        watcher.join().unwrap();
    });
}

#[test]
fn a_reader_gets_complete_contents_in_order() {
    one_slot(REAL, 2, 1, 2, None);
}

#[test]
fn a_reader_of_many_writes_gets_complete_contents_in_order() {
    one_slot(REAL, 3, 1, 2, Some(3));
}

#[test]
fn two_readers_get_complete_contents_in_order() {
    one_slot(REAL, 2, 2, 1, Some(3));
}

#[test]
fn a_published_record_is_readable() {
    ring(REAL, 2, 2, None);
}

#[test]
fn a_published_record_is_readable_or_overwritten() {
    ring(REAL, 3, 1, None);
    ring(REAL, 4, 2, Some(2));
}

#[test]
fn an_unfinished_write_is_never_read() {
    check(None, || {
        let slot = Arc::new(words(1));
        let theirs = Arc::clone(&slot);
        let writer = thread::spawn(move || {
            slot::write(&theirs, 0, content(0));
            // The first steps of the next write.
            theirs[0].store(3, Relaxed);
            fence(Release);
            theirs[1].store(content(1)[0], Relaxed);
        });
        for _ in 0..2 {
            if let Some((number, found)) = slot::read(&slot, slot::copy) {
                assert_eq!((number, found), (0, content(0).to_vec()));
            }
        }
        writer.join().unwrap();
        assert_eq!(slot::read(&slot, slot::copy), None);
    });
}

// The same checks detect each possible mistake.

#[test]
#[should_panic(expected = "a mixture")]
fn detects_a_write_without_the_odd_sequence() {
    let write = |slot: &[Modelled], number| write_in_steps(slot, number, false, true, Release);
    one_slot(Protocol { write, ..REAL }, 2, 1, 2, None);
}

#[test]
#[should_panic(expected = "a mixture")]
fn detects_a_write_without_its_fence() {
    let write = |slot: &[Modelled], number| write_in_steps(slot, number, true, false, Release);
    one_slot(Protocol { write, ..REAL }, 2, 1, 2, None);
}

#[test]
#[should_panic(expected = "a mixture")]
fn detects_a_write_without_a_release_store() {
    let write = |slot: &[Modelled], number| write_in_steps(slot, number, true, true, Relaxed);
    one_slot(Protocol { write, ..REAL }, 2, 1, 2, None);
}

#[test]
#[should_panic(expected = "a mixture")]
fn detects_a_read_without_the_fence_before_the_words() {
    let read = |slot: &[Modelled]| read_in_steps(slot, false, true, true);
    one_slot(Protocol { read, ..REAL }, 2, 1, 2, None);
}

#[test]
#[should_panic(expected = "a mixture")]
fn detects_a_read_without_the_fence_after_the_words() {
    let read = |slot: &[Modelled]| read_in_steps(slot, true, false, true);
    one_slot(Protocol { read, ..REAL }, 2, 1, 2, None);
}

#[test]
#[should_panic(expected = "a mixture")]
fn detects_a_read_without_the_second_check() {
    let read = |slot: &[Modelled]| read_in_steps(slot, true, true, false);
    one_slot(Protocol { read, ..REAL }, 2, 1, 2, None);
}

#[test]
#[should_panic(expected = "was published but not readable")]
fn detects_a_counter_stored_without_release() {
    ring(Protocol { publish: Relaxed, ..REAL }, 2, 2, None);
}

#[test]
#[should_panic(expected = "was published but not readable")]
fn detects_a_counter_loaded_without_acquire() {
    ring(Protocol { look: Relaxed, ..REAL }, 2, 2, None);
}

/// Without a defect, the stepwise functions equal the real protocol.
#[test]
fn the_steps_without_a_defect_pass() {
    let write = |slot: &[Modelled], number| write_in_steps(slot, number, true, true, Release);
    let read = |slot: &[Modelled]| read_in_steps(slot, true, true, true);
    one_slot(Protocol { write, read, ..REAL }, 2, 1, 2, None);
}
