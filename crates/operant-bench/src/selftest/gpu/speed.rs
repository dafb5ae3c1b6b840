//! Speeds of the kernels: environments alone, and rollouts.

use operant_env::AnyEnv;
use operant_learn::{Config, LearnError, Precision};
use serde_json::json;

use super::{Gpu, config};
use crate::measure::{Speed, gpu as measure};
use crate::selftest::report::{Report, Row};

impl Gpu<'_> {
    /// Measures all speeds.
    pub fn speeds(&self, report: &mut Report) {
        self.environment_speeds(report);
        self.rollout_speeds(report);
    }

    /// Peak floating-point operations per second in f32, from the clock; None for architectures not listed.
    pub fn peak(&self, precision: Precision) -> Option<f64> {
        let properties = self.device.properties();
        let lanes = match properties.compute_capability {
            (8, 0) => 64.0,
            (8 | 9 | 10 | 12, _) => 128.0,
            _ => return None,
        };
        let f32_peak =
            f64::from(properties.multiprocessors) * lanes * 2.0 * f64::from(properties.clock_khz) * 1e3;
        (precision == Precision::F32).then_some(f32_peak)
    }

    fn environment_speeds(&self, report: &mut Report) {
        let sizes: &[usize] = if self.extent.quick { &[1_024] } else { &[8_192, 65_536, 1 << 20, 1 << 22] };
        for name in self.names() {
            for &envs in sizes.iter().filter(|&&envs| name == "cartpole" || envs <= 1 << 20) {
                for writes in [false, true] {
                    // The outputs of the largest would fill the memory of small devices.
                    if writes && (envs > 1 << 20 || self.extent.quick) {
                        continue;
                    }
                    let steps = if writes { 32 } else { 128 };
                    let steps = if self.extent.quick { 16 } else { steps };
                    let row = self.with(&name, |env| self.environment_row(&**env, [steps, envs], writes));
                    self.measured(report, &name, row);
                }
            }
        }
    }

    fn rollout_speeds(&self, report: &mut Report) {
        let sizes: &[usize] = if self.extent.quick { &[256] } else { &[1_024, 8_192, 65_536] };
        let steps = if self.extent.quick { 8 } else { 128 };
        for precision in Precision::ALL {
            for hidden in [[64, 64], [128, 128]] {
                for &envs in sizes {
                    let config = config(envs, steps, &hidden);
                    let row = self.with("cartpole", |env| self.rollout_row(&**env, &config, precision));
                    self.measured(report, "cartpole", row);
                }
            }
            if !self.extent.quick {
                for name in self.names().into_iter().filter(|name| name != "cartpole") {
                    let config = config(8_192, steps, &[64, 64]);
                    let row = self.with(&name, |env| self.rollout_row(&**env, &config, precision));
                    self.measured(report, &name, row);
                }
            }
        }
    }

    /// Adds a measured row to the report; a failed measurement is a failed check.
    fn measured(&self, report: &mut Report, name: &str, row: Result<Row, String>) {
        match row {
            Ok(row) => {
                let horizon = (row.more["launches"].as_f64(), row.more["bus_bytes"].as_f64());
                // The GEMM path has a launch for each layer.
                let fused = row.bench != "rollout" || row.more.get("weights_at").is_some();
                if fused && horizon != (Some(1.0), Some(0.0)) {
                    let problem =
                        format!("a horizon takes (launches, bytes over the bus) = {horizon:?}, not 1 and 0");
                    report.check("gpu", format!("{name}: one launch a horizon"), || Ok(vec![problem]));
                }
                report.row(row);
            }
            Err(problem) => report.check("gpu", format!("{name}: speed"), || Err(problem)),
        }
    }

    pub fn row(&self, bench: &'static str, env: &str, envs: usize, speed: &Speed) -> Row {
        Row {
            bench,
            env: env.to_owned(),
            device: self.name.clone(),
            precision: "f32",
            envs,
            what: String::new(),
            threads: None,
            sps: [speed.sps_median, speed.sps_min, speed.sps_max],
            reps: speed.reps,
            flops_per_step: None,
            peak_flops: None,
            more: json!({"launches": speed.launches, "bus_bytes": speed.bus_bytes}),
        }
    }

    fn environment_row(
        &self,
        env: &dyn AnyEnv,
        [steps, envs]: [usize; 2],
        writes: bool,
    ) -> Result<Row, LearnError> {
        let speed = measure::environments(self.device, env, [steps, envs], writes, self.budget())?;
        let bench = if writes { "env+writes" } else { "env" };
        let what = format!("{steps} random steps a launch");
        Ok(Row { what, ..self.row(bench, &env.spec().name, envs, &speed) })
    }

    fn rollout_row(
        &self,
        env: &dyn AnyEnv,
        config: &Config,
        precision: Precision,
    ) -> Result<Row, LearnError> {
        let measured = measure::rollout(self.device, env, config, precision, self.budget())?;
        let widths: Vec<String> = config.hidden.iter().map(ToString::to_string).collect();
        let row = self.row("rollout", &env.spec().name, config.num_envs, &measured.speed);
        let mut more = row.more.clone();
        if let Some(kernel) = &measured.kernel {
            more["registers"] = json!(kernel.registers);
            more["blocks_per_multiprocessor"] = json!(kernel.blocks_per_multiprocessor);
            more["weights_at"] = json!(format!("{:?}", kernel.weights_at).to_lowercase());
        }
        Ok(Row {
            precision: precision.name(),
            what: format!("{} steps, {}", config.num_steps, widths.join("-")),
            flops_per_step: Some(measured.flops_per_step),
            peak_flops: self.peak(precision),
            more,
            ..row
        })
    }
}
