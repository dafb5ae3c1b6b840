//! The settings of a run, one row each.

use std::path::PathBuf;

use operant_learn::cpu::{LANE_WIDTHS, ROLLOUT_TILES};
use operant_learn::cuda::Kernels;
use operant_learn::pool::PoolSampling;
use operant_learn::setting::{Refusal, Syntax};
use operant_learn::{Precision, choice, settings};

use super::device_request::DeviceRequest;
use super::kept::{KeepCheckpoints, MOST};
use crate::error::{Error, Result};
use crate::opponent::POOL;

settings! {
    /// How a run is carried out. Only `precision`, and on GPUs `deterministic` in the last bits, change what an update computes; only
    /// `precision` and `overlap` change what a rollout plays.
    pub struct RunConfig;
    in KeyGroup::Run;

    /// Device: `cpu`, `cuda`, `cuda:K` (K as the CUDA driver counts), or a list in order of preference
    /// (`cuda:1,cuda:0,cpu`); the first usable one is taken. `auto` takes a GPU if one is usable and the environment
    /// has a preset for GPUs, else the CPU; operant.log has the reason
    device: DeviceRequest = DeviceRequest::Auto, flag("--device", "DEVICE");
    /// Precision of the network's matrix products: `f32`, on a GPU `tf32` or `bf16`, on a CPU with AMX, or AMD's AVX512_BF16, `bf16` in fully connected layers
    precision: Precision = Precision::F32, flag("--precision", "PRECISION");
    /// How the network runs on a GPU: inside the kernels (`fused`), as matrix products (`gemm`), or as suits its shape (`auto`)
    kernels: Kernels = Kernels::Auto;
    /// Share of a GPU's free memory that a run may take
    memory_fraction: f64 [Kind::Real(Range::Unit)] = 0.9;
    /// On a GPU, overlap each rollout with the update before it, using weights that are one update old
    overlap: bool = false, switch("--overlap");
    /// On several GPUs, add up in an order that gives the same bits for any number of them; docs/scale.md has what it costs
    deterministic: bool = false, switch("--deterministic");
    /// Worker threads; 0 leaves it to the plan: every usable hardware thread, up to 32
    threads: usize [Kind::Count { least: 0, most: 4096 }] = 0;
    /// Environments that a thread steps together; 0 leaves it to the plan, which minimizes the time of the slowest thread
    rollout_tile: usize [Kind::Size(&ROLLOUT_TILES)] = 0;
    /// Has no effect: a build uses the full width of its vectors. Accepted so that existing configuration files stay valid
    lane_width: usize [Kind::Size(&LANE_WIDTHS)] = 0;
    /// How threads wait for their next job; `auto` leaves it to the plan
    waiting: WaitingRequest = WaitingRequest::Auto;
    /// Bind each thread to a CPU
    pin: bool = false;
    /// Choose threads, tiles and waiting for this machine; `false` uses fixed defaults
    optimize_perf: bool = true, flag("--optimize-perf", "BOOL");
    /// Directory that keeps compiled kernels; the user's cache directory if absent
    cache_dir: Option<PathBuf> = None, local();
    /// Directory that holds the runs
    run_dir: PathBuf = PathBuf::from("runs"), flag("--run-dir", "DIR"), local();
    /// Name of the run; generated from environment, seed and time if absent
    name: Option<String> [Kind::Text(&RUN_NAME)] = None, flag("--name", "NAME"), local();
    /// Begin with the weights of another run: its name or path, with `@STEP` for its checkpoint at that step, or the directory of a
    /// checkpoint. `algorithm`, `norm_obs`, `clip_obs` and the network's settings are then those of the weights
    init_from: Option<String> [Kind::Text(&WEIGHTS)] = None, flag("--init-from", "RUN[@STEP]");
    /// Who plays the other side of a game: `self` (self-play, the default), `pool` (policies that the run had earlier), `random`, `minimax:DEPTH`,
    /// `mcts:PLAYOUTS`, or a run or checkpoint, with `RUN@STEP` for a checkpoint that stays the same when the run is resumed. With self-play and
    /// a pool, evaluations are against random moves (docs/two-players.md)
    opponent: Option<String> [Kind::Text(&OPPONENT)] = None,
        flag("--opponent", "WHO"), fixed("the games of the checkpoint are against that opponent");
    /// Earlier policies that `opponent = "pool"` holds; a new one takes the place of the oldest
    pool_size: usize [Kind::Count { least: 1, most: 1_000 }] = 16, needs("opponent", POOL);
    /// Updates between two policies that enter the pool
    pool_interval: u64 [Kind::Count { least: 1, most: i64::MAX }] = 20, needs("opponent", POOL);
    /// Share of the environments that play against the latest policy instead of an earlier one
    pool_latest: f64 [Kind::Real(Range::Unit)] = 0.5, needs("opponent", POOL);
    /// How earlier policies are drawn, one for each 16 environments before every rollout. `uniform`: all alike. `hardest`: in proportion to (1 - p)^2, where
    /// p is the agent's recent share of the points against a policy (prioritised fictitious self-play)
    pool_sampling: PoolSampling = PoolSampling::Uniform, needs("opponent", POOL);
    /// Updates between checkpoints; 0 saves at the end only
    checkpoint_interval: u64 [Kind::Count { least: 0, most: i64::MAX }] = 100;
    /// How many of the latest checkpoints are kept, in addition to the one with the best evaluation; `log` also saves and keeps four for
    /// each doubling of the updates, from the first
    keep_checkpoints: KeepCheckpoints [Kind::CountOr { word: "log", least: 1, most: MOST }] = KeepCheckpoints::Latest(3);
    /// Greedy episodes in an evaluation
    eval_episodes: usize [Kind::Count { least: 1, most: 1_000_000 }] = 100;
    /// Minimum number of updates between two evaluations for `solved_at`
    eval_interval: u64 [Kind::Count { least: 1, most: i64::MAX }] = 10;
    /// Mean greedy return at which the environment counts as solved; the preset's threshold
    solved_at: Option<f64> [Kind::Real(Range::Any)] = None;
    /// Stop training at the first evaluation that reaches `solved_at`
    stop_when_solved: bool = false;
    /// Write metrics.csv
    csv: bool = true;
    /// Write a TensorBoard event file
    tensorboard: bool = true;
    /// Publish metrics in shared memory, where monitors read them
    ring: bool = true,
        switch_off("--no-ring", "Do not publish metrics in shared memory; monitors read metrics.csv and show no scene");
    /// Let members of the user's group read them too
    ring_group: bool = false;
}

choice! {
    /// How worker threads wait, as the configuration requests it.
    pub enum WaitingRequest {
        /// As the plan for this machine chooses.
        Auto = "auto",
        /// Poll for the next job for some ten microseconds before yielding the core.
        Spin = "spin",
        /// Yield the core almost at once.
        Yield = "yield",
        /// Sleep until woken for a job.
        Sleep = "sleep",
    }
}

/// Syntax of a run's name, which is also a directory name.
static RUN_NAME: Syntax = Syntax {
    about: "up to 128 letters, digits and - _ . + =",
    check: |name| {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '=');
        if name.len() <= 128 && name.chars().all(legal) && !name.starts_with(['.', '-']) && !name.is_empty() {
            return Ok(());
        }
        Err(Refusal::new(
            "cannot name a run",
            "use up to 128 letters, digits and - _ . + =, not beginning with a dot or a dash",
        ))
    },
};

/// Syntax of where weights come from.
static WEIGHTS: Syntax = Syntax { about: "a run or checkpoint", check: |_| Ok(()) };

/// Syntax of an opponent.
static OPPONENT: Syntax = Syntax {
    about: "`self`, `pool`, `random`, `minimax:DEPTH`, `mcts:PLAYOUTS`, a run or a checkpoint",
    check: |_| Ok(()),
};

/// Checks a run's name.
///
/// # Errors
/// When the name is not valid.
pub(crate) fn check_run_name(name: &str) -> Result<()> {
    (RUN_NAME.check)(name).map_err(|Refusal { problem, remedy }| {
        Error::usage(format!("name = \"{name}\" {problem}")).remedy(remedy)
    })
}
