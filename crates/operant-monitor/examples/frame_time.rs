//! Measures the monitor: how long it takes to attach to a run with a million updates behind it and draw it whole, how
//! long a frame takes at 250 x 80 while the run continues, and how much memory it holds.
//! `cargo run --release -p operant-monitor --example frame_time`

mod synthetic;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use operant_draw::theme::{Depth, Detected};
use operant_metrics::RingError;
use operant_monitor::app::App;
use operant_monitor::data::{RunView, Runs};
use operant_monitor::ui;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;

const UPDATES: u64 = 1_000_000;
const FRAMES: usize = 300;

fn main() -> ExitCode {
    let dir = tempfile::tempdir().map_err(|error| error.to_string());
    match dir.and_then(|dir| measure(dir.path()).map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(dir: &Path) -> Result<(), RingError> {
    let total = UPDATES * 5 / 4;
    let mut ring = synthetic::long_run(dir, UPDATES, total)?;
    let (width, height) = (250, 80);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap_or_else(|never| match never {});
    let detected = Detected { depth: Depth::True, light: false };

    let before = resident();
    let started = Instant::now();
    let run = RunView::open("long", ring.writer.path())?;
    let mut app = App::of_runs(Runs::of_views(vec![run]), detected);
    app.resize(Rect::new(0, 0, width, height));
    let mut frame = |app: &mut App, clock: Duration| {
        app.advance(clock, 0);
        let _ = terminal.draw(|frame| ui::draw(app, frame.buffer_mut()));
    };
    frame(&mut app, Duration::ZERO);
    let attach = started.elapsed();

    let mut times = Vec::with_capacity(FRAMES);
    for i in 0..FRAMES as u64 {
        for update in 0..7 {
            ring.writer.publish(&synthetic::record(UPDATES + 1 + i * 7 + update, total, 0));
        }
        let record = synthetic::record(UPDATES + i, total, 0);
        ring.side.sample(&synthetic::sampled(&record), &synthetic::cores(i), i);
        let started = Instant::now();
        frame(&mut app, Duration::from_millis(100 * (i + 1)));
        times.push(started.elapsed());
    }
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("attach to {UPDATES} updates and draw them: {:.1} ms", ms(attach));
    println!(
        "frame at {width}x{height}: median {:.2} ms, 99th percentile {:.2} ms",
        ms(times[FRAMES / 2]),
        ms(times[FRAMES * 99 / 100])
    );
    println!("share of one core at 10 frames a second: {:.2}%", ms(times[FRAMES / 2]));
    println!("resident memory that the monitor added: {:.1} MiB", (resident() - before) / 1024.0 / 1024.0);
    Ok(())
}

/// Resident memory of this process, in bytes; 0 where the system does not say.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok());
    pages.unwrap_or(0.0) * 4096.0
}
