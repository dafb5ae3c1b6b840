//! Status of a run, from its trainer's state word and its lock.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::layout::{sample, state};
use super::reader::RingReader;
use super::state::{Health, RunState, STALL};
use super::{clock, lock, slot, text};

/// Status of a run at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Its health.
    pub health: Health,
    /// Why it ended, one line; empty while it has not, or if nothing was reported.
    pub reason: String,
    /// Time since the last record was published; none before the first of this process.
    pub since_update: Option<Duration>,
    /// Time since training last made progress: a tile of a rollout or of a minibatch; for a paused run, since it was paused.
    pub since_progress: Duration,
    /// Time since the last sign of life; for an ended run, about the time since its end.
    pub since_alive: Duration,
    /// Time from the trainer's start to now, or to its last sign of life.
    pub uptime: Duration,
    /// The latest checkpoint, if one was saved.
    pub checkpoint: Option<SavedCheckpoint>,
}

/// The latest checkpoint that the trainer reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedCheckpoint {
    /// Environment steps at which it was taken.
    pub env_steps: u64,
    /// Its directory.
    pub path: String,
}

/// What a reader has seen of a trainer whose clock is not its own, as in another container: when its words last changed, by
/// the reader's clock.
#[derive(Debug)]
pub(super) struct Watch {
    shares_clock: bool,
    /// The sums of the trainer's times when they were last seen to change, and when that was.
    seen: Mutex<[(u64, u64); 3]>,
}

impl Watch {
    pub(super) fn new(shares_clock: bool) -> Self {
        Watch { shares_clock, seen: Mutex::default() }
    }

    pub(super) fn shares_clock(&self) -> bool {
        self.shares_clock
    }

    /// How long ago something happened: the last of `times`, or where the trainer has its own clock, the last change of
    /// any of them that this reader has seen. Each `which` has its own memory.
    pub(super) fn since(&self, which: usize, now: u64, times: &[u64]) -> Duration {
        if self.shares_clock {
            return clock::since(now, times.iter().copied().max().unwrap_or(0));
        }
        let sum = times.iter().fold(0u64, |sum, time| sum.wrapping_add(*time));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen[which].1 == 0 || seen[which].0 != sum {
            seen[which] = (sum, now);
        }
        clock::since(now, seen[which].1)
    }

    /// As if everything had been seen so much earlier.
    #[cfg(test)]
    pub(super) fn age(&self, by: Duration) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter_mut().for_each(|(_, at)| *at -= by.as_nanos() as u64);
    }
}

/// Probes the lock and puts it together with what the file says.
pub(super) fn of(reader: &RingReader) -> Status {
    let words = &reader.words()[reader.sections.state.all()];
    let load = |word: usize| words[word].load(Ordering::Acquire);
    // The lock is tested before the state is read: in the other order, a trainer that writes its final state and exits
    // in between would look killed.
    let alive =
        reader.this_boot && reader.mapping.file().is_some_and(|file| lock::is_held(file).unwrap_or(true));
    let reported = RunState::of_code(load(state::CODE));
    let now = clock::now();

    let seen = &reader.words()[reader.sections.sample.all()];
    let sampled = (0..8).find_map(|_| {
        slot::read(seen, |content| {
            (
                content[sample::TIME].load(Ordering::Relaxed),
                content[sample::PROGRESS_AT].load(Ordering::Relaxed),
            )
        })
    });
    let (sampled_at, progress_at) = sampled.map_or((0, 0), |(_, times)| times);
    let [published_at, changed_at, created_at] =
        [state::PUBLISHED_AT, state::CHANGED_AT, state::CREATED_AT].map(load);
    let last_progress = published_at.max(progress_at).max(changed_at);
    let last_sign = last_progress.max(sampled_at);
    // The heartbeat goes on while training is paused.
    let progress: &[u64] = match reported {
        Some(RunState::Paused) => &[changed_at],
        _ => &[published_at, progress_at, changed_at],
    };
    let since_progress = reader.watch.since(0, now, progress);
    let since_alive = reader.watch.since(1, now, &[published_at, progress_at, changed_at, sampled_at]);

    let health = match reported {
        Some(state) if state.is_final() => Health::Reported(state),
        Some(RunState::Running | RunState::Stopping) if alive && since_progress > STALL => Health::Stalled,
        Some(state) if alive => Health::Reported(state),
        None if alive => Health::Reported(RunState::Starting),
        _ => Health::Killed,
    };
    let since_sign = if health.is_alive() { since_alive } else { Duration::ZERO };
    Status {
        health,
        reason: reason(&words[state::REASON]),
        since_update: (published_at > 0).then(|| match reader.watch.shares_clock() {
            true => clock::since(now, published_at),
            false => since_progress,
        }),
        since_progress,
        since_alive,
        uptime: clock::since(last_sign, created_at) + since_sign,
        checkpoint: checkpoint(&words[state::CHECKPOINT]),
    }
}

fn reason(words: &[std::sync::atomic::AtomicU64]) -> String {
    let content = (0..8).find_map(|_| slot::read(words, slot::copy));
    match content.as_ref().and_then(|(_, content)| content.split_first()) {
        Some((bytes, words)) => text::plain(&text::from_words(words, *bytes)),
        None => String::new(),
    }
}

fn checkpoint(words: &[std::sync::atomic::AtomicU64]) -> Option<SavedCheckpoint> {
    let (_, content) = (0..8).find_map(|_| slot::read(words, slot::copy))?;
    let (&[env_steps, bytes], words) = content.split_first_chunk::<2>()?;
    Some(SavedCheckpoint { env_steps, path: text::plain(&text::from_words(words, bytes)) })
}
