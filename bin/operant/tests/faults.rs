//! Faults in a run's surroundings, and impossible requests: each ends in one clear error, or affects only the faulty part.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::common::{
    Finished, SMALL, Sandbox, endless, finish, read_until, send, wait_for, wait_for_progress,
};
use rustix::process::Signal;

fn train<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["train", "cartpole", "--name", "mine"], SMALL, more].concat()
}

/// `operant` under `ulimit`, in a shell.
fn limited(place: &Sandbox, limit: &str, args: &[&str]) -> Finished {
    Finished::of(place.shell(&format!("ulimit {limit}"), args).output().expect("started"))
}

/// As in a container whose shell was started from outside: the session's id is 0 there.
#[test]
fn a_session_of_another_process_namespace_is_no_obstacle() {
    let place = Sandbox::new();
    let args = [&["train", "cartpole", "--name", "mine", "--json"], SMALL, &["--steps", "1280"]].concat();
    let namespaces = ["--pid", "--fork", "--mount-proc"];
    let Some(mut command) =
        place.unshared(&namespaces, "grep -q '^NSsid:.*[[:space:]]0$' /proc/self/status", &args)
    else {
        return;
    };
    let finished = Finished::of(command.output().expect("started"));
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    assert_eq!(finished.json()["env_steps"], 1280);
    let listed = place.operant(&["runs", "--json"]).json();
    assert_eq!((&listed["run"], &listed["state"]), (&"mine".into(), &"finished".into()), "{listed}");
}

#[test]
fn memory_is_checked_before_it_is_allocated() {
    let place = Sandbox::new();
    // 4 GiB of address space: 64 steps of 4,194,304 environments do not fit, nor do 16 layers of 16,384 on any machine.
    let args =
        ["train", "cartpole", "--envs", "4194304", "--set", "num_steps=64", "--set", "num_minibatches=64"];
    let error = limited(&place, "-v 4194304", &args);
    error.assert_error(
        2,
        &["num_envs x num_steps = 4194304 x 64 needs", "GiB", "where: --envs", "use at most"],
    );
    let most =
        error.stderr.split("use at most ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    let most: u64 = most.parse().expect("a number");
    assert!(most > 10_000 && most < 4_194_304, "{error:#?}");
    let widths = format!("hidden={}", ["16384"; 16].join(","));
    let error = limited(&place, "-v 16777216", &["train", "cartpole", "--set", &widths]);
    error.assert_error(2, &["hidden = [", "needs", "use narrower or fewer layers"]);
    let large = ["train", "minatar_breakout", "--set", "conv=[[16384, 3, 1], [16384, 3, 1]]"];
    place.operant(&large).assert_error(2, &["conv = [[", "needs", "use narrower or fewer layers"]);
    assert!(!place.path().join("runs").exists(), "nothing is left behind");
}

#[test]
fn removed_directories_are_created_again() {
    let place = Sandbox::new();
    let child = place.start(&endless("mine"));
    let ring = place.ring("mine");
    wait_for_progress(&ring);
    let checkpoints = place.path().join("runs/mine/checkpoints");
    let _ = std::fs::remove_dir_all(&checkpoints);
    send(&child, Signal::USR1);
    wait_for("a checkpoint", || place.checkpoints("mine").pop());
    send(&child, Signal::TERM);
    assert_eq!(finish(child).code, Some(75));
}

#[test]
fn a_limit_on_file_sizes_acts_as_a_full_disk() {
    let place = Sandbox::new();
    // Blocks of 512 bytes: metrics.csv outgrows 8 KiB, and no ring fits.
    let finished = limited(&place, "-f 16", &train(&["--steps", "20480", "--json"]));
    // The last checkpoint does not fit either, which gives exit code 1.
    assert_eq!(finished.code, Some(1), "{finished:#?}");
    assert!(finished.json()["env_steps"].as_u64() == Some(20480), "{finished:#?}");
    for part in ["File too large", "training continues without this file", "remedy: free space"] {
        assert!(finished.stderr.contains(part), "no \"{part}\" in {finished:#?}");
    }
}

#[test]
fn the_log_is_never_a_link_or_pipe() {
    let place = Sandbox::new();
    let trained = place.operant(&train(&["--steps", "1280", "--quiet"]));
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    let log = place.path().join("runs/mine/operant.log");
    let resume = ["train", "--resume", "mine", "--steps", "2560"];
    std::fs::remove_file(&log).expect("removed");
    place.write("precious", "kept");
    symlink(place.path().join("precious"), &log).expect("linked");
    place.operant(&resume).assert_error(1, &["operant.log", "remove what is in the place"]);
    assert_eq!(std::fs::read_to_string(place.path().join("precious")).expect("read"), "kept");
    std::fs::remove_file(&log).expect("removed");
    let made = Command::new("mkfifo").arg(&log).status().expect("mkfifo");
    assert!(made.success());
    place.operant(&resume).assert_error(1, &["operant.log", "remove what is in the place"]);
}

#[test]
fn pipes_and_devices_are_not_files() {
    let place = Sandbox::new();
    let pipe = place.path().join("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    for path in ["pipe.toml", "/dev/zero", "/dev/null"] {
        place
            .operant(&["config", "cartpole", "--config", path])
            .assert_error(2, &["not a regular file", path]);
    }
    std::fs::write(place.path().join("long.toml"), vec![b'#'; (1 << 20) + 1]).expect("written");
    place.operant(&["config", "cartpole", "--config", "long.toml"]).assert_error(2, &["longer than 1 MiB"]);
    let unknown: String = (0..100_000).map(|i| format!("k{i}=1\n")).collect();
    place.write("unknown.toml", &unknown);
    place
        .operant(&["config", "cartpole", "--config", "unknown.toml"])
        .assert_error(2, &["is not a configuration key", "unknown.toml:1"]);
}

#[test]
fn a_replay_line_has_a_maximum_length() {
    let place = Sandbox::new();
    let mut command = place.command(&["replay", "cartpole"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut stdin = child.stdin.take().expect("piped");
    let good = "{\"state\":[0,0,0.1,0],\"actions\":[1]}\n";
    stdin.write_all(good.as_bytes()).expect("written");
    let writer = std::thread::spawn(move || {
        // The reader stops before it has read everything.
        let _ = stdin.write_all(&vec![b'1'; 64 << 20]);
    });
    let finished = finish(child);
    writer.join().expect("no panic");
    assert_eq!(finished.code, Some(2), "{finished:#?}");
    assert_eq!(finished.stdout.lines().count(), 1, "the line before is played");
    assert!(
        finished.stderr.contains("longer than 16 MiB") && finished.stderr.contains("line 2"),
        "{finished:#?}"
    );
}

#[test]
fn numbers_that_single_precision_lacks_are_refused() {
    let place = Sandbox::new();
    for (set, part) in [
        ("learning_rate=1e308", "is infinite in single precision"),
        ("adam_eps=1e-60", "is zero in single precision"),
        ("seed=18446744073709551615", "at most 9223372036854775807"),
    ] {
        place.operant(&["train", "cartpole", "--set", set]).assert_error(2, &[part, "where: --set"]);
    }
}

#[test]
fn a_run_that_was_never_finite_has_failed() {
    let place = Sandbox::new();
    // Weights overflow at once, in fewer updates than end a run as diverged.
    let more = [
        "--steps",
        "256",
        "--set",
        "learning_rate=3e38",
        "--set",
        "max_grad_norm=3e38",
        "--set",
        "update_epochs=4",
    ];
    let finished = place.operant(&train(&more));
    finished.assert_error(1, &["training diverged", "lower learning_rate"]);
    assert_eq!(place.run_file("mine")["state"], "failed");
}

#[test]
fn an_ambiguous_name_stops_no_run() {
    let place = Sandbox::new();
    let first = place.start(&endless("twin"));
    let mut args = endless("twin");
    args.extend(["--run-dir", "elsewhere"]);
    let second = place.start(&args);
    wait_for_progress(&place.ring("twin"));
    wait_for_progress(&place.ring("twin~2"));
    place
        .operant(&["stop", "twin"])
        .assert_error(2, &["2 live runs are named twin", "elsewhere/twin", "runs/twin"]);
    let by_path = place.operant(&["stop", "elsewhere/twin", "runs/twin"]);
    assert_eq!(by_path.code, Some(0), "{by_path:#?}");
    for child in [first, second] {
        assert_eq!(finish(child).code, Some(75));
    }
}

#[test]
fn a_signal_ends_a_long_evaluation() {
    let place = Sandbox::new();
    let mut child = place.start(&[
        "train",
        "cartpole",
        "--name",
        "mine",
        "--steps",
        "128",
        "--json",
        "--set",
        "eval_episodes=1000000",
    ]);
    // All steps are taken: the evaluation that follows takes minutes.
    read_until(&mut child, "100%");
    send(&child, Signal::INT);
    let stopped = finish(child);
    assert_eq!(stopped.code, Some(75), "{stopped:#?}");
    assert!(
        stopped.json()["eval_return_mean"].is_null() && !place.checkpoints("mine").is_empty(),
        "{stopped:#?}"
    );
    let more = ["train", "--resume", "mine", "--set", "eval_episodes=5", "--json"];
    let finished = place.operant(&more);
    assert!(finished.code == Some(0) && finished.json()["eval_return_mean"].is_number(), "{finished:#?}");
}

#[test]
fn messages_contain_a_remedy() {
    let place = Sandbox::new();
    for (args, parts) in
        [(&["train"][..], &["--resume RUN"][..]), (&["train", "my_env"], &["operant new DIR"])]
    {
        place.operant(args).assert_error(2, parts);
    }
    for (flag, part) in [
        ("--lr", "--set learning_rate=VALUE"),
        ("--learning-rate=1e-3", "--set learning_rate=VALUE"),
        ("--algo", "--algorithm sets algorithm"),
        ("--render", "operant monitor RUN"),
        ("--record", "operant monitor RUN"),
    ] {
        let finished = place.operant(&["train", "cartpole", flag]);
        assert!(finished.code == Some(2) && finished.stderr.contains(part), "{finished:#?}");
        assert!(!finished.stderr.contains("as a value"), "{finished:#?}");
    }
    let trained = place.operant(&train(&["--steps", "1280", "--quiet", "--json"]));
    let checkpoint = trained.json()["checkpoint"].as_str().expect("a path").to_owned();
    assert!(std::path::Path::new(&checkpoint).is_absolute());
    let copied = Command::new("cp").args(["-r", &checkpoint, "best"]).current_dir(place.path()).status();
    assert!(copied.expect("cp").success());
    let evaluated = place.operant(&["eval", "best", "--episodes", "5"]);
    assert_eq!(evaluated.code, Some(0), "{evaluated:#?}");
    let stopped = place.operant(&["completions", "bash"]);
    assert!(stopped.code == Some(0) && stopped.stdout.contains("COMPLETE=bash operant"), "{stopped:#?}");
    let page = place.operant(&["man"]);
    assert!(page.code == Some(0) && page.stdout.contains(".TH operant"), "{page:#?}");
}
