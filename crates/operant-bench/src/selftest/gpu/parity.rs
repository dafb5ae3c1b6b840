//! Parity: every kernel against the CPU.

use std::io::Write;
use std::sync::Arc;

use operant_env::replay::{Arithmetic, Case, StepWords};
use operant_env::{ActionSpace, AnyEnv, LaneWidth, TileSpec};
use operant_learn::network::{Architecture, Network, init_params};
use operant_learn::{Config, Encoder, LearnError, Precision};
use operant_parity::{
    UpdatePath, check_gae, check_horizon, compare_gradient, compare_rollout, compare_update,
    differing_environments,
};

use super::{Gpu, PQN, config, pqn};
use crate::selftest::report::Report;

/// Weights with decisive outputs like trained ones; initial ones are nearly uniform.
fn weights(env: &dyn AnyEnv, config: &Config) -> Result<Vec<f32>, LearnError> {
    let network = Network::new(Architecture::of(&env.spec(), config)?);
    let mut params = init_params(&network, 11);
    for tensor in &network.tensors {
        let range = tensor.range();
        match tensor.name.as_str() {
            "policy.weight" => params[range].iter_mut().for_each(|w| *w *= 100.0),
            "value.bias" => params[range].fill(0.5),
            _ => {}
        }
    }
    Ok(params)
}

/// A first state and 40 actions that vary with `number`.
fn random_case(env: &dyn AnyEnv, number: u32) -> Result<Case, LearnError> {
    let spec = env.spec();
    let tile = TileSpec { lanes: LaneWidth::One, ..TileSpec::new(9, number, 16) };
    let mut state = vec![0; env.leaves().len()];
    env.stepper(tile)?.state(0, &mut state);
    let obs = vec![0; spec.obs.words()];
    let first = StepWords { obs: &obs, reward: 0.0, ended: [false; 2], state: &state };
    let state = env.outcome(&[first]).state.remove(0);
    let spread = |step: usize, k: usize| (step * 7 + k * 3 + number as usize * 5) % 11;
    let action = |step: usize| -> Vec<f64> {
        match &spec.actions {
            ActionSpace::Discrete(choices) => {
                choices.iter().enumerate().map(|(k, count)| (spread(step, k) % count) as f64).collect()
            }
            ActionSpace::Box { low, high } => {
                let bounds = low.iter().zip(high).enumerate();
                bounds.map(|(k, (low, high))| low + (high - low) * spread(step, k) as f64 / 10.0).collect()
            }
        }
    };
    Ok(Case { state, actions: (0..40).map(action).collect(), draws: None })
}

impl Gpu<'_> {
    /// All comparisons.
    pub fn parity(&self, report: &mut Report) {
        self.environments(report);
        self.rollouts(report);
        self.horizons(report);
        self.updates(report);
        self.pqn(report);
        self.replays(report);
    }

    /// Rollouts and updates of PQN, in single precision.
    fn pqn(&self, report: &mut Report) {
        let (envs, steps, count) = if self.extent.quick { (17, 9, 1) } else { (1_000, 33, 3) };
        if let Err(reason) = self.device.has_blas() {
            let _ = writeln!(std::io::stderr(), "gpu: PQN is not checked: {reason}");
            return;
        }
        // Actions that rounding decides are recognised without normalisation alone.
        let rollout = Config { layer_norm: false, ..pqn(65, 1) };
        for name in PQN {
            report.check("gpu", format!("{name}: rollout and updates of PQN against the CPU"), || {
                self.with(name, |env| {
                    let mut problems = self.rollout_problems(&**env, rollout.clone(), Precision::F32, 8)?;
                    let updates =
                        compare_update(self.device, &**env, &pqn(envs, steps), count, UpdatePath::Gemm)?;
                    problems.extend(updates.problems);
                    Ok(problems)
                })
            });
        }
    }

    fn updates(&self, report: &mut Report) {
        let (envs, steps, count) = if self.extent.quick { (17, 9, 1) } else { (1_000, 33, 3) };
        for precision in Precision::ALL {
            let mut check = |name: &str, network: &str, config: &Config| {
                let what = if precision == Precision::F32 { "updates" } else { "a gradient" };
                report.check(
                    "gpu",
                    format!("{name}: {what} in {precision}, {network}, against the CPU"),
                    || self.with(name, |env| self.update_problems(&**env, config, precision, count)),
                );
            };
            let plain = config(envs, steps, &[64, 64]);
            self.names().iter().for_each(|name| check(name, "64-64", &plain));
            if !self.extent.quick {
                check(
                    "cartpole",
                    "64-64, minibatches for blocks of eight warps",
                    &config(4_096, steps, &[64, 64]),
                );
            }
            check("taxi", "embeddings, 64-64", &Config { encoder: Encoder::Embed, ..plain });
        }
    }

    fn replays(&self, report: &mut Report) {
        for name in self.names() {
            report.check("gpu", format!("{name}: replayed cases are the scalar lane's"), || {
                self.with(&name, |env| self.replay_problems(&**env))
            });
        }
    }

    fn environments(&self, report: &mut Report) {
        let steps = if self.extent.quick { 1_024 } else { 4_096 };
        for spec in self.specs() {
            for options in spec.variants() {
                let with: String =
                    options.iter().map(|(option, value)| format!(", {option} {value}")).collect();
                let name = &spec.name;
                report.check("gpu", format!("{name}{with}: bits of 65 environments x {steps} steps"), || {
                    self.with_options(name, &options, |env| self.differing(env, steps))
                });
            }
        }
    }

    fn rollouts(&self, report: &mut Report) {
        let (envs, steps) = if self.extent.quick { (17, 8) } else { (65, 64) };
        let mut check = |name: &str, what: &str, config: Config, precision: Precision| {
            report.check("gpu", format!("{name}: rollout in {precision}, {what}, against the CPU"), || {
                self.with(name, |env| self.rollout_problems(&**env, config, precision, steps))
            });
        };
        for precision in Precision::ALL {
            for name in self.names() {
                check(&name, "64-64", config(envs, 1, &[64, 64]), precision);
            }
            check("cartpole", "128-128", config(envs, 1, &[128, 128]), precision);
            let apart = Config { shared_trunk: false, ..config(envs, 1, &[33, 20]) };
            check("cartpole", "33-20, trunks apart", apart, precision);
            let tables = Config { encoder: Encoder::Embed, ..config(envs, 1, &[64, 64]) };
            check("taxi", "embeddings, 64-64", tables, precision);
            if !self.extent.quick {
                let normed = Config { norm_obs: true, norm_reward: true, ..config(envs, 1, &[64, 64]) };
                check("mountain_car", "64-64, normalised", normed, precision);
            }
        }
        let wide = config(envs, 1, &[256, 256]);
        check("cartpole", "256-256", wide, Precision::F32);
    }

    fn horizons(&self, report: &mut Report) {
        let (envs, steps) = if self.extent.quick { (17, 64) } else { (1_000, 512) };
        for precision in Precision::ALL {
            for name in ["cartpole", "pendulum"] {
                report.check(
                    "gpu",
                    format!("{name}: a horizon in {precision} is its steps, and GAE's"),
                    || {
                        let config = config(envs, steps, &[64, 64]);
                        self.with(name, |env| self.horizon_problems(&**env, &config, precision))
                    },
                );
            }
        }
    }

    fn differing(&self, env: &Arc<dyn AnyEnv>, steps: usize) -> Result<Vec<String>, LearnError> {
        let differing = differing_environments(self.device, &**env, 65, steps)?;
        Ok(differing.first().map_or(Vec::new(), |first| {
            vec![format!("{} of 65 environments differ, the first is {first}", differing.len())]
        }))
    }

    fn rollout_problems(
        &self,
        env: &dyn AnyEnv,
        config: Config,
        precision: Precision,
        steps: u64,
    ) -> Result<Vec<String>, LearnError> {
        let bits = env.spec().obs.words() != env.spec().obs.size();
        let config = Config { norm_obs: config.norm_obs && !bits, ..config };
        let params = weights(env, &config)?;
        let found = compare_rollout(self.device, env, &config, precision, &params, steps)?;
        Ok(found.problems(precision))
    }

    fn horizon_problems(
        &self,
        env: &dyn AnyEnv,
        config: &Config,
        precision: Precision,
    ) -> Result<Vec<String>, LearnError> {
        let params = weights(env, config)?;
        let mut problems = check_horizon(self.device, env, config, precision, &params)?;
        problems.extend(check_gae(self.device, env, config, precision, &params)?);
        Ok(problems)
    }

    /// Updates in single precision with both kinds of launch, or a gradient in another precision.
    fn update_problems(
        &self,
        env: &dyn AnyEnv,
        config: &Config,
        precision: Precision,
        count: u64,
    ) -> Result<Vec<String>, LearnError> {
        let device = self.device;
        if precision != Precision::F32 {
            return compare_gradient(device, env, config, precision);
        }
        let whole = compare_update(device, env, config, count, UpdatePath::Fused)?;
        let phases = compare_update(device, env, config, count, UpdatePath::Phases)?;
        let mut problems = whole.problems;
        if whole.state != phases.state {
            problems.push("a launch per phase gives other bits than one launch for all".to_owned());
        }
        Ok(problems)
    }

    /// Compares given actions from a first state with the scalar lane.
    fn replay_problems(&self, env: &dyn AnyEnv) -> Result<Vec<String>, LearnError> {
        let cases = (0..8).map(|number| random_case(env, number)).collect::<Result<Vec<_>, _>>()?;
        let mut problems = Vec::new();
        let words = cases.iter().map(|case| env.case_words(case)).collect::<Result<Vec<_>, _>>();
        let words = match words {
            Ok(words) => words,
            Err(error) => return Ok(vec![error.to_string()]),
        };
        let played = operant_learn::cuda::replay(self.device, env, &words)?;
        for (number, (case, got)) in cases.iter().zip(played).enumerate() {
            if env.replay(Arithmetic::F32, case).ok() != Some(got) {
                problems.push(format!("case {number} differs from the scalar lane"));
            }
        }
        Ok(problems)
    }
}
