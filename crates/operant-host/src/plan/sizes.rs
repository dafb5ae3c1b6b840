//! Sizes that suit threads.

use super::{PlanRequest, Workload};

/// Tiles per worker that the simulation assigns one by one; further ones are spread evenly.
const EVEN_TILES: usize = 64;

/// Environments of a lane, and the reason: as many as a vector holds, or the narrowest lane that exists.
pub(super) fn lane_width(work: &Workload) -> (usize, String) {
    let (vector, instructions) = work.vector;
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
pub(super) fn makespan(tiles: usize, time: f64, speeds: &[f64]) -> f64 {
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
