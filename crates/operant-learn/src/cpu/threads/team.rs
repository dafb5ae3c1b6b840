//! Threads that stay awake between small jobs.
//!
//! A minibatch of 256 samples is 40 microseconds of work on each of two cores, about what a sleeping thread takes to wake:
//! passed to rayon one by one, such minibatches gain nothing from a second core. A team keeps the pool's threads in one
//! rayon scope for a whole update; they spin for the next round and then yield, as [`WaitStrategy`] sets. Large jobs go
//! directly to rayon.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use rayon::prelude::*;

use crate::cpu::threads::pool::WaitStrategy;

/// A job that changes from round to round, and the threads that do its items.
pub(crate) struct WorkerTeam<'a, J> {
    job: RwLock<J>,
    work: &'a (dyn Fn(&J, usize) + Sync),
    /// Polls of a waiting thread before it yields; None if threads sleep between rounds.
    spins: Option<u32>,
    /// Whether the leader does all items.
    alone: bool,
    /// Number of rounds started.
    round: AtomicUsize,
    /// Items of this round: how many there are, have been taken, are done.
    count: AtomicUsize,
    taken: AtomicUsize,
    done: AtomicUsize,
    over: AtomicBool,
    failed: AtomicBool,
}

/// Runs `lead`, which may call [`WorkerTeam::round`] any number of times; `work(job, item)` processes one item of a round. The threads
/// of the current rayon pool wait for rounds as `waiting` says; with [`WaitStrategy::Sleep`] each round is a parallel loop. With
/// None the leader does all items.
pub(crate) fn lead<J: Send + Sync, R>(
    waiting: Option<WaitStrategy>,
    job: J,
    work: &(dyn Fn(&J, usize) + Sync),
    lead: impl FnOnce(&WorkerTeam<'_, J>) -> R,
) -> R {
    let alone = waiting.is_none() || rayon::current_num_threads() == 1;
    let spins = waiting.and_then(WaitStrategy::spins).filter(|_| !alone);
    let zero = || AtomicUsize::new(0);
    let (over, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let (round, count, taken, done) = (zero(), zero(), zero(), zero());
    let team =
        WorkerTeam { job: RwLock::new(job), work, spins, alone, round, count, taken, done, over, failed };
    if spins.is_none() {
        return lead(&team);
    }
    rayon::in_place_scope(|scope| {
        // Dropped before the scope waits for the others, whether `lead` returns or panics.
        let _over = SetOnDrop(&team.over);
        scope.spawn_broadcast(|_, _| team.help());
        lead(&team)
    })
}

impl<J: Send + Sync> WorkerTeam<'_, J> {
    /// Changes the job with `change`, then processes items `0 .. count` of it, in any order, on all threads; returns when all are
    /// done.
    pub fn round(&self, count: usize, change: impl FnOnce(&mut J)) {
        {
            // Items are taken only under the read lock, so no thread sees intermediate counters.
            let mut job = self.write();
            change(&mut job);
            self.count.store(count, Ordering::Relaxed);
            self.taken.store(0, Ordering::Relaxed);
            self.done.store(0, Ordering::Relaxed);
        }
        if self.spins.is_some() {
            // The leader processes a single item itself. A late helper of the previous round may still take it, so the leader waits
            // for its end.
            if count > 1 {
                self.round.fetch_add(1, Ordering::Release);
            }
            self.take_items();
            self.wait(|| self.done.load(Ordering::Acquire) == count || self.failed.load(Ordering::Acquire));
            assert!(!self.failed.load(Ordering::Acquire), "another thread of the team panicked");
        } else if count == 1 || self.alone {
            self.take_items();
        } else {
            let job = self.read();
            (0..count).into_par_iter().with_max_len(1).for_each(|item| (self.work)(&job, item));
        }
    }

    /// The loop of the other threads until the leader is done.
    fn help(&self) {
        let mut seen = 0;
        loop {
            self.wait(|| self.over.load(Ordering::Acquire) || self.round.load(Ordering::Acquire) != seen);
            if self.over.load(Ordering::Acquire) {
                return;
            }
            seen = self.round.load(Ordering::Acquire);
            self.take_items();
        }
    }

    /// Does items of the current round until all are taken.
    fn take_items(&self) {
        let job = self.read();
        loop {
            let item = self.taken.fetch_add(1, Ordering::Relaxed);
            if item >= self.count.load(Ordering::Relaxed) {
                return;
            }
            let failed = SetOnDrop(&self.failed);
            (self.work)(&job, item);
            std::mem::forget(failed);
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    /// Spins for the locks too; they are held only briefly.
    fn read(&self) -> RwLockReadGuard<'_, J> {
        let mut guard = None;
        self.wait(|| {
            guard = match self.job.try_read() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            guard.is_some()
        });
        guard.expect("waited for")
    }

    fn write(&self) -> RwLockWriteGuard<'_, J> {
        let mut guard = None;
        self.wait(|| {
            guard = match self.job.try_write() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            guard.is_some()
        });
        guard.expect("waited for")
    }

    /// Spins until `ready`, and yields if that takes long.
    fn wait(&self, mut ready: impl FnMut() -> bool) {
        let mut spins = self.spins.unwrap_or(0);
        while !ready() {
            if spins > 0 {
                spins -= 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// Sets a flag when dropped.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::ThreadPoolBuilder;

    #[test]
    fn every_item_of_every_round_is_done_once_and_before_the_round_ends() {
        const ROUNDS: usize = 40_000;
        let items = |round: usize| if round.is_multiple_of(2) { 1 } else { round % 8 };
        for threads in [1, 2, 5] {
            for waiting in
                [Some(WaitStrategy::Spin), Some(WaitStrategy::Yield), Some(WaitStrategy::Sleep), None]
            {
                let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let sums: Vec<AtomicUsize> = (0..7).map(|_| AtomicUsize::new(0)).collect();
                let leader = AtomicUsize::new(usize::MAX);
                let work = |job: &usize, item: usize| {
                    // Helpers are slow, so that a leader that does not wait for them is detected.
                    if rayon::current_thread_index() != Some(leader.load(Ordering::Relaxed)) {
                        assert!(waiting.is_some(), "the leader works alone");
                        (0..2_000).for_each(|_| std::hint::spin_loop());
                    }
                    sums[item].fetch_add(*job, Ordering::Relaxed);
                };
                let total = pool.install(|| {
                    leader.store(rayon::current_thread_index().unwrap(), Ordering::Relaxed);
                    lead(waiting, 0, &work, |team| {
                        // Rounds of one item alternate with larger ones: a late helper must not leave the leader early.
                        for round in 1..=ROUNDS {
                            let before: usize = sums.iter().map(|sum| sum.load(Ordering::Relaxed)).sum();
                            team.round(items(round), |job| *job = round);
                            let after: usize = sums.iter().map(|sum| sum.load(Ordering::Relaxed)).sum();
                            assert_eq!(
                                after - before,
                                round * items(round),
                                "round {round} was left unfinished"
                            );
                        }
                        ROUNDS
                    })
                });
                assert_eq!(total, ROUNDS);
                for (item, sum) in sums.into_iter().enumerate() {
                    let expected: usize = (1..=ROUNDS).filter(|&round| items(round) > item).sum();
                    assert_eq!(sum.into_inner(), expected, "item {item}, {threads} threads, {waiting:?}");
                }
            }
        }
    }

    #[test]
    #[should_panic]
    fn a_panic_in_an_item_reaches_the_leader() {
        let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        pool.install(|| {
            lead(Some(WaitStrategy::Spin), (), &|_, item| assert!(item != 3), |team| team.round(8, |_| ()));
        });
    }
}
