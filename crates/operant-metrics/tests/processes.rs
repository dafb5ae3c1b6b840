//! The ring between real processes: trainers that are killed or stopped in the middle of a write, files that are
//! truncated under ten readers. The test program starts itself again for each role.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::at;
use operant_metrics::{
    COUNT, Capacity, Episode, FileState, Health, Identity, Level, Record, RingOptions, RingReader, RunState,
    Shape, create_in,
};
use rustix::process::{Pid, Signal, kill_process};

const ROLE: &str = "OPERANT_TEST_ROLE";
const DIR: &str = "OPERANT_TEST_DIR";
const RUN: &str = "writer";
/// Longer than any condition may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> RingOptions {
    let capacity = Capacity { records: 64, archives: [64, 32, 16, 16], events: 8, cores: 4, scene: 512 };
    RingOptions { capacity, ..RingOptions::default() }
}

/// The value of a metric in the record of an update. `time` passes more slowly than the writer publishes.
fn value(update: u64, metric: usize) -> f64 {
    match metric {
        _ if metric == at("update") => update as f64,
        _ if metric == at("time") => update as f64 * 1e-9,
        _ => (update * 64 + metric as u64) as f64,
    }
}

/// The update of a record; panics on a mixture of two.
fn update_of(row: &[f64]) -> u64 {
    let update = row[at("update")] as u64;
    for (metric, found) in row.iter().enumerate() {
        assert_eq!(*found, value(update, metric), "a mixture: metric {metric} of update {update}");
    }
    update
}

/// A role in its own process; killed if the test ends first.
struct Role(Child);

impl Role {
    fn start(role: &str, dir: &Path) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", "processes::a_role_in_a_process_of_its_own", "--nocapture"]);
        command.env(ROLE, role).env(DIR, dir).stdin(Stdio::null()).stdout(Stdio::null());
        Role(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Waits for the role to succeed.
    fn join(mut self, who: &str) {
        let status = until(who, || self.0.try_wait().unwrap());
        assert!(status.success(), "{who}: {status}");
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a condition holds.
fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(it) = condition() {
            return it;
        }
        assert!(begin.elapsed() < PATIENCE, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ring_path(dir: &Path) -> PathBuf {
    dir.join(format!("{RUN}.ring"))
}

/// The writer's ring, once it exists.
fn open(dir: &Path) -> RingReader {
    until("a ring", || RingReader::open(&ring_path(dir)).ok())
}

fn published_beyond(reader: &RingReader, number: u64) {
    until("more records", || (reader.published() > number).then_some(()));
}

#[test]
fn a_role_in_a_process_of_its_own() {
    let (Some(role), Some(dir)) = (std::env::var_os(ROLE), std::env::var_os(DIR)) else {
        return;
    };
    let dir = Path::new(&dir);
    match role.to_str().unwrap() {
        "writer" => write(dir),
        "reader" => read(dir),
        "watcher" => watch_a_truncation(dir),
        role => panic!("no role {role}"),
    }
}

/// Publishes as fast as it can until it is killed.
fn write(dir: &Path) {
    let mut ring = create_in(dir, &Identity::of_this_process(RUN, "cartpole"), &options()).unwrap();
    ring.writer.set_state(RunState::Running, "");
    let frame = vec![Shape::Circle { center: [0.0; 2], radius: 1.0, tone: 1 }];
    for update in 1.. {
        ring.writer.publish(&Record::from_values(std::array::from_fn(|metric| value(update, metric))));
        if update % 1000 == 0 {
            let x = update as f32;
            let frames = vec![frame.clone(); (update / 1000 % 7) as usize];
            ring.writer.show(&Episode { fps: x, episodic_return: x, frames, ..Episode::default() });
            ring.side.sample(&[f64::NAN; COUNT], &[], update);
            ring.side.event(Level::Info, &format!("update {update} of {update}"));
            ring.side.check();
        }
    }
}

/// Reads everything until the writer dies, and a little longer.
fn read(dir: &Path) {
    let reader = open(dir);
    let (mut next, mut newest, mut checked) = (0, 0, 0u64);
    let mut look = |reader: &RingReader| {
        let records = reader.records(next);
        for row in &records.rows {
            let update = update_of(row);
            assert!(update > newest, "update {update} came after {newest}");
            newest = update;
        }
        checked += records.rows.len() as u64;
        next = newest;
        if let Some(latest) = reader.latest().filter(|latest| latest[at("update")] > 0.0) {
            assert!(update_of(&latest) >= newest);
        }
        for event in reader.events() {
            let (first, second) = event.text["update ".len()..].split_once(" of ").unwrap();
            assert!(first == second && first.parse() == Ok((event.number + 1) * 1000), "{event:?}");
        }
        if let Some(episode) = reader.scene(0) {
            assert_eq!((episode.fps, episode.episodic_return), ((episode.number * 1000) as f32, episode.fps));
            assert_eq!(episode.frames.len() as u64, episode.number % 7);
        }
        let series = reader.series(at("update"), at("sps"), 1..=u64::MAX, 20);
        for two in series.windows(2) {
            assert!(two[0].update < two[1].update && two[0].max < two[1].max, "{two:?}");
        }
        for point in &series {
            assert!(
                point.min <= point.mean && point.mean <= point.max && point.last == point.max,
                "{point:?}"
            );
        }
        checked
    };
    until("the writer's death", || {
        look(&reader);
        (reader.status().health == Health::Killed).then_some(())
    });
    let before = look(&reader);
    (0..100).for_each(|_| _ = look(&reader));
    assert_eq!(look(&reader), before, "a dead run has no new records");
    assert!(before > 0, "the reader read no record");
}

#[test]
fn a_writer_killed_during_a_write_loses_one_slot_and_readers_continue() {
    // Each kill hits another point, most of them a record, since the writer does little else.
    for attempt in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let writer = Role::start("writer", dir.path());
        let readers: Vec<_> = (0..2).map(|_| Role::start("reader", dir.path())).collect();
        let reader = open(dir.path());
        published_beyond(&reader, 20_000 + 9_973 * attempt);
        assert!(reader.status().health == Health::Reported(RunState::Running), "{:?}", reader.status());

        writer.signal(Signal::KILL);
        until("killed", || (reader.status().health == Health::Killed).then_some(()));

        let published = reader.published();
        let records = reader.records(0);
        let held = options().capacity.records as u64;
        assert_eq!(records.first, published - held);
        assert!(records.rows.len() as u64 >= held - 1, "{} of {held}", records.rows.len());
        assert_eq!(records.rows.last().map(|row| update_of(row)), Some(published));
        assert_eq!(update_of(&reader.latest().unwrap()), published);
        let events = reader.events().len();
        assert!(events >= options().capacity.events - 1, "{events} events");
        readers.into_iter().for_each(|role| role.join("a reader"));

        // Its name is free, and the next run of that name replaces the file.
        let next = create_in(dir.path(), &Identity::of_this_process(RUN, "cartpole"), &options()).unwrap();
        assert_eq!(next.writer.path(), ring_path(dir.path()));
        assert_eq!(reader.presence(), FileState::Replaced);
    }
}

#[test]
fn a_stopped_writer_is_stalled_and_runs_once_continued() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Role::start("writer", dir.path());
    let reader = open(dir.path());
    published_beyond(&reader, 1_000);
    writer.signal(Signal::STOP);
    let health = until("not running", || {
        let health = reader.status().health;
        (health != Health::Reported(RunState::Running)).then_some(health)
    });
    assert_eq!(health, Health::Stalled);
    let published = reader.published();
    assert_eq!(update_of(&reader.latest().unwrap()), published, "a stopped writer's records are read");
    assert!(reader.records(0).rows.len() >= options().capacity.records - 1);

    writer.signal(Signal::CONT);
    until("running again", || (reader.status().health == Health::Reported(RunState::Running)).then_some(()));
    published_beyond(&reader, published);

    // Stopped and then killed: dead, not stalled.
    writer.signal(Signal::STOP);
    writer.signal(Signal::KILL);
    until("killed", || (reader.status().health == Health::Killed).then_some(()));
}

/// Reads until the file is truncated, then the file that replaces it.
fn watch_a_truncation(dir: &Path) {
    let mut reader = open(dir);
    let look = |reader: &RingReader| {
        let records = reader.records(0);
        records.rows.iter().for_each(|row| _ = update_of(row));
        if let Some(latest) = reader.latest().filter(|latest| latest[at("update")] > 0.0) {
            update_of(&latest);
        }
        let _ = (reader.events(), reader.scene(0), reader.sample(), reader.summary(at("sps")));
        for point in reader.series(at("update"), at("sps"), 1..=u64::MAX, 20) {
            assert!(point.min <= point.mean && point.mean <= point.max, "{point:?}");
        }
        records.rows.len()
    };
    File::create(dir.join(format!("ready-{}", std::process::id()))).unwrap();
    until("a truncation", || {
        look(&reader);
        (reader.presence() != FileState::Here).then_some(())
    });
    let _ = (reader.status(), reader.freeze());
    let again = until("a new ring", || match RingReader::open(&ring_path(dir)) {
        Ok(again) if again.presence() == FileState::Here => Some(again),
        _ => None,
    });
    reader = again;
    let mut checked = 0;
    until("records of the new ring", || {
        checked += look(&reader);
        (checked > 1_000).then_some(())
    });
}

#[test]
fn a_file_truncated_under_ten_readers_harms_none_and_is_replaced() {
    for length in [0, 5_000] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Role::start("writer", dir.path());
        let reader = open(dir.path());
        published_beyond(&reader, 1_000);
        let watchers: Vec<_> = (0..10).map(|_| Role::start("watcher", dir.path())).collect();
        let ready = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("ready-");
        until("ten readers", || {
            let ready = fs::read_dir(dir.path()).unwrap().flatten().filter(ready).count();
            (ready == watchers.len()).then_some(())
        });
        File::options().write(true).open(ring_path(dir.path())).unwrap().set_len(length).unwrap();
        watchers.into_iter().for_each(|role| role.join("a watcher"));
        assert!(writer.0.try_wait().unwrap().is_none(), "the writer lives");
        assert_eq!(reader.presence(), FileState::Replaced);
        let reader = open(dir.path());
        assert_eq!(reader.status().health, Health::Reported(RunState::Running));
        published_beyond(&reader, reader.published() + 1_000);
    }
}

#[test]
fn a_reused_process_id_does_not_make_a_dead_run_live() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Role::start("writer", dir.path());
    let reader = open(dir.path());
    published_beyond(&reader, 100);
    drop(writer);
    // The same ring, with this process as its writer.
    let dead = reader.identity().pid.to_string();
    let own = format!("{:0width$}", std::process::id(), width = dead.len());
    let (dead, own) = (format!("pid\t{dead}\n"), format!("pid\t{own}\n"));
    let mut bytes = fs::read(ring_path(dir.path())).unwrap();
    let place = bytes.windows(dead.len()).position(|window| window == dead.as_bytes()).unwrap();
    bytes[place..place + own.len()].copy_from_slice(own.as_bytes());
    let path = dir.path().join("reused.ring");
    fs::write(&path, bytes).unwrap();
    let reader = RingReader::open(&path).unwrap();
    assert_eq!(reader.identity().pid, std::process::id());
    assert_eq!(reader.status().health, Health::Killed);
}
