//! Identity of a run: lines `name<TAB>value` at the start of a ring.

use std::path::PathBuf;

use super::{clock, text};
use crate::os::{boot_id, time_namespace};
use crate::process::{ProcessInfo, process_start};

/// Describes a run; written by its trainer before the first update.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Identity {
    /// Name of the run.
    pub run: String,
    /// Environment.
    pub env: String,
    /// Algorithm that learns, `ppo`; empty if an earlier version wrote it.
    pub algorithm: String,
    /// Device that trains.
    pub device: String,
    /// Seed.
    pub seed: u64,
    /// The run's directory, absolute.
    pub dir: PathBuf,
    /// Process id of the trainer.
    pub pid: u32,
    /// Start time of that process, in clock ticks after boot: together with `boot_id` it distinguishes the process from
    /// a later one of the same id. 0 where the system does not report it.
    pub process_start: u64,
    /// Identifies the boot; empty where the system does not report it.
    pub boot_id: String,
    /// Creation time of the ring, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Environment steps that the run is to take.
    pub total_steps: u64,
    /// Mean return that counts as solved.
    pub solved_at: Option<f64>,
    /// Version of the trainer.
    pub version: String,
    /// Whether it runs apart from any terminal, as a daemon does.
    pub detached: bool,
    /// The time namespace of the trainer: only in the same one, times in the ring can be compared with a reader's clock.
    /// Empty where that is not known.
    pub time_namespace: String,
}

impl Identity {
    /// An identity with the fields that describe this process filled in.
    pub fn of_this_process(run: &str, env: &str) -> Self {
        Identity {
            run: run.to_owned(),
            env: env.to_owned(),
            pid: std::process::id(),
            process_start: process_start(std::process::id()).unwrap_or(0),
            boot_id: boot_id(),
            started_unix_ns: clock::unix_now(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            detached: is_detached(),
            time_namespace: time_namespace(),
            ..Identity::default()
        }
    }

    pub(super) fn to_text(&self) -> String {
        let plain = |text: &str| text.replace(['\n', '\t'], " ");
        let mut text = String::new();
        let mut line = |name: &str, value: &str| text.extend([name, "\t", &plain(value), "\n"]);
        line("run", &self.run);
        line("env", &self.env);
        line("device", &self.device);
        line("seed", &self.seed.to_string());
        line("dir", &self.dir.to_string_lossy());
        line("pid", &self.pid.to_string());
        line("process_start", &self.process_start.to_string());
        line("boot_id", &self.boot_id);
        line("started_unix_ns", &self.started_unix_ns.to_string());
        line("total_steps", &self.total_steps.to_string());
        if let Some(solved_at) = self.solved_at {
            line("solved_at", &solved_at.to_string());
        }
        line("version", &self.version);
        if !self.algorithm.is_empty() {
            line("algorithm", &self.algorithm);
        }
        if self.detached {
            line("detached", "true");
        }
        if !self.time_namespace.is_empty() {
            line("time_namespace", &self.time_namespace);
        }
        text
    }

    /// Parses the text; unknown names are skipped, missing ones stay empty.
    pub(super) fn from_text(text: &str) -> Self {
        let mut identity = Identity::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('\t')) {
            let value = text::plain(value);
            let number = || value.parse().unwrap_or(0);
            match name {
                "run" => identity.run = value,
                "env" => identity.env = value,
                "algorithm" => identity.algorithm = value,
                "device" => identity.device = value,
                "seed" => identity.seed = number(),
                "dir" => identity.dir = PathBuf::from(value),
                "pid" => identity.pid = value.parse().unwrap_or(0),
                "process_start" => identity.process_start = number(),
                "boot_id" => identity.boot_id = value,
                "started_unix_ns" => identity.started_unix_ns = number(),
                "total_steps" => identity.total_steps = number(),
                "solved_at" => identity.solved_at = value.parse().ok().filter(|x: &f64| x.is_finite()),
                "version" => identity.version = value,
                "detached" => identity.detached = value == "true",
                "time_namespace" => identity.time_namespace = value,
                _ => {}
            }
        }
        identity
    }

    /// Whether it is of this boot; true where the system does not report it.
    pub(super) fn is_of_this_boot(&self) -> bool {
        let now = boot_id();
        now.is_empty() || self.boot_id.is_empty() || now == self.boot_id
    }

    /// Whether its clock is that of this process.
    pub(super) fn shares_clock(&self) -> bool {
        self.is_of_this_boot() && self.time_namespace == time_namespace()
    }
}

/// Whether this process leads its own session that has no terminal.
fn is_detached() -> bool {
    let leads = ProcessInfo::this().is_some_and(|process| process.session == std::process::id());
    leads && std::fs::File::open("/dev/tty").is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_reads_back() {
        let mut identity = Identity {
            dir: PathBuf::from("/somewhere/runs/mine"),
            algorithm: "sac".to_owned(),
            total_steps: 12,
            solved_at: Some(-100.0),
            ..Identity::of_this_process("mine", "cartpole")
        };
        assert_eq!(Identity::from_text(&identity.to_text()), identity);
        assert!(identity.is_of_this_boot());
        identity.solved_at = None;
        identity.boot_id = "another".to_owned();
        assert_eq!(Identity::from_text(&identity.to_text()), identity);
        assert!(!identity.is_of_this_boot() || boot_id().is_empty());
    }

    #[test]
    fn lines_cannot_be_forged_and_garbage_reads_as_empty() {
        let identity = Identity { run: "a\npid\t1".to_owned(), ..Identity::default() };
        assert_eq!(Identity::from_text(&identity.to_text()).pid, 0);
        assert_eq!(Identity::from_text("\0\u{fffd}\t\nsolved_at\tNaN\npid\t-1\n"), Identity::default());
    }
}
