//! Hints for unknown flags and commands: settings are keys of `--set`, and flags and commands of other programs have counterparts.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use operant_run::config::{self, Counterpart};

/// Commands of other programs, and what to use instead.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["list", "ls", "ps", "status"], "`operant runs` lists the runs, `operant envs` the environments"),
    (&["watch", "top", "attach", "logs", "tensorboard"], "`operant monitor RUN` watches a run"),
    (&["continue", "restart", "unpause"], "`operant resume RUN` continues a run"),
    (&["remove", "delete"], "`operant rm RUN` removes a run that has ended"),
    (&["kill", "cancel"], "`operant stop RUN` ends a run, with a checkpoint"),
    (
        &["test", "evaluate", "enjoy", "predict"],
        "`operant eval RUN` plays episodes, `operant play RUN` shows them",
    ),
    (&["hpo", "search", "optimize", "grid"], "`operant sweep ENV --set KEY=A,B` searches settings"),
];

/// Adds a hint to the error of an unknown flag or command, if there is one; returns other errors unchanged. `has_settings` says whether
/// the given command takes settings and environments, as `train` does.
pub fn explain(error: clap::Error, has_settings: bool) -> clap::Error {
    let (given, hint) = match error.kind() {
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, hint as fn(&str) -> Option<String>),
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, command as fn(&str) -> _),
        _ => return error,
    };
    let Some(text @ ContextValue::String(word)) = error.get(given) else { return error };
    let is_of_other = error.kind() == ErrorKind::UnknownArgument && !has_settings;
    let Some(hint) = hint(word).filter(|_| !is_of_other) else { return error };
    let mut explained =
        clap::Error::new(error.kind()).with_cmd(&<crate::Cli as clap::CommandFactory>::command());
    explained.insert(given, text.clone());
    explained.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    if let Some(usage) = error.get(ContextKind::Usage) {
        explained.insert(ContextKind::Usage, usage.clone());
    }
    explained
}

fn command(given: &str) -> Option<String> {
    let elsewhere =
        COMMANDS.iter().find(|(names, _)| names.contains(&given)).map(|(_, hint)| (*hint).to_string());
    elsewhere.or_else(|| {
        operant_env::builtin().find(given).ok().map(|_| format!("`operant train {given}` trains it"))
    })
}

/// The hint for this flag, or for an unexpected argument.
fn hint(given: &str) -> Option<String> {
    if !given.starts_with('-') {
        let is_env = operant_env::builtin().find(given).is_ok();
        let hint = "to train several environments, list them in a file (env = [\"a\", \"b\"]) and run `operant sweep SPEC.toml`";
        return is_env.then(|| hint.to_string());
    }
    let flag = given.split('=').next()?;
    if flag == "--quiet" || config::keys().any(|key| key.flag.is_some_and(|own| own.name() == flag)) {
        // It is one of `train`, and this command does not have it.
        return None;
    }
    let name = flag.trim_start_matches('-');
    let (key, note) = match config::elsewhere(name) {
        Some(Counterpart::Advice(advice)) => return Some(advice.to_owned()),
        Some(Counterpart::Key(key, note)) => (key.to_owned(), note),
        None => (name.replace('-', "_"), ""),
    };
    let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
    config::find(&key).map(|key| match key.flag {
        Some(flag) => format!("{} sets {}{note}", flag.name(), key.name),
        None => format!("{0} is a setting: --set {0}=VALUE{note}", key.name),
    })
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
            ("--algo", "--algorithm sets algorithm"),
            ("--batch-size", "--set batch_size=VALUE"),
            ("--minibatch-size", "--set num_minibatches=VALUE (a minibatch has"),
            ("--render", "operant monitor RUN"),
            ("--record", "operant monitor RUN"),
        ] {
            assert!(hint(flag).is_some_and(|hint| hint.contains(part)), "{flag}: {:?}", hint(flag));
        }
        assert_eq!(hint("--nonsense"), None);
        assert!(hint("pendulum").is_some_and(|hint| hint.contains("SPEC.toml")));
        assert_eq!(hint("second"), None, "a run too many is no environment");
        assert!(command("pendulum").is_some_and(|hint| hint.contains("operant train pendulum")));
    }

    #[test]
    fn commands_of_other_programs_have_a_hint_and_are_none_of_ours() {
        let ours = <crate::Cli as clap::CommandFactory>::command();
        for (name, hint) in
            COMMANDS.iter().flat_map(|(names, hint)| names.iter().map(move |name| (name, hint)))
        {
            assert!(ours.find_subcommand(name).is_none(), "{name}");
            let error = explain(
                <crate::Cli as clap::Parser>::try_parse_from(["operant", name]).expect_err("none"),
                false,
            );
            assert!(error.to_string().contains(hint), "{error}");
        }
    }
}
