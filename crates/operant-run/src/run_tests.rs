//! The loop on a small deterministic learner: budget, attempts, resume bit for bit, signals, divergence, disks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::*;
use crate::checkpoint::{self, Checkpoint, Totals};
use crate::config::{CommandLine, EnvFacts};
use crate::error::ErrorKind;
use crate::machine::AppliedPlan;
use crate::testing::{Quadratic, Trace};
use operant_metrics::{Health, RingReader, RunFile};

/// 10 environment steps an update; solved when (x - 1)^2 <= 0.01.
fn requested(runs: &Path, resumed: Option<(&str, &str)>, assignments: &[&str]) -> Requested {
    requested_for("quadratic", runs, resumed, assignments)
}

fn requested_for(env: &str, runs: &Path, resumed: Option<(&str, &str)>, assignments: &[&str]) -> Requested {
    // Only the tests of the ring use shared memory.
    let ring = if assignments.contains(&"ring=true") { "ring=true" } else { "ring=false" };
    let mut set: Vec<String> = ["num_envs=5", "num_steps=2", "num_minibatches=2", "total_timesteps=600"]
        .iter()
        .chain(["eval_interval=4", "eval_episodes=3", "checkpoint_interval=7"].iter())
        .chain(assignments)
        .chain([&ring])
        .map(ToString::to_string)
        .collect();
    set.push(format!("run_dir={}", runs.display()));
    let facts = EnvFacts { name: env.into(), preset: Some("solved_at = -1.0".into()), ..EnvFacts::default() };
    let line = CommandLine { set, ..CommandLine::default() };
    crate::config::requested(facts, &line, resumed).expect("valid")
}

/// The test's backend with the requested settings.
fn built(backend: Quadratic, requested: &Requested) -> Result<Built> {
    let applied = AppliedPlan { threads: 1, note: "plan: 1 thread".into(), unbound: None, clamped: None };
    Ok(Built { backend: Box::new(backend), settings: requested.resolve(None)?, applied, world: None })
}

struct Run {
    outcome: Result<Outcome>,
    calls: Vec<String>,
    notes: Vec<String>,
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Progress for Notes {
    fn tick(&mut self, _: &crate::progress::Tick) {}

    fn note(&mut self, line: &str) {
        self.0.lock().expect("unpoisoned").push(line.to_string());
    }

    fn warn(&mut self, line: &str) {
        self.note(&format!("warning: {line}"));
    }
}

fn carry_out(
    runs: &Path,
    resume: Option<&str>,
    assignments: &[&str],
    prepare: impl FnOnce(&mut Quadratic, &Signals),
) -> Run {
    let resume = resume.map(|run| Resume::open(runs, run).expect("resumable"));
    let requested = requested(runs, resume.as_ref().map(|r| (r.name(), r.config())), assignments);
    let (notes, trace, signals) = (Notes::default(), Trace::default(), Signals::none());
    let mut backend = Quadratic::new(requested.settings.batch());
    backend.trace = Arc::clone(&trace);
    prepare(&mut backend, &signals);
    let mut job = Job::new(requested);
    (job.resume, job.signals, job.progress) = (resume, signals, Box::new(notes.clone()));
    job.ring_dir = Some(runs.to_path_buf());
    let mut backend = Some(backend);
    let outcome = train(job, |requested, _| built(backend.take().expect("built once"), requested));
    let calls = trace.lock().expect("unpoisoned").clone();
    let notes = notes.0.lock().expect("unpoisoned").clone();
    Run { outcome, calls, notes }
}

/// Calls `action` after update `number`.
fn at(number: u64, action: fn(&Signals)) -> impl FnOnce(&mut Quadratic, &Signals) {
    move |backend, signals| {
        let signals = signals.clone();
        backend.after = Box::new(move |update| {
            if update == number {
                action(&signals);
            }
        });
    }
}

/// The evaluations among the calls.
fn evaluations(calls: &[String]) -> Vec<String> {
    calls.iter().filter(|call| call.starts_with("evaluate")).cloned().collect()
}

fn latest(runs: &Path, name: &str) -> (PathBuf, Checkpoint) {
    let loaded = checkpoint::load_latest(&runs.join(name).join("checkpoints")).expect("a checkpoint");
    (loaded.path, loaded.checkpoint)
}

/// metrics.csv without the columns that measure time or memory.
fn csv(runs: &Path, name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(runs.join(name).join("metrics.csv")).expect("metrics.csv");
    let mut rows = text.lines().map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
    let header = rows.next().expect("a header");
    let of_the_machine = |name: &str| {
        let metric = operant_metrics::METRICS.iter().find(|metric| metric.name == name);
        metric.is_some_and(|metric| ["gpu", "host"].contains(&metric.group))
    };
    let timed = |name: &str| name.starts_with("time") || name.starts_with("sps") || of_the_machine(name);
    let keep: Vec<usize> = (0..header.len()).filter(|i| !timed(&header[*i])).collect();
    rows.map(|row| keep.iter().map(|i| row[*i].clone()).collect()).collect()
}

#[test]
fn a_run_takes_its_steps_is_evaluated_and_leaves_its_files() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let run = carry_out(runs.path(), None, &["name=a", "total_timesteps=595"], |_, _| {});
    let outcome = run.outcome.expect("finished");
    assert_eq!((outcome.exit_reason, outcome.exit_code()), (ExitReason::Finished, 0));
    let result = &outcome.result;
    assert_eq!((result.updates, result.env_steps), (60, 600), "the budget is rounded up to whole updates");
    assert!(result.eval_return_mean.is_some_and(|mean| mean > -1.0));
    assert_eq!(result.eval_episodes, 3);
    assert!(result.solved_at_step.is_some_and(|step| step > 50 && step < 400), "{result:?}");
    assert!(result.solved_at_s.is_some_and(|s| s > 0.0 && s <= result.wall_s));
    assert!(result.train_s <= result.wall_s);
    let dir = runs.path().join("a");
    for file in ["config.toml", "metrics.csv", "operant.log", "result.json", "checkpoints"] {
        assert!(dir.join(file).exists(), "{file}");
    }
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dir.join("result.json")).expect("read")).expect("JSON");
    assert_eq!(written["run"], "a");
    assert_eq!(csv(runs.path(), "a").len(), 60);
    assert_eq!(latest(runs.path(), "a").1.env_steps, 600);
    assert_eq!(run.calls.last().map(String::as_str), Some("save after 60"));
    assert_eq!(run.calls[run.calls.len() - 2], "evaluate 0 after 60");
}

#[test]
fn evaluations_start_halfway_pause_between_and_end_when_solved() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let run = carry_out(runs.path(), None, &["checkpoint_interval=0"], |_, _| {});
    let attempts: Vec<u64> = run
        .calls
        .iter()
        .filter(|call| call.starts_with("evaluate") && !call.starts_with("evaluate 0"))
        .map(|call| call.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number"))
        .collect();
    assert!(attempts.len() >= 2, "{attempts:?}");
    assert!(attempts.windows(2).all(|pair| pair[1] == pair[0] + 4), "{attempts:?}");
    let solved = run.outcome.expect("finished").result.solved_at_step;
    assert_eq!(solved, attempts.last().map(|update| update * 10));

    let stopped = carry_out(runs.path(), None, &["name=stopped", "stop_when_solved=true"], |_, _| {});
    let again = carry_out(runs.path(), Some("stopped"), &[], |_, _| {});
    for run in [stopped, again] {
        let outcome = run.outcome.expect("finished");
        assert_eq!((outcome.exit_reason, outcome.exit_code()), (ExitReason::Solved, 0));
        assert_eq!(Some(outcome.result.env_steps), solved);
    }
}

/// The files in a directory with their contents and times.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut all = Vec::new();
    for path in std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let written = path.metadata().and_then(|file| file.modified()).expect("a time");
            all.push((path.clone(), std::fs::read(&path).expect("read"), written));
        }
    }
    all.sort();
    all
}

#[test]
fn resuming_a_finished_run_writes_nothing() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    for (assignment, reason, part) in [
        ("stop_when_solved=false", ExitReason::Finished, "has taken its 600 steps already; --steps N"),
        ("stop_when_solved=true", ExitReason::Solved, "it continues with stop_when_solved=false"),
    ] {
        let first = carry_out(runs.path(), None, &["name=a", assignment], |_, _| {});
        let before = files(runs.path());
        let again = carry_out(runs.path(), Some("a"), &[assignment], |_, _| {});
        assert_eq!(files(runs.path()), before);
        let outcome = again.outcome.expect("finished");
        assert_eq!((&outcome, outcome.exit_reason), (first.outcome.as_ref().expect("finished"), reason));
        assert!(again.notes.len() == 1 && again.notes[0].contains(part), "{:?}", again.notes);
        assert!(again.calls.is_empty(), "{:?}", again.calls);
        std::fs::rename(runs.path().join("a"), runs.path().join("renamed")).expect("renamed");
        let renamed = carry_out(runs.path(), Some("renamed"), &[assignment], |_, _| {});
        assert_eq!(renamed.outcome.expect("finished").result.run, "renamed");
        // Without its result, its last evaluation is repeated.
        std::fs::remove_file(runs.path().join("renamed/result.json")).expect("removed");
        let repeated = carry_out(runs.path(), Some("renamed"), &[assignment], |_, _| {});
        assert_eq!(repeated.outcome.expect("finished").exit_reason, reason);
        assert!(runs.path().join("renamed/result.json").is_file());
        std::fs::remove_dir_all(runs.path().join("renamed")).expect("removed");
    }
}

#[test]
fn an_interrupted_and_resumed_run_ends_in_the_same_bits() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let straight = carry_out(runs.path(), None, &["name=straight"], |_, _| {});
    // A panic of the device simulates kill -9 between two checkpoints.
    let halves = std::panic::catch_unwind(|| {
        carry_out(runs.path(), None, &["name=halves"], |backend, _| {
            backend.after = Box::new(|update| assert!(update < 26, "killed"));
        })
    });
    assert!(halves.is_err());
    assert!((21..26).contains(&latest(runs.path(), "halves").1.updates));
    let resumed = carry_out(runs.path(), Some("halves"), &[], |_, _| {});
    let (a, b) = (latest(runs.path(), "straight").1, latest(runs.path(), "halves").1);
    assert_eq!(a.snapshot, b.snapshot);
    let untimed =
        |checkpoint: &Checkpoint| Totals { wall_s: None, solved_at_s: None, ..checkpoint.totals.clone() };
    assert_eq!(untimed(&a), untimed(&b));
    assert_eq!(csv(runs.path(), "straight"), csv(runs.path(), "halves"));
    let (straight_result, resumed_result) =
        (straight.outcome.expect("finished").result, resumed.outcome.expect("finished").result);
    assert_eq!(straight_result.eval_return_mean, resumed_result.eval_return_mean);
    assert_eq!(straight_result.solved_at_step, resumed_result.solved_at_step);
    assert!(evaluations(&straight.calls).ends_with(&evaluations(&resumed.calls)));
}

#[test]
fn an_evaluation_that_a_stop_prevented_comes_first() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let straight = carry_out(runs.path(), None, &["name=straight"], |_, _| {});
    let first = evaluations(&straight.calls)[0].clone();
    let update: u64 = first.rsplit(' ').next().and_then(|text| text.parse().ok()).expect("an update");
    let stopped = carry_out(runs.path(), None, &["name=stopped"], at(update, Signals::stop));
    assert_eq!(evaluations(&stopped.calls), [""; 0]);
    assert_eq!(latest(runs.path(), "stopped").1.updates, update);
    let resumed = carry_out(runs.path(), Some("stopped"), &[], |_, _| {});
    assert_eq!(evaluations(&resumed.calls), evaluations(&straight.calls));
    let [a, b] = [straight, resumed].map(|run| run.outcome.expect("finished").result);
    assert_eq!((a.solved_at_step, a.eval_return_mean), (b.solved_at_step, b.eval_return_mean));
}

#[test]
fn an_asynchronous_device_is_kept_busy_and_drained_when_needed() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let plain = carry_out(runs.path(), None, &["name=plain", "solved_at=1e9"], |_, _| {});
    let most = Arc::new(Mutex::new(0));
    let lagging = carry_out(runs.path(), None, &["name=lagging", "solved_at=1e9"], |backend, _| {
        let most = Arc::clone(&most);
        backend.lags = true;
        backend.after = Box::new(move |update| *most.lock().expect("unpoisoned") = update);
    });
    assert_eq!(*most.lock().expect("unpoisoned"), 60, "no update beyond the budget was enqueued");
    assert_eq!(plain.calls, lagging.calls, "evaluations and checkpoints came after the same updates");
    assert_eq!(latest(runs.path(), "plain").1.snapshot, latest(runs.path(), "lagging").1.snapshot);
    assert_eq!(csv(runs.path(), "plain"), csv(runs.path(), "lagging"));

    let stopped = carry_out(runs.path(), None, &["name=stopped"], |backend, signals| {
        backend.lags = true;
        at(10, Signals::stop)(backend, signals);
    });
    let updates = stopped.outcome.expect("stopped cleanly").result.updates;
    assert_eq!(latest(runs.path(), "stopped").1.updates, updates);
}

#[test]
fn a_run_killed_before_its_first_checkpoint_starts_over() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let straight = carry_out(runs.path(), None, &["name=straight"], |_, _| {});
    let _ = std::panic::catch_unwind(|| {
        carry_out(runs.path(), None, &["name=early"], |backend, _| {
            backend.after = Box::new(|update| assert!(update < 3, "killed"));
        })
    });
    let resume = Resume::open(runs.path(), "early").expect("it can start over");
    assert!(resume.warnings.iter().any(|warning| warning.contains("training starts again at step 0")));
    drop(resume);
    let resumed = carry_out(runs.path(), Some("early"), &[], |_, _| {});
    assert_eq!(latest(runs.path(), "straight").1.snapshot, latest(runs.path(), "early").1.snapshot);
    assert_eq!(csv(runs.path(), "straight"), csv(runs.path(), "early"));
    drop((straight, resumed));
}

#[test]
fn a_stop_saves_and_resumes() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    carry_out(runs.path(), None, &["name=straight"], |_, _| {}).outcome.expect("finished");
    let stopped = carry_out(runs.path(), None, &["name=stopped"], at(10, Signals::stop));
    let outcome = stopped.outcome.expect("stopped cleanly");
    assert_eq!((outcome.exit_reason, outcome.exit_code()), (ExitReason::Stopped("the program"), 75));
    assert_eq!((outcome.result.updates, outcome.result.eval_return_mean), (10, None));
    assert_eq!(latest(runs.path(), "stopped").1.updates, 10);
    carry_out(runs.path(), Some("stopped"), &[], |_, _| {}).outcome.expect("finished");
    assert_eq!(latest(runs.path(), "straight").1.snapshot, latest(runs.path(), "stopped").1.snapshot);
}

#[test]
fn training_continues_after_a_requested_checkpoint() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let run = carry_out(runs.path(), None, &["checkpoint_interval=0"], at(2, Signals::checkpoint));
    assert_eq!(run.outcome.expect("finished").result.updates, 60);
    assert_eq!(run.calls.iter().filter(|call| *call == "save after 2").count(), 1);
}

#[test]
fn divergence_stops_with_the_last_good_checkpoint() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let run = carry_out(runs.path(), None, &["name=nan", "max_nonfinite_updates=12"], |backend, _| {
        backend.nan_from = 9
    });
    let error = run.outcome.expect_err("diverged");
    assert_eq!((error.kind, error.exit_code()), (ErrorKind::Diverged, 1));
    let (path, checkpoint) = latest(runs.path(), "nan");
    assert_eq!(checkpoint.updates, 7, "update 14 was non-finite and must not have been saved");
    assert!(
        error.remedy.as_deref().is_some_and(|remedy| remedy.contains(&path.display().to_string())),
        "{error}"
    );
    assert_eq!(run.notes.iter().filter(|note| note.contains("non-finite")).count(), 8, "{:?}", run.notes);
    assert_eq!(csv(runs.path(), "nan").len(), 20);
}

#[test]
fn a_run_without_a_finite_update_has_failed() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    // Fewer updates than end a run early.
    let few = ["name=nan", "total_timesteps=60", "max_nonfinite_updates=12"];
    let error = carry_out(runs.path(), None, &few, |backend, _| backend.nan_from = 0).outcome;
    let error = error.expect_err("diverged");
    assert_eq!((error.kind, error.exit_code()), (ErrorKind::Diverged, 1));
    assert!(error.what.contains("all 6 updates"), "{error}");
    assert_eq!(operant_metrics::RunFile::read(&runs.path().join("nan")).expect("there").state, "failed");
}

#[test]
fn a_failing_disk_never_ends_training() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let checkpoints = runs.path().join("full").join("checkpoints");
    let run = carry_out(runs.path(), None, &["name=full", "solved_at=1e9"], |backend, _| {
        backend.after = Box::new(move |update| {
            if update == 8 {
                // A file in place of the directory: every later save fails.
                std::fs::remove_dir_all(&checkpoints).expect("removed");
                std::fs::write(&checkpoints, "").expect("written");
            }
        });
    });
    let outcome = run.outcome.expect("training continued");
    assert_eq!((outcome.result.updates, outcome.exit_code()), (60, 1));
    assert!(outcome.unsaved.is_some_and(|error| error.kind == ErrorKind::Disk));
    assert!(
        run.notes
            .iter()
            .any(|note| note.starts_with("warning") && note.contains("checkpoints lost so far: 1"))
    );
}

#[test]
fn a_damaged_checkpoint_falls_back_to_the_one_before() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    carry_out(runs.path(), None, &["name=a"], |_, _| {}).outcome.expect("finished");
    let before = latest(runs.path(), "a").1.snapshot;
    let (path, _) = latest(runs.path(), "a");
    for entry in std::fs::read_dir(&path).expect("read").flatten() {
        let bytes = std::fs::read(entry.path()).expect("read");
        std::fs::write(entry.path(), &bytes[..bytes.len() / 2]).expect("written");
    }
    let resumed = carry_out(runs.path(), Some("a"), &[], |_, _| {});
    resumed.outcome.expect("finished");
    assert!(resumed.notes.iter().any(|note| note.starts_with("warning")), "{:?}", resumed.notes);
    assert_eq!(latest(runs.path(), "a").1.snapshot, before);
}

#[test]
fn an_incompatible_resume_is_refused_before_anything_changes() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    carry_out(runs.path(), None, &["name=a"], |_, _| {}).outcome.expect("finished");
    let files = || std::fs::read(runs.path().join("a").join("metrics.csv")).expect("read");
    let before = files();
    let changed = carry_out(runs.path(), Some("a"), &["hidden=[7]"], |_, _| {});
    assert_eq!(changed.outcome.expect_err("refused").exit_code(), 2);
    let resume = Resume::open(runs.path(), "a").expect("resumable");
    let mut job = Job::new(requested_for("cubic", runs.path(), None, &[]));
    job.resume = Some(resume);
    let error = train(job, |_, _| panic!("no backend for a run that does not fit")).expect_err("refused");
    assert!(error.what.contains("trains quadratic, not cubic"), "{error}");
    assert_eq!(files(), before);

    let refused = train(Job::new(requested(runs.path(), None, &["name=b"])), |_, _| {
        Err(Error::usage("no such option"))
    });
    assert!(refused.is_err() && !runs.path().join("b").exists(), "a refused run leaves nothing behind");
}

#[test]
fn an_evaluation_of_a_finished_run_reproduces_its_result() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let finished = carry_out(runs.path(), None, &["name=a"], |_, _| {}).outcome.expect("finished").result;
    let target = crate::eval::EvalTarget::find(runs.path(), "a").expect("found");
    let requested = requested(runs.path(), Some(("a", &target.checkpoint.config)), &[]);
    let evaluate = |target| {
        let make = |requested: &Requested| built(Quadratic::new(requested.settings.batch()), requested);
        crate::eval::evaluate(target, &requested, 3, operant_learn::EvalActions::Greedy, &mut || false, make)
            .expect("evaluated")
    };
    let result = evaluate(&target);
    assert_eq!(Some(result.eval_return_mean), finished.eval_return_mean);
    assert_eq!((result.solved, result.env_steps), (Some(true), 600));
    // A path is found from any directory of runs, also from one that does not exist.
    let missing = Path::new(&result.checkpoint).join("missing");
    let by_path = crate::eval::EvalTarget::find(&missing, &result.checkpoint).expect("found");
    assert_eq!(evaluate(&by_path).eval_return_mean, result.eval_return_mean);
    assert_eq!(by_path.run, "a");
}

fn ring(runs: &Path, name: &str) -> RingReader {
    let found = operant_metrics::find_in(runs, name).expect("a ring");
    RingReader::open(&found.path).expect("readable")
}

#[test]
fn the_ring_has_a_runs_events_and_final_state() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let run = carry_out(runs.path(), None, &["name=a", "ring=true"], |_, _| {});
    let result = run.outcome.expect("finished").result;
    let ring = ring(runs.path(), "a");
    let identity = ring.identity();
    assert_eq!((identity.run.as_str(), identity.env.as_str(), identity.total_steps), ("a", "quadratic", 600));
    assert_eq!(identity.dir, std::fs::canonicalize(runs.path().join("a")).expect("there"));
    assert_eq!((identity.solved_at, identity.pid), (Some(-1.0), std::process::id()));
    assert_eq!((ring.published(), ring.last_update()), (60, 60));
    let status = ring.status();
    assert_eq!(
        (status.health, status.reason.as_str()),
        (Health::Reported(RunState::Finished), "took every step")
    );
    let saved = status.checkpoint.expect("a checkpoint");
    assert_eq!((saved.env_steps, Path::new(&saved.path).is_absolute()), (600, true));
    assert!(result.checkpoint.is_some_and(|path| saved.path.ends_with(&path)));
    let latest = ring.latest().expect("a record");
    let value = |name: &str| latest[ring.schema().position(name).expect("a metric")];
    assert_eq!((value("env_steps"), value("bytes_h2d")), (600.0, 0.0));
    for name in ["time_host", "time_idle", "resident_memory", "sps", "sps_average"] {
        assert!(value(name) >= 0.0, "{name} is {}", value(name));
    }
    let scene = ring.scene(0).expect("an episode");
    assert_eq!((scene.frames.len(), scene.fps), (1, 30.0));
    let events: Vec<String> = ring.events().into_iter().map(|event| event.text).collect();
    for part in
        ["run a in", "on cpu with", "checkpoint saved at 70 steps", "solved at", "finished: took every step"]
    {
        assert!(events.iter().any(|event| event.contains(part)), "no \"{part}\" in {events:#?}");
    }
}

#[test]
fn a_resumed_runs_ring_begins_at_its_first_update() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    carry_out(runs.path(), None, &["name=a"], at(25, Signals::stop)).outcome.expect("stopped");
    carry_out(runs.path(), Some("a"), &["ring=true"], |_, _| {}).outcome.expect("finished");
    let ring = ring(runs.path(), "a");
    let update = ring.schema().position("update").expect("a metric");
    let records = ring.records(0);
    let updates: Vec<f64> = records.rows.iter().map(|row| row[update]).collect();
    assert_eq!(updates, (1..=60).map(f64::from).collect::<Vec<_>>());
    assert_eq!(csv(runs.path(), "a").len(), 60, "the file is not written twice");
}

#[test]
fn a_pause_holds_training_and_costs_no_training_time() {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(300);
    let runs = tempfile::tempdir().expect("a temporary directory");
    let straight = carry_out(runs.path(), None, &["name=straight"], |_, _| {});
    let run = carry_out(
        runs.path(),
        None,
        &["name=held", "ring=true", "checkpoint_interval=0"],
        |backend, signals| {
            let (signals, place) = (signals.clone(), runs.path().to_path_buf());
            backend.after = Box::new(move |update| {
                if update != 30 {
                    return;
                }
                signals.pause();
                let (signals, place) = (signals.clone(), place.clone());
                std::thread::spawn(move || {
                    let ring = ring(&place, "held");
                    let until = |what: &str, condition: &dyn Fn() -> bool| {
                        let begun = Instant::now();
                        while !condition() {
                            assert!(begun.elapsed().as_secs() < 60, "timed out waiting for {what}");
                            std::thread::park_timeout(PAUSE / 100);
                        }
                    };
                    until("the pause", &|| ring.status().health == Health::Reported(RunState::Paused));
                    signals.checkpoint();
                    until("the checkpoint", &|| {
                        ring.status().checkpoint.is_some_and(|saved| saved.env_steps == 300)
                    });
                    std::thread::park_timeout(PAUSE);
                    signals.pause();
                });
            });
        },
    );
    let (result, notes) = (run.outcome.expect("finished").result, run.notes);
    assert!(result.train_s < PAUSE.as_secs_f64() && result.wall_s > PAUSE.as_secs_f64() / 2.0, "{result:?}");
    assert!(
        notes.iter().any(|note| note.contains("paused"))
            && notes.iter().any(|note| note.contains("continues"))
    );
    assert!(run.calls.contains(&"save after 30".to_string()), "{:?}", run.calls);
    let (a, b) = (latest(runs.path(), "straight").1.snapshot, latest(runs.path(), "held").1.snapshot);
    assert_eq!(a, b, "a pause changes no bit");
    assert_eq!(straight.outcome.expect("finished").result.eval_return_mean, result.eval_return_mean);
    // The pause counts as idle time in the next record.
    let ring = ring(runs.path(), "held");
    let idle = ring.schema().position("time_idle").expect("a metric");
    let longest = ring.records(0).rows.iter().map(|row| row[idle]).fold(0.0, f64::max);
    assert!(longest > PAUSE.as_secs_f64() / 2.0, "{longest}");
}

#[test]
fn a_finish_evaluates_and_resumes() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    carry_out(runs.path(), None, &["name=straight"], |_, _| {}).outcome.expect("finished");
    let finished = carry_out(runs.path(), None, &["name=early"], at(10, Signals::finish));
    let outcome = finished.outcome.expect("ended cleanly");
    assert_eq!((outcome.exit_reason, outcome.result.updates), (ExitReason::Stopped("the program"), 10));
    assert!(outcome.result.eval_return_mean.is_some() && outcome.unsaved.is_none());
    let saved = latest(runs.path(), "early").1;
    assert_eq!((saved.updates, saved.eval_mean), (10, outcome.result.eval_return_mean));
    carry_out(runs.path(), Some("early"), &[], |_, _| {}).outcome.expect("finished");
    assert_eq!(latest(runs.path(), "straight").1.snapshot, latest(runs.path(), "early").1.snapshot);
}

#[test]
fn a_stop_ends_a_pause() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let pause_and_stop = |signals: &Signals| {
        signals.pause();
        signals.stop();
    };
    let run = carry_out(runs.path(), None, &["name=a"], at(3, pause_and_stop));
    let outcome = run.outcome.expect("stopped");
    assert_eq!((outcome.exit_reason, outcome.result.updates), (ExitReason::Stopped("the program"), 3));
}

#[test]
fn training_continues_without_a_ring_that_cannot_be_created() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let mut job = Job::new(requested(runs.path(), None, &["name=a", "ring=true"]));
    let notes = Notes::default();
    job.progress = Box::new(notes.clone());
    job.ring_dir = Some(runs.path().join("nowhere"));
    let outcome = train(job, |requested, _| built(Quadratic::new(requested.settings.batch()), requested))
        .expect("finished");
    assert_eq!(outcome.result.updates, 60);
    let notes = notes.0.lock().expect("unpoisoned").clone();
    let warnings: Vec<&String> = notes.iter().filter(|note| note.starts_with("warning")).collect();
    assert_eq!(warnings.len(), 1, "{notes:?}");
    assert!(warnings[0].contains("nowhere") && warnings[0].contains("training continues without telemetry"));
}

#[test]
fn run_json_records_how_each_run_ended() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| RunFile::read(&runs.path().join(name)).expect("run.json");
    carry_out(runs.path(), None, &["name=whole"], |_, _| {}).outcome.expect("finished");
    let whole = file("whole");
    assert_eq!(
        (whole.state.as_str(), whole.env_steps, whole.env.as_str()),
        ("finished", Some(600), "quadratic")
    );
    assert!(whole.checkpoint.is_some_and(|path| path.is_absolute() && path.is_dir()));
    assert!(whole.sps.is_some_and(|sps| sps > 0.0) && whole.started.ends_with('Z'));
    carry_out(runs.path(), None, &["name=stopped"], at(1, Signals::stop)).outcome.expect("stopped");
    assert_eq!(
        (file("stopped").state.as_str(), file("stopped").reason.as_str()),
        ("preempted", "the program")
    );
    let nan = ["name=nan", "max_nonfinite_updates=3", "ring=true"];
    carry_out(runs.path(), None, &nan, |backend, _| backend.nan_from = 9).outcome.expect_err("diverged");
    let failed = file("nan");
    assert!(failed.state == "failed" && failed.reason.contains("training diverged"), "{failed:?}");
    let status = ring(runs.path(), "nan").status();
    assert_eq!((status.health, status.reason), (Health::Reported(RunState::Failed), failed.reason));

    let listed = crate::runs::list(runs.path());
    let own: Vec<&crate::runs::Run> = listed
        .iter()
        .filter(|run| run.dir.starts_with(std::fs::canonicalize(runs.path()).expect("there")))
        .collect();
    let states: Vec<(&str, &str)> = own.iter().map(|run| (run.run.as_str(), run.health.name())).collect();
    assert_eq!(states, [("whole", "finished"), ("stopped", "preempted"), ("nan", "failed")]);
    assert!(own.iter().all(|run| run.pid.is_none() && run.env_steps.is_some()), "{own:#?}");
}

#[test]
fn the_machine_plan_is_logged_once_and_changes_no_bit() {
    let runs = tempfile::tempdir().expect("a temporary directory");
    let trained = |name: &str, more: &[&str]| {
        let set = ["num_envs=32", "num_steps=16", "num_minibatches=2", "total_timesteps=2048", "device=cpu"];
        let set = set.iter().chain(&["ring=false", "eval_episodes=2"]).chain(more);
        let mut set: Vec<String> = set.map(ToString::to_string).collect();
        set.extend([format!("name={name}"), format!("run_dir={}", runs.path().display())]);
        let facts = EnvFacts::registered(&operant_env::builtin(), "cartpole").expect("registered");
        let line = CommandLine { set, ..CommandLine::default() };
        let notes = Notes::default();
        let mut job = Job::new(crate::config::requested(facts, &line, None).expect("valid"));
        job.progress = Box::new(notes.clone());
        job.verbose = true;
        let env: Arc<dyn operant_env::AnyEnv> = Arc::new(operant_env::cartpole::CartPole::default());
        train(job, |requested, device| crate::backend(&env, requested, device)).expect("finished");
        let notes = notes.0.lock().expect("unpoisoned");
        let of = |start: &str| notes.iter().filter(|note| note.starts_with(start)).cloned().collect();
        let (plans, warnings): (Vec<String>, Vec<String>) = (of("plan: "), of("warning: pin"));
        assert_eq!(plans.len(), 1, "{notes:?}");
        let threads = plans[0].split(' ').nth(1).expect("a number").to_owned();
        assert!(notes[0].contains(&format!("on cpu with {threads} thread")), "{notes:?}");
        assert!(warnings.len() <= 1 && (warnings.is_empty() || more.contains(&"pin=true")), "{notes:?}");
        (plans[0].clone(), latest(runs.path(), name).1.snapshot)
    };
    let (plan, suited) = trained("suited", &["optimize_perf=true"]);
    assert!(plan.contains("waiting: ") && !plan.contains("not adapted"), "{plan}");
    let (plan, plain) = trained("plain", &["optimize_perf=false"]);
    assert!(plan.contains("not adapted to the machine (optimize_perf = false)"), "{plan}");
    assert!(suited == plain, "the machine's settings affect speed only");
    let (plan, asked) = trained("asked", &["threads=3", "waiting=sleep", "pin=true", "rollout_tile=64"]);
    assert!(plan.starts_with("plan: 3 threads (requested); pinning: "), "{plan}");
    assert!(plan.contains("; waiting: sleep (requested); lane_width: "), "{plan}");
    assert!(suited == asked);
}
