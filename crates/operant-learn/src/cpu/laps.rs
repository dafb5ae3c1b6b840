//! Where a thread's time goes, when somebody asks: the clock is read between the operations of a rollout and of an update. Off,
//! as it is unless a profile is made, a lap is one branch that is never taken, a few times in a tile of 64 samples.

use std::ops::AddAssign;
use std::time::Instant;

/// What a thread does, as far as it is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lap {
    /// Rollout: steps, resets, observations.
    Environment,
    /// Rollout: forward passes.
    Policy,
    /// Rollout: masks, random numbers, actions and their probabilities.
    Sampling,
    /// Rollout: samples into the batch, observations normalised.
    Storing,
    /// Rollout: rewards, ends of episodes, statistics, V(final_obs).
    Booking,
    /// Advantages.
    Gae,
    /// Update: samples out of the batch.
    Gather,
    /// Update: forward passes.
    Forward,
    /// Update: the loss and its gradient at the outputs.
    Loss,
    /// Update: backpropagation and the sums of weight gradients.
    Backward,
    /// Update: sums brought into the parameters' order and added up over chunks.
    Reduction,
    /// Update: the gradient's norm, and Adam.
    Adam,
    /// Both: weights into the form that products read.
    Packing,
    /// Update: mean and deviation of advantages, explained variance.
    Statistics,
}

impl Lap {
    /// All of them, in order.
    pub const ALL: [Lap; 14] = [
        Self::Environment,
        Self::Policy,
        Self::Sampling,
        Self::Storing,
        Self::Booking,
        Self::Gae,
        Self::Gather,
        Self::Forward,
        Self::Loss,
        Self::Backward,
        Self::Reduction,
        Self::Adam,
        Self::Packing,
        Self::Statistics,
    ];
}

/// Seconds of threads and readings of the clock.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spent {
    /// Seconds, added over threads.
    pub seconds: f64,
    /// Laps, each of which holds one reading of the clock.
    pub calls: u64,
}

/// What was spent on each lap, by [`Lap`].
pub(crate) type Account = [Spent; Lap::ALL.len()];

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.calls += other.calls;
    }
}

/// One thread's, or one tile's, account.
#[derive(Debug, Clone)]
pub(crate) struct Laps {
    on: bool,
    last: Instant,
    account: Account,
}

impl Default for Laps {
    fn default() -> Self {
        Self { on: false, last: Instant::now(), account: Account::default() }
    }
}

impl Laps {
    /// Whether the clock is read from now on.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// What comes now is counted; what came since the last lap is not.
    #[inline(always)]
    pub fn begin(&mut self) {
        if self.on {
            self.last = Instant::now();
        }
    }

    /// What came since the last lap, or the beginning, was this.
    #[inline(always)]
    pub fn lap(&mut self, lap: Lap) {
        if self.on {
            self.take(lap, 1);
        }
    }

    /// The same for what so many threads did together.
    #[inline(always)]
    pub fn lap_of(&mut self, lap: Lap, threads: usize) {
        if self.on {
            self.take(lap, threads);
        }
    }

    #[cold]
    #[inline(never)]
    fn take(&mut self, lap: Lap, threads: usize) {
        let now = Instant::now();
        let seconds = (now - self.last).as_secs_f64() * threads as f64;
        self.account[lap as usize] += Spent { seconds, calls: 1 };
        self.last = now;
    }

    /// Adds the account to `to` and empties it.
    pub fn drain(&mut self, to: &mut Account) {
        for (to, from) in to.iter_mut().zip(std::mem::take(&mut self.account)) {
            *to += from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laps_are_in_order_so_that_a_number_names_one() {
        for (number, lap) in Lap::ALL.into_iter().enumerate() {
            assert_eq!(lap as usize, number);
        }
    }

    #[test]
    fn only_what_is_switched_on_is_counted_and_it_is_counted_once() {
        let (mut laps, mut account) = (Laps::default(), Account::default());
        laps.begin();
        laps.lap(Lap::Policy);
        laps.drain(&mut account);
        assert_eq!(account, Account::default());
        laps.switch(true);
        laps.begin();
        laps.lap(Lap::Policy);
        laps.lap_of(Lap::Statistics, 3);
        for _ in 0..2 {
            laps.drain(&mut account);
            let calls: Vec<u64> = account.iter().map(|spent| spent.calls).collect();
            assert_eq!(calls.iter().sum::<u64>(), 2);
            assert_eq!((calls[Lap::Policy as usize], calls[Lap::Statistics as usize]), (1, 1));
        }
    }
}
