//! The CPU's self-test: wide lanes against scalar ones, bf16 against its exact twin, CartPole learned, and speeds.

use std::sync::Arc;
use std::time::Duration;

use operant_env::{AnyEnv, LaneWidth, Registry, StepError};
use operant_learn::cpu::{CpuOptions, Unit, backend_with};
use operant_learn::{Activation, Config, LearnError, Snapshot};
use serde_json::{Value, json};

use super::SelftestOptions;
use super::child::train;
use super::report::{Report, Row};
use crate::measure::RepetitionBudget;
use crate::measure::cpu::environments;

/// Runs the CPU's self-test.
pub fn check_cpu(report: &mut Report, registry: &Registry, extent: SelftestOptions) {
    for env in registry.envs() {
        let (name, steps) = (env.spec().name, if extent.quick { 512 } else { 4_096 });
        report.check("cpu", format!("{name}: wide lanes follow the scalar lane"), || {
            lanes(&**env, steps).map_err(|error| error.to_string())
        });
    }
    bf16(report, registry, extent);
    let budget = Duration::from_secs_f64(if extent.quick { 0.1 } else { 1.0 });
    for env in registry.envs() {
        match speed(&**env, budget) {
            Ok(row) => report.row(row),
            Err(error) => {
                report.check("cpu", format!("{}: speed", env.spec().name), || Err(error.to_string()))
            }
        }
    }
    let seeds: &[u64] = if extent.quick { &[1] } else { &[1, 2, 3] };
    for &seed in seeds {
        let mut result = Value::Null;
        report.check("cpu", format!("cartpole is learned with seed {seed}"), || {
            result = train(&["cartpole", "--device", "cpu", "--seed", &seed.to_string()])?;
            let mean = result["eval_return_mean"].as_f64().unwrap_or(f64::NAN);
            Ok(if mean >= 475.0 { Vec::new() } else { vec![format!("it reached {mean}, less than 475")] })
        });
        if let Some(sps) = result["sps"].as_f64() {
            report.row(trained(sps, &result, seed));
        }
    }
}

/// What multiplies in bf16 against its twin, bit for bit: layers of random sizes, and whole updates.
fn bf16(report: &mut Report, registry: &Registry, extent: SelftestOptions) {
    if let Err(reason) = Unit::amx() {
        eprintln!("cpu: AMX is not checked: {reason}");
    }
    for unit in Unit::all() {
        let rounds = if extent.quick { 100 } else { 1_000 };
        report.check("cpu", format!("bf16: layers by {unit} follow the twin"), || {
            let mut problems = unit.problems(rounds);
            problems.truncate(10);
            Ok(problems)
        });
        for (name, activation, shared_trunk) in
            [("cartpole", Activation::Tanh, false), ("pendulum", Activation::Relu, true)]
        {
            report.check("cpu", format!("bf16: {name}: updates by {unit} follow the twin"), || {
                let env = registry.find(name).map_err(|error| error.to_string())?;
                let config = Config {
                    num_envs: 80,
                    num_steps: 16,
                    update_epochs: 2,
                    activation,
                    shared_trunk,
                    ..Config::default()
                };
                let of = |unit, threads| updates(env, &config, unit, threads).map_err(|e| e.to_string());
                let (found, twin) = (of(unit, 2)?, of(unit.twin(), 1)?);
                let different = found.tensors.iter().zip(&twin.tensors).filter(|(a, b)| a != b);
                Ok(different.map(|(tensor, _)| format!("{} differs", tensor.name)).collect())
            });
        }
    }
}

/// The state after two updates.
fn updates(
    env: &Arc<dyn AnyEnv>,
    config: &Config,
    unit: Unit,
    threads: usize,
) -> Result<Snapshot, LearnError> {
    let options = CpuOptions { bf16: Some(unit), ..CpuOptions::new(threads) };
    let mut backend = backend_with(Arc::clone(env), config, &options)?.backend;
    for _ in 0..2 {
        backend.enqueue_update()?;
    }
    backend.save()
}

/// Totals of random play must not depend on the lane.
fn lanes(env: &dyn AnyEnv, steps: u64) -> Result<Vec<String>, StepError> {
    let totals = |lanes| env.random_play(7, 0, 64, lanes)?.play(steps);
    let (scalar, wide) = (totals(LaneWidth::One)?, totals(LaneWidth::WIDEST)?);
    Ok(if scalar == wide { Vec::new() } else { vec![format!("scalar {scalar:?}, wide {wide:?}")] })
}

/// Environment steps per second of one core.
fn speed(env: &dyn AnyEnv, budget: Duration) -> Result<Row, LearnError> {
    let (envs, steps) = (8_192, 16);
    let speed = environments(
        env,
        [steps, envs],
        &CpuOptions::new(1),
        RepetitionBudget { budget, min_repetitions: 5 },
    )?;
    Ok(Row {
        bench: "env",
        env: env.spec().name,
        device: "cpu".to_owned(),
        precision: "f32",
        envs,
        what: "random actions, one core".to_owned(),
        threads: Some(1),
        sps: [speed.sps_median, speed.sps_min, speed.sps_max],
        reps: speed.reps,
        flops_per_step: None,
        peak_flops: None,
        more: Value::Null,
    })
}

/// The row of a training run.
fn trained(sps: f64, result: &Value, seed: u64) -> Row {
    Row {
        bench: "train",
        env: "cartpole".to_owned(),
        device: "cpu".to_owned(),
        precision: "f32",
        envs: 16,
        what: "its preset".to_owned(),
        threads: None,
        sps: [sps; 3],
        reps: 1,
        flops_per_step: None,
        peak_flops: None,
        more: json!({"solved_at_s": result["solved_at_s"], "wall_s": result["wall_s"], "seed": seed}),
    }
}
