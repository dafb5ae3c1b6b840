//! Compiles kernels on all cores before the tests; one after another they would take longer than everything else. NVRTC compiles
//! one program at a time in each process.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Instant;

use operant_env::AnyEnv;
use operant_learn::cuda::{GpuOptions, backend};
use operant_learn::{Config, LearnError, Precision};
use operant_run::EnvFacts;
use operant_run::config::{CommandLine, requested};
use serde_json::json;

use super::{Gpu, PQN, config, pqn};
use crate::selftest::child::this_program;
use crate::selftest::report::Report;

impl Gpu<'_> {
    /// Compiles most kernels of the following parts, in as many processes as there are cores. Errors are ignored here; they occur
    /// again there and are reported.
    pub fn prepare(&self, report: &mut Report) {
        let count = self.jobs().len();
        let shares = std::thread::available_parallelism().map_or(1, usize::from).min(count);
        let start = Instant::now();
        let children: Vec<Child> =
            (0..shares).filter_map(|share| self.compiling(share, shares).ok()?.spawn().ok()).collect();
        let ended = children.into_iter().map(|mut child| child.wait());
        let good = ended.filter(|ended| ended.as_ref().is_ok_and(ExitStatus::success)).count();
        let seconds = start.elapsed().as_secs_f64();
        let value = json!({"configurations": count, "processes": shares, "failed": shares - good, "seconds": seconds});
        let line =
            format!("kernels of {count} configurations compiled in {seconds:.1} s by {good} processes");
        report.part("kernels", value, &line);
    }

    /// A process that compiles a share of the jobs.
    fn compiling(&self, share: usize, shares: usize) -> Result<Command, String> {
        let mut command = this_program()?;
        let [gpu, share] = [self.ordinal.to_string(), format!("{share}/{shares}")];
        command.args(["selftest", "gpu", "--gpu", &gpu, "--compile", &share]);
        command.args(self.extent.quick.then_some("--quick"));
        if !self.envs.is_empty() {
            command.args(["--env", &self.envs.join(",")]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    /// Compiles a share of the jobs in this process.
    pub fn compile(&self, [share, shares]: [usize; 2]) {
        for (name, config, precision) in self.jobs().into_iter().skip(share).step_by(shares) {
            let _ = self.with(&name, |env| self.make(env, &config, precision));
        }
    }

    /// Creates a backend, which compiles its kernels, and drops it.
    fn make(&self, env: &Arc<dyn AnyEnv>, config: &Config, precision: Precision) -> Result<(), LearnError> {
        // The same kernels serve any horizon; a short one takes little memory.
        let config = Config { num_steps: 1, num_minibatches: 1, ..config.clone() };
        let options = GpuOptions { network: precision.into(), ..GpuOptions::default() };
        backend(Arc::clone(env), &config, self.device, options).map(drop)
    }

    fn jobs(&self) -> Vec<(String, Config, Precision)> {
        let mut jobs: Vec<_> = PQN.map(|name| (name.to_owned(), pqn(65, 1), Precision::F32)).into();
        for precision in Precision::ALL {
            for name in self.names() {
                jobs.push((name, config(17, 1, &[64, 64]), precision));
            }
            jobs.push(("cartpole".to_owned(), config(65, 1, &[128, 128]), precision));
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
