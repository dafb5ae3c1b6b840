//! Threads of this process as a group: each trains on a GPU of its own, or stands for a process in a test.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Group, Neighbours};
use crate::backend::LearnError;

/// Where the threads meet: each brings a part, and reads those of all.
#[derive(Debug)]
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    parts: Vec<Option<Vec<u8>>>,
    /// Threads that have read all parts.
    readers: usize,
    /// The first thread that has left.
    left: Option<usize>,
}

impl State {
    fn is_complete(&self) -> bool {
        self.parts.iter().all(Option::is_some)
    }
}

impl Meeting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as `condition` holds and no thread has left.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        mut condition: impl FnMut(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        self.changed
            .wait_while(state, |state| state.left.is_none() && condition(state))
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread of a group. When it is dropped, the others can exchange nothing more.
#[derive(Debug)]
struct Member {
    rank: usize,
    size: usize,
    meeting: Arc<Meeting>,
}

/// A group of `size` threads, by rank.
pub fn group(size: usize) -> Vec<Arc<dyn Group>> {
    let state = State { parts: vec![None; size], readers: 0, left: None };
    let meeting = Arc::new(Meeting { state: Mutex::new(state), changed: Condvar::new() });
    let member = |rank| Arc::new(Member { rank, size, meeting: Arc::clone(&meeting) }) as Arc<dyn Group>;
    (0..size).map(member).collect()
}

impl Member {
    fn meet(&self, own: &[u8], read: impl FnOnce(&[Option<Vec<u8>>])) -> Result<(), LearnError> {
        let meeting = &*self.meeting;
        // Until all have read the parts of the last meeting.
        let mut state = meeting.wait(meeting.state(), |state| state.parts[self.rank].is_some());
        // What is complete can be read after a thread has left; nothing new begins.
        if state.left.is_none() {
            state.parts[self.rank] = Some(own.to_vec());
            meeting.changed.notify_all();
            state = meeting.wait(state, |state| !state.is_complete());
            if state.is_complete() {
                read(&state.parts);
                state.readers += 1;
                if state.readers == self.size {
                    state.readers = 0;
                    state.parts.fill(None);
                    meeting.changed.notify_all();
                }
                return Ok(());
            }
        }
        let left = state.left.unwrap_or_default();
        Err(LearnError::Process(format!("{} of the run has ended unexpectedly", self.describe(left))))
    }
}

/// The part of a thread, when all are there.
fn part(parts: &[Option<Vec<u8>>], rank: usize) -> &[u8] {
    parts[rank].as_deref().unwrap_or_default()
}

impl Group for Member {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<(), LearnError> {
        self.meet(own, |parts| {
            for (rank, to) in all.chunks_exact_mut(own.len().max(1)).enumerate() {
                to.copy_from_slice(part(parts, rank));
            }
        })
    }

    fn swap(&self, partner: usize, own: &[u8], other: &mut [u8]) -> Result<(), LearnError> {
        self.meet(own, |parts| other.copy_from_slice(part(parts, partner)))
    }

    fn broadcast(&self, bytes: &mut [u8]) -> Result<(), LearnError> {
        let own = bytes.to_vec();
        self.meet(&own, |parts| bytes.copy_from_slice(part(parts, 0)))
    }

    fn exchange_time(&self) -> Duration {
        Duration::ZERO
    }

    fn abandon(&self) {
        let mut state = self.meeting.state();
        state.left = state.left.or(Some(self.rank));
        self.meeting.changed.notify_all();
    }

    fn neighbours(&self) -> Neighbours {
        Neighbours { on_machine: self.size, on_cpus: self.size, index: self.rank }
    }

    fn members(&self) -> &'static str {
        "GPUs"
    }

    fn describe(&self, rank: usize) -> String {
        format!("GPU {rank}")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.abandon();
    }
}
