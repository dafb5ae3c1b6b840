//! The state of the list of runs: the selection, the marks, and the requested action.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use operant_metrics::{Health, RunState};

use crate::control::{Action, Control};
use crate::data::{RunView, Runs, settings};
use crate::sweep::SweepSource;
use crate::ui::runs::environment;
use crate::verdict;

/// The state of the list, without the runs themselves.
#[derive(Debug, Default)]
pub struct RunList {
    pub row: usize,
    /// Words that the listed runs have in name, environment or state.
    pub filter: String,
    /// Whether keys go into the filter.
    pub typing: bool,
    /// Paths of the runs to compare, at most two.
    pub marked: Vec<PathBuf>,
    /// What was requested and is not confirmed yet.
    pub asked: Option<Asked>,
    /// The result of the last key; empty for none.
    pub message: String,
    /// The answer of an action that is under way.
    answer: Option<Receiver<String>>,
    control: Option<Arc<dyn Control>>,
}

/// An action that waits for its confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What to do.
    pub action: Action,
    pub name: String,
    pub dir: PathBuf,
    /// Whether it is paused, so that the key continues it.
    pub is_paused: bool,
}

/// The settings in which two runs differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Names of the two runs.
    pub names: [String; 2],
    /// Settings with the value of each; none where a run does not have it.
    pub rows: Vec<(String, [Option<String>; 2])>,
    /// Settings that are the same.
    pub same: usize,
}

impl RunList {
    /// A list whose runs `control` can act on.
    pub fn new(control: Option<Arc<dyn Control>>) -> Self {
        RunList { control, ..RunList::default() }
    }

    /// The listed runs, by their index in [`Runs::all`].
    pub fn rows(&self, runs: &Runs) -> Vec<usize> {
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let is_listed = |run: &RunView| {
            let env = environment(run);
            let texts = [run.name(), &env, run.verdict().word].map(str::to_lowercase);
            words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
        };
        runs.all().iter().enumerate().filter(|(_, run)| is_listed(run)).map(|(i, _)| i).collect()
    }

    /// Moves the selection by this many listed runs; onto one of them at least.
    pub fn move_by(&mut self, by: isize, runs: &Runs) {
        let rows = self.rows(runs);
        let at = rows.partition_point(|row| *row < self.row);
        let to = at.saturating_add_signed(by).min(rows.len().saturating_sub(1));
        self.row = rows.get(to).copied().unwrap_or(self.row);
    }

    /// The selected run, if it is listed.
    pub fn selected<'a>(&self, runs: &'a Runs) -> Option<&'a RunView> {
        runs.all().get(self.row).filter(|_| self.rows(runs).contains(&self.row))
    }

    /// Toggles the mark of the selected run for comparison; a third mark removes the first one.
    pub fn mark(&mut self, runs: &Runs) {
        let Some(path) = self.selected(runs).map(|run| run.path().to_path_buf()) else { return };
        match self.marked.iter().position(|other| *other == path) {
            Some(at) => drop(self.marked.remove(at)),
            None => self.marked.push(path),
        }
        if self.marked.len() > 2 {
            self.marked.remove(0);
        }
    }

    /// The directory of the selected sweep, to be opened; none, with a message, where this program cannot read sweeps.
    pub fn open_sweep(&mut self, sweep: &RunView) -> Option<PathBuf> {
        if self.control.is_none() {
            self.message = format!("show it with: operant monitor {}", verdict::handle(sweep.identity()));
            return None;
        }
        Some(sweep.path().to_path_buf())
    }

    /// The sweep in `dir`.
    pub fn sweep(&self, dir: &Path) -> Option<Box<dyn SweepSource>> {
        self.control.as_ref().map(|control| control.sweep(dir))
    }

    /// The letter of a run that is marked.
    pub fn letter(&self, run: &RunView) -> &'static str {
        let at = self.marked.iter().position(|path| path == run.path());
        at.map_or("", |at| ["A", "B"][at.min(1)])
    }

    /// Compares the two marked runs; with fewer marked, the one marked (or the one shown) and the selected one. None when
    /// these are not two.
    pub fn compare(&mut self, runs: &Runs) -> Option<Comparison> {
        let of_path = |path: &PathBuf| runs.all().iter().find(|run| run.path() == path);
        let selected = self.selected(runs);
        let pair = match self.marked.as_slice() {
            [a, b] => (of_path(a), of_path(b)),
            [a] => (of_path(a), selected),
            _ => (runs.shown(), selected),
        };
        match pair {
            (Some(a), Some(b)) if a.path() != b.path() => Some(Comparison::of(a, b)),
            _ => {
                self.message = "mark two runs with c, then press d".to_string();
                None
            }
        }
    }

    /// Requests an action on the selected run; a second request confirms it.
    pub fn ask(&mut self, action: Action, runs: &Runs) {
        let Some(run) = self.selected(runs) else { return };
        let is_paused = run.status.health == Health::Reported(RunState::Paused);
        let (name, dir) = (run.name().to_string(), run.identity().dir.clone());
        if !run.status.health.is_alive() {
            self.message = format!("{name} has ended");
        } else if self.control.is_none() {
            self.message = match action {
                Action::Stop => format!("stop it with: operant stop {}", verdict::handle(run.identity())),
                Action::Pause => format!("pause or continue it with: kill -USR2 {}", run.identity().pid),
            };
        } else {
            self.asked = Some(Asked { action, name, dir, is_paused });
        }
    }

    /// Executes the request in another thread, because it may take seconds.
    pub fn confirm(&mut self) {
        let (Some(Asked { action, name, dir, .. }), Some(control)) =
            (self.asked.take(), self.control.clone())
        else {
            return;
        };
        let (sender, answer) = channel();
        self.message = format!("{name}: request sent");
        self.answer = Some(answer);
        std::thread::spawn(move || {
            let outcome = match action {
                Action::Stop => control.stop(&dir),
                Action::Pause => control.pause(&dir),
            };
            // The answer is dropped if the monitor has ended.
            let _ = sender.send(format!("{name}: {}", outcome.unwrap_or_else(|error| error)));
        });
    }

    /// Takes the answer of an action, if it is there.
    pub fn listen(&mut self) {
        match self.answer.as_ref().map(Receiver::try_recv) {
            Some(Ok(text)) => (self.message, self.answer) = (text, None),
            Some(Err(TryRecvError::Disconnected)) => self.answer = None,
            Some(Err(TryRecvError::Empty)) | None => {}
        }
    }
}

impl Asked {
    /// The question, with the keys that answer it.
    pub fn question(&self) -> String {
        let verb = match (self.action, self.is_paused) {
            (Action::Stop, _) => "stop",
            (Action::Pause, false) => "pause",
            (Action::Pause, true) => "continue",
        };
        format!("{verb} {}? {} again or y: yes, any other key: no", self.name, self.action.key())
    }
}

impl Comparison {
    fn of(a: &RunView, b: &RunView) -> Self {
        let [of_a, of_b] = [a, b].map(|run| settings(&run.identity().dir));
        let value = |settings: &[(String, String)], key: &str| {
            settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
        };
        let mut keys: Vec<&String> = of_a.iter().chain(&of_b).map(|(name, _)| name).collect();
        keys.sort();
        keys.dedup();
        let all = keys.iter().map(|key| ((*key).clone(), [value(&of_a, key), value(&of_b, key)]));
        let rows: Vec<_> = all.filter(|(_, [a, b])| a != b).collect();
        let same = keys.len() - rows.len();
        Comparison { names: [a, b].map(|run| run.name().to_string()), rows, same }
    }
}
