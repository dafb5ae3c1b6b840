//! Share of a core and memory that a monitor takes on its own terminal at ten frames a second, while it shows a live run with a
//! million updates of history.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::monitors::Monitor;
use crate::{synthetic, training};

const UPDATES: u64 = 1_000_000;
/// Updates per second.
const RATE: f64 = 73.0;
/// How long the first screen may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time after the first screen, before the measurement begins.
const SETTLE: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(10);

/// Measures and prints.
pub fn run() -> Result<()> {
    let operant = training::operant()?;
    let dir = tempfile::tempdir_in("/dev/shm").context("cannot make a directory in /dev/shm")?;
    let total = UPDATES * 5 / 4;
    let mut ring = synthetic::long_run(dir.path(), UPDATES, total)?;
    let mut update = UPDATES;
    // Like a trainer, it publishes an episode and a sample of the machine at intervals.
    let mut publish = |length: Duration| {
        let (begun, first) = (Instant::now(), update);
        let mut sampled = Duration::ZERO;
        while begun.elapsed() < length {
            let due = first + (begun.elapsed().as_secs_f64() * RATE) as u64;
            while update < due {
                update += 1;
                ring.writer.publish(&synthetic::record(update, total, 0));
            }
            if begun.elapsed() >= sampled {
                sampled += Duration::from_millis(250);
                let values = synthetic::sampled(&synthetic::record(update, total, 0));
                ring.side.sample(&values, &synthetic::cores(update), update);
                ring.writer.show(&synthetic::episode(500));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    for (columns, rows) in [(80, 24), (250, 80)] {
        let mut monitor = Monitor::start(&operant, "long", dir.path(), (columns, rows))?;
        let started = Instant::now();
        while !monitor.has_drawn() {
            ensure!(started.elapsed() < PATIENCE, "the monitor draws nothing");
            publish(Duration::from_millis(100));
        }
        publish(SETTLE);
        monitor.restart_measurement();
        publish(MEASURED);
        let load = monitor.stop()?;
        println!(
            "live monitor at {columns}x{rows}, 10 frames a second over {:.0} s: {:.2}% of one core, at most {:.1} MiB resident, \
             {:.0} kB/s to the terminal",
            MEASURED.as_secs_f64(),
            load.load * 100.0,
            load.peak_memory / 1024.0 / 1024.0,
            load.bytes_per_second / 1e3
        );
    }
    Ok(())
}
