//! The CPU's self-test: wide lanes against scalar ones, bf16 against its exact twin, and CartPole learned.

use std::io::Write;
use std::sync::Arc;

use operant_env::{AnyEnv, LaneWidth, Registry, StepError};
use operant_learn::cpu::{CpuOptions, Unit, backend_with};
use operant_learn::{Activation, Config, LearnError, Snapshot};

use super::SelftestOptions;
use super::child::train;
use super::report::Report;

/// Runs the CPU's self-test.
pub fn check_cpu(report: &mut Report, registry: &Registry, extent: SelftestOptions) {
    for env in registry.envs() {
        let (name, steps) = (env.spec().name, if extent.quick { 512 } else { 4_096 });
        report.check("cpu", format!("{name}: wide lanes follow the scalar lane"), || {
            lanes(&**env, steps).map_err(|error| error.to_string())
        });
    }
    bf16(report, registry, extent);
    let seeds: &[u64] = if extent.quick { &[1] } else { &[1, 2, 3] };
    for &seed in seeds {
        report.check("cpu", format!("cartpole is learned with seed {seed}"), || {
            let result = train(&["cartpole", "--device", "cpu", "--seed", &seed.to_string()])?;
            let mean = result["eval_return_mean"].as_f64().unwrap_or(f64::NAN);
            Ok(if mean >= 475.0 { Vec::new() } else { vec![format!("it reached {mean}, less than 475")] })
        });
    }
}

/// What multiplies in bf16 against its twin, bit for bit: layers of random sizes, and whole updates.
fn bf16(report: &mut Report, registry: &Registry, extent: SelftestOptions) {
    if let Err(reason) = Unit::tiles() {
        let _ = writeln!(std::io::stderr(), "cpu: products by tiles are not checked: {reason}");
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
