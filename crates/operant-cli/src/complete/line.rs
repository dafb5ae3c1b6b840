//! The command line that is completed: its words, and the environment and directory of runs that they name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use operant_env::{EnvSpec, Registry};
use operant_run::config::{self, environment_of};
use operant_run::{CommandLine, runs};

/// The line that is completed.
#[derive(Clone)]
pub struct Line {
    registry: Registry,
    program: String,
    /// The program first.
    words: Vec<String>,
    /// Position of the word that is completed.
    at: usize,
}

impl Line {
    /// The line in the words of this process, after `--`.
    pub fn new(registry: &Registry, words: &[OsString]) -> Self {
        let start = words.iter().position(|word| word == "--").map_or(words.len(), |at| at + 1);
        let typed: Vec<String> =
            words[start..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
        // Shells that do not say which word it is complete the last.
        let at = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|at| at.parse().ok());
        let at = at.unwrap_or(typed.len().saturating_sub(1));
        let program = words.first().and_then(|word| Path::new(word).file_name());
        let program =
            program.map_or_else(|| "operant".to_owned(), |name| name.to_string_lossy().into_owned());
        Line { registry: registry.clone(), program, words: typed, at }
    }

    /// The name of the program that is completed.
    pub fn program(&self) -> String {
        self.program.clone()
    }

    /// The word that is completed.
    pub fn current(&self) -> &str {
        self.words.get(self.at).map_or("", String::as_str)
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The directory that holds the runs: the one typed, or the configuration's.
    pub fn run_dir(&self) -> PathBuf {
        let after = |pair: &[String]| (pair[0] == "--run-dir").then(|| pair[1].clone());
        let typed = self.words.windows(2).find_map(after);
        let typed = typed
            .or_else(|| self.words.iter().find_map(|word| Some(word.strip_prefix("--run-dir=")?.to_owned())));
        let flags = typed.into_iter().map(|dir| ("run_dir", "--run-dir", dir)).collect();
        config::run_dir(self.registry.known(), &CommandLine { flags, ..CommandLine::default() })
            .unwrap_or_else(|_| PathBuf::from("runs"))
    }

    /// The environment that is typed, or that of a run which is.
    pub fn environment(&self) -> Option<EnvSpec> {
        let others =
            || self.words.iter().enumerate().skip(2).filter(|(at, _)| *at != self.at).map(|(_, word)| word);
        let find = |name: &str| self.registry.find(name).ok().map(|env| env.spec());
        let of_run = |word: &String| {
            let dir = [self.run_dir().join(word), PathBuf::from(word)];
            find(&environment_of(&dir.iter().find_map(|dir| runs::config(dir))?)?)
        };
        others().find_map(|word| find(word)).or_else(|| others().find_map(of_run))
    }
}
