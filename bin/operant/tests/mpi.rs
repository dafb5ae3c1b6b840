//! `--distributed mpi` with real processes: `cargo xtask test --mpi`, which sets `OPERANT_TEST_MPIRUN`.
#![cfg(feature = "mpi")]

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use crate::common::{Finished, Sandbox, finish, read_until, wait_for};
use rustix::process::{Pid, Signal, kill_process};

/// Eight blocks of environments, a checkpoint at every second update, and a rate that does not depend on the number of steps.
const SETTINGS: &[&str] = &[
    "shuffle=blocks",
    "num_envs=128",
    "num_steps=32",
    "num_minibatches=4",
    "hidden=16",
    "norm_obs=true",
    "target_kl=0.02",
    "lr_schedule=constant",
    "checkpoint_interval=2",
    "keep_checkpoints=1000",
    "eval_episodes=5",
    "solved_at=1e9",
];
const BATCH: usize = 128 * 32;

/// A launcher that hangs is killed, and the test fails.
const LIMIT: [&str; 4] = ["timeout", "--kill-after=5", "--signal=KILL", "600"];

fn mpirun() -> String {
    std::env::var("OPERANT_TEST_MPIRUN").unwrap_or_else(|_| "mpirun".to_owned())
}

/// The program and arguments that start `ranks` processes.
fn launcher(ranks: usize) -> Vec<String> {
    let mut words: Vec<String> = LIMIT.map(str::to_owned).to_vec();
    words.extend(mpirun().split(' ').map(str::to_owned));
    words.extend(["-n".to_owned(), ranks.to_string()]);
    words
}

/// Hides from MPICH's launcher that a process other than 0 has ended.
const HIDE: &str = r#""$@" & wait $!; code=$?; if [ "$PMI_RANK" != 0 ]; then exec sleep 600; fi; exit $code"#;

/// `operant train` in this number of processes.
fn train(place: &Sandbox, ranks: usize, args: &[&str]) -> Command {
    start(place, launcher(ranks), args)
}

fn start(place: &Sandbox, before: Vec<String>, args: &[&str]) -> Command {
    let mut all = vec!["train", "--distributed", "mpi", "--json"];
    all.extend(args);
    let mut command = place.by(&before.iter().map(String::as_str).collect::<Vec<_>>(), &all);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a new run of cartpole with [`SETTINGS`] and this many updates.
fn new_run(place: &Sandbox, ranks: usize, name: &str, updates: usize, more: &[&str]) -> Command {
    start_new(place, launcher(ranks), name, updates, more)
}

fn start_new(place: &Sandbox, before: Vec<String>, name: &str, updates: usize, more: &[&str]) -> Command {
    let steps = (updates * BATCH).to_string();
    let mut args = vec!["cartpole", "--name", name, "--steps", &steps];
    SETTINGS.iter().chain(more).for_each(|setting| args.extend(["--set", setting]));
    start(place, before, &args)
}

fn run(mut command: Command) -> Finished {
    finish(command.spawn().expect("mpirun starts"))
}

/// Kills the processes of a test directory that the launcher may have left.
struct Rest<'a>(&'a Sandbox);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        for pid in ranks(self.0).into_values() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The processes of operant in a test directory, by rank.
fn ranks(place: &Sandbox) -> BTreeMap<usize, Pid> {
    let variables = ["OMPI_COMM_WORLD_RANK=", "PMI_RANK="];
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let path = entry.path();
        let here = std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == place.path());
        let is_operant = std::fs::read_link(path.join("exe"))
            .is_ok_and(|exe| exe.file_name().is_some_and(|name| name == "operant"));
        if !here || !is_operant {
            continue;
        }
        let environ = std::fs::read(path.join("environ")).unwrap_or_default();
        let environ = String::from_utf8_lossy(&environ).into_owned();
        let rank = environ
            .split('\0')
            .find_map(|variable| variables.iter().find_map(|name| variable.strip_prefix(name)?.parse().ok()));
        let pid = entry.file_name().to_str().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        found.extend(rank.zip(pid));
    }
    found
}

/// Waits until a run of this many processes has saved checkpoints.
fn started(place: &Sandbox, child: &mut Child, name: &str, processes: usize) -> BTreeMap<usize, Pid> {
    wait_for("checkpoints", || {
        assert_eq!(child.try_wait().expect("waited"), None, "it ended");
        (place.checkpoints(name).len() >= 2).then_some(())
    });
    let ranks = ranks(place);
    assert_eq!(ranks.len(), processes, "{ranks:?}");
    ranks
}

#[test]
fn one_two_and_four_processes_have_the_same_bits() {
    let place = Sandbox::new();
    let alone = ["cartpole", "--name", "alone", "--json", "--steps"];
    let steps = (6 * BATCH).to_string();
    let mut args = ["train"].iter().chain(&alone).copied().collect::<Vec<_>>();
    args.push(&steps);
    SETTINGS.iter().for_each(|setting| args.extend(["--set", setting]));
    let alone = place.operant(&args);
    assert_eq!(alone.code, Some(0), "{alone:#?}");
    for count in [1, 2, 4] {
        let name = format!("of{count}");
        let finished = run(new_run(&place, count, &name, 6, &[]));
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        for key in ["env_steps", "updates", "eval_return_mean", "eval_return_std"] {
            assert_eq!(finished.json()[key], alone.json()[key], "{key}");
        }
        assert!(place.final_state(&name) == place.final_state("alone"), "{count} processes");
        assert_eq!(place.metrics(&name), place.metrics("alone"), "{count} processes");
        let log = std::fs::read_to_string(place.path().join("runs").join(&name).join("operant.log"));
        let shared = log.expect("the log").contains(&format!("{count} processes share the environments"));
        assert_eq!(shared, count > 1, "{count} processes");
    }
}

#[test]
fn a_killed_process_ends_all_and_the_run_continues_on_two() {
    for killed in [2, 0] {
        let place = Sandbox::new();
        let _rest = Rest(&place);
        // A launcher that kills the others may do so before process 0 notices.
        let reports = killed > 0 && mpirun().contains("mpich");
        let mut launcher = launcher(4);
        launcher.extend(["sh", "-c", HIDE, "sh"].iter().filter(|_| reports).map(|word| (*word).to_owned()));
        let mut child = start_new(&place, launcher, "lost", 1_000_000, &[]).spawn().expect("mpirun starts");
        place.guard(&child);
        let before = started(&place, &mut child, "lost", 4);
        kill_process(before[&killed], Signal::KILL).expect("it lives");
        let finished = finish(child);
        assert!(finished.code.is_none_or(|code| code != 0), "{finished:#?}");
        wait_for("all processes to end", || ranks(&place).is_empty().then_some(()));
        assert!(!finished.stderr.contains("bug in operant"), "{finished:#?}");
        if reports {
            let pid = before[&killed].as_raw_pid();
            for part in [
                &format!("process 2 (pid {pid} on ")[..],
                "of the run has ended unexpectedly",
                "--resume lost",
            ] {
                assert!(finished.stderr.contains(part), "{part} is not in {finished:#?}");
            }
            assert_eq!(finished.stderr.matches("error: ").count(), 1, "{finished:#?}");
            assert_eq!(place.run_file("lost")["state"], "failed");
        }
        let (saved, _) = place.checkpoints("lost").pop().expect("a checkpoint");
        let updates = usize::try_from(saved).expect("small") / BATCH + 3;
        let steps = (updates * BATCH).to_string();
        let resumed = run(train(&place, 2, &["--resume", "lost", "--steps", &steps]));
        assert_eq!(resumed.code, Some(0), "{resumed:#?}");
        let whole = run(new_run(&place, 1, "whole", updates, &[]));
        assert_eq!(whole.code, Some(0), "{whole:#?}");
        assert!(place.final_state("lost") == place.final_state("whole"), "after the loss of {killed}");
    }
}

#[test]
fn a_signal_to_process_0_saves_a_checkpoint_and_ends_all_with_75() {
    let place = Sandbox::new();
    let _rest = Rest(&place);
    let mut child = new_run(&place, 2, "stopped", 1_000_000, &[]).spawn().expect("mpirun starts");
    place.guard(&child);
    let processes = started(&place, &mut child, "stopped", 2);
    // The others leave signals to process 0.
    for rank in [1, 0] {
        kill_process(processes[&rank], Signal::TERM).expect("it lives");
    }
    read_until(&mut child, "SIGTERM: saving a checkpoint");
    let finished = finish(child);
    assert_eq!(finished.code, Some(75), "{finished:#?}");
    let steps = finished.json()["env_steps"].as_u64();
    assert_eq!(place.checkpoints("stopped").last().map(|(step, _)| *step), steps);
}

#[test]
fn what_cannot_be_shared_is_one_error() {
    let place = Sandbox::new();
    for (count, more, parts) in [
        (3, &[][..], ["8 blocks, which 3 processes cannot share equally", "use 2, 4, 8 or 16 processes"]),
        (2, &["shuffle=samples"], ["samples of any environment", "shuffle = \"blocks\""]),
    ] {
        let finished = run(new_run(&place, count, "refused", 2, more));
        assert_eq!(finished.code, Some(2), "{finished:#?}");
        assert_eq!(finished.stderr.matches("error: ").count(), 1, "{finished:#?}");
        for part in parts {
            assert!(finished.stderr.contains(part), "{part} is not in {finished:#?}");
        }
        assert!(!place.path().join("runs").exists());
    }
}

#[test]
fn the_launcher_of_another_library_is_one_error() {
    let place = Sandbox::new();
    let other = if mpirun().contains("mpich") { "OMPI_COMM_WORLD" } else { "PMI" };
    let mut command = place.command(&["train", "cartpole", "--distributed", "mpi", "--name", "other"]);
    command.envs([(format!("{other}_RANK"), "0"), (format!("{other}_SIZE"), "2")]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let finished = run(command);
    finished.assert_error(2, &["rank 0 of 2", "rank 0 of 1", "launcher"]);
    assert!(!place.path().join("runs").exists());
}
