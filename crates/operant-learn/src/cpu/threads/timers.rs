//! Phase timers: the time of each part of a rollout and of an update, per thread. Timers are on only while profiling; when off,
//! they cost one untaken branch per part, a few times per tile of 64 samples.

use std::ops::AddAssign;
use std::time::Instant;

/// A part of a rollout or an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
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

impl Part {
    /// All of them, in order.
    pub const ALL: [Part; 14] = [
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

/// The time of a part.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PartTime {
    /// Seconds, added over threads.
    pub seconds: f64,
    /// How often it ran; each time includes one clock reading.
    pub calls: u64,
}

/// The time of each part, by [`Part`].
pub type PartTimes = [PartTime; Part::ALL.len()];

impl AddAssign for PartTime {
    fn add_assign(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.calls += other.calls;
    }
}

/// The timer of one thread, or of one tile.
#[derive(Debug, Clone)]
pub(crate) struct PhaseTimer {
    on: bool,
    last: Instant,
    times: PartTimes,
}

impl Default for PhaseTimer {
    fn default() -> Self {
        Self { on: false, last: Instant::now(), times: PartTimes::default() }
    }
}

impl PhaseTimer {
    /// Switches the timer on or off.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// A timer that is on if this one is.
    pub fn like(&self) -> Self {
        Self { on: self.on, ..Self::default() }
    }

    /// Starts a part; the time since the end of the last one is not counted.
    #[inline(always)]
    pub fn start(&mut self) {
        if self.on {
            self.last = Instant::now();
        }
    }

    /// Ends a part and starts the next.
    #[inline(always)]
    pub fn end(&mut self, part: Part) {
        if self.on {
            self.take(part, 1);
        }
    }

    /// Like `end`, for a part that several threads computed together.
    #[inline(always)]
    pub fn end_on(&mut self, part: Part, threads: usize) {
        if self.on {
            self.take(part, threads);
        }
    }

    #[cold]
    #[inline(never)]
    fn take(&mut self, part: Part, threads: usize) {
        let now = Instant::now();
        let seconds = (now - self.last).as_secs_f64() * threads as f64;
        self.times[part as usize] += PartTime { seconds, calls: 1 };
        self.last = now;
    }

    /// Adds the times to `to` and resets them.
    pub fn drain(&mut self, to: &mut PartTimes) {
        for (to, from) in to.iter_mut().zip(std::mem::take(&mut self.times)) {
            *to += from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_order_so_that_a_number_names_one() {
        for (number, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, number);
        }
    }

    #[test]
    fn only_what_is_switched_on_is_counted_and_it_is_counted_once() {
        let (mut timer, mut times) = (PhaseTimer::default(), PartTimes::default());
        timer.start();
        timer.end(Part::Policy);
        timer.drain(&mut times);
        assert_eq!(times, PartTimes::default());
        timer.switch(true);
        timer.start();
        timer.end(Part::Policy);
        timer.end_on(Part::Statistics, 3);
        for _ in 0..2 {
            timer.drain(&mut times);
            let calls: Vec<u64> = times.iter().map(|time| time.calls).collect();
            assert_eq!(calls.iter().sum::<u64>(), 2);
            assert_eq!((calls[Part::Policy as usize], calls[Part::Statistics as usize]), (1, 1));
        }
    }
}
