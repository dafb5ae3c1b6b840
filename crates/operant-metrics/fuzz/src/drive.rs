//! Does everything that a monitor does with a ring, on bytes that may not be a ring. Asserts that nothing panics, that
//! no text contains control characters, and that no result is larger than the file. Used by the fuzz target and by the
//! tests.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU64;

use operant_metrics::{Episode, FileState, RingReader, Shape, slot};

/// Reads bytes as a ring; returns whether they were one.
#[allow(dead_code)] // not used by every test
pub fn bytes(bytes: &[u8]) -> bool {
    let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
    words_of(words.collect())
}

/// Reads words as a ring; returns whether they were one.
pub fn words_of(words: Vec<u64>) -> bool {
    let length = words.len();
    one_slot(&words);
    match RingReader::of_words(words) {
        Ok(reader) => {
            everything(&reader, length);
            true
        }
        Err(error) => {
            assert!(error.to_string().contains("; "), "no remedy in: {error}");
            false
        }
    }
}

/// Runs the slot protocol on a slot of any content and length.
fn one_slot(words: &[u64]) {
    let slot: Vec<AtomicU64> = words.iter().take(16).copied().map(AtomicU64::new).collect();
    if let Some((number, content)) = slot::read(&slot, slot::copy) {
        assert_eq!(number.wrapping_mul(2).wrapping_add(2), words[0]);
        assert_eq!(content, words[1..words.len().min(16)]);
    }
}

/// Calls every function of a reader over `words` words.
pub fn everything(reader: &RingReader, words: usize) {
    watch(reader, words);
    let frozen = reader.freeze();
    watch(&frozen, words);
    assert_eq!(frozen.status(), frozen.status(), "a frozen status does not change");
    assert_eq!(frozen.schema(), reader.schema());
    let _ = frozen.freeze();
}

fn watch(reader: &RingReader, words: usize) {
    assert_eq!(reader.presence(), FileState::Here);
    texts(reader);
    let metrics = reader.schema().len();
    if let Some(latest) = reader.latest() {
        assert_eq!(latest.len(), metrics);
    }
    let _ = (reader.last_update(), reader.path());
    records(reader, words);
    charts(reader, words);
    if let Some(sample) = reader.sample() {
        assert_eq!(sample.values.len(), metrics);
        assert!(sample.values.len() + sample.cores.len() <= words);
    }
    for after in [0, 1, u64::MAX - 1, u64::MAX] {
        if let Some(episode) = reader.scene(after) {
            assert!(shapes(&episode) <= 2 * words);
        }
    }
    let _ = reader.skipped();
}

fn plain(text: &str) {
    assert!(!text.contains(char::is_control), "a control character in {text:?}");
}

/// Checks every text that a monitor prints on a terminal.
fn texts(reader: &RingReader) {
    let identity = reader.identity();
    [&identity.run, &identity.env, &identity.device, &identity.boot_id, &identity.version]
        .into_iter()
        .for_each(|text| plain(text));
    plain(&identity.dir.to_string_lossy());
    assert!(identity.solved_at.is_none_or(f64::is_finite));
    for metric in reader.schema().metrics() {
        [&metric.name, &metric.unit, &metric.group, &metric.help].into_iter().for_each(|text| plain(text));
        assert!(reader.schema().position(&metric.name).is_some());
    }
    for event in reader.events() {
        plain(&event.text);
    }
    let status = reader.status();
    plain(&status.reason);
    plain(status.health.name());
    if let Some(checkpoint) = &status.checkpoint {
        plain(&checkpoint.path);
    }
}

fn records(reader: &RingReader, words: usize) {
    let published = reader.published();
    let near = [0, 1, 7, published.wrapping_sub(3), published.wrapping_sub(1), published, u64::MAX];
    for after in near.into_iter().chain([published.saturating_add(1)]) {
        let records = reader.records(after);
        let metrics = reader.schema().len();
        assert!(records.rows.len() <= words && records.rows.iter().all(|row| row.len() == metrics));
        assert_eq!(records.rows.len() as u64 + records.skipped, published.saturating_sub(after));
        assert!(records.rows.is_empty() || records.first >= after);
    }
}

fn charts(reader: &RingReader, words: usize) {
    let metrics = reader.schema().len();
    let (update, last) = (reader.schema().position("update").unwrap_or(0), reader.last_update());
    let windows: [RangeInclusive<u64>; 8] = [
        0..=u64::MAX,
        1..=last,
        last / 2..=last,
        last.saturating_sub(3)..=last.saturating_add(3),
        u64::MAX..=u64::MAX,
        0..=0,
        RangeInclusive::new(u64::MAX, 0),
        1..=u64::MAX - 1,
    ];
    for (index, window) in windows.into_iter().enumerate() {
        let points = [1, usize::MAX, 10, 3, 0, 100, usize::MAX / 4, 2][index];
        let y = [metrics.saturating_sub(1), update, metrics / 2][index % 3];
        let series = reader.series(update, y, window, points);
        assert!(series.len() <= words, "{} points of {words} words", series.len());
    }
    for (x, y) in [(metrics, update), (update, metrics), (usize::MAX, usize::MAX)] {
        assert!(reader.series(x, y, 0..=u64::MAX, 10).is_empty());
    }
    for y in [0, update, metrics.saturating_sub(1), metrics, usize::MAX] {
        let _ = reader.summary(y);
    }
}

fn shapes(episode: &Episode) -> usize {
    let size = |shape: &Shape| match shape {
        Shape::Line { points, .. } | Shape::Polygon { points, .. } => 1 + points.len(),
        Shape::Text { text, .. } => 1 + text.len(),
        Shape::Circle { .. } | Shape::Rectangle { .. } => 1,
    };
    episode.frames.iter().map(|frame| 1 + frame.iter().map(size).sum::<usize>()).sum()
}
