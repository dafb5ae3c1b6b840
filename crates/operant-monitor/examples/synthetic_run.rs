//! Publishes a synthetic run for some seconds, to try the monitor without training:
//! `cargo run -p operant-monitor --example synthetic_run -- --seconds 60`, and `operant-monitor` in another terminal.

mod synthetic;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use operant_metrics::{Level, RingError, RingOptions, RunState, create};

/// How the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum End {
    /// All steps taken.
    Finished,
    /// Stopped by a signal.
    Preempted,
    /// An error.
    Failed,
    /// No last word, as after kill -9.
    Killed,
}

/// A synthetic training run.
#[derive(Debug, Parser)]
struct Options {
    /// Name of the run
    #[arg(long, default_value = "synthetic")]
    name: String,
    /// Updates that lie behind it already
    #[arg(long, default_value_t = 1500)]
    history: u64,
    /// Updates in all
    #[arg(long, default_value_t = 6000)]
    updates: u64,
    /// Updates per second
    #[arg(long, default_value_t = 73.0)]
    rate: f64,
    /// How long it lives, in seconds
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Another seed, another curve
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How it ends
    #[arg(long, value_enum, default_value = "killed")]
    end: End,
}

fn main() -> ExitCode {
    match publish(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn publish(options: &Options) -> Result<(), RingError> {
    let identity = synthetic::identity(&options.name, options.updates);
    let mut ring = create(&identity, &RingOptions::default())?;
    println!("{}", ring.writer.path().display());
    ring.side.event(Level::Info, "cpu: 16 threads, AVX-512");
    for i in 1..=options.history {
        ring.writer.refill(&synthetic::record(i, options.updates, options.seed));
    }
    ring.writer.set_state(RunState::Running, "");
    let started = Instant::now();
    let (mut update, mut sampled) = (options.history, Duration::ZERO);
    let (mut saved, mut warned) = (options.history, options.history);
    while started.elapsed().as_secs_f64() < options.seconds && update < options.updates {
        let now = started.elapsed();
        let due = options.history + (now.as_secs_f64() * options.rate) as u64;
        while update < due.min(options.updates) {
            update += 1;
            ring.writer.publish(&synthetic::record(update, options.updates, options.seed));
        }
        if now >= sampled {
            sampled += Duration::from_millis(250);
            let record = synthetic::record(update, options.updates, options.seed);
            ring.side.sample(&synthetic::sampled(&record), &synthetic::cores(update), update);
            ring.writer.show(&synthetic::episode(400));
        }
        if update >= saved + 500 {
            saved = update;
            let steps = update * synthetic::STEPS_PER_UPDATE as u64;
            ring.writer
                .set_checkpoint(steps, Path::new("/tmp/runs/checkpoints").join(steps.to_string()).as_path());
            ring.side.event(Level::Info, &format!("checkpoint saved at {steps} steps"));
        }
        if update >= warned + 700 {
            warned = update;
            ring.side.event(
                Level::Warning,
                &format!("update {update}: a minibatch was not finite and was skipped"),
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    match options.end {
        End::Finished => ring.writer.set_state(RunState::Finished, ""),
        End::Preempted => ring.writer.set_state(RunState::Preempted, "SIGTERM"),
        End::Failed => {
            ring.writer.set_state(RunState::Failed, "policy_loss is not finite in 10 updates on end")
        }
        End::Killed => {}
    }
    Ok(())
}
