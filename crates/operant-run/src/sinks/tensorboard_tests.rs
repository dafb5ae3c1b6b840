//! Event files read back: by these tests, and by TensorBoard's own reader if it is installed.

use std::io::Write as _;
use std::process::Command;

use super::event::{Value, field};
use super::*;

fn record(update: u64) -> Record {
    Record {
        update: update as f64,
        env_steps: update as f64 * 100.0,
        policy_loss: -0.25 * update as f64,
        episodic_return: if update.is_multiple_of(2) { f64::NAN } else { 10.0 * update as f64 },
        ..Record::default()
    }
}

fn hyperparameters() -> Vec<(String, toml::Value)> {
    let values: [(&str, toml::Value); 4] = [
        ("environment", "cartpole".into()),
        ("gamma", 0.75.into()),
        ("num_envs", 16.into()),
        ("anneal_lr", true.into()),
    ];
    values.map(|(name, value)| (name.to_string(), value)).into()
}

fn write(sink: &mut TensorBoardSink, updates: std::ops::RangeInclusive<u64>) {
    for update in updates {
        sink.record(&record(update)).unwrap();
    }
    sink.sync().unwrap();
}

/// Every (step, tag, value) of a directory's event files, in order.
fn read_dir(dir: &Path) -> Vec<(u64, String, f32)> {
    let mut scalars = Vec::new();
    for name in event_files(dir).unwrap() {
        let (mut file, mut data) = (BufReader::new(File::open(dir.join(name)).unwrap()), Vec::new());
        assert!(tfrecord::read(&mut file, &mut data).unwrap());
        assert!(data.ends_with(b"brain.Event:2"), "the first event of a file is its version");
        while tfrecord::read(&mut file, &mut data).unwrap() {
            let step = event::step(&data).unwrap();
            let mut event = &data[..];
            while let Some((number, value)) = field(&mut event) {
                let (5, Value::Bytes(mut summary)) = (number, value) else {
                    continue;
                };
                while let Some((1, Value::Bytes(mut value))) = field(&mut summary) {
                    let Some((1, Value::Bytes(tag))) = field(&mut value) else { panic!("no tag") };
                    let tag = String::from_utf8(tag.to_vec()).unwrap();
                    if tag.starts_with("_hparams_/") {
                        continue;
                    }
                    let Some((2, Value::Bytes(bits))) = field(&mut value) else { panic!("no value") };
                    scalars.push((step, tag, f32::from_le_bytes(bits.try_into().unwrap())));
                }
            }
        }
    }
    scalars
}

fn steps_of(dir: &Path, tag: &str) -> Vec<u64> {
    read_dir(dir).into_iter().filter(|(_, t, _)| t == tag).map(|(step, ..)| step).collect()
}

#[test]
fn scalars_round_trip_and_nan_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    write(
        &mut TensorBoardSink::create(dir.path(), RunMetrics::default(), &hyperparameters()).unwrap(),
        1..=3,
    );
    let expected: Vec<_> = (1..=3)
        .flat_map(|update| {
            let record = record(update);
            let values =
                operant_metrics::METRICS.iter().zip(record.values()).filter(|(_, value)| !value.is_nan());
            values.map(|(m, value)| (update * 100, m.tag(), value as f32)).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(read_dir(dir.path()), expected);
    assert_eq!(steps_of(dir.path(), "charts/episodic_return"), [100, 300]);
    assert!(steps_of(dir.path(), "losses/value_loss").is_empty());
}

#[test]
fn resume_truncates_later_and_incomplete_events_and_starts_a_new_file() {
    let dir = tempfile::tempdir().unwrap();
    write(
        &mut TensorBoardSink::create(dir.path(), RunMetrics::default(), &hyperparameters()).unwrap(),
        1..=5,
    );
    write(&mut TensorBoardSink::resume(dir.path(), RunMetrics::default(), &[], 300).unwrap(), 4..=6);
    assert_eq!(steps_of(dir.path(), "losses/policy_loss"), [100, 200, 300, 400, 500, 600]);
    let files = event_files(dir.path()).unwrap();
    assert_eq!(files.len(), 2);
    let last = dir.path().join(&files[1]);
    let length = fs::metadata(&last).unwrap().len();
    File::options().write(true).open(&last).unwrap().set_len(length - 5).unwrap();
    let sink = TensorBoardSink::resume(dir.path(), RunMetrics::default(), &[], 10_000).unwrap();
    assert!(sink.path() > last.as_path(), "{} sorts before {}", sink.path().display(), last.display());
    assert_eq!(steps_of(dir.path(), "losses/policy_loss"), [100, 200, 300, 400, 500]);
    drop(TensorBoardSink::resume(dir.path(), RunMetrics::default(), &[], 200).unwrap());
    assert_eq!(steps_of(dir.path(), "losses/policy_loss"), [100, 200]);
}

#[test]
fn long_runs_are_thinned_increasingly() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = TensorBoardSink::create(dir.path(), RunMetrics::default(), &hyperparameters()).unwrap();
    let n = DENSE_UPDATES;
    write(&mut sink, n - 1..=n + 4);
    write(&mut sink, 2 * n - 2..=2 * n + 8);
    let updates: Vec<_> = steps_of(dir.path(), "charts/update").iter().map(|step| step / 100).collect();
    assert_eq!(updates, [n - 1, n, n + 2, n + 4, 2 * n - 2, 2 * n, 2 * n + 4, 2 * n + 8]);
}

#[test]
fn an_unwritable_directory_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let text = TensorBoardSink::create(dir.path().join("gone"), RunMetrics::default(), &[])
        .err()
        .unwrap()
        .to_string();
    assert!(text.contains("gone") && text.contains("check the path"), "{text}");
}

/// A Python with TensorBoard: `OPERANT_TEST_PYTHON`, which must work when set, or `python3` if it has it.
fn python() -> Option<String> {
    let works = |python: &str| {
        let imports = "import tensorboard.backend.event_processing.event_accumulator";
        Command::new(python).args(["-c", imports]).output().is_ok_and(|output| output.status.success())
    };
    if let Ok(python) = std::env::var("OPERANT_TEST_PYTHON") {
        assert!(works(&python), "OPERANT_TEST_PYTHON={python} cannot import tensorboard");
        return Some(python);
    }
    works("python3").then(|| "python3".to_owned())
}

/// A directory as read by TensorBoard's own reader: every (step, tag, value), by tag.
fn read_with_tensorboard(python: &str, dir: &Path) -> Vec<(u64, String, f32)> {
    let script = "
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})
events.Reload()
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
start = events.SummaryMetadata('_hparams_/session_start_info')
given = HParamsPluginData.FromString(start.plugin_data.content).session_start_info.hparams
assert start.plugin_data.plugin_name == 'hparams'
if len(given) > 0:
    assert given['environment'].string_value == 'cartpole' and given['gamma'].number_value == 0.75
    assert given['num_envs'].number_value == 16 and given['anneal_lr'].bool_value is True
for tag in events.Tags()['scalars']:
    for scalar in events.Scalars(tag):
        print(scalar.step, tag, scalar.value)
";
    let output = Command::new(python).args(["-c", script]).arg(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        (word().parse().unwrap(), word().to_owned(), word().parse().unwrap())
    };
    std::str::from_utf8(&output.stdout).unwrap().lines().map(parse).collect()
}

#[test]
fn tensorboards_own_reader_agrees() {
    let Some(python) = python() else {
        // Written to the descriptor: a passing test's captured output is not shown.
        let _ = writeln!(
            io::stderr(),
            "SKIPPED tensorboards_own_reader_agrees: no python3 with tensorboard; \
             cargo xtask python makes one"
        );
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let agree = || {
        let (mut theirs, mut ours) = (read_with_tensorboard(&python, dir.path()), read_dir(dir.path()));
        theirs.sort_by(|a, b| (&a.1, a.0).cmp(&(&b.1, b.0)));
        ours.sort_by(|a, b| (&a.1, a.0).cmp(&(&b.1, b.0)));
        assert!(!ours.is_empty());
        assert_eq!(theirs, ours);
    };
    write(
        &mut TensorBoardSink::create(dir.path(), RunMetrics::default(), &hyperparameters()).unwrap(),
        1..=40,
    );
    agree();

    let first = dir.path().join(&event_files(dir.path()).unwrap()[0]);
    let uncut = fs::read(&first).unwrap();
    write(&mut TensorBoardSink::resume(dir.path(), RunMetrics::default(), &[], 2500).unwrap(), 27..=30);
    agree();

    // A reader that read the first file before it was truncated discards the later events.
    fs::write(&first, uncut).unwrap();
    let theirs = read_with_tensorboard(&python, dir.path());
    let updates =
        theirs.into_iter().filter(|(_, tag, _)| tag == "charts/update").map(|(step, ..)| step / 100);
    assert_eq!(updates.collect::<Vec<_>>(), (1..=25).chain(27..=30).collect::<Vec<_>>());
}
