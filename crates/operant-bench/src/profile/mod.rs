//! Where the time of an update goes, by phase and by operation, on any device, and what holds it back.

pub mod cpu;
pub mod gpu;

use crate::measure::Phases;

/// A part of an update, in the order in which they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The horizon.
    Rollout,
    /// Advantages.
    Gae,
    /// The epochs.
    Update,
    /// From the end of one update to the start of the next.
    Between,
}

impl Phase {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::Gae => "gae",
            Self::Update => "update",
            Self::Between => "between",
        }
    }
}

/// What kind of work an operation is; the kind that takes the most time is the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Steps and resets of environments.
    Environment,
    /// The network, forward and backward, and the loss between.
    Policy,
    /// What else a rollout does: sampling, rewards, advantages; all of it on a device that does not separate them.
    Rollout,
    /// Sums of gradients over samples, the optimiser's step, means and deviations.
    Reduction,
    /// Threads, or the device, waiting for each other.
    Synchronisation,
    /// The host, while the device waits.
    Host,
    /// Samples on their way through memory, reports over the bus.
    Transfer,
    /// The epochs, where the device runs them as one.
    Update,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Self::Environment,
        Self::Policy,
        Self::Rollout,
        Self::Reduction,
        Self::Synchronisation,
        Self::Host,
        Self::Transfer,
        Self::Update,
    ];

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::Policy => "policy",
            Self::Rollout => "rollout",
            Self::Reduction => "reduction",
            Self::Synchronisation => "synchronisation",
            Self::Host => "host",
            Self::Transfer => "transfer",
            Self::Update => "update",
        }
    }

    /// What would make it take less.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Environment => "the rules of the environment themselves take the time",
            Self::Policy => {
                "a narrower network, or fewer epochs, would take less; see the fraction of the peak"
            }
            Self::Rollout => "sampling and bookkeeping take the time",
            Self::Reduction => "larger minibatches have fewer sums and steps of the optimiser",
            Self::Synchronisation => "more environments, or larger minibatches, wait less often",
            Self::Host => "more environments give the device more to do for each word of the host",
            Self::Transfer => "memory is the limit: see the fraction of its bandwidth",
            Self::Update => "fewer epochs, or larger minibatches, would take less",
        }
    }
}

/// How a figure came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The clock was read between operations, on every thread.
    Timers,
    /// What is left of the phase: all threads' wall time less what is accounted for.
    Left,
    /// By the device's own events.
    Events,
    /// In a run of its own, of the same shape.
    Alone,
    /// By the host's clock, from one report to the next.
    Clock,
}

impl How {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timers => "laps",
            Self::Left => "left",
            Self::Events => "events",
            Self::Alone => "alone",
            Self::Clock => "clock",
        }
    }

    /// What that means, in one line.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Timers => {
                "laps: the clock was read between operations on every thread, in updates of their own; its cost is taken off"
            }
            Self::Left => "left: all threads' time in the phase, less what is accounted for",
            Self::Events => "events: by the device's own events, without disturbing it",
            Self::Alone => "alone: the same work in a run of its own",
            Self::Clock => "clock: by the host's clock, from one report to the next",
        }
    }
}

/// An operation's share of an update.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// In which phase.
    pub phase: Phase,
    /// What it is.
    pub name: &'static str,
    /// What kind of work.
    pub kind: Kind,
    /// Seconds of an update's wall time that it accounts for: of several threads, their mean.
    pub seconds: f64,
    /// How often it was done in an update; NaN where that says nothing.
    pub calls: f64,
    /// Bytes that it moves in an update between memory, or the bus, and processor, counted from the shapes; NaN where it
    /// stays within the caches.
    pub bytes: f64,
    /// How the time was found.
    pub how: How,
}

/// Where the time of an update goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Seconds from one update's report to the next, undisturbed; the median.
    pub period: f64,
    /// Seconds of the phases in undisturbed updates; the medians.
    pub phases: Phases,
    /// The operations of each phase.
    pub operations: Vec<Operation>,
    /// What a reader of the figures should know.
    pub notes: Vec<String>,
}

impl Profile {
    /// All operations' seconds.
    pub fn total(&self) -> f64 {
        self.operations.iter().map(|operation| operation.seconds).sum()
    }

    /// The kind of work that takes the most, and its share of all.
    pub fn bottleneck(&self) -> (Kind, f64) {
        let total = self.total();
        let share = |kind: Kind| {
            let of_kind = self.operations.iter().filter(|operation| operation.kind == kind);
            of_kind.map(|operation| operation.seconds).sum::<f64>() / total
        };
        let shares = Kind::ALL.map(|kind| (kind, share(kind)));
        shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((Kind::Rollout, f64::NAN))
    }

    /// The ways in which figures came about, each once.
    pub fn ways(&self) -> Vec<How> {
        let mut ways: Vec<How> = Vec::new();
        for operation in &self.operations {
            if !ways.contains(&operation.how) {
                ways.push(operation.how);
            }
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(kind: Kind, seconds: f64, how: How) -> Operation {
        Operation { phase: Phase::Update, name: "x", kind, seconds, calls: 1.0, bytes: f64::NAN, how }
    }

    #[test]
    fn the_bottleneck_is_the_kind_that_takes_the_most_together() {
        let profile = Profile {
            period: 1.0,
            phases: Phases { rollout: 0.2, gae: f64::NAN, update: 0.8 },
            operations: vec![
                operation(Kind::Environment, 0.4, How::Timers),
                operation(Kind::Policy, 0.3, How::Timers),
                operation(Kind::Policy, 0.2, How::Timers),
                operation(Kind::Synchronisation, 0.1, How::Left),
            ],
            notes: Vec::new(),
        };
        let (kind, share) = profile.bottleneck();
        assert_eq!(kind, Kind::Policy);
        assert!((share - 0.5).abs() < 1e-12);
        assert_eq!(profile.ways(), [How::Timers, How::Left]);
    }
}
