//! A row of results, and its JSON.

use serde_json::{Map, Value, json};

use super::Bench;
use super::verdict::Comparison;
use crate::measure::{Phases, Spread};
use crate::profile::Profile;

/// The results of a case.
#[derive(Debug, Clone)]
pub struct Row {
    pub bench: Bench,
    pub env: String,
    /// `cpu` or `cuda:K`.
    pub device: String,
    /// `f32`, `tf32` or `bf16`.
    pub precision: &'static str,
    /// num_envs (N).
    pub envs: usize,
    /// CPU threads.
    pub threads: Option<usize>,
    /// A description of the work.
    pub work: String,
    /// Environment steps per second: median, minimum, maximum.
    pub sps: Spread,
    /// Number of repetitions.
    pub reps: usize,
    /// Width of the middle half of the repetitions, relative to the median.
    pub middle_half: f64,
    /// Floating-point operations of the network per step, if there is one.
    pub flops_per_step: Option<f64>,
    /// The device's peak floating-point operations per second; a multiply-add counts as two.
    pub peak_flops: Spread,
    /// Bytes read from and written to memory per step, counted from the shapes.
    pub bytes_per_step: f64,
    /// The memory's bandwidth in bytes per second.
    pub bandwidth: Spread,
    /// Phases of training.
    pub phases: Option<Phases>,
    /// Launches per rollout or update.
    pub launches: f64,
    /// Bytes over the bus per rollout or update.
    pub bus_bytes: f64,
    pub more: Value,
    /// The profile, if requested.
    pub profile: Option<Profile>,
    /// The comparison with an earlier run, if requested.
    pub comparison: Option<Comparison>,
}

impl Row {
    /// Steps per second per CPU thread.
    pub fn sps_per_core(&self) -> Option<f64> {
        self.threads.map(|threads| self.sps.median / threads as f64)
    }

    /// The fraction of the peak; None for a bench without a network.
    pub fn fraction_of_peak(&self) -> Option<f64> {
        self.flops_per_step.map(|flops| flops * self.sps.median / self.peak_flops.median)
    }

    /// The fraction of the memory's bandwidth.
    pub fn fraction_of_bandwidth(&self) -> f64 {
        self.bytes_per_step * self.sps.median / self.bandwidth.median
    }

    /// One object: the keys that scripts rely on, then all others. Unknown values are null.
    pub fn to_json(&self, machine: &str) -> Value {
        let mut object = match json!({
            "bench": self.bench.name(),
            "env": self.env,
            "device": self.device,
            "precision": self.precision,
            "envs": self.envs,
            "threads": self.threads,
            "sps_median": self.sps.median,
            "sps_min": self.sps.min,
            "sps_max": self.sps.max,
            "reps": self.reps,
            "flops_per_step": self.flops_per_step,
            "peak_flops": self.flops_per_step.map(|_| self.peak_flops.median),
            "fraction_of_peak": self.fraction_of_peak(),
            "work": self.work,
            "middle_half": self.middle_half,
            "sps_per_core": self.sps_per_core(),
            "bytes_per_step": self.bytes_per_step,
            "peak_bandwidth": self.bandwidth.median,
            "fraction_of_bandwidth": self.fraction_of_bandwidth(),
            "launches": self.launches,
            "bus_bytes": self.bus_bytes,
            "machine": machine,
            "version": env!("CARGO_PKG_VERSION"),
        }) {
            Value::Object(object) => object,
            _ => Map::new(),
        };
        if let Some(phases) = &self.phases {
            object.insert("rollout_s".to_owned(), json!(phases.rollout));
            object.insert("gae_s".to_owned(), json!(phases.gae));
            object.insert("update_s".to_owned(), json!(phases.update));
        }
        if let Value::Object(more) = &self.more {
            object.extend(more.clone());
        }
        if let Some(profile) = &self.profile {
            object.insert("profile".to_owned(), profile_to_json(profile));
        }
        if let Some(comparison) = &self.comparison {
            object.insert("compare".to_owned(), comparison.to_json());
        }
        Value::Object(object)
    }
}

fn profile_to_json(profile: &Profile) -> Value {
    let total = profile.total();
    let operations: Vec<Value> = profile
        .operations
        .iter()
        .map(|operation| {
            json!({
                "phase": operation.phase.name(),
                "operation": operation.name,
                "kind": operation.kind.name(),
                "seconds": operation.seconds,
                "share": operation.seconds / total,
                "calls": operation.calls,
                "bytes": operation.bytes,
                "how": operation.how.name(),
            })
        })
        .collect();
    let (bottleneck, share) = profile.bottleneck();
    json!({
        "period_s": profile.period,
        "rollout_s": profile.phases.rollout,
        "gae_s": profile.phases.gae,
        "update_s": profile.phases.update,
        "operations": operations,
        "bottleneck": bottleneck.name(),
        "bottleneck_share": share,
        "notes": profile.notes,
    })
}

/// A row of invented figures.
#[cfg(any(test, feature = "testing"))]
pub fn made_up(bench: Bench, [median, min, max]: [f64; 3]) -> Row {
    let known = |median| Spread { median, min: median, max: median };
    Row {
        bench,
        env: "cartpole".to_owned(),
        device: "cpu".to_owned(),
        precision: "f32",
        envs: 64,
        threads: Some(2),
        work: "some".to_owned(),
        sps: Spread { median, min, max },
        reps: 7,
        middle_half: 0.01,
        flops_per_step: (bench != Bench::Env).then_some(1_000.0),
        peak_flops: known(1e10),
        bytes_per_step: 32.0,
        bandwidth: known(1e9),
        phases: None,
        launches: 0.0,
        bus_bytes: 0.0,
        more: json!({}),
        profile: None,
        comparison: None,
    }
}

#[cfg(test)]
mod tests {
    use super::made_up as row;
    use super::*;

    #[test]
    fn a_row_has_the_keys_that_scripts_rely_on() {
        const KEYS: [&str; 13] = [
            "bench",
            "env",
            "device",
            "precision",
            "envs",
            "threads",
            "sps_median",
            "sps_min",
            "sps_max",
            "reps",
            "flops_per_step",
            "peak_flops",
            "fraction_of_peak",
        ];
        for bench in Bench::ALL {
            let value = row(bench, [1e6, 9e5, 2e6]).to_json("a machine");
            let object = value.as_object().expect("an object");
            assert!(KEYS.iter().all(|key| object.contains_key(*key)), "{value}");
        }
        let value = row(Bench::Train, [1e6, 9e5, 2e6]).to_json("a machine");
        assert_eq!(value["fraction_of_peak"], 0.1);
        assert_eq!(value["fraction_of_bandwidth"], 0.032);
        assert_eq!((&value["threads"], &value["sps_per_core"]), (&json!(2), &json!(5e5)));
        let value = row(Bench::Env, [1e6, 9e5, 2e6]).to_json("a machine");
        assert!(value["flops_per_step"].is_null() && value["fraction_of_peak"].is_null(), "{value}");
    }
}
