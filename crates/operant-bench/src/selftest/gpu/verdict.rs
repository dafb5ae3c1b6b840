//! Measurements compared with the goals.

use operant_learn::Precision;
use serde_json::{Value, json};

use super::Gpu;
use super::learning::Learning;
use super::starting::StartTimes;
use super::training::{GOAL_ENVS, GOAL_STEPS, Training};
use crate::selftest::report::{Report, amount};

/// Steps per second of full PPO on an H200.
const SPS_F32: f64 = 200e6;
/// See [`SPS_F32`].
const SPS_BF16: f64 = 500e6;
/// Goal for the share of time in which the GPU runs a kernel.
const UTILIZATION: f64 = 0.9;
/// Maximum bytes over the bus per update, without the scene.
const BUS_BYTES: f64 = 4096.0;
/// Maximum seconds from process start to CartPole solved, with a warm kernel cache.
const SOLVED_S: f64 = 1.0;

/// The measurements that are compared.
pub struct Measurements {
    /// Training in the configuration of the goals.
    pub training: Training,
    /// Starts of CartPole.
    pub starting: StartTimes,
    /// The presets.
    pub learning: Learning,
}

/// Whether a goal is a minimum or a maximum.
#[derive(Clone, Copy)]
enum Side {
    AtLeast,
    AtMost,
}

impl Gpu<'_> {
    /// Compares and reports. A missed goal does not fail a check, because the goals are for one GPU model.
    pub fn verdict(&self, report: &mut Report, found: &Measurements) {
        let shape = format!(
            "{GOAL_ENVS} environments x {GOAL_STEPS} steps, 4 epochs of minibatches of 32,768, 64-64"
        );
        let of = |precision: Precision| found.training.of(precision);
        let sps = |precision: Precision| of(precision).map(|goal| goal.sps);
        let busy = |precision: Precision| of(precision).and_then(|goal| goal.watched.utilization());
        let bytes = of(Precision::F32).map(|goal| goal.bus_bytes);
        let (solved, runs) = found.learning.solved;
        let learned = (runs > 0).then(|| solved as f64 / runs as f64);
        let speed = |precision: &str| format!("full PPO in {precision}, steps per second: {shape}");
        let rows = [
            self.goal(speed("f32"), Side::AtLeast, SPS_F32, sps(Precision::F32)),
            self.goal(speed("bf16"), Side::AtLeast, SPS_BF16, sps(Precision::Bf16)),
            self.goal("utilization in f32", Side::AtLeast, UTILIZATION, busy(Precision::F32)),
            self.goal("utilization in bf16", Side::AtLeast, UTILIZATION, busy(Precision::Bf16)),
            self.goal("bytes over the bus per update", Side::AtMost, BUS_BYTES, bytes),
            self.goal(
                "seconds from process start to CartPole solved, kernels on the disk",
                Side::AtMost,
                SOLVED_S,
                found.starting.warm_s,
            ),
            self.goal("share of the presets' runs that learned", Side::AtLeast, 1.0, learned),
        ];
        for row in &rows {
            let number = |key: &str| row[key].as_f64().map_or("unknown".to_owned(), amount);
            let verdict = match row["reached"].as_bool() {
                Some(true) => "reached",
                Some(false) => "NOT reached",
                None => "not judged",
            };
            let text = row["what"].as_str().unwrap_or_default();
            eprintln!("goal: {text}: {verdict}: {} of {}", number("measured"), number("goal"));
        }
        let reached = rows.iter().filter(|row| row["reached"] == true).count();
        let line = format!("{reached} of {} goals reached", rows.len());
        report.part("verdict", Value::Array(rows.into()), &line);
    }

    /// Compares one goal; skipped if sizes were reduced or nothing was measured.
    fn goal(&self, what: impl Into<String>, side: Side, goal: f64, measured: Option<f64>) -> Value {
        let measured = measured.filter(|measured| measured.is_finite());
        let reached = measured.filter(|_| !self.extent.quick).map(|measured| match side {
            Side::AtLeast => measured >= goal,
            Side::AtMost => measured <= goal,
        });
        json!({
            "what": what.into(),
            "goal": goal,
            "side": match side { Side::AtLeast => "at least", Side::AtMost => "at most" },
            "measured": measured,
            "reached": reached,
        })
    }
}
