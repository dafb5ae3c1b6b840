//! Saving and restoring the CPU backend's state from and to its tiles.

use operant_env::running_words;
use operant_lane::isa::f32x16;
use wide::bytemuck;

use crate::backend::LearnError;
use crate::cpu::backend::CpuBackend;
use crate::cpu::network::tile::{LANES, Row, splat};
use crate::cpu::off_policy::Replaying;
use crate::cpu::rollout::{Tile, counts};
use crate::group::{gathered, share};
use crate::pool::Pool;
use crate::snapshot::Snapshot;
use crate::state::BackendState;

impl<const V: usize> CpuBackend<V> {
    /// All environments, `(N, leaves + 2)`.
    pub(super) fn environments(&self) -> Vec<u32> {
        let of_tile = |tile: &Tile<V>| -> Vec<u32> {
            let words = tile.environments();
            let of = |e: usize| words.iter().skip(e).step_by(V * LANES).copied();
            (0..tile.count).flat_map(of).collect()
        };
        self.tiles.iter().flat_map(of_tile).collect()
    }

    /// The inverse of [`Self::environments`]; environments past N are unchanged.
    fn set_environments(&mut self, all: &[u32]) -> Result<(), LearnError> {
        let mut next = all.chunks_exact(running_words(&*self.env));
        for tile in &mut self.tiles {
            let mut words = tile.environments();
            for (e, values) in next.by_ref().take(tile.count).enumerate() {
                for (leaf, value) in values.iter().enumerate() {
                    words[leaf * V * LANES + e] = *value;
                }
            }
            tile.set_environments(&words)?;
        }
        Ok(())
    }

    /// The state of layers with memory, `(N, states)`.
    pub(super) fn memory(&self) -> Vec<f32> {
        self.tiles.iter().flat_map(memory).collect()
    }

    /// What the running episodes have shown, `(N, words)`.
    fn counts(&self) -> Vec<u32> {
        self.tiles.iter().flat_map(|tile| tile.counts.of(tile.count)).copied().collect()
    }

    /// The state of all processes.
    ///
    /// # Errors
    /// When a process is lost.
    pub(super) fn snapshot(&self) -> Result<Snapshot, LearnError> {
        let discounted = self.tiles.iter().flat_map(|tile| &numbers(&tile.discounted)[..tile.count]);
        let discounted: Vec<f32> = discounted.copied().collect();
        let of_tile = |tile: &Tile<V>| tile.novelty.as_ref().map(|it| (it.discounted, tile.count));
        let novelty = self.tiles.iter().filter_map(of_tile);
        let novelty: Vec<f32> = novelty.flat_map(|(row, count)| numbers(&row)[..count].to_vec()).collect();
        let novelty = gathered(&*self.group, &novelty)?;
        let state = BackendState {
            playing: None,
            given: self.replaying.as_ref().map_or(0, |replaying| replaying.given),
            priorities: self
                .replaying
                .as_ref()
                .filter(|_| self.config.checkpoint_replay)
                .and_then(Replaying::saved),
            learner: self.state.clone(),
            environments: gathered(&*self.group, &self.environments())?,
            obs_norm: self.obs_norm.clone(),
            reward_norm: self.reward_norm.clone(),
            discounted: gathered(&*self.group, &discounted)?,
            memory: gathered(&*self.group, &self.memory())?,
            counts: gathered(&*self.group, &self.counts())?,
            rnd: self.rnd.as_ref().map(|rnd| (rnd.state.clone(), novelty)),
            pool: Pool::of(&*self.env).map(Pool::state),
            updates: self.updates,
            nonfinite_in_a_row: self.nonfinite_in_a_row,
        };
        Ok(state.to_snapshot(&*self.env, self.policy.network(), &self.config))
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot) -> Result<(), LearnError> {
        let features = self.obs_norm.mean.len();
        let (network, config) = (self.policy.network(), &self.config);
        let state = BackendState::from_snapshot(snapshot, &*self.env, network, config, features)?;
        let own = [state.environments.len(), state.discounted.len(), state.memory.len(), state.counts.len()]
            .map(|length| share(&*self.group, length));
        self.set_environments(&state.environments[own[0].clone()])?;
        for (tile, values) in self.tiles.iter_mut().zip(state.discounted[own[1].clone()].chunks(V * LANES)) {
            tile.discounted = row(values);
        }
        if let (Some(rnd), Some((of_rnd, discounted))) = (&mut self.rnd, state.rnd) {
            rnd.restore(of_rnd);
            let novelty = self.tiles.iter_mut().filter_map(|tile| tile.novelty.as_mut());
            for (novelty, values) in novelty.zip(discounted[own[1].clone()].chunks(V * LANES)) {
                novelty.discounted = row(values);
            }
        }
        if let Some(pool) = Pool::of(&*self.env) {
            pool.restore(state.pool.as_ref());
        }
        let states = self.tiles.first().map_or(0, |tile| tile.memory.len());
        let mut memory = state.memory[own[2].clone()].chunks_exact(states.max(1));
        for tile in &mut self.tiles {
            for (e, values) in memory.by_ref().take(tile.count).enumerate() {
                for (row, value) in tile.memory.iter_mut().zip(values) {
                    row[e / LANES].as_mut_array()[e % LANES] = *value;
                }
            }
        }
        // Otherwise new episodes have begun.
        if !self.env.leaves().is_empty() && state.updates > 0 {
            let mut counts = &state.counts[own[3].clone()];
            let of_env = counts::words(&self.config);
            for tile in &mut self.tiles {
                let (of_tile, rest) = counts.split_at(tile.count * of_env);
                tile.counts.set(of_tile);
                counts = rest;
            }
        }
        self.state = state.learner;
        if let Some(replaying) = &mut self.replaying {
            replaying.restore(state.given, state.priorities)?;
        }
        (self.obs_norm, self.reward_norm) = (state.obs_norm, state.reward_norm);
        (self.updates, self.nonfinite_in_a_row) = (state.updates, state.nonfinite_in_a_row);
        Ok(())
    }
}

/// The numbers of a row.
fn numbers<const V: usize>(row: &Row<V>) -> &[f32] {
    bytemuck::cast_slice(row)
}

/// A row that begins with these numbers.
fn row<const V: usize>(values: &[f32]) -> Row<V> {
    let mut row = splat(0.0);
    bytemuck::cast_slice_mut::<f32x16, f32>(&mut row)[..values.len()].copy_from_slice(values);
    row
}

/// State of the layers with memory of a tile's environments, one environment after the other; in a game that of each side.
fn memory<const V: usize>(tile: &Tile<V>) -> impl Iterator<Item = f32> {
    let of = |e: usize| tile.memory.iter().map(move |row| row[e / LANES].as_array()[e % LANES]);
    (0..tile.count).flat_map(of)
}
