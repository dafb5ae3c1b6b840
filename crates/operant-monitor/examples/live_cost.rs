//! Measures the monitor as a process: the share of one core and the memory that it takes, in its own terminal at ten
//! frames a second, next to a live synthetic run that has a million updates.
//! `cargo run --release -p operant-monitor --example live_cost`

mod synthetic;
#[path = "../../../bin/operant/tests/common/terminal.rs"]
mod window;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use operant_metrics::Ring;
use rustix::process::Pid;
use window::Terminal;

const UPDATES: u64 = 1_000_000;
/// Updates a second.
const RATE: f64 = 73.0;
/// Time for the process to attach and to draw its first screen, before the measurement begins.
const ATTACH: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(10);

/// In the terminal this very program is the monitor: cargo builds no other one for an example, and the monitor's binary
/// does no more than this.
#[derive(Debug, Parser)]
struct Monitor {
    #[command(flatten)]
    options: operant_monitor::Options,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some() {
        return match operant_monitor::run(&Monitor::parse().options) {
            Ok(code) => ExitCode::from(code),
            Err(_) => ExitCode::FAILURE,
        };
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let total = UPDATES * 5 / 4;
    let mut ring = synthetic::long_run(dir.path(), UPDATES, total)?;
    let mut update = UPDATES;
    for size in [(80, 24), (250, 80)] {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["long", "--interval", "0.1"]).env("OPERANT_RING_DIR", dir.path());
        let mut terminal = Terminal::start(&command, &[("COLORTERM", "truecolor")], size);
        terminal.wait_for(&["running", "episodic return"]);
        publish(&mut ring, &mut update, total, ATTACH);
        let (before, begun) = (cpu_seconds(terminal.pid())?, Instant::now());
        publish(&mut ring, &mut update, total, MEASURED);
        let used = cpu_seconds(terminal.pid())? - before;
        let share = used / begun.elapsed().as_secs_f64();
        let peak = peak_memory(terminal.pid())?;
        terminal.press("q");
        let left = terminal.finish();
        println!(
            "live monitor at {}x{}, 10 frames a second over {:.0} s: {:.2}% of one core, at most {:.1} MiB \
             resident, {:.0} kB/s to the terminal",
            size.0,
            size.1,
            MEASURED.as_secs_f64(),
            share * 100.0,
            peak / 1024.0 / 1024.0,
            left.raw.len() as f64 / 1e3 / (ATTACH + MEASURED).as_secs_f64(),
        );
    }
    Ok(())
}

/// Continues the run for a while; like a trainer, it publishes an episode and a sample of the machine at intervals.
fn publish(ring: &mut Ring, update: &mut u64, total: u64, length: Duration) {
    let (begun, first) = (Instant::now(), *update);
    let mut sampled = Duration::ZERO;
    while begun.elapsed() < length {
        let now = begun.elapsed();
        let due = first + (now.as_secs_f64() * RATE) as u64;
        while *update < due {
            *update += 1;
            ring.writer.publish(&synthetic::record(*update, total, 0));
        }
        if now >= sampled {
            sampled += Duration::from_millis(250);
            let record = synthetic::record(*update, total, 0);
            ring.side.sample(&synthetic::sampled(&record), &synthetic::cores(*update), *update);
            ring.writer.show(&synthetic::episode(500));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Time on the processor so far of a process with all its threads, in seconds, to a hundredth.
fn cpu_seconds(pid: Pid) -> Result<f64, Box<dyn std::error::Error>> {
    let path = Path::new("/proc").join(pid.as_raw_nonzero().to_string()).join("stat");
    let text = std::fs::read_to_string(&path)?;
    // The name, in parentheses, may hold anything; what comes behind it begins with field 3.
    let (_, fields) = text.rsplit_once(')').ok_or("no name in stat")?;
    let ticks =
        |field: usize| fields.split_whitespace().nth(field - 3).and_then(|text| text.parse::<f64>().ok());
    let used = ticks(14).zip(ticks(15)).ok_or("no times in stat")?;
    Ok((used.0 + used.1) / rustix::param::clock_ticks_per_second() as f64)
}

/// Most memory that a process had resident, in bytes.
fn peak_memory(pid: Pid) -> Result<f64, Box<dyn std::error::Error>> {
    let path = Path::new("/proc").join(pid.as_raw_nonzero().to_string()).join("status");
    let text = std::fs::read_to_string(&path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in status")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim_end().parse()?;
    Ok(kib * 1024.0)
}
