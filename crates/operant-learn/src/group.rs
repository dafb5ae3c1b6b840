//! Processes that train one run together: each plays its share of the environments, and all compute the same update.

use std::fmt::Debug;
use std::ops::{AddAssign, Range};
use std::time::Duration;

use wide::bytemuck::{self, Pod};

use crate::backend::LearnError;
use crate::config::{BLOCK_ENVS, Config, MAX_ENV_BLOCKS, ShuffleKind};

pub mod threads;

/// Bytes of the text of an error that other processes receive.
const ERROR_BYTES: usize = 4_096;

/// The processes of a run, or its only one.
///
/// All of them have to make the same calls in the same order.
pub trait Group: Debug + Send + Sync {
    /// The number of this process.
    fn rank(&self) -> usize;

    /// Number of processes.
    fn size(&self) -> usize;

    /// Collects equally long parts of all processes, in the order of their ranks.
    ///
    /// # Errors
    /// When a process is lost; all later calls fail too.
    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<(), LearnError>;

    /// Exchanges equally long parts with another process, which makes the call at the same time.
    ///
    /// # Errors
    /// Same as [`Group::all_gather`].
    fn swap(&self, partner: usize, own: &[u8], other: &mut [u8]) -> Result<(), LearnError>;

    /// Copies the bytes of process 0 to all processes, whose buffers have equal lengths.
    ///
    /// # Errors
    /// Same as [`Group::all_gather`].
    fn broadcast(&self, bytes: &mut [u8]) -> Result<(), LearnError>;

    /// Time spent in these calls so far, waiting for other processes included.
    fn exchange_time(&self) -> Duration;

    /// Leaves the group after a failure, while other processes may be waiting for this one: all later calls of this process fail, and the
    /// calls of the others fail when they detect it.
    fn abandon(&self) {}

    /// The processes with which this one shares its machine.
    fn neighbours(&self) -> Neighbours {
        Neighbours::default()
    }

    /// What has a share of the run.
    fn members(&self) -> &'static str {
        "processes"
    }

    /// A process in words, such as `process 3 (pid 4711 on node7)`.
    fn describe(&self, rank: usize) -> String {
        format!("process {rank}")
    }
}

/// Processes of a group near this one, including it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbours {
    /// Processes on this machine, which share its memory.
    pub on_machine: usize,
    /// Processes on this machine with the same set of usable CPUs.
    pub on_cpus: usize,
    /// The number of this process among those on this machine, from 0.
    pub index: usize,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { on_machine: 1, on_cpus: 1, index: 0 }
    }
}

/// A process alone.
#[derive(Debug, Clone, Copy)]
pub struct Alone;

impl Group for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<(), LearnError> {
        all.copy_from_slice(own);
        Ok(())
    }

    fn swap(&self, _partner: usize, own: &[u8], other: &mut [u8]) -> Result<(), LearnError> {
        other.copy_from_slice(own);
        Ok(())
    }

    fn broadcast(&self, _bytes: &mut [u8]) -> Result<(), LearnError> {
        Ok(())
    }

    fn exchange_time(&self) -> Duration {
        Duration::ZERO
    }
}

/// Refuses a number of processes that does not divide the blocks of environments.
pub(crate) fn check_shares(config: &Config, group: &dyn Group) -> Result<(), LearnError> {
    let (blocks, members) = (config.blocks(), group.members());
    if group.size() > 1 && config.algorithm.declaration().has_replay() {
        let problem = format!("\"{}\" learns in one process and on one device", config.algorithm);
        let remedy = "use one, or set algorithm = \"ppo\"".to_owned();
        return Err(LearnError::Config { key: "algorithm", problem, remedy });
    }
    if blocks.is_multiple_of(group.size()) {
        return Ok(());
    }
    let (key, problem, remedy) = match config.shuffle {
        ShuffleKind::Samples => (
            "shuffle",
            format!("a minibatch takes samples of any environment, and {members} divide the environments"),
            "set shuffle = \"blocks\"".to_owned(),
        ),
        ShuffleKind::Blocks => (
            "num_envs",
            format!(
                "{} environments form {blocks} block{}, which {} {members} cannot share equally",
                config.num_envs,
                if blocks == 1 { "" } else { "s" },
                group.size()
            ),
            remedy_for(group, blocks),
        ),
    };
    Err(LearnError::Config { key, problem, remedy })
}

/// How the environments can be shared, with `blocks` blocks now.
fn remedy_for(group: &dyn Group, blocks: usize) -> String {
    let (size, members) = (group.size(), group.members());
    if !size.is_power_of_two() || size > MAX_ENV_BLOCKS {
        return format!("use 2, 4, 8 or {MAX_ENV_BLOCKS} {members}");
    }
    let enough =
        format!("a num_envs that is a multiple of {}, with enough samples in a minibatch", BLOCK_ENVS * size);
    if blocks == 1 { format!("use {enough}") } else { format!("use up to {blocks} {members}, or {enough}") }
}

/// This process's slice of an array that is divided by rank.
pub(crate) fn share(group: &dyn Group, length: usize) -> Range<usize> {
    let own = length / group.size();
    group.rank() * own..(group.rank() + 1) * own
}

/// The numbers of all processes, each of which has equally many.
///
/// # Errors
/// When a process is lost.
pub(crate) fn gathered<T: Pod>(group: &dyn Group, own: &[T]) -> Result<Vec<T>, LearnError> {
    let mut all = vec![T::zeroed(); own.len() * group.size()];
    group.all_gather(bytemuck::cast_slice(own), bytemuck::cast_slice_mut(&mut all))?;
    Ok(all)
}

/// Adds the numbers of all processes, a power of two of them, pairwise along a tree: neighbours first, then their sums, and so on. All
/// processes get the same bits.
///
/// # Errors
/// When a process is lost.
pub(crate) fn add_all<T: Pod + AddAssign>(group: &dyn Group, numbers: &mut [T]) -> Result<(), LearnError> {
    if group.size() == 1 {
        return Ok(());
    }
    let mut other = vec![T::zeroed(); numbers.len()];
    let mut distance = 1;
    while distance < group.size() {
        let partner = group.rank() ^ distance;
        group.swap(partner, bytemuck::cast_slice(numbers), bytemuck::cast_slice_mut(&mut other))?;
        // a + b has the bits of b + a.
        numbers.iter_mut().zip(&other).for_each(|(number, other)| *number += *other);
        distance *= 2;
    }
    Ok(())
}

/// The texts of all processes, each cut to `bytes` bytes.
///
/// # Errors
/// When a process is lost.
pub(crate) fn gathered_texts(group: &dyn Group, own: &str, bytes: usize) -> Result<Vec<String>, LearnError> {
    let mut padded = vec![0; bytes];
    let length = own.len().min(bytes);
    padded[..length].copy_from_slice(&own.as_bytes()[..length]);
    let all = gathered(group, &padded)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    Ok(all.chunks_exact(bytes).map(text).collect())
}

/// An error that is sent to other processes.
pub trait Failure: std::fmt::Display + From<LearnError> {
    /// Whether the request is at fault: other settings or another machine would do.
    fn is_refusal(&self) -> bool;
}

/// The result of this process, if no process failed. All processes call it, and all fail if one does.
///
/// # Errors
/// The error of this process, or of the first process that failed (with its rank); or a process is lost.
pub fn agreed<T, E: Failure>(group: &dyn Group, own: Result<T, E>) -> Result<T, E> {
    const FAILED: u8 = 1;
    const REFUSED: u8 = 2;
    if group.size() == 1 {
        return own;
    }
    let state = match &own {
        Ok(_) => 0,
        Err(error) if error.is_refusal() => REFUSED,
        Err(_) => FAILED,
    };
    let states = gathered(group, &[state])?;
    let Some(first) = states.iter().position(|&state| state > 0) else { return own };
    let text = own.as_ref().err().map_or_else(String::new, ToString::to_string);
    let texts = gathered_texts(group, &text, ERROR_BYTES)?;
    own?;
    let text = format!("{}: {}", group.describe(first), texts[first]);
    Err(if states[first] == REFUSED { LearnError::Refused(text) } else { LearnError::Process(text) }.into())
}
