//! Given transitions, with which a run begins.

use std::fmt;

use operant_env::{ActionSpace, ObsSpace};

use super::replay::{End, Replay, ReplayLayout};
use crate::backend::LearnError;
use crate::cpu::network::tile::TILE;
use crate::normalise::NormSums;

/// A replay that a program holds.
pub struct Given {
    /// The environment that it is of.
    pub env: String,
    /// Its observations.
    pub obs: ObsSpace,
    /// Its actions.
    pub actions: ActionSpace,
    /// Its rows.
    pub layout: ReplayLayout,
    /// Reads it: rows that each environment ever completed, and the rows of their rings, as [`Replay`] has them.
    pub read: Box<ReadReplay>,
}

/// Calls a function with heads and words.
pub type ReadReplay = dyn Fn(&mut dyn FnMut(&[u64], &[u32])) + Send;

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("env", &self.env).finish_non_exhaustive()
    }
}

/// The rows of rings of equal length.
#[derive(Clone, Copy)]
struct Rows<'a> {
    heads: &'a [u64],
    words: &'a [u32],
    stride: usize,
    end: usize,
}

impl<'a> Rows<'a> {
    fn row(&self, index: usize) -> &'a [u32] {
        &self.words[index * self.stride..][..self.stride]
    }

    /// The transitions, oldest first, one environment after the other: their rows, and the rows with the observations after them, which
    /// terminated ones do not have. The newest step has none yet if its episode goes on, and is none.
    fn transitions(self) -> impl Iterator<Item = (usize, Option<usize>)> {
        let rows = self.words.len() / self.stride / self.heads.len().max(1);
        self.heads.iter().enumerate().flat_map(move |(env, &head)| {
            let slot = move |age: u64| env * rows + ((head - age) % rows as u64) as usize;
            // Once a ring is full, the place of the oldest row may have been taken.
            let window = if head <= rows as u64 { head } else { rows as u64 - 1 };
            (1..=window).rev().filter_map(move |age| {
                let end = self.row(slot(age))[self.end];
                let next = (age > 1).then(|| slot(age - 1));
                match end {
                    _ if end == End::Final as u32 => None,
                    _ if end == End::Terminated as u32 => Some((slot(age), None)),
                    _ => Some((slot(age), Some(next?))),
                }
            })
        })
    }

    /// Calls `put(environment, row, end)` for each row of these transitions, dealt out to `environments`: as many transitions in a row to each.
    fn deal(self, environments: usize, mut put: impl FnMut(usize, usize, u32)) {
        let count = self.transitions().count();
        let env_of = |k: usize| (k as u128 * environments as u128 / count as u128) as usize;
        let mut all = self.transitions().enumerate().peekable();
        while let Some((k, (row, next))) = all.next() {
            let (env, end) = (env_of(k), self.row(row)[self.end]);
            let follows = all.peek().is_some_and(|&(k, (row, _))| Some(row) == next && env_of(k) == env);
            let cut = if end == End::GoesOn as u32 && !follows { End::Cut as u32 } else { end };
            put(env, row, cut);
            if let Some(next) = next.filter(|_| cut != End::GoesOn as u32) {
                put(env, next, End::Final as u32);
            }
        }
    }
}

impl Replay {
    /// Copies the transitions of another replay, divided evenly among the environments, and returns their number.
    ///
    /// # Errors
    /// When they do not all fit.
    pub(crate) fn take(&mut self, heads: &[u64], words: &[u32]) -> Result<u64, LearnError> {
        let (stride, end) = (self.layout().stride, self.layout().end);
        let (given, environments) = (Rows { heads, words, stride, end }, self.heads().len());
        let mut needed = vec![0; environments];
        given.deal(environments, |env, _, _| needed[env] += 1);
        let (most, room) = (needed.into_iter().max().unwrap_or(0), self.room());
        if most > room {
            return Err(LearnError::Config {
                key: "buffer_size",
                problem: format!(
                    "the given replay takes {} rows, final observations included, but buffer_size holds {}",
                    most * environments,
                    room * environments
                ),
                remedy: format!("set buffer_size to at least {}", most * environments),
            });
        }
        given.deal(environments, |env, row, end| self.push(env, given.row(row), end));
        Ok(given.transitions().count() as u64)
    }
}

/// The statistics of the observations of transitions, which are numbers.
pub(crate) fn obs_sums(heads: &[u64], words: &[u32], replay: &Replay, features: usize) -> NormSums {
    let (stride, end) = (replay.layout().stride, replay.layout().end);
    let given = Rows { heads, words, stride, end };
    let rows: Vec<usize> = given.transitions().map(|(row, _)| row).collect();
    let (mut sums, mut columns) = (NormSums::new(features), vec![[0.0f32; TILE]; features]);
    for rows in rows.chunks(TILE) {
        for (s, row) in rows.iter().enumerate() {
            let numbers = given.row(*row)[..features].iter().map(|word| f32::from_bits(*word));
            columns.iter_mut().zip(numbers).for_each(|(column, number)| column[s] = number);
        }
        sums.add(rows.len(), |feature| &columns[feature][..]);
    }
    sums
}
