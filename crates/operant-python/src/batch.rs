//! Environments in row-major arrays: what a step of Python's vector environments does, without Python.

pub mod obs;
mod rollout;

pub use rollout::{Judged, StepArrays};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use operant_env::play::Outputs;
use operant_env::versus::PLAYER;
use operant_env::{
    ActionSpace, AnyEnv, Autoreset, Checks, ENDED, EnvSpec, ObsSpace, Scene, Seen, StepError, Stepped,
    Stepper, TileSpec, checked, running_words, set_rows,
};

use self::obs::{Obs, bits, spread};

/// Maximum environments of a tile.
const MAX_ROWS: usize = 256;
/// Environments of the smallest tile; every tile has a multiple of it.
const BLOCK: usize = 16;
/// Tiles per thread, so that the last ones to finish cost little.
const TILES_PER_THREAD: usize = 4;

/// Actions of N environments: `(N, components)`.
#[derive(Clone, Copy)]
pub enum Actions<'a> {
    I64(&'a [i64]),
    I32(&'a [i32]),
    U8(&'a [u8]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

/// Actions that a policy took, `(N, components)`.
pub enum Taken<'a> {
    I64(&'a mut [i64]),
    F32(&'a mut [f32]),
}

/// Rewards of N environments.
pub enum Rewards<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
}

/// The arrays that a step fills.
pub struct Arrays<'a> {
    pub obs: Obs<'a>,
    /// Written where an episode ended, in same-step mode.
    pub final_obs: Obs<'a>,
    pub rewards: Rewards<'a>,
    /// 0 or 1, as the other truth values: what an array of NumPy's has may be any byte.
    pub terminated: &'a mut [u8],
    pub truncated: &'a mut [u8],
    /// Whether either holds.
    pub ended: &'a mut [u8],
    /// Return of the episode where one ended, else 0.
    pub returns: &'a mut [f32],
    /// Its length where one ended, else 0.
    pub lengths: &'a mut [i32],
    /// `(N, choices)`: 1 where a choice is legal. Empty without action masks.
    pub mask: &'a mut [i8],
    /// `(N)`: the player to move in a game of several; else empty.
    pub player: &'a mut [u32],
}

impl<'a> Arrays<'a> {
    /// Arrays of `(T, N)` rows as those of each step.
    pub fn steps(self, steps: usize, num_envs: usize, space: &ObsSpace, choices: usize) -> Vec<Self> {
        let mut all = Vec::with_capacity(steps);
        let mut rest = self;
        for _ in 0..steps {
            let (one, others) = rest.split(num_envs, space, choices);
            all.push(one);
            rest = others;
        }
        all
    }

    /// The first `rows` environments, and the others.
    fn split(self, rows: usize, space: &ObsSpace, choices: usize) -> (Self, Self) {
        let (obs, obs2) = self.obs.split(rows, space);
        let (final_obs, final_obs2) = self.final_obs.split(rows, space);
        let (rewards, rewards2) = match self.rewards {
            Rewards::F32(all) => {
                let (a, b) = all.split_at_mut(rows);
                (Rewards::F32(a), Rewards::F32(b))
            }
            Rewards::F64(all) => {
                let (a, b) = all.split_at_mut(rows);
                (Rewards::F64(a), Rewards::F64(b))
            }
        };
        let (terminated, terminated2) = self.terminated.split_at_mut(rows);
        let (truncated, truncated2) = self.truncated.split_at_mut(rows);
        let (ended, ended2) = self.ended.split_at_mut(rows);
        let (returns, returns2) = self.returns.split_at_mut(rows);
        let (lengths, lengths2) = self.lengths.split_at_mut(rows);
        let (mask, mask2) = self.mask.split_at_mut(rows * choices);
        let movers = rows.min(self.player.len());
        let (player, player2) = self.player.split_at_mut(movers);
        (
            Arrays { obs, final_obs, rewards, terminated, truncated, ended, returns, lengths, mask, player },
            Arrays {
                obs: obs2,
                final_obs: final_obs2,
                rewards: rewards2,
                terminated: terminated2,
                truncated: truncated2,
                ended: ended2,
                returns: returns2,
                lengths: lengths2,
                mask: mask2,
                player: player2,
            },
        )
    }
}

/// Why actions were refused; nothing was stepped.
#[derive(Debug, PartialEq)]
pub struct BadAction {
    /// The environment and the component.
    pub at: (usize, usize),
    pub value: f64,
    /// What would be legal.
    pub expected: String,
}

/// N environments on a few threads.
pub struct Batch {
    env: Arc<dyn AnyEnv>,
    pub spec: EnvSpec,
    pub num_envs: usize,
    pub autoreset: Autoreset,
    /// Sum of all components' choices if actions can be illegal, else 0.
    pub choices: usize,
    /// Which word of a state has the player to move, in a game of several.
    pub player: Option<usize>,
    seed: u64,
    /// Seeds of the environments if each has its own.
    seeds: Option<Vec<u64>>,
    /// The next global step.
    step: u64,
    tiles: Vec<Tile>,
    /// One per thread, so that the data between a tile's columns and the caller's rows stays in the nearest cache.
    scratch: Vec<Mutex<Scratch>>,
    /// None for one thread.
    pool: Option<rayon::ThreadPool>,
    /// The policy whose memory the tiles hold.
    remembers: Option<u64>,
    /// Whether each step is checked.
    checks: bool,
}

struct Tile {
    first: usize,
    /// Environments that exist; the tile's rows are rounded up to a multiple of 16.
    count: usize,
    rows: usize,
    stepper: Box<dyn Stepper>,
    /// `(states, R)`: the state of a policy with memory during rollouts here; zero before an episode. In a game `(sides, states, R)`.
    memory: Vec<f32>,
    /// `(R)`: the player to move in such a game; zeros elsewhere.
    movers: Vec<u32>,
    /// A bit per environment, 16 to a word: whether its next step only resets (with next-step resets).
    resetting: Vec<u16>,
}

impl Tile {
    /// These rows continue without memory.
    fn forget(&mut self, rows: impl Fn(usize) -> bool) {
        if self.memory.is_empty() {
            return;
        }
        for row in (0..self.rows).filter(|&row| rows(row)) {
            self.memory.iter_mut().skip(row).step_by(self.rows).for_each(|x| *x = 0.0);
        }
    }
}

/// Buffers of one tile's step: columns are environments.
struct Scratch {
    out: Outputs,
    /// `(components, R)`.
    actions: Vec<f32>,
    /// `(components, R)`: the actions of a policy before they were clipped.
    drawn: Vec<f32>,
    /// `(R)`: what a policy computed of them.
    logprobs: Vec<f32>,
    /// `(R)`.
    values: Vec<f32>,
}

impl Scratch {
    /// The buffers of a tile of `rows` rows, which may be the last and smaller one.
    fn stepped(&mut self, rows: usize) -> Stepped<'_> {
        let out = &mut self.out;
        let most = out.rewards.len();
        let (obs, legal) = (out.obs.len() / most * rows, out.legal.len() / most * rows);
        Stepped {
            seen: Seen { obs: &mut out.obs[..obs], legal: &mut out.legal[..legal] },
            final_obs: &mut out.final_obs[..obs],
            rewards: &mut out.rewards[..rows],
            terminated: &mut out.terminated[..rows / BLOCK],
            truncated: &mut out.truncated[..rows / BLOCK],
            returns: &mut out.returns[..rows],
            lengths: &mut out.lengths[..rows],
            metrics: &mut [],
        }
    }
}

impl Batch {
    /// N environments at the start of their first episodes. `threads` = 0 takes all that the process may use; `time_limit` None is
    /// the environment's own. With `checks`, a step fails if the environment returned what it may not.
    pub fn new(
        env: Arc<dyn AnyEnv>,
        num_envs: usize,
        threads: usize,
        seed: u64,
        autoreset: Autoreset,
        time_limit: Option<u32>,
        checks: bool,
    ) -> Result<Self, String> {
        let mut spec = env.spec();
        spec.time_limit = time_limit.unwrap_or(spec.time_limit);
        let usable = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { usable } else { threads };
        // A thread that would get less than a block of environments is not started.
        let threads = threads.min(num_envs.div_ceil(BLOCK)).max(1);
        let pool = (threads > 1).then(|| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.thread_name(|index| format!("operant-{index}")).build()
        });
        let pool =
            pool.transpose().map_err(|error| format!("{threads} threads cannot be started: {error}"))?;
        let choices = match &spec.actions {
            ActionSpace::Discrete(choices) if env.masked() => choices.iter().sum(),
            _ => 0,
        };
        let leaf = || env.leaves().iter().position(|leaf| leaf.name == PLAYER);
        let player = if spec.players > 1 { leaf() } else { None };
        let mut batch = Batch {
            scratch: Vec::new(),
            player,
            env,
            spec,
            num_envs,
            autoreset,
            choices,
            seed,
            seeds: None,
            step: 0,
            tiles: Vec::new(),
            pool,
            remembers: None,
            checks,
        };
        batch.start()?;
        Ok(batch)
    }

    /// Threads that step.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    fn start(&mut self) -> Result<(), String> {
        let per_tile = self.num_envs.div_ceil(TILES_PER_THREAD * self.threads()).next_multiple_of(BLOCK);
        let rows = per_tile.clamp(BLOCK, MAX_ROWS);
        let tile = |first: usize| {
            let count = rows.min(self.num_envs - first);
            let rows = count.next_multiple_of(BLOCK);
            let (autoreset, time_limit) = (self.autoreset, Some(self.spec.time_limit));
            let tile = TileSpec { autoreset, time_limit, ..TileSpec::new(self.seed, first as u32, rows) };
            let tile = TileSpec { count, ..tile };
            let stepper = match self.checks {
                true => checked(&*self.env, tile, Checks::All)?,
                false => self.env.stepper(tile)?,
            };
            Ok(Tile {
                first,
                count,
                rows,
                stepper,
                memory: Vec::new(),
                movers: vec![0; rows],
                resetting: vec![0; rows / BLOCK],
            })
        };
        let tiles: Result<_, StepError> = (0..self.num_envs).step_by(rows).map(tile).collect();
        self.tiles = tiles.map_err(|error| error.to_string())?;
        let scratch = || {
            let out = Outputs::new(&self.spec, self.env.masked(), rows);
            let (actions, each) = (vec![0.0; self.spec.actions.components() * rows], vec![0.0; rows]);
            Mutex::new(Scratch { out, drawn: actions.clone(), actions, logprobs: each.clone(), values: each })
        };
        self.scratch = (0..self.threads()).map(|_| scratch()).collect();
        self.step = 0;
        self.remembers = None;
        Ok(())
    }

    /// New episodes in all environments under this seed: as of a new batch.
    pub fn reseed(&mut self, seed: u64) -> Result<(), String> {
        (self.seed, self.seeds) = (seed, None);
        self.start()
    }

    /// New episodes in the environments that are chosen, or in all; with seeds, those have their own from now on.
    pub fn restart(&mut self, chosen: Option<&[bool]>, seeds: Option<&[u64]>) -> Result<(), String> {
        if chosen.is_none() {
            self.remembers = None;
        }
        // Each restart draws at its own step, so that a second one begins other episodes.
        self.step = if seeds.is_some() && chosen.is_none() { 0 } else { self.step + 1 };
        if let Some(seeds) = seeds {
            let own = self.seeds.get_or_insert_with(|| vec![self.seed; self.num_envs]);
            for (env, (own, seed)) in own.iter_mut().zip(seeds).enumerate() {
                if chosen.is_none_or(|chosen| chosen[env]) {
                    *own = *seed;
                }
            }
        }
        for tile in &mut self.tiles {
            let mut rows = vec![0u16; tile.rows / BLOCK];
            for row in 0..tile.count {
                let chosen = chosen.is_none_or(|chosen| chosen[tile.first + row]);
                rows[row / BLOCK] |= u16::from(chosen) << (row % BLOCK);
            }
            let seeds = seeds.map(|seeds| {
                let mut own = seeds[tile.first..tile.first + tile.count].to_vec();
                own.resize(tile.rows, 0);
                own
            });
            for (resetting, rows) in tile.resetting.iter_mut().zip(&rows) {
                *resetting &= !rows;
            }
            tile.forget(|row| rows[row / BLOCK] >> (row % BLOCK) & 1 == 1);
            let restarted = tile.stepper.restart(&rows, seeds.as_deref(), self.step);
            restarted.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The current observations and masks; the rest of `arrays` is unchanged.
    pub fn observe(&mut self, arrays: Arrays<'_>) -> Result<(), String> {
        let choices = self.choices;
        let scratch = self.scratch[0].get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut rest = arrays;
        for tile in &mut self.tiles {
            let observed = tile.stepper.observe(scratch.stepped(tile.rows).seen);
            observed.map_err(|error| error.to_string())?;
            let (mut own, others) = rest.split(tile.count, &self.spec.obs, choices);
            scratch.write_seen(tile, &mut own, choices, &self.spec.obs);
            write_players(tile, self.player, own.player);
            rest = others;
        }
        Ok(())
    }

    /// The first action that no environment takes.
    pub fn check(&self, actions: Actions<'_>) -> Result<(), BadAction> {
        let components = self.spec.actions.components();
        let bad = |index: usize, value: f64, expected: String| {
            Err(BadAction { at: (index / components, index % components), value, expected })
        };
        match &self.spec.actions {
            ActionSpace::Discrete(counts) => {
                fn first_outside<T: Copy>(
                    all: &[T],
                    counts: &[usize],
                    wide: impl Fn(T) -> i64,
                ) -> Option<usize> {
                    if let [count] = counts {
                        // One comparison per action, without a branch.
                        let outside = |&action: &T| wide(action) as u64 >= *count as u64;
                        if !all.iter().fold(false, |any, action| any | outside(action)) {
                            return None;
                        }
                        return all.iter().position(outside);
                    }
                    let at = |(index, &action): (usize, &T)| {
                        wide(action) as u64 >= counts[index % counts.len()] as u64
                    };
                    all.iter().enumerate().position(at)
                }
                let (index, value) = match actions {
                    Actions::I64(all) => (first_outside(all, counts, |x| x), |i: usize| all[i] as f64).at(),
                    Actions::I32(all) => {
                        (first_outside(all, counts, i64::from), |i: usize| f64::from(all[i])).at()
                    }
                    Actions::U8(all) => {
                        (first_outside(all, counts, i64::from), |i: usize| f64::from(all[i])).at()
                    }
                    Actions::F32(_) | Actions::F64(_) => return bad(0, f64::NAN, "whole numbers".to_owned()),
                };
                match index {
                    None => Ok(()),
                    Some(index) => bad(
                        index,
                        value,
                        format!("a whole number from 0 to {}", counts[index % components] - 1),
                    ),
                }
            }
            ActionSpace::Box { .. } => {
                let index = match actions {
                    Actions::F32(all) => all.iter().position(|x| !x.is_finite()),
                    // As it is stepped: 1e39 is none in single precision.
                    Actions::F64(all) => all.iter().position(|x| !(*x as f32).is_finite()),
                    _ => None,
                };
                let value = |i: usize| match actions {
                    Actions::F32(all) => f64::from(all[i]),
                    Actions::F64(all) => all[i],
                    _ => 0.0,
                };
                index.map_or(Ok(()), |index| bad(index, value(index), "a finite number".to_owned()))
            }
        }
    }

    /// One step of every environment with checked actions; returns how many episodes ended.
    pub fn step(&mut self, actions: Actions<'_>, arrays: Arrays<'_>) -> Result<usize, String> {
        self.remembers = None;
        let (pool, tiles, job) = self.job();
        let ended = match pool {
            Some(pool) => pool.install(|| job.run(tiles, arrays, actions)),
            None => job.run(tiles, arrays, actions),
        };
        self.step += 1;
        ended.map_err(|error| error.to_string())
    }

    /// The next step, and what it is done on.
    fn job(&mut self) -> (Option<&rayon::ThreadPool>, &mut [Tile], Job<'_>) {
        let job = Job {
            spec: &self.spec,
            scratch: &self.scratch,
            choices: self.choices,
            same_step: self.autoreset == Autoreset::SameStep,
            next_step: self.autoreset == Autoreset::NextStep,
            step: self.step,
            player: self.player,
        };
        (self.pool.as_ref(), &mut self.tiles, job)
    }

    /// The picture of an environment, and the length and return of its episode; None of them if it ended and awaits its reset.
    pub fn picture(&self, index: usize) -> (Scene, Option<(u32, f32)>) {
        let words = running_words(&*self.env);
        let at = self.tiles.partition_point(|tile| tile.first <= index) - 1;
        let (tile, row) = (&self.tiles[at], index - self.tiles[at].first);
        let mut all = vec![0; words * tile.rows];
        tile.stepper.save(&mut all);
        let state: Vec<u32> = (0..words).map(|word| all[word * tile.rows + row]).collect();
        let (leaves, episode) = state.split_at(words - 2);
        let progress = (episode[0] != ENDED).then(|| (episode[0], f32::from_bits(episode[1])));
        (self.env.picture(leaves), progress)
    }

    /// Whether the environment has a picture: the class of a world may lack `draw`.
    pub fn has_picture(&self) -> bool {
        self.env.file().is_none() || self.env.world().is_some_and(|world| world.draw.is_some())
    }

    /// The complete state of the environments, independent of the tiles: `(N, words)`.
    pub fn save(&self) -> State {
        let words = running_words(&*self.env);
        let mut all = Vec::new();
        for tile in &self.tiles {
            let mut own = vec![0; words * tile.rows];
            tile.stepper.save(&mut own);
            // In an order that does not depend on the tiles.
            for row in 0..tile.count {
                all.extend((0..words).map(|word| own[word * tile.rows + row]));
            }
        }
        State { words: all, seed: self.seed, seeds: self.seeds.clone(), step: self.step }
    }

    /// Continues from a state of as many environments of this kind.
    pub fn load(&mut self, state: &State) -> Result<(), String> {
        self.remembers = None;
        let words = running_words(&*self.env);
        if state.words.len() != words * self.num_envs {
            return Err(format!(
                "the state has {} words, and {} environments of {} have {}",
                state.words.len(),
                self.num_envs,
                self.spec.name,
                words * self.num_envs
            ));
        }
        if state.seeds.as_ref().is_some_and(|seeds| seeds.len() != self.num_envs) {
            return Err("the state has seeds of another number of environments".to_owned());
        }
        self.reseed(state.seed)?;
        if let Some(seeds) = &state.seeds {
            self.restart(None, Some(seeds))?;
        }
        for tile in &mut self.tiles {
            let rows = tile.rows;
            let mut own = vec![0; words * rows];
            // Rows without an environment keep what they have.
            tile.stepper.save(&mut own);
            for row in 0..tile.count {
                for word in 0..words {
                    own[word * rows + row] = state.words[(tile.first + row) * words + word];
                }
            }
            // The last words but one are the lengths of the episodes.
            let elapsed = &own[(words - 2) * rows..][..rows];
            for (row, &elapsed) in elapsed.iter().enumerate() {
                tile.resetting[row / BLOCK] |= u16::from(elapsed == ENDED) << (row % BLOCK);
            }
            tile.stepper.load(&own).map_err(|error| error.to_string())?;
        }
        self.step = state.step;
        Ok(())
    }
}

/// The complete state of a batch between steps.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// `(N, words)`: state, length and return of the episode.
    pub words: Vec<u32>,
    pub seed: u64,
    pub seeds: Option<Vec<u64>>,
    pub step: u64,
}

/// A found index and the value there.
trait At {
    fn at(self) -> (Option<usize>, f64);
}

impl<F: Fn(usize) -> f64> At for (Option<usize>, F) {
    fn at(self) -> (Option<usize>, f64) {
        (self.0, self.0.map_or(0.0, &self.1))
    }
}

/// One step of all tiles.
#[derive(Clone, Copy)]
struct Job<'a> {
    spec: &'a EnvSpec,
    scratch: &'a [Mutex<Scratch>],
    choices: usize,
    same_step: bool,
    next_step: bool,
    step: u64,
    player: Option<usize>,
}

impl Job<'_> {
    /// Steps these tiles, whose arrays these are; on other threads too if it runs on a pool's.
    fn run(self, tiles: &mut [Tile], arrays: Arrays<'_>, actions: Actions<'_>) -> Result<usize, StepError> {
        match tiles {
            [] => Ok(0),
            [tile] => {
                let mut scratch = self.scratch();
                scratch.take(tile, self.spec, actions);
                scratch.step(tile, self, arrays)
            }
            tiles => {
                let (left, right) = tiles.split_at_mut(tiles.len() / 2);
                let rows = right[0].first - left[0].first;
                let (a, b) = arrays.split(rows, &self.spec.obs, self.choices);
                let (a, b) = if rayon::current_thread_index().is_some() {
                    rayon::join(|| self.run(left, a, actions), || self.run(right, b, actions))
                } else {
                    (self.run(left, a, actions), self.run(right, b, actions))
                };
                Ok(a? + b?)
            }
        }
    }

    /// This thread's buffers.
    fn scratch(&self) -> MutexGuard<'_, Scratch> {
        let thread = rayon::current_thread_index().unwrap_or(0);
        self.scratch[thread].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scratch {
    /// Takes the tile's part of checked actions.
    fn take(&mut self, tile: &Tile, spec: &EnvSpec, actions: Actions<'_>) {
        let Tile { first, count, rows, .. } = *tile;
        let components = spec.actions.components();
        let range = first * components..(first + count) * components;
        let into = &mut self.actions[..components * rows];
        match actions {
            // They were checked, so they fit 32 bits.
            Actions::I64(all) => take(&all[range], components, rows, into, |x| x as i32 as f32),
            Actions::I32(all) => take(&all[range], components, rows, into, |x| x as f32),
            Actions::U8(all) => take(&all[range], components, rows, into, f32::from),
            Actions::F32(all) => take(&all[range], components, rows, into, |x| x),
            Actions::F64(all) => take(&all[range], components, rows, into, |x| x as f32),
        }
    }

    /// Steps a tile with the actions here.
    fn step(&mut self, tile: &mut Tile, job: Job<'_>, arrays: Arrays<'_>) -> Result<usize, StepError> {
        self.advance(tile, job)?;
        Ok(self.finish(tile, job, arrays))
    }

    /// Steps the environments of a tile with the actions here.
    fn advance(&mut self, tile: &mut Tile, job: Job<'_>) -> Result<(), StepError> {
        let Tile { rows, ref mut stepper, .. } = *tile;
        stepper.submit(&self.actions[..job.spec.actions.components() * rows], job.step)?;
        stepper.collect(self.stepped(rows))
    }

    /// Writes the results of a step; returns how many episodes it ended.
    fn finish(&mut self, tile: &mut Tile, job: Job<'_>, mut arrays: Arrays<'_>) -> usize {
        let count = tile.count;
        if !tile.memory.is_empty() {
            // The step after an end only resets; the policy's state after it still belongs to the last episode.
            let (resetting, out) = (std::mem::take(&mut tile.resetting), &self.out);
            let ends = |block: usize| out.terminated[block] | out.truncated[block] | resetting[block];
            tile.forget(|row| ends(row / BLOCK) >> (row % BLOCK) & 1 == 1);
            tile.resetting = resetting;
        }
        if job.next_step {
            for (block, resetting) in tile.resetting.iter_mut().enumerate() {
                *resetting = self.out.terminated[block] | self.out.truncated[block];
            }
        }
        self.write_seen(tile, &mut arrays, job.choices, &job.spec.obs);
        write_players(tile, job.player, arrays.player);
        match &mut arrays.rewards {
            Rewards::F32(to) => to.copy_from_slice(&self.out.rewards[..count]),
            Rewards::F64(to) => {
                to.iter_mut().zip(&self.out.rewards).for_each(|(to, reward)| *to = f64::from(*reward));
            }
        }
        self.write_ends(tile.rows, &mut arrays, job)
    }

    /// Writes the flags, statistics and last observations of ended episodes; returns their number.
    fn write_ends(&self, rows: usize, arrays: &mut Arrays<'_>, job: Job<'_>) -> usize {
        let (count, words) = (arrays.ended.len(), rows / BLOCK);
        let (terminated, truncated) = (&self.out.terminated[..words], &self.out.truncated[..words]);
        let mut ended = [0u16; MAX_ROWS / BLOCK];
        let ended = &mut ended[..words];
        for (ended, (terminated, truncated)) in ended.iter_mut().zip(terminated.iter().zip(truncated)) {
            *ended = terminated | truncated;
        }
        if count < rows {
            // Rows without an environment end nothing.
            ended[count / BLOCK] &= (1 << (count % BLOCK)) - 1;
        }
        let write = |words: &[u16], to: &mut [u8]| {
            spread(words.iter().map(|&word| word.into()), to, bits::<BLOCK>);
        };
        write(terminated, arrays.terminated);
        write(truncated, arrays.truncated);
        write(ended, arrays.ended);
        for ((to, from), ended) in arrays.returns.iter_mut().zip(&self.out.returns).zip(&*arrays.ended) {
            *to = if *ended != 0 { *from } else { 0.0 };
        }
        for ((to, from), ended) in arrays.lengths.iter_mut().zip(&self.out.lengths).zip(&*arrays.ended) {
            *to = if *ended != 0 { *from as i32 } else { 0 };
        }
        if job.same_step {
            let (words, to) = (&self.out.final_obs, &mut arrays.final_obs);
            set_rows(ended).for_each(|row| to.write_row(&job.spec.obs, words, rows, row));
        }
        ended.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Writes observations and masks.
    fn write_seen(&self, tile: &Tile, arrays: &mut Arrays<'_>, choices: usize, space: &ObsSpace) {
        let rows = tile.rows;
        arrays.obs.write(space, &self.out.obs, rows, 0);
        for (row, to) in arrays.mask.chunks_exact_mut(choices.max(1)).enumerate() {
            for (choice, to) in to.iter_mut().enumerate() {
                *to = (self.out.legal[choice / 32 * rows + row] >> (choice % 32) & 1) as i8;
            }
        }
    }
}

/// Writes whose turn it is in the environments of a tile, if they are games, whose word `player` of a state has it.
fn write_players(tile: &Tile, player: Option<usize>, to: &mut [u32]) {
    let Some(player) = player else { return };
    let mut rows = [0; MAX_ROWS];
    tile.stepper.leaf(player, &mut rows[..tile.rows]);
    to.copy_from_slice(&rows[..tile.count]);
}

/// Actions from `(count, components)` to `(components, rows)`.
fn take<T: Copy>(from: &[T], components: usize, rows: usize, to: &mut [f32], convert: impl Fn(T) -> f32) {
    if components == 1 {
        to.iter_mut().zip(from).for_each(|(to, &action)| *to = convert(action));
        return;
    }
    for (component, to) in to.chunks_exact_mut(rows).enumerate() {
        to.iter_mut()
            .zip(from.chunks_exact(components))
            .for_each(|(to, action)| *to = convert(action[component]));
    }
}
