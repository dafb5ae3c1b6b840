//! Completion candidates of each kind, with the descriptions that some shells show.

use std::path::Path;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use operant_env::{EnvOption, EnvSpec, OptionValue, OptionValues};
use operant_run::config::{self, EnvFacts, Flag, Key, Kind};
use operant_run::notes::Notes;
use operant_run::{CommandLine, checkpoint, dir, runs};

use super::line::Line;

/// Which runs a command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Any,
    Live,
    Ended,
}

impl Life {
    pub fn of_command(name: &str) -> Self {
        match name {
            "stop" | "pause" | "checkpoint" => Life::Live,
            "rm" => Life::Ended,
            _ => Life::Any,
        }
    }
}

fn candidate(value: impl Into<String>, help: impl Into<String>) -> CompletionCandidate {
    let help: String = help.into();
    CompletionCandidate::new(value.into()).help((!help.is_empty()).then(|| help.into()))
}

/// Every environment; aliases where no name begins with the word.
pub fn environments(line: &Line, word: &str) -> Vec<CompletionCandidate> {
    let specs = line.registry().specs();
    let names = specs.iter().map(|spec| candidate(spec.name.as_str(), spec.summary.as_str()));
    let alias = |spec: &EnvSpec, alias: &String| candidate(alias.as_str(), spec.name.as_str()).hide(true);
    let aliases = specs.iter().flat_map(|spec| spec.aliases.iter().map(move |name| alias(spec, name)));
    let worlds = |path: &Path| path.is_dir() || path.extension().is_some_and(|kind| kind == "world");
    let files = if word.contains(['/', '.']) { paths(word, worlds) } else { Vec::new() };
    names.chain(aliases).chain(files).collect()
}

/// The runs or sweeps by name, the latest first; a path where the word is one.
pub fn runs(line: &Line, word: &str, life: Life, kind: runs::Kind) -> Vec<CompletionCandidate> {
    if word.contains('/') {
        return paths(word, |path| path.is_dir());
    }
    let mut runs = runs::brief(&line.run_dir());
    runs.retain(|run| run.kind == kind && (life == Life::Any || run.is_live == (life == Life::Live)));
    let about = |run: &runs::Brief| {
        let when = run.started.get(..16).unwrap_or_default().replace('T', " ");
        let kind = if run.kind == runs::Kind::Sweep { "sweep".to_owned() } else { String::new() };
        let parts = [kind, run.env.clone(), if run.is_live { "live".to_owned() } else { when }];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    };
    runs.iter().map(|run| candidate(run.run.as_str(), about(run))).collect()
}

/// The tags of the runs, each once, those of the latest runs first.
pub fn tags(line: &Line) -> Vec<CompletionCandidate> {
    let runs = runs::brief(&line.run_dir());
    let mut tags: Vec<String> = Vec::new();
    for tag in runs.iter().flat_map(|run| Notes::of(&run.dir).tags) {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags.into_iter().map(|tag| candidate(tag, "")).collect()
}

/// States, and the environments and tags of the runs.
pub fn filters(line: &Line) -> Vec<CompletionCandidate> {
    let states = ["running", "paused", "finished", "preempted", "failed", "killed"];
    let mut all: Vec<CompletionCandidate> =
        states.map(|state| candidate(format!("state={state}"), "")).into_iter().chain(tags(line)).collect();
    let mut envs: Vec<String> = runs::brief(&line.run_dir()).into_iter().map(|run| run.env).collect();
    envs.sort();
    envs.dedup();
    all.extend(envs.into_iter().filter(|env| !env.is_empty()).map(|env| candidate(env, "")));
    all
}

/// These words.
pub fn words(words: &[&str]) -> Vec<CompletionCandidate> {
    words.iter().map(|word| candidate(*word, "")).collect()
}

/// The checkpoints of a run after its name and `@`, the latest first.
pub fn checkpoints(line: &Line, word: &str) -> Vec<CompletionCandidate> {
    let Some((run, _)) = word.split_once('@') else { return Vec::new() };
    let found = dir::find(&line.run_dir(), run).ok();
    let steps = found.and_then(|dir| checkpoint::steps(&dir.join("checkpoints")).ok()).unwrap_or_default();
    steps.iter().rev().map(|(step, _)| candidate(format!("{run}@{step}"), "")).collect()
}

/// Keys of the configuration and options of the environment, then the values of the key that is typed.
pub fn settings(line: &Line, word: &str) -> Vec<CompletionCandidate> {
    if word.starts_with("env.") {
        return options(line, word);
    }
    match word.split_once('=') {
        Some((name, value)) => {
            let found = config::find(name).map(|key| values_of(key, line, value)).unwrap_or_default();
            found.into_iter().map(|value| value.add_prefix(format!("{name}="))).collect()
        }
        None => {
            let keys = config::keys().map(|key| candidate(format!("{}=", key.name), key.meaning()));
            keys.chain(options(line, word)).collect()
        }
    }
}

/// Options of the environment, then the values of the option that is typed.
pub fn options(line: &Line, word: &str) -> Vec<CompletionCandidate> {
    let options = line.environment().map(|spec| spec.options).unwrap_or_default();
    let Some((name, _)) = word.split_once('=') else {
        let name = |option: &EnvOption| candidate(format!("env.{}=", option.name), option.help.as_str());
        return options.iter().map(name).collect();
    };
    let Some(option) = options.iter().find(|option| name.strip_prefix("env.") == Some(&option.name)) else {
        return Vec::new();
    };
    let value = |text: &str, help: &str| candidate(format!("{name}={text}"), help);
    match (&option.values, &option.default) {
        (OptionValues::Words(words), _) => words.iter().map(|word| value(word, "")).collect(),
        (OptionValues::Whole(0, 1), _) => vec![value("0", "off"), value("1", "on")],
        (OptionValues::Path, _) => {
            let path = word.split_once('=').map_or("", |(_, path)| path);
            paths(path, |_| true).into_iter().map(|path| path.add_prefix(format!("{name}="))).collect()
        }
        (values, OptionValue::Number(number)) => {
            vec![value(&number.to_string(), &format!("default; {values}"))]
        }
        (_, OptionValue::Word(word)) => vec![value(word, "default")],
    }
}

/// Values of a key: its words, or else the value that it has for the environment that is typed.
pub fn values_of(key: &'static Key, line: &Line, word: &str) -> Vec<CompletionCandidate> {
    match key.kind {
        Kind::Choice { words: choices, .. } => words(choices),
        Kind::Switch => words(&["true", "false"]),
        Kind::Size(sizes) => sizes.iter().map(|size| candidate(size.to_string(), "")).collect(),
        Kind::Text(_) if key.name == "device" => words(&["auto", "cpu", "cuda"]),
        Kind::Text(_) => {
            let Some(Flag::Value(_, value)) = key.flag else { return Vec::new() };
            let kinds = super::kinds(value).unwrap_or_default();
            kinds.iter().flat_map(|kind| kind.candidates(line, word, Life::Any)).collect()
        }
        Kind::CountOr { word, .. } => {
            let present = present_value(key, line).filter(|present| present.get_value() != word);
            present.into_iter().chain([candidate(word, "")]).collect()
        }
        Kind::Count { .. } | Kind::Real(_) | Kind::Widths | Kind::Convs => {
            present_value(key, line).into_iter().collect()
        }
    }
}

/// The value that the key has without the line's settings, and where it comes from.
fn present_value(key: &Key, line: &Line) -> Option<CompletionCandidate> {
    let facts = EnvFacts::of(&line.environment()?, line.registry());
    let requested = config::requested(facts, &CommandLine::default(), None).ok()?;
    let value = requested.value(key.name)?.to_string().replace(", ", ",");
    let origin = requested.origin(key.name)?;
    Some(candidate(value.trim_matches('"'), origin.to_string()))
}

/// Files and directories.
pub fn paths(word: &str, filter: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Vec<CompletionCandidate> {
    PathCompleter::any().filter(filter).complete(word.as_ref())
}
