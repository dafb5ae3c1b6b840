//! Sizes that suit caches and threads. They are recommendations, because they decide what is learned.

use super::{PlanRequest, Workload};
use crate::topology::Topology;

/// Bytes of a single-precision number.
const FLOAT: usize = 4;
/// Pieces of work per worker from which the last ones to finish cost little.
const PIECES: usize = 4;
/// The same where cores differ in speed: a slow core must not start a piece that all others wait for.
const PIECES_OF_MIXED: usize = 8;

/// Tiles per worker that the simulation assigns one by one; further ones are spread evenly.
const EVEN_TILES: usize = 64;

/// See the fields of [`super::Plan`].
pub(super) struct Sizes {
    pub hidden_l1: Option<usize>,
    pub hidden_l2: Option<usize>,
    pub envs_per_worker: usize,
    pub minibatch: usize,
    pub batch: Option<usize>,
    /// Bytes of the caches that one worker has for itself.
    l1: Option<u64>,
    l2: Option<u64>,
    /// Bytes of the last-level caches that all workers reach together.
    last: Option<u64>,
}

impl Sizes {
    /// `workers` are the CPUs that workers run on, or are likely to run on.
    pub fn new(topology: &Topology, work: &Workload, workers: &[u32], threads: usize, kinds: usize) -> Self {
        let pieces = if kinds > 1 { PIECES_OF_MIXED } else { PIECES };
        let (l1, l2) = (share(topology, 1, workers), share(topology, 2, workers));
        let last = [3, 2].into_iter().find_map(|level| reached(topology, level, workers));
        let parts = (pieces * threads).clamp(1, work.max_chunks.max(1));
        let tiles_per_chunk = if parts <= work.single_tile_chunks { 1 } else { work.tiles_per_chunk };
        Sizes {
            hidden_l1: l1.map(|bytes| largest(bytes, |hidden| rows(2, hidden, work))),
            hidden_l2: l2.map(|bytes| largest(bytes, |hidden| update_bytes(hidden, work))),
            envs_per_worker: pieces * work.tile,
            minibatch: parts * tiles_per_chunk * work.tile,
            // Half of it: environments, networks and gradients need the rest.
            batch: last.map(|bytes| bounded(bytes / 2 / work.sample_bytes.max(1) as u64)),
            l1,
            l2,
            last,
        }
    }

    /// Passes names, values and reasons to `set`.
    pub fn describe(
        &self,
        work: &Workload,
        threads: usize,
        set: &mut impl FnMut(&'static str, String, String),
    ) {
        let mut fits = Vec::new();
        if let (Some(hidden), Some(bytes)) = (self.hidden_l1, self.l1) {
            fits.push(format!("a layer of up to {hidden} units fits L1 ({} per worker)", size(bytes)));
        }
        if let (Some(hidden), Some(bytes)) = (self.hidden_l2, self.l2) {
            let layers = if work.layers == 1 { "1 layer" } else { &format!("{} layers", work.layers) };
            fits.push(format!("an update of {layers} of up to {hidden} fits L2 ({})", size(bytes)));
        }
        let fits = if fits.is_empty() { "caches unknown".to_owned() } else { fits.join(", ") };
        let reason = format!("a constant of the program, because it decides results; {fits}");
        set("tile", format!("{} samples", work.tile), reason);

        let even = self.envs_per_worker;
        match work.num_envs {
            Some(num_envs) => {
                let reason = format!("from {even} per worker a rollout is spread evenly");
                set("envs_per_worker", num_envs.div_ceil(threads).to_string(), reason);
            }
            None => {
                let reason =
                    format!("a recommendation: num_envs = {} spreads a rollout evenly", even * threads);
                set("envs_per_worker", even.to_string(), reason);
            }
        }
        let reason = "a recommendation: smaller ones leave workers waiting for each other".to_owned();
        set("minibatch", format!("from {} samples", self.minibatch), reason);
        if let (Some(batch), Some(bytes)) = (self.batch, self.last) {
            let reason = format!(
                "a recommendation: half of the {} of last-level cache that the workers reach",
                size(bytes)
            );
            set("batch", format!("up to {batch} samples"), reason);
        }
    }
}

/// Environments of a lane, and the reason: as many as a vector holds, or the narrowest lane that exists.
pub(super) fn lane_width(request: &PlanRequest, work: &Workload) -> (usize, String) {
    if let Some(asked) = request.lane_width {
        return (asked, "requested".to_owned());
    }
    let (vector, instructions) = compiled_vectors();
    let fits = work.lane_widths.iter().rev().find(|&&lanes| lanes <= vector);
    let lanes = fits.or(work.lane_widths.first()).copied().unwrap_or(vector);
    let vectors =
        if lanes > vector { format!(", {} vectors per lane", lanes / vector) } else { String::new() };
    (lanes, format!("{instructions} in this build{vectors}"))
}

/// Environments of a rollout's tile, and the reason: the size with which workers of these speeds finish first. Large tiles
/// take less time per environment; small ones leave no worker waiting.
pub(super) fn rollout_tile(
    request: &PlanRequest,
    work: &Workload,
    speeds: &[f64],
) -> (Option<usize>, String) {
    let threads = speeds.len();
    let describe = |tile: usize, num_envs: usize| {
        let tiles = num_envs.div_ceil(tile.max(1));
        let envs =
            if num_envs == 1 { "1 environment takes" } else { &format!("{num_envs} environments take") };
        let tiles_text = if tiles == 1 { "one tile" } else { &format!("{tiles} tiles") };
        let rest = match threads.saturating_sub(tiles) {
            0 if threads == 1 => " for 1 thread".to_owned(),
            0 => format!(" for {threads} threads"),
            1 => format!(": 1 of {threads} threads idles during rollouts"),
            idle => format!(": {idle} of {threads} threads idle during rollouts"),
        };
        format!("{envs} {tiles_text}{rest}")
    };
    match (request.rollout_tile, work.num_envs) {
        (Some(asked), None) => (Some(asked), "requested".to_owned()),
        (Some(asked), Some(num_envs)) => (Some(asked), format!("requested; {}", describe(asked, num_envs))),
        (None, _) if !request.optimize => {
            (None, "not adapted to the machine (optimize_perf = false)".to_owned())
        }
        (None, None) => (None, "the one with which the workers finish first".to_owned()),
        (None, Some(num_envs)) => {
            // The last of those that take equally long.
            let by_time = work
                .rollout_tiles
                .iter()
                .rev()
                .map(|&(tile, time)| (tile, makespan(num_envs.div_ceil(tile.max(1)), time, speeds)));
            let best = by_time.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(tile, _)| tile);
            (best, describe(best.unwrap_or(1), num_envs))
        }
    }
}

/// The time that workers of these speeds take for `tiles` tiles, each of which takes a worker of speed 1 `time`. The first free
/// worker takes the next tile; of several free workers the slowest does, which is the worst case.
fn makespan(tiles: usize, time: f64, speeds: &[f64]) -> f64 {
    let mut free = vec![0.0; speeds.len()];
    // With this many tiles the assignment of the last ones does not matter.
    let even = tiles.saturating_sub(EVEN_TILES * speeds.len());
    for _ in even..tiles {
        let mut next = 0;
        for worker in 1..free.len() {
            let (earlier, slower) = (free[worker] < free[next], speeds[worker] <= speeds[next]);
            if earlier || (free[worker] == free[next] && slower) {
                next = worker;
            }
        }
        if let Some(free) = free.get_mut(next) {
            *free += time / speeds[next];
        }
    }
    even as f64 * time / speeds.iter().sum::<f64>() + free.into_iter().fold(0.0, f64::max)
}

/// Number of f32 in a vector of the instruction set that this program was built for, and its name.
fn compiled_vectors() -> (usize, &'static str) {
    if cfg!(target_feature = "avx512f") {
        (16, "AVX-512")
    } else if cfg!(target_feature = "avx2") {
        (8, "AVX2")
    } else if cfg!(target_feature = "avx") {
        (8, "AVX")
    } else if cfg!(target_feature = "sse2") {
        (4, "SSE2")
    } else if cfg!(target_feature = "neon") {
        (4, "NEON")
    } else {
        (1, "no vector instructions")
    }
}

/// Bytes of a cache level per worker: the smallest share of any worker.
fn share(topology: &Topology, level: u32, workers: &[u32]) -> Option<u64> {
    let parts = workers.iter().map(|&cpu| {
        let cache = topology.cache(level, cpu)?;
        let sharers = workers.iter().filter(|&cpu| cache.cpus.binary_search(cpu).is_ok()).count();
        Some(cache.bytes / sharers.max(1) as u64)
    });
    parts.collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// Bytes of all caches of a level that workers use; None if a worker has none.
fn reached(topology: &Topology, level: u32, workers: &[u32]) -> Option<u64> {
    if workers.is_empty() || workers.iter().any(|&cpu| topology.cache(level, cpu).is_none()) {
        return None;
    }
    let used = topology.caches.iter().filter(|cache| {
        cache.level == level && workers.iter().any(|cpu| cache.cpus.binary_search(cpu).is_ok())
    });
    Some(used.map(|cache| cache.bytes).sum())
}

/// Bytes of `count` activations per hidden unit for a tile.
fn rows(count: usize, hidden: usize, work: &Workload) -> u64 {
    (count * hidden) as u64 * (work.tile * FLOAT) as u64
}

/// Bytes that an update touches for every tile. Between two hidden layers: the weights, their transpose and the sums of
/// their gradient. For every layer: activations, their gradients, and transposed inputs for the sums.
fn update_bytes(hidden: usize, work: &Workload) -> u64 {
    let matrices = 3 * work.layers.saturating_sub(1);
    let weights = (matrices * FLOAT) as u64 * (hidden as u64).pow(2);
    work.networks as u64 * (weights + rows(3 * work.layers, hidden, work))
}

/// The most hidden units whose bytes fit.
fn largest(bytes: u64, needs: impl Fn(usize) -> u64) -> usize {
    // An upper bound that no network reaches.
    let (mut fits, mut over) = (0, 1 << 20);
    while over - fits > 1 {
        let middle = fits + (over - fits) / 2;
        if needs(middle) <= bytes { fits = middle } else { over = middle }
    }
    fits
}

fn bounded(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Bytes in the largest unit that represents them exactly, or in KiB.
fn size(bytes: u64) -> String {
    match bytes {
        1_048_576.. if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        1024.. => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}
