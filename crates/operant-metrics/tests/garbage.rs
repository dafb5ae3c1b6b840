//! The reader on arbitrary words and files: it refuses them or reads what is valid, never panics, and never works
//! longer than the file's size warrants.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::support::draft::{self, Draft, Part};
use crate::support::{bytes, record, small, words};
use operant_metrics::{
    Capacity, Episode, FileState, Level, RingOptions, RingReader, RunState, Shape, create_in,
};
use proptest::prelude::*;

/// A ring with something in every section.
static RING: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let identity = operant_metrics::Identity::of_this_process("mine", "cartpole");
    let mut ring = create_in(dir.path(), &identity, &small()).unwrap();
    (1..=300).for_each(|update| ring.writer.publish(&record(update)));
    ring.writer.set_state(RunState::Running, "a reason");
    ring.writer.set_checkpoint(5, Path::new("/data/five"));
    let frame = vec![Shape::Line { points: vec![[0.0; 2]; 3], tone: 1 }];
    ring.writer.show(&Episode { frames: vec![frame; 5], ..Episode::default() });
    ring.side.sample(&[0.5; operant_metrics::COUNT], &[], 3);
    (0..9).for_each(|n| ring.side.event(Level::Info, &format!("event {n}")));
    words(&fs::read(ring.writer.path()).unwrap())
});

/// Any number, with boundary values of arithmetic more often.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..64u64,
        (0..64u64).prop_map(|back| u64::MAX - back),
        (0..64u32).prop_map(|bit| 1 << bit),
        any::<f64>().prop_map(f64::to_bits),
        (any::<u32>(), 0..4u32).prop_map(|(low, high)| draft::pair(low, high)),
    ]
}

/// Any index of a ring, with those of the header more often.
fn place() -> impl Strategy<Value = usize> {
    let length = RING.len();
    prop_oneof![
        2 => 0..draft::READY_WORD,
        1 => draft::SECTIONS_AT..draft::SECTIONS_AT + 12 * draft::SECTION_WORDS,
        5 => 0..length,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_words(words in prop::collection::vec(word(), 0..600)) {
        crate::drive::words_of(words);
    }

    #[test]
    fn any_words_that_begin_as_a_ring(
        major_minor in prop_oneof![Just(1 << 32), (0..3u64).prop_map(|minor| 1 << 32 | minor)],
        words in prop::collection::vec(word(), 128..900),
    ) {
        let mut words = words;
        let (length, sections) = (words.len() as u64, words[5] % 18);
        words[..6].copy_from_slice(&[RING[0], RING[1], major_minor, length, 128, sections]);
        words[draft::READY_WORD] = RING[draft::READY_WORD];
        crate::drive::words_of(words);
    }

    #[test]
    fn a_ring_with_some_words_overwritten(
        changes in prop::collection::vec((place(), word()), 1..24),
    ) {
        let mut words = RING.clone();
        for (place, word) in changes {
            words[place] = word;
        }
        crate::drive::words_of(words);
    }

    /// Sections of odd sizes that still fit: one entry of one word, sections that overlap each other or the header.
    #[test]
    fn a_ring_with_moved_sections(
        moves in prop::collection::vec((0..11usize, 128..1200usize, 0..40usize, 1..300usize, 1..20usize), 1..4),
    ) {
        let mut words = RING.clone();
        for (section, offset, head, entry, entries) in moves {
            let at = draft::SECTIONS_AT + section * draft::SECTION_WORDS;
            let fields = [offset, head + entry * entries, head, entry, entries];
            for (word, field) in words[at + 1..].iter_mut().zip(fields) {
                *word = field as u64;
            }
        }
        crate::drive::words_of(words);
    }

    #[test]
    fn a_truncated_ring(length in 0..RING.len(), with_length in any::<bool>()) {
        let mut words = RING[..length].to_vec();
        if with_length && length > 3 {
            words[3] = length as u64;
        }
        crate::drive::words_of(words);
    }

    #[test]
    fn any_bytes_in_a_file(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        begins in any::<bool>(),
        mapped in 0..RING.len(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.ring");
        let mut content = if begins { crate::support::bytes(&RING) } else { Vec::new() };
        content.truncate(content.len().min(8 * mapped + 3));
        content.extend(&bytes);
        fs::write(&path, &content).unwrap();
        if let Ok(reader) = RingReader::open(&path) {
            crate::drive::everything(&reader, content.len() / 8);
        }
    }
}

#[test]
fn the_ring_before_damage_is_valid() {
    assert!(crate::drive::words_of(RING.clone()));
    let reader = RingReader::of_words(RING.clone()).unwrap();
    assert_eq!((reader.last_update(), reader.events().len(), reader.skipped()), (300, 4, 0));
    assert!(reader.scene(0).is_some() && reader.sample().is_some() && reader.status().checkpoint.is_some());
}

#[test]
fn counters_of_any_size_cost_no_more_than_the_file_has_entries() {
    // The published records, and the entries written to every archive and to the events.
    let sections = RING[draft::SECTIONS_AT..].chunks_exact(draft::SECTION_WORDS).take(RING[5] as usize);
    let counters: Vec<usize> = sections
        .filter_map(|section| match section[0] {
            draft::STATE => Some(section[1] as usize + 1),
            draft::ARCHIVE | draft::EVENTS => Some(section[1] as usize),
            _ => None,
        })
        .collect();
    assert_eq!(counters.len(), 6);
    let begin = Instant::now();
    for value in [u64::MAX, u64::MAX - 1, u64::MAX / 2, 1 << 63, 301, 299, 8, 7] {
        for counter in &counters {
            let mut words = RING.clone();
            words[*counter] = value;
            assert!(crate::drive::words_of(words));
        }
        let mut words = RING.clone();
        counters.iter().for_each(|counter| words[*counter] = value);
        assert!(crate::drive::words_of(words));
    }
    // Loops bounded by these counters would run for centuries.
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn control_characters_are_removed_from_texts() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r";
    let state = draft::State {
        code: 7,
        published: 0,
        times: [0; 3],
        reason: evil,
        checkpoint: (1, evil),
        words: 192,
    };
    let identity =
        ["run", "env", "device", "dir", "version"].map(|name| format!("{name}\t{evil}\n")).concat();
    let schema = format!("{evil}\t{evil}\tgauge\t{evil}\t{evil}\n");
    let words = Draft {
        major: 1,
        minor: 0,
        header_words: 128,
        parts: vec![
            Part::single(draft::IDENTITY, draft::text(&identity)),
            Part::single(draft::SCHEMA, draft::text(&schema)),
            state.part(),
            Part::single(draft::RECORDS, vec![0; 8]),
            Part::ring(draft::EVENTS, 32, vec![draft::event(0, 1, evil)], 1),
            Part::single(draft::SAMPLE, vec![0; 8]),
        ],
    };
    let words = words.words();
    assert!(crate::drive::words_of(words.clone()), "`drive` checks every text");
    let reader = RingReader::of_words(words).unwrap();
    for shown in [&reader.identity().run, &reader.status().reason, &reader.events()[0].text] {
        assert!(shown.contains("owned") && !shown.contains('\u{1b}'), "{shown:?}");
    }
}

#[test]
fn anything_but_a_regular_file_is_refused_without_blocking() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |name: &str| {
        let error = RingReader::open(&dir.path().join(name)).err().expect("refused").to_string();
        assert!(error.contains("; "), "no remedy in {error}");
        error
    };
    // Opening a pipe blocks until its other end is opened.
    let pipe = dir.path().join("pipe.ring");
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
    nix::unistd::mkfifo(&pipe, mode).unwrap();
    assert!(refused("pipe.ring").contains("is not a regular file"));
    fs::create_dir(dir.path().join("directory.ring")).unwrap();
    assert!(refused("directory.ring").contains("is not a regular file"));
    symlink("itself.ring", dir.path().join("itself.ring")).unwrap();
    assert!(refused("itself.ring").contains("cannot open"));
    symlink("/dev/zero", dir.path().join("zeros.ring")).unwrap();
    assert!(refused("zeros.ring").contains("is not a regular file"));
    // Creating a ring does not block on a pipe of the same name either.
    let identity = operant_metrics::Identity::of_this_process("pipe", "cartpole");
    let ring = create_in(dir.path(), &identity, &small()).unwrap();
    assert!(RingReader::open(ring.writer.path()).is_ok());
}

#[test]
fn a_large_sparse_file_is_refused_before_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("holes.ring");
    fs::write(&path, bytes(&RING)).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    let error = RingReader::open(&path).err().expect("refused").to_string();
    assert!(error.contains("too large"), "{error}");
}

#[test]
fn a_ring_overwritten_under_a_reader_gives_no_wrong_values_and_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let identity = operant_metrics::Identity::of_this_process("mine", "cartpole");
    let options = RingOptions { capacity: Capacity { records: 64, ..small().capacity }, ..small() };
    let mut ring = create_in(dir.path(), &identity, &options).unwrap();
    (1..=50).for_each(|update| ring.writer.publish(&record(update)));
    let reader = RingReader::open(ring.writer.path()).unwrap();
    let length = fs::metadata(ring.writer.path()).unwrap().len() as usize / 8;
    for noise in [0u64, u64::MAX, 7, 0x8000_0000_0000_0000] {
        // Written in place, so that the mapping changes.
        use std::os::unix::fs::FileExt;
        let file = fs::File::options().write(true).open(ring.writer.path()).unwrap();
        file.write_all_at(&bytes(&vec![noise; length]), 0).unwrap();
        crate::drive::everything(&reader, length);
    }
    assert!(reader.records(0).rows.is_empty());
    assert_eq!(reader.presence(), FileState::Here);
    assert_eq!(ring.side.check(), Some(operant_metrics::Damage::Overwritten));
}
