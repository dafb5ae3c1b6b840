//! Names that settings have in other libraries, and what to use here.

use super::keys;
use crate::error::did_you_mean;

/// What a name of another library is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counterpart {
    /// The key with its effect, and how it differs.
    Key(&'static str, &'static str),
    /// What to do, since there is no such key.
    Advice(&'static str),
}

use Counterpart::{Advice, Key};

const ELSEWHERE: &[(&[&str], Counterpart)] = &[
    (&["lr", "step_size", "learning_rate_init"], Key("learning_rate", "")),
    (
        &["lr_anneal", "use_linear_lr_decay", "schedule"],
        Key("lr_schedule", "\"linear\", \"constant\" or \"kl\""),
    ),
    (
        &["n_steps", "rollout_length", "rollout_fragment_length", "unroll_length", "horizon"],
        Key("num_steps", "steps of each environment in an update"),
    ),
    (&["n_envs", "num_environments", "envs"], Key("num_envs", "")),
    (
        &["n_epochs", "num_epochs", "epochs", "ppo_epochs", "ppo_epoch", "k_epochs", "num_sgd_iter"],
        Key("update_epochs", ""),
    ),
    (
        &["minibatch_size", "mini_batch_size", "sgd_minibatch_size"],
        Key("num_minibatches", "a minibatch has num_envs * num_steps / num_minibatches samples"),
    ),
    (&["n_minibatch", "nminibatches", "num_mini_batch"], Key("num_minibatches", "")),
    (
        &["clip_range", "clip_eps", "clip_epsilon", "clip_param", "eps_clip", "cliprange"],
        Key("clip_coef", ""),
    ),
    (
        &["clip_range_vf", "vf_clip_param", "clip_value"],
        Key("clip_vloss", "true or false; the range is clip_coef"),
    ),
    (&["normalize_advantage", "normalize_advantages", "standardize_advantages"], Key("norm_adv", "")),
    (&["entropy_coef", "entropy_coeff", "ent_coeff", "entropy_cost"], Key("ent_coef", "")),
    (&["value_coef", "vf_coeff", "value_loss_coef", "vf_loss_coeff"], Key("vf_coef", "")),
    (&["lam", "lambda", "lambda_", "gae_lam"], Key("gae_lambda", "")),
    (&["grad_clip", "max_grad"], Key("max_grad_norm", "")),
    (
        &[
            "timesteps",
            "n_timesteps",
            "num_timesteps",
            "total_steps",
            "steps",
            "max_steps",
            "total_env_steps",
        ],
        Key("total_timesteps", ""),
    ),
    (
        &["policy", "policy_kwargs", "net_arch", "hidden_sizes", "fcnet_hiddens", "layers"],
        Key("hidden", "the widths of the layers, such as [64, 64]; core = \"lstm\" adds memory"),
    ),
    (&["activation_fn", "fcnet_activation"], Key("activation", "")),
    (&["lstm", "use_lstm", "recurrent"], Key("core", "\"lstm\", \"gru\" or \"mingru\"")),
    (&["normalize", "norm_observation", "vec_normalize"], Key("norm_obs", "norm_reward is for rewards")),
    (&["torch_deterministic"], Key("deterministic", "")),
    (
        &["workers", "num_workers", "n_jobs"],
        Key("threads", "worker processes of a Gymnasium environment are --set env.workers=N"),
    ),
    (&["seeds"], Advice("one run has one --seed; `operant sweep ENV --seeds 10` trains with several")),
    (&["algo"], Key("algorithm", "")),
    (&["epsilon_start", "start_epsilon", "exploration_initial_eps", "eps_start"], Key("start_e", "")),
    (&["epsilon_finish", "end_epsilon", "exploration_final_eps", "eps_finish"], Key("end_e", "")),
    (
        &["train_freq", "gradient_steps", "utd_ratio", "replay_ratio"],
        Key("updates_per_step", "minibatches for each environment step"),
    ),
    (&["replay_size", "memory_size", "replay_buffer_size"], Key("buffer_size", "")),
    (&["policy_delay"], Key("policy_frequency", "")),
    (&["ent_coef_init", "init_alpha"], Key("alpha", "")),
    (&["use_sde", "sde_sample_freq"], Advice("no algorithm has it; leave it out")),
    (&["target_update_interval", "target_update_freq"], Key("target_network_frequency", "in minibatches")),
    (&["n_atoms", "num_atoms", "atoms", "num_bins", "n_bins"], Key("value_bins", "")),
    (&["v_min", "vmin"], Key("value_min", "")),
    (&["v_max", "vmax"], Key("value_max", "")),
    (&["prioritized_replay_alpha", "per_alpha", "priority_alpha"], Key("priority_exponent", "")),
    (&["prioritized_replay_beta", "prioritized_replay_beta0", "per_beta"], Key("priority_beta", "")),
    (&["double", "double_dqn", "use_double"], Key("double_q", "")),
    (&["burnin", "burn_in_len", "burn_in_steps", "replay_burn_in"], Key("burn_in", "")),
    (&["max_seq_len", "seq_len", "replay_sequence_length"], Key("sequence_length", "")),
    (
        &["render", "render_mode", "video", "capture_video"],
        Advice("`operant monitor RUN` draws the environment while it trains"),
    ),
    (
        &["record", "record_video"],
        Advice("`operant play RUN --record FILE.mp4` records a video; `operant monitor RUN` draws the run"),
    ),
    (&["gpu", "cuda"], Advice("--device cuda trains on a GPU")),
    (&["cpu"], Advice("--device cpu trains on the CPU")),
    (&["env_id", "env"], Advice("the environment is a positional argument: `operant train cartpole`")),
    (&["env_kwargs", "env_config"], Advice("--set env.NAME=VALUE sets an option of the environment")),
    (
        &["wrapper_class", "env_wrapper", "vec_env_wrapper", "wrappers", "frame_stack"],
        Advice("give a function that returns one wrapped environment"),
    ),
    (
        &["tensorboard_log", "track", "log", "log_dir", "logdir", "wandb_project_name"],
        Advice("metrics.csv and a TensorBoard file are written by default; see the run's directory"),
    ),
    (&["verbose", "progress_bar", "quiet", "log_interval"], Advice("--quiet shows no progress")),
    (
        &["callback", "callbacks"],
        Advice(
            "in Python, operant.train(..., on_update=FUNCTION) calls a function with the metrics of each update",
        ),
    ),
    (&["resume", "load_path", "checkpoint"], Advice("`operant train --resume RUN` continues a run")),
];

/// What this name of another library is here, if it is one.
pub fn elsewhere(name: &str) -> Option<Counterpart> {
    let name = name.to_lowercase().replace('-', "_");
    ELSEWHERE.iter().find(|(names, _)| names.contains(&name.as_str())).map(|(_, counterpart)| *counterpart)
}

/// What follows the name of a key that does not exist: its name here, what to do instead, or the nearest key.
pub fn key_hint(name: &str) -> String {
    match elsewhere(name) {
        Some(Key(key, "")) => format!(" (it is \"{key}\" here)"),
        Some(Key(key, note)) => format!(" (it is \"{key}\" here: {note})"),
        Some(Advice(advice)) => format!("; {advice}"),
        None => did_you_mean(name, keys().map(|key| key.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_libraries_are_none_of_ours_and_their_counterparts_are() {
        let mut seen = std::collections::HashSet::new();
        for (names, counterpart) in ELSEWHERE {
            for name in *names {
                assert!(super::super::find(name).is_none(), "{name} is a key");
                assert!(seen.insert(name), "{name} is there twice");
            }
            if let Key(key, _) = counterpart {
                assert!(super::super::find(key).is_some(), "{key} is no key");
            }
        }
        assert_eq!(key_hint("n_epochs"), " (it is \"update_epochs\" here)");
        assert_eq!(key_hint("learnin_rate"), " (did you mean \"learning_rate\"?)");
        assert!(key_hint("minibatch_size").contains("num_envs * num_steps / num_minibatches"));
        assert!(key_hint("verbose").starts_with("; --quiet"));
    }
}
