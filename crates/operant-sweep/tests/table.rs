//! Tables of sweeps that are damaged, or a stranger's: one error each, and no panic.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use operant_run::world::Interpreter;
use operant_run::{Error, Signals, Trust};
use operant_sweep::task::{Link, Task, TaskContext};
use operant_sweep::{Executor, Given, Local, Report, Spec, Status, Sweep, Watch, overview};
use rusqlite::Connection;

struct Unwatched;

impl Watch for Unwatched {
    fn status(&mut self, _: &Status) {}

    fn warn(&mut self, line: &str) {
        panic!("{line}");
    }
}

/// A finished sweep of two trials.
pub fn swept(parent: &Path) -> PathBuf {
    swept_by(parent, Arc::new(Local), &mut Unwatched)
}

fn swept_by(parent: &Path, executor: Arc<dyn Executor>, watch: &mut dyn Watch) -> PathBuf {
    let set = ["num_envs=16", "num_steps=16", "total_timesteps=256", "eval_episodes=2", "gamma=0.9,0.99"];
    let set = set.map(|assignment| (assignment.to_owned(), "--set".to_owned())).into();
    let spec = Spec::of_environments(&["cartpole"], &Given { set, ..Given::default() }).expect("valid");
    let registry = operant_env::builtin();
    let mut sweep = Sweep::new(spec, &registry, parent, Some("rates"), Some(1), executor).expect("made");
    sweep.run(&Signals::none(), watch).expect("trained");
    sweep.dir().to_owned()
}

/// Warns of the same in each run, and of something else in the second.
struct Warning;

impl Executor for Warning {
    fn slots(&self) -> usize {
        1
    }

    fn threads(&self, _: usize) -> usize {
        1
    }

    fn is_local(&self) -> bool {
        true
    }

    fn train(&self, task: &Task, place: &TaskContext<'_>, link: &Link) -> Result<bool, Error> {
        link.warn("the gripper is stuck");
        if task.segment.trial == 1 {
            link.warn("the gripper is hot");
            link.warn("the gripper is melting");
        }
        Local.train(task, place, link)
    }
}

/// The warnings of a sweep.
struct Noted(Vec<String>);

impl Watch for Noted {
    fn status(&mut self, _: &Status) {}

    fn warn(&mut self, line: &str) {
        self.0.push(line.to_owned());
    }
}

#[test]
fn equal_warnings_of_runs_are_said_once_and_others_after_them() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let mut noted = Noted(Vec::new());
    swept_by(place.path(), Arc::new(Warning), &mut noted);
    let said = [
        "trial 0 (gamma=0.9), seed 1: the gripper is stuck",
        "trial 1 (gamma=0.99), seed 1: the gripper is hot",
    ];
    assert_eq!(noted.0.len(), said.len(), "{:#?}", noted.0);
    for (line, begin) in noted.0.iter().zip(said) {
        assert!(line.starts_with(begin), "{line}");
    }
}

/// The steps that were shown last.
struct Steps(u64);

impl Watch for Steps {
    fn status(&mut self, status: &Status) {
        self.0 = status.env_steps;
    }

    fn warn(&mut self, line: &str) {
        panic!("{line}");
    }
}

#[test]
fn the_last_status_has_every_step() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let mut steps = Steps(0);
    let dir = swept_by(place.path(), Arc::new(Local), &mut steps);
    let taken: u64 = operant_sweep::rows(&dir).expect("rows").iter().filter_map(|row| row.env_steps).sum();
    assert!(taken > 0 && steps.0 == taken, "{} of {taken}", steps.0);
}

/// The error of continuing a sweep after changes to its table.
fn resumed(dir: &Path, changes: &str) -> Result<(), Error> {
    let table = Connection::open(dir.join("sweep.db")).expect("a table");
    table.execute_batch(&format!("PRAGMA foreign_keys = OFF; {changes}")).expect(changes);
    table.close().expect("closed");
    resumed_as_it_is(dir)
}

fn resumed_as_it_is(dir: &Path) -> Result<(), Error> {
    Sweep::resume(&operant_env::builtin(), dir, Some(1), Arc::new(Local), Trust::All).map(drop)
}

#[test]
fn a_damaged_table_is_one_error() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let dir = swept(place.path());
    let whole = std::fs::read(dir.join("sweep.db")).expect("a table");
    resumed(&dir, "").expect("it continues");
    // As earlier versions wrote it.
    resumed(&dir, "DROP TABLE measures").expect("it continues");
    std::fs::write(dir.join("sweep.db"), &whole).expect("restored");
    let trials = |count: &str| {
        format!(
            "UPDATE sweep SET value = replace(value, '\"trials\":2', '\"trials\":{count}') WHERE key = 'spec'"
        )
    };
    for (changes, what) in [
        (
            "INSERT INTO decisions (trial, until) VALUES (99, 256)",
            "decision on trial 99, which does not exist",
        ),
        (
            "UPDATE trials SET trial = 7 WHERE trial = 1; UPDATE decisions SET trial = 7 WHERE trial = 1",
            "trial 1 is missing",
        ),
        ("UPDATE trials SET settings = '{}'", "trial 0 is missing, or does not fit"),
        ("UPDATE trials SET env = 'pendulum'", "trial 0 is missing, or does not fit"),
        ("UPDATE trials SET parent = 5 WHERE trial = 0", "trial 0 is missing, or does not fit"),
        ("DELETE FROM environments", "its environments are not those"),
        (&trials("18446744073709551615"), "runs, more than"),
        (&trials("0"), "no trial"),
        (&trials("3"), "its search does not fit"),
        ("UPDATE sweep SET value = '{' WHERE key = 'spec'", "its specification: "),
        (
            "UPDATE sweep SET value = replace(value, '\"gamma\"', '\"run_dir\"') WHERE key = 'spec'",
            "a sweep sets run_dir itself",
        ),
        ("ALTER TABLE curves RENAME TO c; CREATE VIEW curves AS SELECT * FROM c", "curves is a view"),
        ("DROP TABLE measures; CREATE VIEW measures AS SELECT * FROM curves", "measures is a view"),
        ("CREATE TRIGGER t AFTER UPDATE ON sweep BEGIN DELETE FROM results; END", "it has a trigger, t"),
    ] {
        let error = resumed(&dir, changes).expect_err(changes);
        assert!(error.what.contains("damaged: ") && error.what.contains(what), "{changes}: {error}");
        assert!(error.place.is_some_and(|place| place.ends_with("sweep.db")) && error.remedy.is_some());
        // What only reads it neither panics nor lasts.
        let _ = (Report::of_sweep(&dir), overview(&dir));
        for ending in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(dir.join(format!("sweep.db{ending}")));
        }
        std::fs::write(dir.join("sweep.db"), &whole).expect("restored");
    }
    for (changes, what) in [
        ("UPDATE results SET env_steps = -1", "results cannot be read"),
        ("DELETE FROM decisions", "trials cannot be read"),
    ] {
        let error = resumed(&dir, changes).expect_err(changes);
        assert!(error.what.contains(what) && error.remedy.is_some(), "{changes}: {error}");
        std::fs::write(dir.join("sweep.db"), &whole).expect("restored");
    }
}

#[test]
fn a_name_in_a_table_is_looked_up_and_never_recorded() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let dir = swept(place.path());
    let mark = place.path().join("started");
    let python = script(place.path(), &format!("touch {}", mark.display()));
    let interpreter = Interpreter { python, interrupted: || false, note: |_| false };
    operant_run::world::set_interpreter(interpreter);
    let program = "os:system?command=true";
    let changes = format!(
        "UPDATE environments SET env = '{program}', name = '{program}'; UPDATE trials SET env = '{program}';
         UPDATE sweep SET value = replace(value, 'cartpole', '{program}') WHERE key = 'spec'"
    );
    let error = resumed(&dir, &changes).expect_err("no environment");
    assert!(error.what.contains(program) && error.remedy.is_some(), "{error}");
    assert!(!mark.exists());
}

/// A Python that runs a line of shell.
fn script(dir: &Path, line: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.join("python");
    std::fs::write(&path, format!("#!/bin/sh\n{line}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

#[test]
#[ignore = "cargo xtask test --all"] // SQLite waits five seconds for a lock
fn a_table_that_another_program_uses_is_not_blamed_on_the_disk() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let dir = swept(place.path());
    let other = Connection::open(dir.join("sweep.db")).expect("a table");
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").expect("locked");
    let error = resumed_as_it_is(&dir).expect_err("it is locked");
    assert!(error.what.contains("database is locked"), "{error}");
    assert!(error.remedy.expect("a remedy").contains("close the other program that uses the table"));
}
