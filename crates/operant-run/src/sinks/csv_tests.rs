//! What `metrics.csv` holds after writing, thinning, killing and resuming.

use operant_metrics::COUNT;

use super::*;

/// 100 environment steps per update, and values of every special kind.
fn record(update: u64) -> Record {
    Record {
        update: update as f64,
        env_steps: update as f64 * 100.0,
        time: update as f64 / 3.0,
        approx_kl: 1.5e-9,
        policy_loss: -0.1,
        value_loss: f64::INFINITY,
        ..Record::default()
    }
}

fn updates(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap(), header(RunMetrics::default()).trim_end());
    lines.map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect()
}

fn write(sink: &mut CsvSink, updates: std::ops::RangeInclusive<u64>) {
    for update in updates {
        sink.record(&record(update)).unwrap();
    }
    sink.flush().unwrap();
}

#[test]
fn a_row_reads_back_to_the_same_bits_and_nan_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    write(&mut CsvSink::create(&path, RunMetrics::default()).unwrap(), 1..=1);
    let text = fs::read_to_string(&path).unwrap();
    let (names, row) = text.trim_end().split_once('\n').unwrap();
    assert_eq!(names.split(',').count(), COUNT);
    for ((name, cell), expected) in names.split(',').zip(row.split(',')).zip(record(1).values()) {
        match cell {
            "" => assert!(expected.is_nan(), "{name}"),
            cell => assert_eq!(cell.parse::<f64>().unwrap().to_bits(), expected.to_bits(), "{name}"),
        }
    }
    assert!(row.contains(",1.5e-9,") && row.contains(",inf,") && row.contains(",100,"), "{row}");
}

#[test]
fn resume_drops_rows_past_the_checkpoint_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    write(&mut CsvSink::create(&path, RunMetrics::default()).unwrap(), 1..=9);
    let mut sink = CsvSink::resume(&path, RunMetrics::default(), 500).unwrap();
    assert_eq!(updates(&path), [1, 2, 3, 4, 5]);
    write(&mut sink, 6..=7);
    assert_eq!(updates(&path), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a temporary was left");
}

#[test]
fn an_incomplete_line_is_dropped_and_complete_ones_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    write(&mut CsvSink::create(&path, RunMetrics::default()).unwrap(), 1..=3);
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..whole.len()).filter(|&i| whole[i] == b'\n').map(|i| i + 1).collect();
    for cut in ends[0]..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        CsvSink::resume(&path, RunMetrics::default(), 1000).unwrap();
        let rows = ends.iter().filter(|&&end| end <= cut).count() - 1;
        assert_eq!(updates(&path).len(), rows, "cut at {cut}");
    }
    let mut garbage = whole.clone();
    garbage.extend_from_slice(b"\xff\xfe,\0\n1,2,3\n\n");
    fs::write(&path, garbage).unwrap();
    CsvSink::resume(&path, RunMetrics::default(), 1000).unwrap();
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn a_missing_file_is_created_and_one_with_unknown_columns_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    write(&mut CsvSink::resume(&path, RunMetrics::default(), 0).unwrap(), 1..=1);
    assert_eq!(updates(&path), [1]);
    for (n, foreign) in ["step,return\n1,2\n", "time,upd"].iter().enumerate() {
        fs::write(&path, foreign).unwrap();
        write(&mut CsvSink::resume(&path, RunMetrics::default(), 1000).unwrap(), 2..=2);
        assert_eq!(updates(&path), [2]);
        let aside = dir.path().join(format!("metrics.{}.csv", n + 1));
        assert_eq!(fs::read_to_string(aside).unwrap(), *foreign);
    }
}

#[test]
fn a_file_of_an_earlier_table_continues_with_current_columns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    fs::write(&path, "env_steps,update,policy_loss\n100,1,-0.5\n200,2,\n300,3,7\n").unwrap();
    assert_eq!(last_row(&path).unwrap().policy_loss, 7.0);
    write(&mut CsvSink::resume(&path, RunMetrics::default(), 200).unwrap(), 3..=3);
    assert_eq!(updates(&path), [1, 2, 3]);
    let mut losses = Vec::new();
    each_row(&path, 1000, |row| losses.push(row.policy_loss)).unwrap();
    assert!(losses[0] == -0.5 && losses[1].is_nan() && losses[2] == -0.1, "{losses:?}");
}

#[test]
fn rows_are_bounded_and_a_resumed_run_has_the_same_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    let mut sink = CsvSink::create(&path, RunMetrics::default()).unwrap();
    sink.max_rows = 10;
    for update in 1..=100 {
        write(&mut sink, update..=update);
        let rows = updates(&path);
        assert!(rows.len() <= 10, "{update}: {rows:?}");
        let step = stride(update, 10);
        assert_eq!(rows, (1..=update).filter(|u| u % step == 0).collect::<Vec<_>>());
    }
    let (at_100, straight) = (fs::read(&path).unwrap(), dir.path().join("straight.csv"));
    write(&mut sink, 101..=200);
    fs::copy(&path, &straight).unwrap();
    for checkpoint in [1, 10, 39, 64, 100] {
        fs::write(&path, &at_100).unwrap();
        let mut sink = CsvSink::resume(&path, RunMetrics::default(), checkpoint * 100).unwrap();
        sink.max_rows = 10;
        write(&mut sink, checkpoint + 1..=200);
        assert_eq!(fs::read(&path).unwrap(), fs::read(&straight).unwrap(), "resumed at {checkpoint}");
    }
}

#[test]
fn errors_name_the_file_and_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("gone").join("metrics.csv");
    let text = CsvSink::create(&missing, RunMetrics::default()).err().unwrap().to_string();
    assert!(text.contains("gone/metrics.csv") && text.contains("check the path"), "{text}");
    let text = CsvSink::resume(dir.path(), RunMetrics::default(), 0).err().unwrap().to_string();
    assert!(text.contains("rename what"), "{text}");
}

#[test]
fn rows_are_read_back_up_to_a_step_and_the_last_one_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    assert_eq!(last_row(&path), None);
    write(&mut CsvSink::create(&path, RunMetrics::default()).unwrap(), 1..=300);
    let mut text = fs::read(&path).unwrap();
    let mut read = Vec::new();
    each_row(&path, 2_000, |row| read.push(row.update)).unwrap();
    assert_eq!(read, (1..=20).map(f64::from).collect::<Vec<_>>());
    assert_eq!(last_row(&path).unwrap().update, 300.0);
    text.truncate(text.len() - 3);
    fs::write(&path, &text).unwrap();
    assert_eq!(last_row(&path).unwrap().update, 299.0, "the incomplete row is skipped");
    fs::write(&path, "a,b\n1,2\n").unwrap();
    assert_eq!(last_row(&path), None);
    each_row(&path, 2_000, |row| panic!("{row:?} of another table")).unwrap();
}

#[test]
fn metrics_of_the_environment_are_columns_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    let metrics = RunMetrics::new([("success", ""), ("score", "")]);
    let with = |update, success| {
        let mut record = record(update);
        record.env[..2].copy_from_slice(&[success, 7.5]);
        record
    };
    let mut sink = CsvSink::create(&path, metrics).unwrap();
    sink.record(&with(1, 0.25)).unwrap();
    sink.record(&with(2, f64::NAN)).unwrap();
    sink.flush().unwrap();
    assert_eq!(env_columns(&path).unwrap(), ["success", "score"]);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.lines().next().unwrap().ends_with(",success,score") && text.ends_with(",,7.5\n"), "{text}");
    assert_eq!(last_row(&path).unwrap().env[1], 7.5);
    // The same metrics continue the columns, others begin theirs.
    let mut sink = CsvSink::resume(&path, metrics, 100).unwrap();
    sink.record(&with(2, 0.75)).unwrap();
    sink.flush().unwrap();
    let mut read = Vec::new();
    each_row(&path, 1000, |row| read.push(row.env[0])).unwrap();
    assert_eq!(read, [0.25, 0.75]);
    let others = RunMetrics::new([("other", ""), ("score", "")]);
    let mut read = Vec::new();
    each_row_of(&path, others, 1000, |row| read.push((row.env[0].is_nan(), row.env[1]))).unwrap();
    assert_eq!(read, [(true, 7.5); 2]);
    CsvSink::resume(&path, others, 1000).unwrap();
    assert_eq!(env_columns(&path).unwrap(), ["other", "score"]);
    assert_eq!(last_row(&path).unwrap().env[1], 7.5);
}
