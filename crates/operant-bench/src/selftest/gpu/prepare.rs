//! Compiles kernels on all cores before the tests; one after another they would take longer than everything else.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use operant_env::AnyEnv;
use operant_learn::cuda::{GpuOptions, backend};
use operant_learn::{Config, LearnError, Precision};
use operant_run::EnvFacts;
use operant_run::config::{CommandLine, requested};
use serde_json::json;

use super::{Gpu, config};
use crate::selftest::report::Report;

impl Gpu<'_> {
    /// Compiles most kernels of the following parts. Errors are ignored here; they occur again there and are reported.
    pub fn prepare(&self, report: &mut Report) {
        let jobs = Mutex::new(self.jobs());
        let count = jobs.lock().map_or(0, |jobs| jobs.len());
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    while let Some((name, config, precision)) = next() {
                        let _ = self.with(&name, |env| self.make(env, &config, precision));
                    }
                });
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        let value = json!({"configurations": count, "threads": threads, "seconds": seconds});
        let line =
            format!("kernels of {count} configurations compiled in {seconds:.1} s by {threads} threads");
        report.part("kernels", value, &line);
    }

    /// Creates a backend, which compiles its kernels, and drops it.
    fn make(&self, env: &Arc<dyn AnyEnv>, config: &Config, precision: Precision) -> Result<(), LearnError> {
        // The same kernels serve any horizon; a short one takes little memory.
        let config = Config { num_steps: 1, num_minibatches: 1, ..config.clone() };
        let options = GpuOptions { network: precision.into(), ..GpuOptions::default() };
        backend(Arc::clone(env), &config, self.device, options).map(drop)
    }

    fn jobs(&self) -> Vec<(String, Config, Precision)> {
        let mut jobs = Vec::new();
        for precision in Precision::ALL {
            for name in self.names() {
                jobs.push((name, config(17, 1, &[64, 64]), precision));
            }
            let [goal_envs, _] = self.goal_shape();
            let sizes: &[usize] = if self.extent.quick { &[goal_envs] } else { &[1_024, goal_envs] };
            for &envs in sizes {
                jobs.push(("cartpole".to_owned(), config(envs, 1, &[64, 64]), precision));
                jobs.push(("cartpole".to_owned(), config(envs, 1, &[128, 128]), precision));
            }
            if self.extent.quick {
                continue;
            }
            for name in self.names() {
                // The settings of `operant train`, with another device's name if this one has no preset.
                let line = CommandLine { set: vec!["device=cuda".to_owned()], ..CommandLine::default() };
                if let Ok(asked) =
                    EnvFacts::registered(self.registry, &name).and_then(|facts| requested(facts, &line, None))
                {
                    jobs.push((name, asked.settings.learner, precision));
                }
            }
        }
        jobs
    }
}
