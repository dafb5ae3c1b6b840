//! Simulates training on environments in worker processes on the machines of tests/fixtures: steps per second, utilization of
//! the cores and their balance, by number of minibatches.
//!
//!     cargo run -p operant-host --example balance -- ENV_MS POLICY_MS UPDATE_MS
//!
//! ENV_MS is a core's time for a step of an environment, POLICY_MS for an action, UPDATE_MS for an update of a network on a
//! sample, all in milliseconds on the fastest core. `operant bench train` and the monitor show what they are made of.
//!
//! Groups of environments take turns as in `operant-gym`: a thread computes a group's actions, and then its workers step.
//! Whatever is ready goes to the fastest idle core, or waits for the first that becomes free, and is not interrupted. An update is rounds of equal
//! chunks, each of which a thread takes when it is free.

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::VecDeque;

use operant_host::{Plan, PlanRequest, Topology, Workload};

/// As the preset atari: environments, steps of a rollout, epochs, and its minibatches first.
const ENVS: usize = 32;
const STEPS: usize = 64;
const EPOCHS: usize = 4;
const MINIBATCHES: [usize; 3] = [8, 4, 2];
/// Environments of a group.
const TILE: usize = 16;
/// Samples that a thread takes at once, in an update.
const SAMPLES: usize = 64;
/// Chunks of a minibatch, at most, for a network of this size.
const CHUNKS: usize = 8;

const WORK: Workload = Workload {
    tile: TILE,
    num_envs: Some(ENVS),
    chunks: Some(CHUNKS),
    rollout_tiles: &[(TILE, 1.0)],
    lane_widths: &[16],
    vector: (16, "vectors of 512 bits"),
};

/// Milliseconds on the fastest core.
#[derive(Debug, Clone, Copy)]
struct Costs {
    env: f64,
    policy: f64,
    update: f64,
}

/// A part of training that a core does without interruption.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Job {
    /// Actions of a group.
    Policy(usize),
    /// The environments of a worker process of a group.
    Worker(usize),
    /// Part of a minibatch.
    Chunk,
}

/// Cores, the fastest first, and what they do.
struct Cores {
    speeds: Vec<f64>,
    /// When each becomes free, and what it does until then.
    running: Vec<Option<(f64, Job)>>,
    busy: Vec<f64>,
    waiting: VecDeque<(f64, Job)>,
    now: f64,
}

impl Cores {
    fn of(machine: &Topology) -> Self {
        let cores = machine.usable_cores();
        let fastest = cores.iter().filter_map(|core| core.capacity).max().unwrap_or(1024);
        let mut speeds: Vec<f64> =
            cores.iter().map(|core| core.capacity.unwrap_or(fastest) as f64 / fastest as f64).collect();
        speeds.sort_by(|a, b| b.total_cmp(a));
        let (running, busy) = (vec![None; speeds.len()], vec![0.0; speeds.len()]);
        Self { speeds, running, busy, waiting: VecDeque::new(), now: 0.0 }
    }

    /// Starts a job that takes the fastest core `time`, or lets it wait.
    fn add(&mut self, time: f64, job: Job) {
        self.waiting.push_back((time, job));
        self.assign();
    }

    fn assign(&mut self) {
        for core in 0..self.speeds.len() {
            if self.running[core].is_none()
                && let Some((time, job)) = self.waiting.pop_front()
            {
                let time = time / self.speeds[core];
                self.running[core] = Some((self.now + time, job));
                self.busy[core] += time;
            }
        }
    }

    /// The next job that ends.
    fn next(&mut self) -> Option<Job> {
        let ends = |core: &usize| self.running[*core].map_or(f64::INFINITY, |(end, _)| end);
        let core = (0..self.speeds.len()).min_by(|a, b| ends(a).total_cmp(&ends(b)))?;
        let (end, job) = self.running[core].take()?;
        self.now = end;
        self.assign();
        Some(job)
    }
}

/// A rollout and its update on these cores: steps per second, utilization of each core.
fn train(
    mut cores: Cores,
    threads: usize,
    workers: usize,
    minibatches: usize,
    costs: Costs,
) -> (f64, Vec<f64>) {
    let groups = ENVS / TILE;
    // A thread keeps a group for the whole rollout.
    let mut begun = threads.min(groups);
    let mut steps = vec![0; groups];
    let mut stepping = vec![0; groups];
    let policy = costs.policy * TILE as f64;
    (0..begun).for_each(|group| cores.add(policy, Job::Policy(group)));
    while let Some(job) = cores.next() {
        match job {
            Job::Policy(group) => {
                stepping[group] = workers;
                for worker in 0..workers {
                    let rows = (worker + 1) * TILE / workers - worker * TILE / workers;
                    cores.add(costs.env * rows as f64, Job::Worker(group));
                }
            }
            Job::Worker(group) => {
                stepping[group] -= 1;
                if stepping[group] > 0 {
                    continue;
                }
                steps[group] += 1;
                if steps[group] < STEPS {
                    cores.add(policy, Job::Policy(group));
                } else if begun < groups {
                    cores.add(policy, Job::Policy(begun));
                    begun += 1;
                }
            }
            Job::Chunk => {}
        }
    }
    let samples = ENVS * STEPS / minibatches;
    let chunks = CHUNKS.min(samples / SAMPLES);
    let chunk = costs.update * (samples / chunks) as f64;
    for _ in 0..EPOCHS * minibatches {
        let mut left = chunks;
        let mut started = 0;
        while left > 0 {
            while started < chunks && started + left < chunks + threads {
                cores.add(chunk, Job::Chunk);
                started += 1;
            }
            cores.next();
            left -= 1;
        }
    }
    let utilization = cores.busy.iter().map(|busy| busy / cores.now).collect();
    ((ENVS * STEPS) as f64 / cores.now * 1e3, utilization)
}

fn main() {
    let costs: Vec<f64> = std::env::args().skip(1).map_while(|text| text.parse().ok()).collect();
    let [env, policy, update] = costs[..] else {
        eprintln!("usage: balance ENV_MS POLICY_MS UPDATE_MS");
        std::process::exit(2);
    };
    let costs = Costs { env, policy, update };
    println!("| cores | optimize_perf | num_minibatches | steps/s | CPU | balance |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, cores) in [("amd-epyc-guest", "2"), ("apple-m2", "4 + 4")] {
        let machine = support::machine(name);
        // A process for each core.
        let workers = machine.usable_cores().len() / (ENVS / TILE);
        for optimize in [false, true] {
            let request = PlanRequest { optimize, ..PlanRequest::default() };
            let threads = Plan::new(&machine, &request, &WORK).threads;
            for minibatches in MINIBATCHES {
                let (speed, busy) = train(Cores::of(&machine), threads, workers, minibatches, costs);
                let mean = busy.iter().sum::<f64>() / busy.len() as f64;
                let most = busy.iter().copied().fold(0.0, f64::max);
                let balance = busy.iter().copied().fold(1.0, f64::min) / most;
                println!("| {cores} | {optimize} | {minibatches} | {speed:.0} | {mean:.2} | {balance:.2} |");
            }
        }
    }
}
