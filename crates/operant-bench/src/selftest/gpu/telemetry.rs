//! The cost of telemetry: whole runs in child processes without a ring, with one, and with eight monitors that read it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Gpu;
use super::training::shape;
use crate::measure::Spread;
use crate::selftest::child::{Scratch, result, this_program, training};
use crate::selftest::report::Report;

/// Monitors that read at once.
const MONITORS: usize = 8;
/// How often per second each reads and prints everything.
const READS: f64 = 10.0;
/// Target seconds of a run.
const SECONDS: f64 = 2.0;
/// Timeout for a monitor to end after its run.
const LAST: Duration = Duration::from_secs(10);

/// One variant of the comparison.
struct Arm {
    name: &'static str,
    ring: bool,
    monitors: usize,
}

const ARMS: [Arm; 3] = [
    Arm { name: "no_ring", ring: false, monitors: 0 },
    Arm { name: "ring", ring: true, monitors: 0 },
    Arm { name: "ring_8_monitors", ring: true, monitors: MONITORS },
];

impl Gpu<'_> {
    /// Trains each variant in turn, in changing order, and compares. `sps` is the approximate training speed of the GPU.
    pub fn telemetry(&self, report: &mut Report, sps: Option<f64>) {
        let [envs, steps] = self.goal_shape();
        let batch = (envs * steps) as f64;
        let (rounds, updates) = match (self.extent.quick, sps) {
            (true, _) | (false, None) => (1, 4.0),
            (false, Some(sps)) => (5, (sps * SECONDS / batch).ceil().max(100.0)),
        };
        let total = (updates * batch) as u64;
        let mut rates = ARMS.map(|_| Vec::new());
        let (mut lines, mut problem) = (0, None);
        'rounds: for round in 0..rounds {
            for turn in 0..ARMS.len() {
                let index = (round + turn) % ARMS.len();
                match self.run(&ARMS[index], total) {
                    Ok((sps, read)) => {
                        rates[index].push(sps);
                        lines += read;
                    }
                    Err(error) => {
                        problem = Some(error);
                        break 'rounds;
                    }
                }
            }
        }
        let name = "cartpole trains without a ring, with one, and with monitors";
        report.check("gpu", name, || Ok(problem.into_iter().collect()));
        if rates.iter().any(Vec::is_empty) {
            return;
        }
        let mut value = json!({"steps": total, "rounds": rounds, "monitor_lines": lines});
        let medians = rates.each_ref().map(|rates| Spread::of(rates.clone()));
        for (arm, spread) in ARMS.iter().zip(medians) {
            value[arm.name] = json!({
                "sps_median": spread.median,
                "sps_min": spread.min,
                "sps_max": spread.max,
                "to_no_ring": spread.median / medians[0].median,
            });
        }
        let ratio = |arm: usize| medians[arm].median / medians[0].median;
        let line = format!(
            "{:.4} of the speed with a ring, {:.4} with {MONITORS} monitors, which printed {lines} lines",
            ratio(1),
            ratio(2)
        );
        report.part("telemetry", value, &line);
    }

    /// One run: its steps per second of training, and the lines that monitors printed meanwhile.
    fn run(&self, arm: &Arm, steps: u64) -> Result<(f64, usize), String> {
        const NAME: &str = "selftest";
        let place = Scratch::below(&memory_files())?;
        let rings = place.path().join("rings");
        let [envs, horizon] = self.goal_shape();
        let shape = shape(envs, horizon, 64);
        let mut sets: Vec<String> = [
            "shared_trunk=true",
            "hidden=64,64",
            "update_epochs=4",
            "anneal_lr=false",
            // No variant has evaluations or files, which are not measured here.
            "csv=false",
            "tensorboard=false",
            "eval_interval=1000000",
            "eval_episodes=1",
            "checkpoint_interval=0",
        ]
        .map(str::to_owned)
        .into();
        sets.extend([format!("num_envs={envs}"), format!("num_steps={horizon}")]);
        sets.push(format!("num_minibatches={}", shape.num_minibatches));
        let total = steps.to_string();
        let mut args =
            vec!["cartpole", "--device", &self.name, "--seed", "1", "--name", NAME, "--steps", &total];
        for set in &sets {
            args.extend(["--set", set]);
        }
        if !arm.ring {
            args.push("--no-ring");
        }
        let mut child = training(&args, place.path())?
            .env("OPERANT_RING_DIR", &rings)
            .spawn()
            .map_err(|error| format!("training cannot be started: {error}"))?;
        let ring = rings.join(format!("{NAME}.ring"));
        let mut monitors = Vec::new();
        if arm.monitors > 0 {
            while !ring.exists() && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(1));
            }
            // Monitors that did start are still waited for.
            monitors
                .extend((0..arm.monitors).map_while(|k| Monitor::start(NAME, &rings, place.path(), k).ok()));
        }
        let output = child.wait_with_output().map_err(|error| format!("training is lost: {error}"))?;
        let (started, read) = (monitors.len(), monitors.into_iter().map(Monitor::finish).sum());
        let sps = result(&output)?["sps"].as_f64().ok_or("the result has no sps")?;
        if started < arm.monitors {
            return Err(format!("{started} of {} monitors could be started", arm.monitors));
        }
        Ok((sps, read))
    }
}

/// A directory in memory, so that no disk affects the measurement; else the temporary directory.
fn memory_files() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() }
}

/// `operant monitor RUN --json`, which reads the whole ring repeatedly until the run ends.
struct Monitor {
    child: Child,
    output: PathBuf,
}

impl Monitor {
    fn start(run: &str, rings: &Path, place: &Path, number: usize) -> Result<Self, String> {
        let output = place.join(format!("monitor-{number}"));
        let file = File::create(&output).map_err(|error| format!("{}: {error}", output.display()))?;
        let mut command = this_program()?;
        command.args(["monitor", run, "--json", "--interval", &(1.0 / READS).to_string()]);
        command.env("OPERANT_RING_DIR", rings).current_dir(place);
        command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("a monitor cannot be started: {error}"))?;
        Ok(Monitor { child, output })
    }

    /// Waits for its end, and counts what it printed.
    fn finish(mut self) -> usize {
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < LAST {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        File::open(&self.output).map_or(0, |file| BufReader::new(file).lines().count())
    }
}
