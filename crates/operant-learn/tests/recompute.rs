//! Advantages that are computed again before epochs after the first.

use std::sync::Arc;

use operant_env::AnyEnv;
use operant_env::pendulum::Pendulum;
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::CpuOptions;
use operant_learn::{Config, CoreKind};

use crate::support::locks::Locks;
use crate::support::{after, assert_same, shared};

fn config() -> Config {
    Config { num_envs: 33, num_minibatches: 2, hidden: vec![24, 16], norm_reward: true, ..Config::default() }
}

#[test]
fn with_the_rollouts_parameters_they_are_those_of_the_rollout() {
    // Time limits within the rollout; masks and memory; action values.
    let all: [(Arc<dyn AnyEnv>, Config); 3] = [
        (shared(Pendulum::default()), Config { norm_obs: true, num_steps: 210, ..config() }),
        (shared(Locks), Config { core: CoreKind::Lstm, num_steps: 16, sequence_length: 8, ..config() }),
        (shared(Locks), Config { algorithm: Algorithm::Pqn, num_steps: 10, ..config() }),
    ];
    for (env, config) in all {
        // Steps that change no parameter.
        let config = Config { learning_rate: 1e-300, ..config };
        let again = Config { recompute_advantages: true, ..config.clone() };
        let [without, with] = [(config, 16), (again, 64)].map(|(config, rollout_tile)| {
            let ppo = config.clone().ppo(|ppo| (ppo.vtrace_rho, ppo.vtrace_c) = (1.0, 1.0));
            let config = if config.recompute_advantages { ppo } else { config };
            after(&env, &config, &CpuOptions { rollout_tile, ..CpuOptions::new(2) }, 2)
        });
        assert_same(&without, &with, &env.spec().name);
    }
}

#[test]
fn they_change_what_is_learned() {
    let env: Arc<dyn AnyEnv> = shared(Pendulum::default());
    let of = |recompute_advantages, rho| {
        let config = Config { recompute_advantages, ..config() }.ppo(|ppo| ppo.vtrace_rho = rho);
        after(&env, &config, &CpuOptions::new(2), 1)
    };
    assert!(of(false, 0.0) != of(true, 0.0) && of(true, 0.0) != of(true, 1.0));
}

#[test]
fn weights_that_have_no_effect_are_refused() {
    let problem = |config: Config| (config.algorithm.declaration().problem)(&config);
    let config = |recompute_advantages, rho| {
        Config { recompute_advantages, ..Config::default() }.ppo(|ppo| ppo.vtrace_rho = rho)
    };
    assert_eq!(problem(config(true, 1.0)), None);
    for (config, text) in
        [(config(false, 1.0), "recompute_advantages = true"), (config(true, 0.5), "1 or more")]
    {
        let (key, _, remedy) = problem(config).expect("refused");
        assert!(key == "vtrace_rho" && remedy.contains(text), "{key}: {remedy}");
    }
}
