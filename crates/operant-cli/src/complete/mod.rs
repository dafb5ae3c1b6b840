//! Completions in a shell. The shell asks this program what may follow the words typed so far:
//!
//! ```text
//! COMPLETE=bash operant                                   prints the script that makes bash ask
//! COMPLETE=bash operant -- operant train cart             prints what may follow, one candidate a line
//! ```
//!
//! What an argument takes is known by the name of its value: a RUN is a run in every command. An answer reads directories and files of
//! runs; it loads no GPU library and starts no program.

mod bash;
mod line;
mod values;
mod zsh;

use std::ffi::OsString;
use std::sync::Arc;

use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Elvish, Fish, Powershell, Shells};
use operant_env::Registry;
use operant_metrics::plain;
use operant_run::{config, runs};

use line::Line;
use values::{Life, options, settings, values_of};

/// The variable with the shell's name that asks for completions.
pub const VARIABLE: &str = "COMPLETE";

const SHELLS: Shells<'static> = Shells(&[&bash::Bash, &Elvish, &Fish, &Powershell, &zsh::Zsh]);

/// Answers a shell, and returns the exit code; none if no shell asks.
pub fn answer(registry: &Registry, words: &[OsString]) -> Option<u8> {
    std::env::var_os(VARIABLE)?;
    let line = Arc::new(Line::new(registry, words));
    let here = std::env::current_dir().ok();
    let completion = CompleteEnv::with_factory(|| of_command(crate::Cli::command(), &line));
    let completion = completion.var(VARIABLE).shells(SHELLS).bin(line.program());
    match completion.try_complete(words, here.as_deref()) {
        Ok(was_asked) => was_asked.then_some(0),
        Err(error) => {
            let _ = error.print();
            Some(2)
        }
    }
}

/// The command with completions for its arguments and those of its subcommands.
fn of_command(command: Command, line: &Arc<Line>) -> Command {
    let name = command.get_name().to_owned();
    // Options are candidates after a dash, or where there is nothing else.
    let is_open = line.current().is_empty();
    let command = command.disable_help_flag(is_open).disable_version_flag(is_open);
    let command = command.mut_args(|arg| of_argument(arg, &name, line));
    command.mut_subcommands(|subcommand| of_command(subcommand, line))
}

fn of_argument(arg: Arg, command: &str, line: &Arc<Line>) -> Arg {
    let arg = if line.current().is_empty() && !arg.is_positional() { arg.hide(true) } else { arg };
    if !arg.get_possible_values().is_empty() {
        return arg;
    }
    if let Some(key) = config::find(arg.get_id().as_str()).filter(|key| key.flag.is_some()) {
        let line = Arc::clone(line);
        return completed(arg, move |word| values_of(key, &line, word));
    }
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    match kinds(value.as_deref().unwrap_or_default()) {
        None | Some(&[]) => arg,
        Some([Kind::File]) => arg.value_hint(ValueHint::FilePath),
        Some([Kind::Dir]) => arg.value_hint(ValueHint::DirPath),
        Some(kinds) => {
            let (line, life) = (Arc::clone(line), Life::of_command(command));
            completed(arg, move |word| {
                kinds.iter().flat_map(|kind| kind.candidates(&line, word, life)).collect()
            })
        }
    }
}

/// The argument with these candidates, of which those that begin with the word are shown.
fn completed(arg: Arg, candidates: impl Fn(&str) -> Vec<CompletionCandidate> + Send + Sync + 'static) -> Arg {
    arg.add(ArgValueCompleter::new(move |word: &std::ffi::OsStr| {
        let word = word.to_string_lossy();
        let mut found = candidates(&word);
        // A name with characters that a terminal obeys is no candidate.
        let fits = |value: &str| value.starts_with(&*word) && plain(value) == value;
        found.retain(|candidate| candidate.get_value().to_str().is_some_and(fits));
        found
    }))
}

/// What an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Environment,
    Run,
    Sweep,
    /// `RUN@STEP`, or a path.
    Checkpoint,
    /// `KEY=VALUE`, also of an option of the environment.
    Setting,
    /// `env.NAME=VALUE`.
    Option,
    /// A tag of some run.
    Tag,
    /// What `operant runs --filter` finds.
    Filter,
    /// These words.
    Words(&'static [&'static str]),
    /// A value of the setting of this name.
    Value(&'static str),
    File,
    Dir,
}

/// What an argument takes whose value has this name; nothing if it is free. None if the name is unknown.
fn kinds(value: &str) -> Option<&'static [Kind]> {
    use Kind::{Checkpoint, Dir, Environment, File, Filter, Option, Run, Setting, Sweep, Tag, Value, Words};
    Some(match value {
        "ENV" | "NAME|FILTER" | "NAME,.." => &[Environment],
        "ENV|SPEC.toml" => &[Environment, File],
        "RUN" => &[Run],
        "SWEEP" => &[Sweep],
        "A" | "B" | "SWEEP|RUN" | "RUN|SWEEP" => &[Run, Sweep],
        "ADDRESS" => &[Words(&["auto"])],
        "BENCH" => &[Words(&["env", "rollout", "train"])],
        "CORE" => &[Value("core")],
        "DEVICE,.." => &[Value("device")],
        "PRECISION,.." => &[Value("precision")],
        "FILTER" => &[Filter],
        "WHERE" => &[Words(&["scalar", "wide", "cuda"])],
        "RUN[@STEP]" | "RUN[@STEP]|CHECKPOINT" => &[Run, Checkpoint],
        "WHO" | "PLAYER" => &[Words(&["random", "minimax:2", "mcts:100"]), Run, Checkpoint],
        "GAME" => &[Words(&[
            "connect_four",
            "othello",
            "kuhn_poker",
            "leduc_poker",
            "hex",
            "go_9x9",
            "two_player_pong",
            "capture_the_flag",
        ])],
        "RUN|ENV" => &[Run, Environment, Checkpoint],
        "KEY=VALUE" => &[Setting],
        "env.NAME=VALUE" => &[Option],
        "FILE" | "FILE.json" | "FILE.svg" => &[File],
        "TAG" => &[Tag],
        "DIR" => &[Dir],
        "DEVICE" | "GOAL" | "K" | "K/N" | "KEY" | "METHOD" | "MODE" | "N" | "N,.." | "NAME" | "PRECISION"
        | "PRESET" | "S" | "SECONDS" | "SEEDS" | "T" | "TEXT" | "THEME" | "WIDTHS" => &[],
        _ => return None,
    })
}

impl Kind {
    fn candidates(self, line: &Line, word: &str, life: Life) -> Vec<CompletionCandidate> {
        match self {
            Kind::Environment => values::environments(line, word),
            Kind::Run => values::runs(line, word, life, runs::Kind::Run),
            Kind::Sweep => values::runs(line, word, life, runs::Kind::Sweep),
            Kind::Checkpoint => values::checkpoints(line, word),
            Kind::Setting => settings(line, word),
            Kind::Option => options(line, word),
            Kind::Tag => values::tags(line),
            Kind::Filter => values::filters(line),
            Kind::Words(words) => values::words(words),
            Kind::Value(key) => config::find(key).map_or_else(Vec::new, |key| values_of(key, line, word)),
            Kind::File => values::paths(word, |_| true),
            Kind::Dir => values::paths(word, |path| path.is_dir()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_every_argument_has_a_known_name() {
        let mut cli = crate::Cli::command();
        cli.build();
        let mut unknown = Vec::new();
        for command in cli.get_subcommands() {
            let is_key =
                |arg: &&Arg| config::find(arg.get_id().as_str()).is_some_and(|key| key.flag.is_some());
            let own = command.get_arguments().filter(|arg| !is_key(arg));
            let valued = own.filter(|arg| arg.get_num_args().is_some_and(|count| count.takes_values()));
            let words = valued.filter(|arg| arg.get_possible_values().is_empty());
            let names = words.filter_map(|arg| arg.get_value_names()?.first().map(ToString::to_string));
            unknown.extend(names.filter(|name| kinds(name).is_none()).map(|name| (command.get_name(), name)));
        }
        assert_eq!(unknown, [], "complete::kinds lists what they take");
    }
}
