//! The profile of an update by phase and operation, on any device, and its bottleneck.

pub mod cpu;
pub mod gpu;

use crate::measure::Phases;

/// A phase of an update, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Rollout,
    /// Advantages.
    Gae,
    /// The epochs.
    Update,
    /// From the end of one update to the start of the next.
    Between,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::Gae => "gae",
            Self::Update => "update",
            Self::Between => "between",
        }
    }
}

/// The kind of work of an operation; the kind that takes the most time is the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// Steps and resets of environments.
    Environment,
    /// The network, forward and backward, and the loss between.
    Policy,
    /// Other work of a rollout: sampling, rewards, advantages; or all of it, if the device does not separate them.
    Rollout,
    /// Sums of gradients over samples, the optimiser's step, means and deviations.
    Reduction,
    /// Threads, or the device, waiting for each other.
    Synchronisation,
    /// The host, while the device waits.
    Host,
    /// Memory traffic of samples, and reports over the bus.
    Transfer,
    /// The epochs, if the device runs them as one operation.
    Update,
}

impl OperationKind {
    const ALL: [OperationKind; 8] = [
        Self::Environment,
        Self::Policy,
        Self::Rollout,
        Self::Reduction,
        Self::Synchronisation,
        Self::Host,
        Self::Transfer,
        Self::Update,
    ];

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

    /// Advice for reducing it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Environment => "the environment's rules take the time",
            Self::Policy => {
                "a narrower network, or fewer passes over samples, would take less; see the fraction of the peak"
            }
            Self::Rollout => "sampling and bookkeeping take the time",
            Self::Reduction => "larger minibatches have fewer sums and steps of the optimiser",
            Self::Synchronisation => "more environments, or larger minibatches, wait less often",
            Self::Host => "more environments give the device more work per command of the host",
            Self::Transfer => "memory is the limit: see the fraction of its bandwidth",
            Self::Update => "fewer passes over samples, or larger minibatches, would take less",
        }
    }
}

/// How a time was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimingMethod {
    /// The clock was read between operations, on every thread.
    Timers,
    /// The rest of the phase: all threads' wall time less the measured operations.
    Left,
    /// By CUDA events.
    Events,
    /// In a separate run of the same shape.
    Alone,
    /// By the host's clock, from one report to the next.
    Clock,
}

impl TimingMethod {
    pub fn name(self) -> &'static str {
        match self {
            Self::Timers => "timers",
            Self::Left => "left",
            Self::Events => "events",
            Self::Alone => "alone",
            Self::Clock => "clock",
        }
    }

    /// An explanation in one line.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Timers => {
                "timers: phase timers on every thread, in separate updates; the cost of reading the clock is subtracted"
            }
            Self::Left => "left: all threads' time in the phase, less the measured operations",
            Self::Events => "events: by CUDA events, without disturbing the run",
            Self::Alone => "alone: the same work in a separate run",
            Self::Clock => "clock: by the host's clock, from one report to the next",
        }
    }
}

/// An operation's share of an update.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    pub phase: Phase,
    pub name: &'static str,
    /// Its kind of work.
    pub kind: OperationKind,
    /// Its share of an update's wall time in seconds; the mean over threads.
    pub seconds: f64,
    /// How often it ran in an update; NaN where that is meaningless.
    pub calls: f64,
    /// Bytes per update between memory (or the bus) and processor, counted from the shapes; NaN if it stays within the caches.
    pub bytes: f64,
    /// How the time was measured.
    pub how: TimingMethod,
}

/// The profile of an update.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Median seconds from one update's report to the next, undisturbed.
    pub period: f64,
    /// Median seconds of the phases in undisturbed updates.
    pub phases: Phases,
    /// The operations of each phase.
    pub operations: Vec<Operation>,
    /// Notes for readers of the figures.
    pub notes: Vec<String>,
}

impl Profile {
    /// All operations' seconds.
    pub fn total(&self) -> f64 {
        self.operations.iter().map(|operation| operation.seconds).sum()
    }

    /// The kind of work that takes the most time, and its share.
    pub fn bottleneck(&self) -> (OperationKind, f64) {
        let total = self.total();
        let share = |kind: OperationKind| {
            let of_kind = self.operations.iter().filter(|operation| operation.kind == kind);
            of_kind.map(|operation| operation.seconds).sum::<f64>() / total
        };
        let shares = OperationKind::ALL.map(|kind| (kind, share(kind)));
        shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((OperationKind::Rollout, f64::NAN))
    }

    /// The timing methods used, each once.
    pub fn ways(&self) -> Vec<TimingMethod> {
        let mut ways: Vec<TimingMethod> = Vec::new();
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

    fn operation(kind: OperationKind, seconds: f64, how: TimingMethod) -> Operation {
        Operation { phase: Phase::Update, name: "x", kind, seconds, calls: 1.0, bytes: f64::NAN, how }
    }

    #[test]
    fn the_bottleneck_is_the_kind_that_takes_the_most_together() {
        let profile = Profile {
            period: 1.0,
            phases: Phases { rollout: 0.2, gae: f64::NAN, update: 0.8 },
            operations: vec![
                operation(OperationKind::Environment, 0.4, TimingMethod::Timers),
                operation(OperationKind::Policy, 0.3, TimingMethod::Timers),
                operation(OperationKind::Policy, 0.2, TimingMethod::Timers),
                operation(OperationKind::Synchronisation, 0.1, TimingMethod::Left),
            ],
            notes: Vec::new(),
        };
        let (kind, share) = profile.bottleneck();
        assert_eq!(kind, OperationKind::Policy);
        assert!((share - 0.5).abs() < 1e-12);
        assert_eq!(profile.ways(), [TimingMethod::Timers, TimingMethod::Left]);
    }
}
