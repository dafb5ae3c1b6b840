//! Steps per second of `operant train cartpole`, the real program: without a ring, with one, and with one that eight
//! monitors draw at 10 frames a second. Runs alternate; what counts is the ratio within a round.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use benches::Spread;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;

use crate::cores;
use crate::monitors::Monitor;

/// Length of a run.
const SECONDS: f64 = 4.0;
/// Time for each placement; `BENCH_SECONDS` changes it.
const LIMIT: f64 = 300.0;
const MIN_ROUNDS: usize = 7;
/// The median ratio is known when its 95% interval is as narrow as this.
const NARROW: f64 = 0.004;

/// One way to train.
struct Arm {
    name: &'static str,
    ring: bool,
    monitors: usize,
}

const ARMS: [Arm; 3] = [
    Arm { name: "no ring", ring: false, monitors: 0 },
    Arm { name: "ring", ring: true, monitors: 0 },
    Arm { name: "ring, 8 monitors", ring: true, monitors: 8 },
];

/// The benchmark: its programs and the cores that each may use.
struct Bench<'a> {
    operant: PathBuf,
    dir: &'a Path,
    trainer: &'a [usize],
    monitors: &'a [usize],
    runs: usize,
}

/// The result of a run.
struct Run {
    sps: f64,
    /// Steps per second of the trainer's processor time, all threads: what a busy machine spoils least.
    steps_per_processor_second: f64,
    seconds: f64,
    /// Share of a core that a monitor took, on average.
    monitor_load: f64,
}

impl Bench<'_> {
    fn rings(&self) -> PathBuf {
        self.dir.join("rings")
    }

    fn train(&mut self, arm: &Arm, steps: u64) -> Result<Run> {
        self.runs += 1;
        let (name, rings) = (format!("bench-{}", self.runs), self.rings());
        let mut command = Command::new(&self.operant);
        command.current_dir(self.dir).env("OPERANT_RING_DIR", &rings).env("XDG_CONFIG_HOME", self.dir);
        command.args([
            "train", "cartpole", "--device", "cpu", "--json", "--quiet", "--seed", "1", "--name", &name,
        ]);
        command.arg("--steps").arg(steps.to_string()).arg("--run-dir").arg(self.dir.join("runs"));
        // Evaluations and files are no part of the question, in no arm.
        let threads = format!("threads={}", self.trainer.len());
        for set in [&threads, "csv=false", "tensorboard=false", "eval_interval=1000000", "eval_episodes=1"] {
            command.args(["--set", set]);
        }
        if !arm.ring {
            command.arg("--no-ring");
        }
        cores::pin(self.trainer)?;
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        // From here on this thread, which waits, and the monitors.
        cores::pin(self.monitors)?;
        let mut child = child.with_context(|| format!("cannot start {}", self.operant.display()))?;
        let ring = rings.join(format!("{name}.ring"));
        while arm.monitors > 0 && !ring.exists() && child.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let monitors: Result<Vec<Monitor>> =
            (0..arm.monitors).map(|_| Monitor::start(&self.operant, &name, &rings, (120, 40))).collect();
        // A process that has ended but was not waited for still reports its processor time.
        let id = WaitId::Pid(Pid::from_child(&child));
        waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).context("cannot wait for operant")?;
        let processor_seconds = cores::processor_seconds(child.id()).unwrap_or(f64::NAN);
        let output = child.wait_with_output()?;
        let mut load = 0.0;
        for monitor in monitors? {
            load += monitor.stop()?.load / arm.monitors as f64;
        }
        ensure!(
            output.status.success(),
            "operant train failed ({}):\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        ensure!(
            arm.ring == ring.exists(),
            "{} was {}there",
            ring.display(),
            if arm.ring { "not " } else { "" }
        );
        let _ = std::fs::remove_file(ring);
        let _ = std::fs::remove_dir_all(self.dir.join("runs").join(&name));
        let result: Value =
            serde_json::from_slice(&output.stdout).context("operant printed no JSON object")?;
        let number = |key: &str| result[key].as_f64().with_context(|| format!("the result has no {key}"));
        Ok(Run {
            sps: number("sps")?,
            steps_per_processor_second: number("env_steps")? / processor_seconds,
            seconds: number("train_s")?,
            monitor_load: load,
        })
    }

    /// Runs the variants in turn until the ratios are known, and prints them.
    fn rounds(&mut self, limit: f64) -> Result<()> {
        let probe = self.train(&ARMS[0], 200_000)?;
        let steps = (probe.sps * SECONDS) as u64;
        let begin = Instant::now();
        let (mut rates, mut ratios) = (ARMS.map(|_| Vec::new()), ARMS.map(|_| Vec::new()));
        let mut processor_ratios = ARMS.map(|_| Vec::new());
        let (mut loads, mut seconds) = (Vec::new(), Vec::new());
        loop {
            let (mut round, mut processor_round) = ([0.0; ARMS.len()], [0.0; ARMS.len()]);
            for turn in 0..ARMS.len() {
                // Each arm comes first in every third round.
                let index = (rates[0].len() + turn) % ARMS.len();
                let run = self.train(&ARMS[index], steps)?;
                (round[index], processor_round[index]) = (run.sps, run.steps_per_processor_second);
                seconds.push(run.seconds);
                if ARMS[index].monitors > 0 {
                    loads.push(run.monitor_load);
                }
            }
            for (index, rate) in round.into_iter().enumerate() {
                rates[index].push(rate);
                ratios[index].push(rate / round[0]);
                processor_ratios[index].push(processor_round[index] / processor_round[0]);
            }
            let known = ratios.iter().all(|ratios| {
                let (low, high) = interval(ratios);
                high - low < NARROW
            });
            let rounds = rates[0].len();
            if rounds >= MIN_ROUNDS && known || begin.elapsed().as_secs_f64() > limit {
                break;
            }
        }
        println!(
            "  {} rounds of runs of {steps} steps, {:.1} s each",
            rates[0].len(),
            Spread::of(seconds).median
        );
        for (index, arm) in ARMS.iter().enumerate() {
            println!("  {:<17} {:.0} steps/s", arm.name, Spread::of(rates[index].clone()));
        }
        for (index, arm) in ARMS.iter().enumerate().skip(1) {
            println!("  {} to {}:", arm.name, ARMS[0].name);
            for (of, ratios) in [("wall", &ratios[index]), ("processor", &processor_ratios[index])] {
                let (low, high) = interval(ratios);
                let spread = Spread::of(ratios.clone());
                println!(
                    "    steps per second of {of} time: {spread:.4}, 95% interval {low:.4} .. {high:.4}"
                );
            }
        }
        println!("  a monitor took {:.2}% of a core", Spread::of(loads).scaled(100.0));
        Ok(())
    }
}

/// Between which values the median lies, in 19 of 20 cases: by the ranks of the sorted values.
fn interval(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let rank = ((count - 1.96 * count.sqrt()) / 2.0).max(0.0) as usize;
    (sorted[rank], sorted[sorted.len() - 1 - rank])
}

/// The program, built as this measurement was: in the same profile, below the same target directory.
pub fn operant() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let profile_dir = own.ancestors().nth(2).context("this program lies in no target directory")?;
    let path = profile_dir.join("operant");
    let profile = profile_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(cargo) = std::env::var_os("CARGO") else {
        ensure!(path.exists(), "{} is missing; start this with cargo bench", path.display());
        return Ok(path);
    };
    let mut command = Command::new(cargo);
    command.args(["build", "--package", "operant", "--profile", &profile]);
    command.arg("--target-dir").arg(profile_dir.parent().context("no target directory")?);
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("`cargo build --package operant --profile {profile}` failed ({status})");
    }
    Ok(path)
}

/// Measures and prints.
pub fn run() -> Result<()> {
    let operant = operant()?;
    println!("operant train cartpole, {}:", operant.display());
    let limit = match std::env::var("BENCH_SECONDS") {
        Ok(text) => text.parse().with_context(|| format!("BENCH_SECONDS={text} is no number"))?,
        Err(_) => LIMIT,
    };
    let all = cores::allowed()?;
    let (own, others) = cores::apart(&all);
    for (what, trainer, monitors) in
        [("the trainer on one core, all else on the others", own, others), ("all on all cores", &all, &all)]
    {
        // A directory for each, so that no ring of the last is still there.
        let dir = tempfile::tempdir_in("/dev/shm").context("cannot make a directory in /dev/shm")?;
        println!("{what}: {} thread(s)", trainer.len());
        let mut bench = Bench { operant: operant.clone(), dir: dir.path(), trainer, monitors, runs: 0 };
        let measured = bench.rounds(limit);
        cores::pin(&all)?;
        measured?;
    }
    Ok(())
}
