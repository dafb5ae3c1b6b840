//! Tests of writer and reader together, on real files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::{COUNT, MAX_ENV_METRICS, METRICS, Record, RunMetrics, Shape, position};

fn options() -> RingOptions {
    let capacity = Capacity { records: 64, archives: [32, 16, 16, 16], events: 8, cores: 4, scene: 512 };
    RingOptions { capacity, ..RingOptions::default() }
}

fn identity(run: &str) -> Identity {
    Identity { total_steps: 1_000_000, solved_at: Some(475.0), ..Identity::of_this_process(run, "cartpole") }
}

fn ring(dir: &Path) -> Ring {
    create_in(dir, &identity("mine"), &options()).unwrap()
}

/// A ring in a new directory, and its reader.
fn opened() -> (tempfile::TempDir, Ring, RingReader) {
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(dir.path());
    let reader = RingReader::open(ring.writer.path()).unwrap();
    (dir, ring, reader)
}

fn record(update: u64) -> Record {
    Record {
        update: update as f64,
        env_steps: update as f64 * 128.0,
        sps: update as f64,
        episodic_return: if update.is_multiple_of(2) { update as f64 } else { f64::NAN },
        ..Record::default()
    }
}

fn at(name: &str) -> usize {
    position(name).unwrap()
}

#[test]
fn a_published_record_is_read() {
    let (_dir, mut ring, reader) = opened();
    assert_eq!(reader.identity(), &identity("mine").started(reader.identity().started_unix_ns));
    assert_eq!(reader.schema().len(), COUNT);
    let before = reader.latest().unwrap();
    assert!(before[at("update")] == 0.0 && before[at("sps")].is_nan());
    assert_eq!((reader.published(), reader.status().since_update), (0, None));

    for update in 1..=3 {
        ring.writer.publish(&record(update));
    }
    let latest = reader.latest().unwrap();
    for (i, (value, metric)) in record(3).values().into_iter().zip(METRICS).enumerate() {
        assert!(latest[i] == value || latest[i].is_nan() && value.is_nan(), "{}", metric.name);
    }
    let records = reader.records(1);
    assert_eq!((records.first, records.rows.len(), records.skipped), (1, 2, 0));
    assert_eq!(reader.last_update(), 3);
    assert!(reader.status().since_update.is_some_and(|since| since < Duration::from_secs(60)));
}

impl Identity {
    fn started(mut self, unix_ns: u64) -> Self {
        self.started_unix_ns = unix_ns;
        self
    }
}

#[test]
fn overwritten_records_are_counted_and_never_shown() {
    let (_dir, mut ring, reader) = opened();
    (1..=100).for_each(|update| ring.writer.publish(&record(update)));
    let records = reader.records(0);
    assert_eq!((records.first, records.rows.len(), records.skipped), (36, 64, 36));
    assert_eq!(records.rows[0][at("update")], 37.0);
    assert_eq!(reader.records(1_000).rows.len(), 0);
}

/// Updates covered by a series, once each.
fn assert_covers(reader: &RingReader, points: usize, last: u64) {
    let series = reader.series(at("env_steps"), at("sps"), 1..=u64::MAX, points);
    let mut covered = 0;
    for point in &series {
        assert_eq!(point.x, point.update as f64 * 128.0);
        assert_eq!((point.min, point.last), ((covered + 1) as f64, point.update as f64), "{point:?}");
        assert_eq!(point.mean, (covered + 1 + point.update) as f64 / 2.0);
        covered = point.update;
    }
    assert_eq!(covered, last);
    assert!(series.len() <= 4 * points + 5 * 16, "{} for {points} after {last}", series.len());
    // The archives of these rings hold 512 updates at 1:16 and 4,096 at 1:256.
    if last < 512 {
        assert!(4 * series.len() >= points.min(last as usize), "{} for {points} after {last}", series.len());
    }
}

#[test]
fn a_series_covers_the_whole_run_once_at_every_length() {
    let (_dir, mut ring, reader) = opened();
    for update in 1..=20_000 {
        ring.writer.publish(&record(update));
        if update < 300 || update % 97 == 0 {
            for points in [1, 10, 100] {
                assert_covers(&reader, points, update);
            }
        }
    }
    let window = reader.series(at("update"), at("sps"), 19_950..=19_980, 100);
    assert_eq!(window.len(), 31);
    assert_eq!((window[0].x, window[30].x), (19_950.0, 19_980.0));
    let old = reader.series(at("update"), at("sps"), 5_000..=9_000, 10);
    assert!(old.first().is_some_and(|point| point.min <= 5_000.0 && point.update >= 5_000), "{old:?}");
    assert!(old.last().is_some_and(|point| point.update >= 9_000 && point.min <= 9_000.0), "{old:?}");
}

#[test]
fn a_summary_is_of_all_updates() {
    let (_dir, mut ring, reader) = opened();
    assert!(reader.summary(at("sps")).mean.is_nan());
    (1..=5_001).for_each(|update| ring.writer.publish(&record(update)));
    let sps = reader.summary(at("sps"));
    assert_eq!((sps.min, sps.max, sps.last, sps.count), (1.0, 5_001.0, 5_001.0, 5_001));
    assert!((sps.mean - 2_501.0).abs() < 1e-3, "{sps:?}");
    let returns = reader.summary(at("episodic_return"));
    assert_eq!((returns.min, returns.max, returns.last, returns.count), (2.0, 5_000.0, 5_000.0, 2_500));
    assert!(reader.summary(at("gpu_power")).last.is_nan());
}

#[test]
fn a_ring_has_a_column_for_each_metric_of_its_environment() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..MAX_ENV_METRICS).map(|k| format!("rate_{k}")).collect();
    let metrics = RunMetrics::new(names.iter().map(|name| (name.as_str(), "")));
    let mut ring = create_in(dir.path(), &identity("many"), &RingOptions { metrics, ..options() }).unwrap();
    for update in 1..=600 {
        let env = std::array::from_fn(|k| (update * (k as u64 + 1)) as f64);
        ring.writer.publish(&Record { env, ..record(update) });
    }
    let reader = RingReader::open(ring.writer.path()).unwrap();
    assert_eq!(reader.schema().len(), COUNT + MAX_ENV_METRICS);
    for k in 0..MAX_ENV_METRICS {
        let all = reader.summary(COUNT + k);
        let per_update = (k + 1) as f64;
        assert_eq!((all.min, all.max, all.count), (per_update, 600.0 * per_update, 600), "{k}");
        assert_eq!(reader.latest().unwrap()[COUNT + k], 600.0 * per_update);
    }
    assert_eq!(reader.summary(at("sps")).max, 600.0);
}

#[test]
fn refilled_history_is_drawn_and_does_not_count_as_progress() {
    let (_dir, mut ring, reader) = opened();
    (1..=1000).filter(|update| update % 4 == 0).for_each(|update| ring.writer.refill(&record(update)));
    assert_eq!(reader.status().since_update, None);
    (1001..=1010).for_each(|update| ring.writer.publish(&record(update)));
    let series = reader.series(at("update"), at("sps"), 1..=u64::MAX, 1000);
    assert_eq!(series.first().map(|point| point.min), Some(4.0));
    assert_eq!(series.last().map(|point| point.update), Some(1010));
    assert!(series.windows(2).all(|pair| pair[0].update < pair[1].min as u64), "no update twice");
}

#[test]
fn states_reasons_and_checkpoints_are_read() {
    let (_dir, mut ring, reader) = opened();
    assert_eq!(reader.status().health, Health::Reported(RunState::Starting));
    for state in RunState::ALL {
        let reason = if state.is_final() { "it was\ntime" } else { "" };
        ring.writer.set_state(state, reason);
        let status = reader.status();
        assert_eq!(
            (status.health, status.reason.as_str()),
            (Health::Reported(state), reason.replace('\n', " ").as_str())
        );
    }
    assert_eq!(reader.status().checkpoint, None);
    ring.writer.set_checkpoint(77, Path::new("/runs/mine/checkpoints/step_77"));
    let expected = SavedCheckpoint { env_steps: 77, path: "/runs/mine/checkpoints/step_77".to_owned() };
    assert_eq!(reader.status().checkpoint, Some(expected));
    ring.writer.set_state(RunState::Running, "");
    drop(ring);
    assert_eq!(reader.status().health, Health::Killed);
}

#[test]
fn a_long_reason_or_path_stays_in_its_slot() {
    let (_dir, mut ring, reader) = opened();
    ring.writer.set_state(RunState::Failed, &"é".repeat(1000));
    ring.writer.set_checkpoint(1, Path::new(&format!("{}/step_1", "é".repeat(2000))));
    let status = reader.status();
    assert!(status.reason.ends_with("é...") && status.reason.len() <= 432, "{}", status.reason.len());
    let path = status.checkpoint.unwrap().path;
    assert!(path.ends_with("é/step_1") && !path.contains('\u{fffd}'), "{path}");
}

#[test]
fn samples_override_the_record_and_events_keep_their_order() {
    let (_dir, mut ring, reader) = opened();
    assert_eq!(reader.sample(), None);
    ring.writer.publish(&Record { resident_memory: 1.0, ..record(1) });
    let mut values = [f64::NAN; COUNT];
    values[at("resident_memory")] = 2.0;
    let core = |number| Core { number, kind: CoreKind::Efficiency, utilization: 0.5 };
    ring.side.sample(&values, &(0..9).map(core).collect::<Vec<_>>(), 1);
    let latest = reader.latest().unwrap();
    assert_eq!((latest[at("resident_memory")], latest[at("sps")]), (2.0, 1.0));
    let cores = reader.sample().unwrap().cores;
    assert!(cores.len() >= 4 && cores[3] == core(3), "{cores:?}");

    for i in 0..12 {
        ring.side.event(Level::Warning, &format!("event\n{i} {}", "x".repeat(300 * (i % 2))));
    }
    let events = reader.events();
    assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), (4..12).collect::<Vec<_>>());
    assert_eq!((events[0].text.as_str(), events[0].level), ("event 4", Level::Warning));
    assert!(events[1].text.ends_with("xxx..."));
}

#[test]
fn the_newest_episode_is_shown() {
    let (_dir, mut ring, reader) = opened();
    assert_eq!(reader.scene(0), None);
    let frame = vec![Shape::Circle { center: [0.0, 1.0], radius: 2.0, tone: 3 }];
    let episode = Episode { fps: 50.0, frames: vec![frame; 3], ..Episode::default() };
    ring.writer.show(&episode);
    ring.writer.show(&episode);
    assert_eq!(reader.scene(0), Some(Episode { number: 2, ..episode }));
    assert_eq!(reader.scene(2), None);
}

#[test]
fn a_frozen_copy_does_not_change() {
    let (_dir, mut ring, reader) = opened();
    (1..=500).for_each(|update| ring.writer.publish(&record(update)));
    ring.side.event(Level::Info, "one");
    let frozen = reader.freeze();
    let series = |reader: &RingReader| reader.series(at("update"), at("sps"), 1..=u64::MAX, 100);
    let (seen, status) = (series(&reader), frozen.status());
    (501..=1500).for_each(|update| ring.writer.publish(&record(update)));
    ring.writer.set_state(RunState::Failed, "later");
    assert_eq!(series(&frozen), seen);
    assert_ne!(series(&reader), seen);
    assert_eq!((frozen.status(), frozen.events().len(), frozen.last_update()), (status, 1, 500));
}

#[test]
fn a_second_live_run_of_a_name_gets_a_number_and_a_dead_one_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (ring(dir.path()), ring(dir.path()));
    let stem = |ring: &Ring| ring.writer.path().file_stem().unwrap().to_str().unwrap().to_owned();
    assert_eq!((stem(&first).as_str(), stem(&second).as_str()), ("mine", "mine~2"));
    let reader = RingReader::open(first.writer.path()).unwrap();
    drop(first);
    assert_eq!(stem(&ring(dir.path())), "mine");
    assert_eq!(reader.presence(), FileState::Replaced);
}

#[test]
fn rings_of_ended_runs_do_not_pile_up() {
    let dir = tempfile::tempdir().unwrap();
    let live = ring(dir.path());
    for number in 0..20 {
        drop(create_in(dir.path(), &identity(&format!("run-{number}")), &options()).unwrap());
    }
    assert_eq!(
        rings_in(dir.path()).len(),
        1 + 8 + 1,
        "the live one, those kept, and the last, not yet removed"
    );
    assert!(live.writer.path().exists());
    let half_made = dir.path().join(".99999.tmp");
    fs::write(&half_made, "").unwrap();
    drop(create_in(dir.path(), &identity("last"), &options()).unwrap());
    assert!(!half_made.exists());
}

#[test]
fn a_lost_file_comes_back() {
    for damage in [Damage::Unlinked, Damage::Truncated, Damage::Overwritten] {
        let dir = tempfile::tempdir().unwrap();
        let mut ring = ring(dir.path());
        let path = ring.writer.path().to_owned();
        let reader = RingReader::open(&path).unwrap();
        (1..=40).for_each(|update| ring.writer.publish(&record(update)));
        ring.writer.set_state(RunState::Running, "");
        ring.writer.set_checkpoint(5, Path::new("five"));
        ring.side.event(Level::Info, "before");
        assert_eq!(ring.side.check(), None);
        match damage {
            Damage::Unlinked => fs::remove_file(&path).unwrap(),
            Damage::Truncated => fs::File::options().write(true).open(&path).unwrap().set_len(100).unwrap(),
            Damage::Overwritten => {
                use std::os::unix::fs::FileExt;
                let file = fs::File::options().write(true).open(&path).unwrap();
                file.write_all_at(&[7; 200_000], 0).unwrap();
            }
        }
        // A reader of the old file reads nothing wrong, and detects that it should reopen the path.
        let _ = (reader.latest(), reader.events(), reader.series(at("update"), at("sps"), 1..=u64::MAX, 10));
        assert_eq!(ring.side.check(), Some(damage));
        (41..=45).for_each(|update| ring.writer.publish(&record(update)));
        ring.side.event(Level::Warning, "after");
        assert_eq!(ring.side.check(), None);
        assert_eq!(reader.presence(), FileState::Replaced);
        let reader = RingReader::open(&path).unwrap();
        assert_eq!(reader.last_update(), 45);
        let kept = reader.records(0).rows.len();
        assert_eq!(kept, if damage == Damage::Unlinked { 45 } else { 5 }, "{damage:?}");
        assert_eq!(
            reader.events().iter().map(|event| event.text.as_str()).collect::<Vec<_>>(),
            ["before", "after"]
        );
        assert_eq!(reader.status().health, Health::Reported(RunState::Running));
        assert_eq!(reader.status().checkpoint.map(|saved| saved.env_steps), Some(5));
    }
}

#[test]
fn a_file_that_is_not_a_ring_is_refused_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let text = RingReader::open(&path).err().expect("refused").to_string();
        assert!(text.contains("; "), "no remedy in {text}");
        text
    };
    assert!(refused("empty", b"").contains("too short"));
    assert!(refused("text", &b"not a ring ".repeat(1000)).contains("not an operant ring"));
    let ring = ring(dir.path());
    let whole = fs::read(ring.writer.path()).unwrap();
    assert!(refused("half", &whole[..whole.len() / 2]).contains("truncated"));
    let mut newer = whole.clone();
    newer[20] = 2;
    assert!(refused("newer", &newer).contains("version 2.0"));
    let mut unready = whole;
    unready[127 * 8] ^= 1;
    assert!(refused("unready", &unready).contains("not ready"));
    let text = RingReader::open(&dir.path().join("none")).err().unwrap().to_string();
    assert!(text.contains("none") && text.contains("operant runs"), "{text}");
    assert!(RingReader::open(dir.path()).is_err());
}

#[test]
fn damage_that_training_detects_first_is_repaired_and_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut ring = ring(dir.path());
    let path = ring.writer.path().to_owned();
    let uptime = |path: &Path| RingReader::open(path).unwrap().status().uptime;
    (1..=40).for_each(|update| ring.writer.publish(&record(update)));
    let before = uptime(&path);
    fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    // The first accesses a missing page, the second replaces the file.
    (41..=42).for_each(|update| ring.writer.publish(&record(update)));
    assert_eq!(ring.side.check(), Some(Damage::Truncated));
    assert_eq!(ring.side.check(), None);
    assert_eq!(RingReader::open(&path).unwrap().last_update(), 42);
    assert!(uptime(&path) >= before);
    // A run that publishes no more records still writes its final state.
    fs::remove_file(&path).unwrap();
    assert_eq!(ring.side.check(), Some(Damage::Unlinked));
    ring.writer.set_state(RunState::Finished, "done");
    assert_eq!(RingReader::open(&path).unwrap().status().health, Health::Reported(RunState::Finished));
    assert_eq!(ring.side.check(), None);
}

#[test]
fn a_pause_is_as_old_as_its_beginning_while_the_heartbeat_goes_on() {
    let (_dir, mut ring, reader) = opened();
    ring.writer.set_state(RunState::Paused, "");
    let paused = std::time::Instant::now();
    let mut pulse = 0;
    while paused.elapsed() < Duration::from_millis(50) {
        pulse += 1;
        ring.side.sample(&[0.0; COUNT], &[], pulse);
    }
    let before = paused.elapsed();
    assert!(reader.status().since_progress >= before, "{:?}", reader.status());
}

#[test]
fn a_run_that_is_older_than_the_boot_has_ages_too() {
    let (_dir, mut ring, reader) = opened();
    ring.writer.set_state(RunState::Running, "");
    for update in 1..=40 {
        ring.writer.publish(&Record { time: 1e9 + update as f64 * 1e-6, ..record(update) });
    }
    let status = reader.status();
    assert!(status.since_update.is_some_and(|since| since < Duration::from_secs(60)), "{status:?}");
    assert!(status.since_progress < Duration::from_secs(60) && status.uptime < Duration::from_secs(60));
}

#[test]
fn training_does_not_wait_for_a_file_that_cannot_be_created() {
    let dir = tempfile::tempdir().unwrap();
    let mut ring = ring(dir.path());
    (1..=40).for_each(|update| ring.writer.publish(&record(update)));
    let path = ring.writer.path().to_owned();
    // Another trainer was stopped while it created its ring, and a directory has the name of the new file.
    let turn = fs::File::create(dir.path().join(".turn")).unwrap();
    turn.lock().unwrap();
    let temporary = dir.path().join(format!(".{}.tmp", std::process::id()));
    fs::create_dir(&temporary).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    let begun = std::time::Instant::now();
    (41..=5_000).for_each(|update| ring.writer.publish(&record(update)));
    // A wait at each of these would take an hour.
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    fs::remove_dir(&temporary).unwrap();
    let begun = std::time::Instant::now();
    while fs::metadata(&path).unwrap().len() == 0 {
        ring.writer.publish(&record(5_001));
        assert!(begun.elapsed() < Duration::from_secs(30), "it is tried again");
    }
}

/// A ring whose trainer says that its times are from long ago, as they look in another time namespace.
fn from_another_clock(dir: &std::path::Path, time_namespace: &str) -> (Ring, RingReader) {
    use std::os::unix::fs::FileExt;

    use super::layout::{sample, state};
    let identity = Identity { time_namespace: time_namespace.to_owned(), ..identity("far") };
    let mut ring = create_in(dir, &identity, &RingOptions::default()).unwrap();
    ring.writer.set_state(RunState::Running, "");
    ring.writer.publish(&Record::default());
    let reader = RingReader::open(ring.writer.path()).unwrap();
    let file = std::fs::File::options().write(true).open(ring.writer.path()).unwrap();
    let (state, sample) = (
        [state::PUBLISHED_AT, state::CHANGED_AT].map(|word| reader.sections.state.offset + word),
        // Behind the sequence of its slot.
        reader.sections.sample.offset + 1 + sample::PROGRESS_AT,
    );
    for word in state.into_iter().chain([sample]) {
        file.write_all_at(&1_u64.to_ne_bytes(), word as u64 * 8).unwrap();
    }
    (ring, reader)
}

#[test]
fn a_run_with_another_clock_is_stalled_only_when_the_reader_sees_nothing_change() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ring, reader) = from_another_clock(dir.path(), "time:[1]");
    assert!(!reader.shares_clock());
    assert_eq!(reader.status().health, Health::Reported(RunState::Running));
    reader.watch.age(STALL + Duration::from_secs(1));
    let status = reader.status();
    assert_eq!(status.health, Health::Stalled);
    assert!(status.since_progress > STALL && status.uptime < Duration::from_secs(60), "{status:?}");
    ring.writer.publish(&Record::default());
    assert_eq!(reader.status().health, Health::Reported(RunState::Running));
    drop(ring);
    let (_ring, reader) = from_another_clock(dir.path(), &Identity::of_this_process("", "").time_namespace);
    assert!(reader.shares_clock());
    assert_eq!(reader.status().health, Health::Stalled, "by the same clock it is long ago");
}

#[test]
fn a_summary_holds_its_newest_value() {
    let old = MetricSummary {
        min: f64::from(0.1_f32),
        max: f64::from(0.1_f32),
        mean: f64::from(0.1_f32),
        last: 0.1,
        count: 9,
    };
    let new = old.with_newest(0.1);
    assert!(new.min <= new.last && new.last <= new.max && new.last == 0.1);
    assert_eq!(old.with_newest(f64::NAN), old);
    assert_eq!(MetricSummary::of(&[]).with_newest(2.0).mean, 2.0);
}
