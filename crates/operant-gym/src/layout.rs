//! The layout of the memory that a group of environments shares with its workers. The worker receives these numbers with its
//! task, so that they are written once.

use serde::Serialize;

/// Words of a cache line: a worker's own words are in lines that no other worker writes.
const LINE: usize = 16;
/// Words of the text of a failure.
const TEXT: usize = 4096;

/// Words of a worker's part: see [`Control`].
const CONTROL: usize = LINE + TEXT;

/// The words of one worker, from its first on.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Control {
    /// Turns that the trainer has begun.
    pub(crate) turn: usize,
    /// Turns that the worker has finished.
    pub(crate) done: usize,
    /// 1 once the worker is to end.
    pub(crate) close: usize,
    /// 0, or 1 + the row that failed.
    pub(crate) failed: usize,
    pub(crate) text_bytes: usize,
    /// Bytes of a text about keys of `info` ([`crate::keys`]), in place of that of a failure; 0 for none.
    pub(crate) keys_bytes: usize,
    /// Its text, UTF-8.
    pub(crate) text: usize,
}

impl Control {
    fn of(worker: usize) -> Self {
        let first = worker * CONTROL;
        Self {
            turn: first,
            done: first + 1,
            close: first + 2,
            failed: first + 3,
            text_bytes: first + 4,
            keys_bytes: first + 5,
            text: first + LINE,
        }
    }
}

/// What to do with a row in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Order {
    Step = 1,
    /// Begin an episode with the row's seed.
    Reset = 2,
}

/// The first word of each array. R rows, one environment each; `words` per observation.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Layout {
    pub(crate) rows: usize,
    pub(crate) words: usize,
    pub(crate) components: usize,
    pub(crate) mask_words: usize,
    /// `(R)`: an [`Order`] each.
    pub(crate) orders: usize,
    /// `(R)`: seeds of new episodes, below 2^31.
    pub(crate) seeds: usize,
    /// `(R, components)`: floats.
    pub(crate) actions: usize,
    /// `(2, R, words)`: a turn writes the half of its parity, so that a worker that dies leaves the observations before.
    pub(crate) obs: usize,
    /// `(R, words)`: the last observations of episodes that ended.
    pub(crate) final_obs: usize,
    /// `(R, mask_words)`: legal choices.
    pub(crate) legal: usize,
    /// `(R, 2)`: rewards in double precision.
    pub(crate) rewards: usize,
    /// `(R)`: bit 0 terminated, bit 1 truncated.
    pub(crate) ends: usize,
    /// `(R, 2)`: returns of the episodes that ended, in double precision.
    pub(crate) returns: usize,
    /// `(R)`: steps of the episode; where it ended, its length, or 0 where the game continues after a lost life.
    pub(crate) lengths: usize,
    /// `(R, metrics)`: floats, the environment's own metrics of the episodes that ended.
    pub(crate) metrics: usize,
    /// Words of all.
    pub(crate) total: usize,
}

impl Layout {
    pub(crate) fn new(
        workers: usize,
        rows: usize,
        words: usize,
        components: usize,
        mask_words: usize,
        metrics: usize,
    ) -> Self {
        let mut next = workers * CONTROL;
        let mut place = |words: usize| {
            let first = next;
            next = (next + words).next_multiple_of(LINE);
            first
        };
        let orders = place(rows);
        let seeds = place(rows);
        let actions = place(rows * components);
        let obs = place(2 * rows * words);
        let final_obs = place(rows * words);
        let legal = place(rows * mask_words);
        let rewards = place(2 * rows);
        let ends = place(rows);
        let returns = place(2 * rows);
        let lengths = place(rows);
        let metrics = place(rows * metrics);
        Self {
            rows,
            words,
            components,
            mask_words,
            orders,
            seeds,
            actions,
            obs,
            final_obs,
            legal,
            rewards,
            ends,
            returns,
            lengths,
            metrics,
            total: next,
        }
    }

    pub(crate) fn control(&self, worker: usize) -> Control {
        Control::of(worker)
    }

    /// The first word of a row's observation of a turn.
    pub(crate) fn obs_of(&self, turn: u32, row: usize) -> usize {
        self.obs + ((turn & 1) as usize * self.rows + row) * self.words
    }
}

/// Bytes of the longest text of a failure.
pub(crate) const TEXT_BYTES: usize = TEXT * 4;
