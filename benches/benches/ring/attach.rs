//! Milliseconds from nothing to the data of a first screen: a ring with a million updates behind it is opened, and ten
//! metrics are read over the whole run.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use benches::Spread;
use operant_metrics::{Identity, Record, RingReader, create_in};

const UPDATES: u64 = 1_000_000;
const REPETITIONS: usize = 25;
/// Columns of a chart on a wide terminal, twice.
const POINTS: usize = 400;
const METRICS: [&str; 10] = [
    "episodic_return",
    "sps",
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "clipfrac",
    "explained_variance",
    "grad_norm",
    "learning_rate",
];

/// Measures and prints.
pub fn run() -> Result<()> {
    let dir = tempfile::tempdir_in("/dev/shm").context("cannot make a directory in /dev/shm")?;
    let mut ring = create_in(dir.path(), &Identity::of_this_process("bench", "none"), &Default::default())?;
    let mut record = Record::from_values(std::array::from_fn(|metric| metric as f64));
    for update in 1..=UPDATES {
        (record.update, record.env_steps) = (update as f64, update as f64 * 1024.0);
        record.sps = (update % 1000) as f64;
        ring.writer.publish(&record);
    }

    let (mut times, mut points) = (Vec::new(), 0);
    for _ in 0..REPETITIONS {
        let begin = Instant::now();
        let reader = RingReader::open(ring.writer.path())?;
        let x = reader.schema().position("env_steps").context("no env_steps")?;
        points = 0;
        for name in METRICS {
            let y = reader.schema().position(name).with_context(|| format!("no {name}"))?;
            let series = reader.series(x, y, 1..=u64::MAX, POINTS);
            let ends = (series.first().map(|point| point.x), series.last().map(|point| point.x));
            ensure!(
                ends.0.is_some() && ends.1 == Some(UPDATES as f64 * 1024.0),
                "{name} is not whole: {ends:?}"
            );
            points += series.len();
            black_box((series, reader.summary(y)));
        }
        black_box((reader.status(), reader.latest(), reader.events(), reader.scene(0)));
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    println!(
        "attach after {UPDATES} updates and read {} metrics whole, {points} points: {:.2} ms",
        METRICS.len(),
        Spread::of(times)
    );
    Ok(())
}
