//! Hints for unknown flags: settings are keys of `--set`, and flags of other libraries have counterparts.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use operant_run::config;

/// Flags of other libraries, and what to use instead.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["lr"], "the step size is a setting: --set learning_rate=VALUE"),
    (&["algo", "algorithm"], "operant trains with PPO only; leave it out"),
    (
        &["render", "render-mode", "video", "capture-video"],
        "`operant monitor RUN` draws the environment while it trains",
    ),
    (
        &["record", "record-video"],
        "there is no video; `operant monitor RUN` draws the environment, and `operant eval RUN` plays it",
    ),
    (&["gpu", "cuda"], "--device cuda trains on a GPU"),
    (&["cpu"], "--device cpu trains on the CPU"),
    (&["env-id", "env"], "the environment is an argument without a flag: operant train cartpole"),
    (&["timesteps", "n-timesteps"], "--steps N sets the environment steps"),
    (
        &["tensorboard", "track", "log"],
        "metrics.csv and a TensorBoard file are written by default; see the run's directory",
    ),
    (&["workers", "num-workers"], "worker threads are a setting: --set threads=N"),
];

/// Adds a hint to the error of an unknown flag, if there is one; returns other errors unchanged.
pub fn explain(error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    let Some(hint) = hint(given) else { return error };
    let mut explained = clap::Error::new(ErrorKind::UnknownArgument);
    explained.insert(ContextKind::InvalidArg, ContextValue::String(given.clone()));
    explained.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    if let Some(usage) = error.get(ContextKind::Usage) {
        explained.insert(ContextKind::Usage, usage.clone());
    }
    explained
}

/// The hint for this flag.
fn hint(given: &str) -> Option<String> {
    let name = given.trim_start_matches('-').split('=').next()?;
    let elsewhere =
        ELSEWHERE.iter().find(|(names, _)| names.contains(&name)).map(|(_, hint)| (*hint).to_string());
    let key = name.replace('-', "_");
    let setting = config::keys().find(|known| known.name == key).map(|key| match key.flag {
        Some(flag) => format!("{} sets {}", flag.name(), key.name),
        None => format!("{0} is a setting: --set {0}=VALUE", key.name),
    });
    elsewhere.or(setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_other_libraries_and_settings_have_a_hint() {
        for (flag, part) in [
            ("--lr", "--set learning_rate=VALUE"),
            ("--learning-rate", "--set learning_rate=VALUE"),
            ("--num-envs", "--envs sets num_envs"),
            ("--algo", "PPO only"),
            ("--render", "operant monitor RUN"),
            ("--record", "operant monitor RUN"),
        ] {
            assert!(hint(flag).is_some_and(|hint| hint.contains(part)), "{flag}: {:?}", hint(flag));
        }
        assert_eq!(hint("--nonsense"), None);
    }
}
