//! Ring files of every layout version, checked in: this reader reads older files and those of newer minor versions, and
//! refuses newer major versions with a clear error. `OPERANT_WRITE_GOLDENS=1 cargo test -p operant-metrics --test
//! golden` rewrites them; a change in them is a change of the layout, which needs a new version.
#![cfg(target_endian = "little")]

use std::fs;
use std::path::Path;

use crate::support::draft::{self, Draft, Part};
use crate::support::{at, bytes, data, record, small, value, words, write_goldens};
use operant_metrics::{
    COUNT, Core, CoreKind, Episode, Event, Health, Identity, Level, MetricKind, RingReader, RunState,
    SavedCheckpoint, Shape, create_in,
};

/// Updates published to the golden: more than its ring of 8 records and its 4 entries of 1:16 hold.
const UPDATES: u64 = 300;

fn golden(name: &str) -> Vec<u8> {
    let path = data(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; the golden is missing", path.display()))
}

fn identity() -> Identity {
    Identity {
        run: "golden".to_owned(),
        env: "cartpole".to_owned(),
        device: "cpu".to_owned(),
        seed: 7,
        dir: "/data/runs/golden".into(),
        pid: 4242,
        process_start: 99,
        boot_id: "a boot of long ago".to_owned(),
        started_unix_ns: 1_700_000_000_000_000_000,
        total_steps: 1_000_000,
        solved_at: Some(475.0),
        version: "0.1.0".to_owned(),
        // Not in the golden, which is older.
        algorithm: String::new(),
        detached: false,
        time_namespace: String::new(),
    }
}

fn episode() -> Episode {
    let frame = |x: f32| {
        vec![
            Shape::Line { points: vec![[0.0, 0.0], [x, 1.0]], tone: 0 },
            Shape::Circle { center: [x, 0.5], radius: 0.25, tone: 2 },
            Shape::Rectangle { low: [x, 0.0], high: [x + 1.0, 1.0], tone: 1 },
        ]
    };
    Episode {
        number: 2,
        fps: 50.0,
        episodic_return: 12.5,
        low: [-2.0, -1.0],
        high: [2.0, 1.5],
        frames: vec![frame(0.0), frame(0.5)],
    }
}

fn sampled() -> [f64; COUNT] {
    let mut values = [f64::NAN; COUNT];
    (values[at("cpu_utilization")], values[at("resident_memory")]) = (0.75, 1.5e9);
    values
}

fn cores() -> [Core; 2] {
    [
        Core { number: 0, kind: CoreKind::Performance, utilization: 1.0 },
        Core { number: 130, kind: CoreKind::Efficiency, utilization: 0.5 },
    ]
}

/// The current writer's file for the golden's content.
fn written_now(dir: &Path) -> Vec<u8> {
    let mut ring = create_in(dir, &identity(), &small()).unwrap();
    let path = ring.writer.path().to_owned();
    ring.writer.set_state(RunState::Running, "");
    (1..=UPDATES).for_each(|update| ring.writer.publish(&record(update)));
    ring.writer.set_checkpoint(300, Path::new("/data/runs/golden/checkpoints/300"));
    ring.writer.show(&Episode::default());
    ring.writer.show(&episode());
    ring.side.sample(&sampled(), &cores(), 5);
    for (level, line) in [
        (Level::Info, "gone by the end"),
        (Level::Info, "device: cpu"),
        (Level::Info, "checkpoint saved"),
        (Level::Warning, "a minibatch was skipped"),
        (Level::Error, "the disk is full"),
    ] {
        ring.side.event(level, line);
    }
    ring.writer.set_state(RunState::Failed, "the disk is full");
    drop(ring);
    fs::read(path).unwrap()
}

/// Everything that was put into the golden must come out of it.
fn assert_holds_the_content(reader: &RingReader) {
    assert_eq!(*reader.identity(), identity());
    assert_eq!(reader.published(), UPDATES);
    assert_eq!(reader.last_update(), UPDATES);

    let position = |name: &str| reader.schema().position(name).unwrap();
    let (update, sps) = (position("update"), position("sps"));
    let records = reader.records(0);
    assert_eq!((records.first, records.rows.len(), records.skipped), (UPDATES - 8, 8, UPDATES - 8));
    for (row, number) in records.rows.iter().zip(UPDATES - 7..) {
        assert_eq!((row[update], row[sps]), (number as f64, value(number, sps)));
    }
    let latest = reader.latest().unwrap();
    assert_eq!(latest[sps], value(UPDATES, sps));
    assert_eq!((latest[position("cpu_utilization")], latest[position("resident_memory")]), (0.75, 1.5e9));

    // 1:256, then 1:16 from 257 on, then records for what no archive has yet.
    let series = reader.series(position("env_steps"), sps, 1..=u64::MAX, 1);
    let expected = [(1, 256), (257, 272), (273, 288)].into_iter().chain((293..=300).map(|u| (u, u)));
    let (found, expected): (Vec<_>, Vec<_>) = (
        series
            .iter()
            .map(|point| (point.update, point.x, point.min, point.max, point.mean, point.last))
            .collect(),
        expected
            .map(|(first, last)| {
                let (min, max) = (value(first, sps), value(last, sps));
                (last, value(last, position("env_steps")), min, max, (min + max) / 2.0, max)
            })
            .collect(),
    );
    assert_eq!(found, expected);
    let summary = reader.summary(sps);
    assert_eq!((summary.max, summary.last), (value(UPDATES, sps), value(UPDATES, sps)));

    let status = reader.status();
    assert_eq!(status.health, Health::Reported(RunState::Failed));
    assert_eq!(status.reason, "the disk is full");
    let path = "/data/runs/golden/checkpoints/300".to_owned();
    assert_eq!(status.checkpoint, Some(SavedCheckpoint { env_steps: 300, path }));
    assert!(status.since_update.is_some());

    let sample = reader.sample().unwrap();
    for (metric, sampled) in reader.schema().metrics().iter().zip(&sample.values) {
        match metric.name.as_str() {
            "cpu_utilization" => assert_eq!(*sampled, 0.75),
            "resident_memory" => assert_eq!(*sampled, 1.5e9),
            name => assert!(sampled.is_nan(), "{name} was not sampled"),
        }
    }
    assert_eq!(sample.cores, cores());
    let events: Vec<(u64, Level, String)> =
        reader.events().into_iter().map(|Event { number, level, text, .. }| (number, level, text)).collect();
    let expected = [
        (1, Level::Info, "device: cpu"),
        (2, Level::Info, "checkpoint saved"),
        (3, Level::Warning, "a minibatch was skipped"),
        (4, Level::Error, "the disk is full"),
    ];
    assert_eq!(events, expected.map(|(number, level, text)| (number, level, text.to_owned())));
    assert_eq!(reader.scene(0), Some(episode()));
    assert_eq!(reader.scene(2), None);
}

/// The version word, and kind, head, entry words and factor of every section, read from the header's words.
fn layout(bytes: &[u8]) -> (u64, Vec<[u64; 4]>) {
    let words = words(bytes);
    let sections = words[draft::SECTIONS_AT..].chunks_exact(draft::SECTION_WORDS).take(words[5] as usize);
    (words[2], sections.map(|fields| [fields[0], fields[3], fields[4], fields[6]]).collect())
}

#[test]
fn a_ring_of_layout_1_0_is_read() {
    let dir = tempfile::tempdir().unwrap();
    if write_goldens() {
        fs::write(data("ring-1.0.bin"), written_now(dir.path())).unwrap();
    }
    let golden = golden("ring-1.0.bin");
    assert_eq!(layout(&golden).0, 1 << 32, "the golden is of layout 1.0");
    assert_holds_the_content(&RingReader::of_words(words(&golden)).unwrap());
    let path = dir.path().join("golden.ring");
    fs::write(&path, &golden).unwrap();
    let reader = RingReader::open(&path).unwrap();
    assert_holds_the_content(&reader);
    assert_holds_the_content(&reader.freeze());
}

#[test]
fn the_current_writer_keeps_the_goldens_layout() {
    let dir = tempfile::tempdir().unwrap();
    let today = written_now(dir.path());
    assert_holds_the_content(&RingReader::of_words(words(&today)).unwrap());
    let ((version, sections), (old_version, old_sections)) =
        (layout(&today), layout(&golden("ring-1.0.bin")));
    assert_eq!(version >> 32, old_version >> 32, "a new major version: older readers cannot read it");
    assert_eq!(
        version, old_version,
        "a new minor version needs a golden of its own in addition to ring-1.0.bin"
    );
    // Metrics may be added: the schema lists them. Everything else about a layout is fixed.
    let kinds = |sections: &[[u64; 4]]| -> Vec<[u64; 3]> {
        sections.iter().map(|[kind, head, _, factor]| [*kind, *head, *factor]).collect()
    };
    assert_eq!(kinds(&sections), kinds(&old_sections), "sections changed without a new version");
    for ([kind, _, entry, _], [_, _, old, _]) in sections.iter().zip(&old_sections) {
        let fixed = [draft::STATE, draft::EVENTS, draft::SCENE].contains(kind);
        assert!(
            if fixed { entry == old } else { entry >= old || *kind <= 2 },
            "entries of kind {kind} changed"
        );
    }
}

const METRICS_OF_NEWER: usize = 5;

/// A value of the newer ring's metrics: time, update, env_steps, sps, heat.
fn newer_value(update: u64, metric: usize) -> f64 {
    update as f64 * [0.5, 1.0, 128.0, 10.0, 2.0][metric]
}

/// An entry of an archive over the updates after `first`, followed by words that this version does not know.
fn newer_entry(number: u64, first: u64, updates: u64) -> Vec<u64> {
    let last = first + updates - 1;
    let metric = |i: usize| {
        let (a, b) = (newer_value(first, i), newer_value(last, i));
        let gauge =
            [draft::gauge(a as f32, b as f32, ((a + b) / 2.0) as f32, b as f32), draft::counter(a, b)];
        gauge[usize::from(i < 3)]
    };
    let counts = [draft::pair(updates as u32, updates as u32); METRICS_OF_NEWER.div_ceil(2)];
    let content = std::iter::once(updates).chain((0..METRICS_OF_NEWER).flat_map(metric)).chain(counts);
    draft::slot(number, content.chain([u64::MAX; 3]))
}

/// A ring of layout 1.7: a longer header, sections and primitives of unknown kinds, one metric more, longer entries, an
/// archive of a resolution that this version does not write.
fn newer() -> Vec<u64> {
    const UPDATES: u64 = 70;
    let identity = "run\tnewer\nenv\tcartpole\ncolour\tgreen\npid\t5\nboot_id\tanother\ntotal_steps\t9000\n";
    let schema = "time\ts\tcounter\tcharts\tWall time.\nupdate\t1\tcounter\tcharts\tUpdates.\n\
                  env_steps\tsteps\tcounter\tcharts\tSteps.\nsps\tsteps/s\tgauge\tcharts\tSpeed.\n\
                  heat\tK\thistogram\tstove\tHow warm it is.\tfield of later\n";
    let records = (UPDATES - 16..UPDATES).map(|number| {
        let values = (0..METRICS_OF_NEWER).map(|i| newer_value(number + 1, i).to_bits());
        draft::slot(number, values.chain([u64::MAX; 4]))
    });
    // Record `number` lies at `number % 16`.
    let mut records: Vec<_> = records.collect();
    records.rotate_right((UPDATES % 16) as usize);
    let archive = |updates: u64| {
        let entries = (0..64 / updates).map(|k| newer_entry(k, k * updates + 1, updates)).collect();
        Part::ring(draft::ARCHIVE, 24, entries, updates)
    };
    let mut seen = vec![50, 3, 60, 2];
    seen.extend((0..METRICS_OF_NEWER).map(|i| if i == 4 { 300.0f64 } else { f64::NAN }.to_bits()));
    seen.extend([draft::pair(0.25f32.to_bits(), 4), draft::pair(0.5f32.to_bits(), 5 | 9 << 24)]);
    let real = |x: f32| x.to_bits();
    // One frame: a circle, a primitive of kind 7 with three points, a line.
    let scene = [real(30.0), real(1.0), real(0.0), real(0.0), real(1.0), real(1.0), 1, 3]
        .into_iter()
        .chain([1 | 2 << 8 | 2 << 16, real(0.5), real(0.5), real(0.25), 0])
        .chain([7 | 3 << 16, 1, 2, 3, 4, 5, 6])
        .chain([2 << 16, real(0.0), real(0.0), real(1.0), real(1.0)]);
    let scene: Vec<u32> = scene.collect();
    let state = draft::State {
        code: 2,
        published: UPDATES,
        times: [70, 30, 10],
        reason: "",
        checkpoint: (640, "checkpoints/640"),
        words: 256,
    };
    Draft {
        major: 1,
        minor: 7,
        header_words: 256,
        parts: vec![
            Part::single(99, vec![1, 2, 3]),
            Part::single(draft::IDENTITY, draft::text(identity)),
            Part::single(draft::SCHEMA, draft::text(schema)),
            state.part(),
            Part { kind: draft::RECORDS, head: Vec::new(), entry_words: 16, entries: records, factor: 1 },
            archive(16),
            archive(8),
            Part::ring(draft::EVENTS, 40, vec![draft::event(0, 0, "one"), draft::event(1, 9, "two")], 1),
            Part::single(draft::SAMPLE, draft::slot(1, seen)),
            Part::single(draft::SCENE, draft::scene(3, &scene)),
        ],
    }
    .words()
}

#[test]
fn a_ring_of_a_newer_minor_version_is_read() {
    if write_goldens() {
        fs::write(data("ring-1.7.bin"), bytes(&newer())).unwrap();
    }
    let golden = golden("ring-1.7.bin");
    assert_eq!(layout(&golden).0, 1 << 32 | 7);
    let reader = RingReader::of_words(words(&golden)).unwrap();
    assert_eq!((reader.identity().run.as_str(), reader.identity().total_steps), ("newer", 9000));
    let heat = reader.schema().position("heat").unwrap();
    let info = &reader.schema().metrics()[heat];
    assert_eq!(
        (heat, info.unit.as_str(), info.kind, info.group.as_str()),
        (4, "K", MetricKind::Gauge, "stove")
    );
    assert_eq!((reader.published(), reader.last_update()), (70, 70));
    let records = reader.records(60);
    assert_eq!((records.first, records.skipped), (60, 0));
    let expected: Vec<Vec<f64>> =
        (61..=70).map(|update| (0..METRICS_OF_NEWER).map(|i| newer_value(update, i)).collect()).collect();
    assert_eq!(records.rows, expected);
    assert_eq!(reader.latest(), Some(vec![35.0, 70.0, 8960.0, 700.0, 300.0]));

    // The archive of 1:8, which this version does not write, is the finest that gives so few points.
    let series = reader.series(2, heat, 1..=u64::MAX, 3);
    let found: Vec<_> = series.iter().map(|point| (point.update, point.x, point.min, point.max)).collect();
    let archived = (1..=8).map(|k| (8 * k - 7, 8 * k)).chain((65..=70).map(|update| (update, update)));
    let expected: Vec<_> = archived
        .map(|(first, last)| (last, newer_value(last, 2), newer_value(first, 4), newer_value(last, 4)))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(reader.summary(heat).count, 70);

    let status = reader.status();
    assert_eq!((status.health, status.reason.as_str()), (Health::Killed, ""));
    let path = "checkpoints/640".to_owned();
    assert_eq!(status.checkpoint, Some(SavedCheckpoint { env_steps: 640, path }));
    let events: Vec<_> = reader.events().into_iter().map(|event| (event.level, event.text)).collect();
    assert_eq!(events, [(Level::Info, "one".to_owned()), (Level::Info, "two".to_owned())]);
    let sample = reader.sample().unwrap();
    assert_eq!(sample.values[heat], 300.0);
    let cores = [(4, CoreKind::Uniform, 0.25), (5, CoreKind::Uniform, 0.5)];
    assert_eq!(sample.cores, cores.map(|(number, kind, utilization)| Core { number, kind, utilization }));
    let episode = reader.scene(2).unwrap();
    assert_eq!((episode.number, episode.fps), (3, 30.0));
    let shapes = vec![
        Shape::Circle { center: [0.5, 0.5], radius: 0.25, tone: 2 },
        Shape::Line { points: vec![[0.0, 0.0], [1.0, 1.0]], tone: 0 },
    ];
    assert_eq!(episode.frames, [shapes], "a primitive of an unknown kind is left out");
}

#[test]
fn a_ring_of_a_newer_major_version_is_refused_with_its_number() {
    if write_goldens() {
        let draft = Draft { major: 2, minor: 0, header_words: 128, parts: Vec::new() };
        fs::write(data("ring-2.0.bin"), bytes(&draft.words())).unwrap();
    }
    for read in [
        |path: &Path| RingReader::open(path).err(),
        |_: &Path| RingReader::of_words(words(&golden("ring-2.0.bin"))).err(),
    ] {
        let error = read(&data("ring-2.0.bin")).expect("refused").to_string();
        assert!(error.contains("layout version 2.0") && error.contains("reads 1.x"), "{error}");
        assert!(error.contains("; use the operant that trains the run"), "{error}");
    }
}
