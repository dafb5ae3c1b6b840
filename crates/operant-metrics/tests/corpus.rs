//! Replays the fuzz target's corpus, on any toolchain. `OPERANT_WRITE_GOLDENS=1 cargo test -p operant-metrics --test tests corpus::`
//! rewrites the inputs that are generated here; inputs that `cargo xtask fuzz` found are named `found-*`.

use std::fs;
use std::path::PathBuf;

use crate::support::draft::{self, Draft, Part, READY_WORD, SECTION_WORDS, SECTIONS_AT};
use crate::support::{bytes, write_goldens};

/// Metrics of the corpus' rings: update, sps.
const METRICS: usize = 2;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz").join("corpus").join("reader")
}

fn schema() -> Part {
    Part::single(draft::SCHEMA, draft::text("update\t1\tcounter\tc\tU.\nsps\t1/s\tgauge\tc\tS.\n"))
}

fn identity() -> Part {
    let text = "run\tr\nenv\te\npid\t5\nboot_id\tb\nsolved_at\t4.5\ntotal_steps\t99\n";
    Part::single(draft::IDENTITY, draft::text(text))
}

fn state(code: u64, published: u64) -> Part {
    let checkpoint = (640, "checkpoints/640");
    draft::State { code, published, times: [70, 30, 10], reason: "why", checkpoint, words: 192 }.part()
}

/// The ring of the newest `held` records after `published`.
fn records(published: u64, held: u64) -> Part {
    let record = |number: u64| {
        draft::slot(number, [(number + 1) as f64, 10.0 * (number + 1) as f64].map(f64::to_bits))
    };
    let mut entries: Vec<_> = (published.saturating_sub(held)..published).map(record).collect();
    entries.resize(held as usize, vec![0; 3]);
    if published > held {
        entries.rotate_right((published % held) as usize);
    }
    Part { kind: draft::RECORDS, head: Vec::new(), entry_words: 8, entries, factor: 1 }
}

fn archive(entries: u64, updates: u64) -> Part {
    let entry = |k: u64| {
        let (first, last) = ((k * updates + 1) as f64, ((k + 1) * updates) as f64);
        let gauge = draft::gauge(first as f32, last as f32, first as f32, last as f32);
        let counts = draft::pair(updates as u32, updates as u32);
        let metrics = [draft::counter(first, last), gauge].concat();
        draft::slot(k, std::iter::once(updates).chain(metrics).chain([counts]))
    };
    let mut part = Part::ring(draft::ARCHIVE, 8, (0..entries).map(entry).collect(), updates);
    if entries == 0 {
        part.entries.push(vec![0; 8]);
    }
    part
}

fn events(lines: &[&str]) -> Part {
    let entries = lines.iter().zip(0..).map(|(line, number)| draft::event(number, number, line)).collect();
    Part::ring(draft::EVENTS, 32, entries, 1)
}

fn sample(number: u64) -> Part {
    let values = [f64::NAN, 300.0].map(f64::to_bits);
    let core = draft::pair(0.5f32.to_bits(), 5 | 1 << 24);
    let content = [50, 3, 60, 2].into_iter().chain(values).chain([core; 2]);
    Part::single(draft::SAMPLE, draft::slot(number, content))
}

fn scene() -> Part {
    let head = [30.0f32, 1.0, 0.0, 0.0, 1.0, 1.0].map(f32::to_bits);
    let shapes =
        [2 << 16, 1, 2, 3, 4, 1 | 2 << 8 | 2 << 16, 1, 2, 3, 4, 2 | 2 << 16, 1, 2, 3, 4, 7 | 1 << 16, 1, 2];
    let frame = [&[4], &shapes[..]].concat();
    let numbers = [&head[..], &[2], &frame, &frame].concat();
    Part::single(draft::SCENE, draft::scene(3, &numbers))
}

fn draft_of(parts: Vec<Part>) -> Vec<u64> {
    Draft { major: 1, minor: 0, header_words: 128, parts }.words()
}

/// A ring with `published` records, of which it holds 4.
fn ring(code: u64, published: u64) -> Vec<u64> {
    draft_of(vec![
        identity(),
        schema(),
        state(code, published),
        records(published, 4),
        archive(published / 16, 16),
        archive(published / 256, 256),
        events(&["one", "two\u{1b}[2J"]),
        sample(1),
        scene(),
    ])
}

/// The first word of the first section of a kind, from the header.
fn section(words: &[u64], kind: u64) -> usize {
    let sections = words[SECTIONS_AT..READY_WORD].chunks_exact(SECTION_WORDS);
    sections.clone().find(|section| section[0] == kind).expect("a section of this kind")[1] as usize
}

/// The generated inputs, by name: valid rings and damaged ones.
fn inputs() -> Vec<(&'static str, Vec<u64>)> {
    let spoilt = |kind: u64, changes: &[(usize, u64)]| {
        let mut words = ring(2, 70);
        let at = section(&words, kind);
        changes.iter().for_each(|(word, value)| words[at + word] = *value);
        words
    };
    let header = |changes: &[(usize, u64)]| {
        let mut words = ring(2, 70);
        changes.iter().for_each(|(word, value)| words[*word] = *value);
        words
    };
    let field = |index: usize, field: usize| SECTIONS_AT + index * SECTION_WORDS + field;
    let cut = |length: usize| ring(2, 70)[..length].to_vec();
    let bare = |metrics: &str, entry: usize| {
        let schema = Part::single(draft::SCHEMA, draft::text(metrics));
        let records = Part {
            kind: draft::RECORDS,
            head: Vec::new(),
            entry_words: entry,
            entries: vec![vec![2; entry]; 2],
            factor: 1,
        };
        draft_of(vec![Part::single(draft::IDENTITY, vec![0]), schema, state(1, 2), records, sample(0)])
    };
    vec![
        ("empty", vec![]),
        ("header-alone", draft_of(Vec::new())),
        ("starting", ring(1, 0)),
        ("one-update", ring(2, 1)),
        ("running", ring(2, 70)),
        ("finished", ring(5, 600)),
        ("state-unknown", ring(77, 20)),
        ("no-update-metric", bare("sps\t1\tgauge\tc\tS.\n", 8)),
        ("no-metrics", bare("", 8)),
        ("metrics-of-nothing", bare("\n\t\n\t\t\t\t\t\n\n", 8)),
        ("entries-too-small", bare("update\nsps\na\nb\nc\nd\ne\nf\n", 8)),
        ("major-2", header(&[(2, 2 << 32)])),
        ("minor-9", header(&[(2, 1 << 32 | 9)])),
        ("not-ready", header(&[(READY_WORD, 0)])),
        ("other-byte-order", header(&[(1, 0x0807_0605_0403_0201)])),
        ("too-many-sections", header(&[(5, 18)])),
        ("sections-of-zeros", header(&[(5, 17)])),
        ("section-beyond-the-end", header(&[(field(3, 1), u64::MAX - 7)])),
        ("section-that-overflows", header(&[(field(3, 4), 1 << 62), (field(3, 5), 4)])),
        ("factor-zero", header(&[(field(4, 6), 0)])),
        ("factor-huge", header(&[(field(4, 6), u64::MAX)])),
        ("records-with-a-head", header(&[(field(3, 3), 8), (field(3, 5), 3)])),
        ("archive-over-records", header(&[(field(4, 1), 400)])),
        ("cut-in-the-header", cut(100)),
        ("cut-in-the-records", cut(400)),
        ("published-huge", spoilt(draft::STATE, &[(1, u64::MAX)])),
        ("published-less", spoilt(draft::STATE, &[(1, 3)])),
        ("times-to-come", spoilt(draft::STATE, &[(2, u64::MAX), (3, u64::MAX), (4, u64::MAX)])),
        ("reason-too-long", spoilt(draft::STATE, &[(9, u64::MAX)])),
        ("checkpoint-too-long", spoilt(draft::STATE, &[(66, u64::MAX)])),
        ("write-begun", spoilt(draft::RECORDS, &[(8, 137), (24, 1)])),
        ("sequence-huge", spoilt(draft::RECORDS, &[(0, u64::MAX - 1), (8, u64::MAX)])),
        (
            "values-not-finite",
            spoilt(draft::RECORDS, &[(1, 0x7ff0 << 48), (9, 0xfff0 << 48), (17, u64::MAX)]),
        ),
        ("updates-backwards", spoilt(draft::RECORDS, &[(1, 900f64.to_bits()), (9, (-5f64).to_bits())])),
        ("archive-written-huge", spoilt(draft::ARCHIVE, &[(0, u64::MAX)])),
        ("archive-backwards", spoilt(draft::ARCHIVE, &[(10, 900f64.to_bits()), (11, 2f64.to_bits())])),
        ("events-written-huge", spoilt(draft::EVENTS, &[(0, u64::MAX - 1)])),
        ("event-too-long", spoilt(draft::EVENTS, &[(10, u64::MAX)])),
        ("cores-too-many", spoilt(draft::SAMPLE, &[(4, u64::MAX)])),
        ("sample-begun", spoilt(draft::SAMPLE, &[(0, 5)])),
        ("scene-too-long", spoilt(draft::SCENE, &[(2, u64::MAX)])),
        ("scene-of-many-frames", spoilt(draft::SCENE, &[(6, u64::from(u32::MAX))])),
        ("text-no-utf8", spoilt(draft::SCHEMA, &[(1, u64::MAX), (2, 0x0909_0a0a_0909_0a0a)])),
        ("text-too-long", spoilt(draft::IDENTITY, &[(0, u64::MAX)])),
    ]
}

#[test]
fn the_corpus_matches_the_generated_inputs() {
    for (name, words) in inputs() {
        let path = corpus().join(name);
        if write_goldens() {
            fs::create_dir_all(corpus()).unwrap();
            fs::write(&path, bytes(&words)).unwrap();
        }
        let found = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(found, bytes(&words), "{} differs from the generated input", path.display());
    }
}

#[test]
fn every_input_of_the_corpus_is_read_or_refused() {
    let (mut rings, mut refused, mut size) = (0, 0, 0);
    for entry in fs::read_dir(corpus()).expect("fuzz/corpus/reader is checked in") {
        let input = fs::read(entry.unwrap().path()).unwrap();
        size += input.len();
        if crate::drive::bytes(&input) {
            rings += 1;
        } else {
            refused += 1;
        }
    }
    assert!(rings >= 20 && refused >= 10, "{rings} rings and {refused} refused");
    assert!(size < 200_000, "a corpus of {size} bytes: keep only inputs that add coverage");
}

#[test]
fn the_rings_of_the_corpus_are_rings() {
    for (name, words) in inputs().into_iter().filter(|(name, _)| ["running", "finished"].contains(name)) {
        let reader = operant_metrics::RingReader::of_words(words).unwrap();
        assert_eq!(reader.schema().len(), METRICS);
        assert_eq!(reader.last_update(), reader.published(), "{name}");
        let series = reader.series(0, 1, 1..=u64::MAX, 10);
        assert!(
            series.windows(2).all(|two| two[0].update < two[1].update) && series.len() > 4,
            "{name}: {series:?}"
        );
        assert_eq!(
            (reader.events().len(), reader.scene(0).map(|episode| episode.frames.len())),
            (2, Some(2))
        );
        assert_eq!(reader.sample().map(|sample| sample.cores.len()), Some(2));
    }
}
