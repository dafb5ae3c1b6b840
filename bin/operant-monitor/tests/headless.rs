//! The monitor as a process without a terminal: what it prints, when it ends, and with which code.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use operant_metrics::{
    COUNT, Core, CoreKind, Identity, METRICS, Record, Ring, RingOptions, RunState, create_in, position,
};
use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for what should come at once.
const PATIENCE: Duration = Duration::from_secs(120);

/// The ring of a live run (this process holds its lock) with some updates and a sample in it.
fn live_run(dir: &Path, name: &str) -> Ring {
    let identity = Identity {
        device: "cpu".to_owned(),
        seed: 3,
        dir: dir.join(name),
        total_steps: 1_000_000,
        ..Identity::of_this_process(name, "cartpole")
    };
    let mut ring = create_in(dir, &identity, &RingOptions::default()).unwrap();
    ring.writer.set_state(RunState::Running, "");
    for update in 1..=20 {
        ring.writer.publish(&record(update));
    }
    let mut values = [f64::NAN; COUNT];
    values[position("cpu_utilization").unwrap()] = 0.5;
    values[position("resident_memory").unwrap()] = 1e8;
    ring.side.sample(&values, &[Core { number: 0, kind: CoreKind::Uniform, utilization: 0.5 }], 1);
    ring
}

fn record(update: u64) -> Record {
    let x = update as f64;
    let mut values = [1.5; COUNT];
    for (value, metric) in values.iter_mut().zip(METRICS) {
        if ["gpu", "host"].contains(&metric.group) {
            *value = f64::NAN;
        }
    }
    Record { time: x * 0.01, update: x, env_steps: x * 1000.0, episodes: x, ..Record::from_values(values) }
}

fn monitor(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_operant-monitor"));
    command.args(arguments).env("OPERANT_RING_DIR", dir).stdin(Stdio::null());
    command.env("LC_ALL", "C.UTF-8").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(dir: &Path, arguments: &[&str]) -> Output {
    monitor(dir, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for a child, but not for ever.
fn exit_code(mut child: Child) -> i32 {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        if Instant::now() > until {
            let _ = child.kill();
            panic!("the monitor did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn one_object_for_one_run() {
    let dir = TempDir::new().unwrap();
    let _ring = live_run(dir.path(), "one");
    // On a pipe, --json alone is one object too.
    for arguments in [&["one", "--once", "--json"][..], &["--json"], &["--once", "--json"]] {
        let objects = objects(&output(dir.path(), arguments));
        assert_eq!(objects.len(), 1, "{arguments:?}");
        assert_eq!(objects[0]["run"], "one");
        assert_eq!(objects[0]["state"], "running");
        assert_eq!(objects[0]["env_steps"].as_u64(), Some(20_000));
        assert_eq!(objects[0]["cpu_utilization"].as_f64(), Some(0.5));
    }
}

#[test]
fn one_line_for_each_of_several_runs() {
    let dir = TempDir::new().unwrap();
    let mut ended = live_run(dir.path(), "ended");
    ended.writer.set_state(RunState::Finished, "");
    let _rings = [live_run(dir.path(), "left"), live_run(dir.path(), "right")];
    let names = |arguments: &[&str]| -> Vec<String> {
        let objects = objects(&output(dir.path(), arguments));
        objects.iter().map(|object| object["run"].as_str().unwrap().to_owned()).collect()
    };
    // Without a name: the live ones.
    assert_eq!(names(&["--json"]), ["left", "right"]);
    assert_eq!(names(&["right", "ended", "right", "--json"]), ["right", "ended"]);
}

#[test]
fn without_a_live_run_the_one_that_ended_last_is_shown() {
    let dir = TempDir::new().unwrap();
    for (name, state) in [("older", RunState::Finished), ("newer", RunState::Failed)] {
        let mut ring = live_run(dir.path(), name);
        ring.writer.set_state(state, "because");
    }
    let objects = objects(&output(dir.path(), &["--json"]));
    assert_eq!((objects.len(), &objects[0]["run"]), (1, &Value::from("newer")));
    assert_eq!(
        (&objects[0]["state"], &objects[0]["reason"]),
        (&Value::from("failed"), &Value::from("because"))
    );
}

#[test]
fn a_run_whose_process_left_without_a_word_was_killed() {
    let dir = TempDir::new().unwrap();
    // The lock goes with the ring, as it does with a process.
    drop(live_run(dir.path(), "gone"));
    let objects = objects(&output(dir.path(), &["--json"]));
    assert_eq!(objects[0]["state"], "killed");
    assert!(objects[0]["eta_s"].is_null());
    let shown = text(&output(dir.path(), &[]).stdout);
    assert!(shown.contains("process killed") && shown.contains("operant train"), "{shown}");
}

#[test]
fn text_is_the_default_on_a_pipe_and_bare() {
    let dir = TempDir::new().unwrap();
    let _ring = live_run(dir.path(), "one");
    for arguments in [&[][..], &["--once"], &["one", "--theme", "dark"]] {
        let shown = text(&output(dir.path(), arguments).stdout);
        assert!(shown.starts_with("one  running\n"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown}");
    }
    let ascii = monitor(dir.path(), &["--once"]).env("LC_ALL", "C").output().unwrap();
    assert!(ascii.stdout.is_ascii());
}

#[test]
fn lines_come_until_the_run_has_ended() {
    let dir = TempDir::new().unwrap();
    let mut ring = live_run(dir.path(), "one");
    let mut child = monitor(dir.path(), &["--json", "--interval", "0.02"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next =
        || -> Option<Value> { lines.next().map(|line| serde_json::from_str(&line.unwrap()).unwrap()) };
    assert_eq!(next().unwrap()["update"].as_u64(), Some(20));
    ring.writer.publish(&record(21));
    let until = Instant::now() + PATIENCE;
    while next().unwrap()["update"].as_u64() != Some(21) {
        assert!(Instant::now() < until, "the new update was never shown");
    }
    ring.writer.set_state(RunState::Finished, "every step taken");
    let mut last = Value::Null;
    while let Some(object) = next() {
        last = object;
    }
    assert_eq!(last["state"], "finished");
    assert_eq!(last["reason"], "every step taken");
    assert_eq!(exit_code(child), 0);
}

/// The directory of a run that has ended and whose ring is gone.
fn ended_run(parent: &Path, name: &str, state: &str) {
    let dir = parent.join(name);
    std::fs::create_dir_all(&dir).unwrap();
    let rows = "update,env_steps,sps,later_metric\n1,100,10,1\n2,200,20,2\n3,3";
    std::fs::write(dir.join("metrics.csv"), rows).unwrap();
    let run = format!(r#"{{"env":"cartpole","state":"{state}","reason":"said so","total_steps":400}}"#);
    std::fs::write(dir.join("run.json"), run).unwrap();
}

#[test]
fn ended_runs_are_printed_from_their_directories() {
    let dir = TempDir::new().unwrap();
    let rings = dir.path().join("rings");
    std::fs::create_dir(&rings).unwrap();
    ended_run(dir.path(), "done", "finished");
    ended_run(dir.path(), "gone", "running");
    let _ring = live_run(&rings, "live");
    let run_dir = ["--run-dir", dir.path().to_str().unwrap()];
    let of = |names: &[&str]| objects(&output(&rings, &[names, &run_dir, &["--json"]].concat()));
    let runs = of(&["done", "live", dir.path().join("gone").to_str().unwrap()]);
    let states: Vec<_> = runs.iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["finished", "running", "killed"]);
    assert_eq!((&runs[0]["env_steps"], &runs[0]["later_metric"]), (&Value::from(200), &Value::from(2.0)));
    assert_eq!((&runs[0]["progress"], &runs[0]["reason"]), (&Value::from(0.5), &Value::from("said so")));
    assert_eq!(runs[0]["history"]["sps"]["max"].as_f64(), Some(20.0));
    assert!(runs[0]["sampled"].is_null() && runs[0]["eta_s"].is_null());
    // The row that is cut is not there, and not counted: it may still be being written.
    assert_eq!((&runs[0]["update"], &runs[0]["skipped_records"]), (&Value::from(2), &Value::from(0)));
    let shown = text(&output(&rings, &[&["done", "--once"], &run_dir[..]].concat()).stdout);
    assert!(shown.contains("done  finished") && shown.contains("later_metric"), "{shown}");
    // With an interval it is shown once: nothing more will come.
    let lines = objects(&output(&rings, &[&["done", "--json", "--interval", "0.02"], &run_dir[..]].concat()));
    assert_eq!(lines.len(), 1);
    // Found in `runs` of the working directory, which is the default.
    std::fs::create_dir(dir.path().join("here")).unwrap();
    std::fs::rename(dir.path().join("done"), dir.path().join("moved")).unwrap();
    std::fs::create_dir_all(dir.path().join("here/runs")).unwrap();
    std::fs::rename(dir.path().join("moved"), dir.path().join("here/runs/done")).unwrap();
    let found = monitor(&rings, &["done", "--json"]).current_dir(dir.path().join("here")).output().unwrap();
    assert_eq!(objects(&found)[0]["run"], "done");
}

#[test]
fn a_damaged_run_directory_is_no_crash() {
    let dir = TempDir::new().unwrap();
    let run_dir = ["--run-dir", dir.path().to_str().unwrap(), "--json"];
    let noise: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (name, rows) in [("empty", &b""[..]), ("noise", &noise), ("header", b"update,env_steps\n")] {
        ended_run(dir.path(), name, "finished");
        std::fs::write(dir.path().join(name).join("metrics.csv"), rows).unwrap();
        std::fs::write(dir.path().join(name).join("config.toml"), &noise).unwrap();
        std::fs::write(dir.path().join(name).join("operant.log"), &noise).unwrap();
        let runs = objects(&output(dir.path(), &[&[name], &run_dir[..]].concat()));
        assert_eq!(runs[0]["state"], "finished", "{name}");
    }
    std::fs::write(dir.path().join("noise/run.json"), &noise).unwrap();
    assert_eq!(objects(&output(dir.path(), &[&["noise"], &run_dir[..]].concat()))[0]["state"], "killed");
}

#[test]
fn a_signal_ends_the_lines_with_its_code() {
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let dir = TempDir::new().unwrap();
        let _ring = live_run(dir.path(), "one");
        let mut child = monitor(dir.path(), &["--json", "--interval", "3600"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().starts_with('{'));
        signal(&child, name);
        assert!(lines.next().is_none());
        assert_eq!(exit_code(child), code);
    }
}

#[test]
fn a_closed_pipe_is_a_clean_end_at_once() {
    let dir = TempDir::new().unwrap();
    let _ring = live_run(dir.path(), "one");
    let mut child = monitor(dir.path(), &["--json", "--interval", "3600"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    drop(lines);
    let mut complaint = child.stderr.take().unwrap();
    assert_eq!(exit_code(child), 0);
    let mut said = String::new();
    complaint.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn errors_say_what_to_do() {
    let dir = TempDir::new().unwrap();
    let none = output(dir.path(), &["--json"]);
    assert_eq!((none.status.code(), text(&none.stdout).as_str()), (Some(1), ""));
    assert!(text(&none.stderr).contains("operant train"), "{}", text(&none.stderr));

    let _ring = live_run(dir.path(), "cartpole-7");
    let typo = output(dir.path(), &["cartpole-8", "--once"]);
    assert_eq!((typo.status.code(), text(&typo.stdout).as_str()), (Some(2), ""));
    assert_eq!(
        text(&typo.stderr),
        "error: there is no run \"cartpole-8\" (did you mean \"cartpole-7\"?)\n  \
         remedy: there are cartpole-7\n"
    );

    let garbage = dir.path().join("garbage.ring");
    std::fs::write(&garbage, vec![0x5a; 70_000]).unwrap();
    let refused = output(dir.path(), &[garbage.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(
        said.contains("garbage.ring: this is not an operant ring") && said.contains("\n  remedy: give"),
        "{said}"
    );

    for arguments in
        [&["--interval", "0"][..], &["--interval", "nan"], &["--interval", "x"], &["--unheard-of"]]
    {
        assert_eq!(output(dir.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_ring_that_cannot_be_read_hides_no_other() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("garbage.ring"), vec![0x5a; 70_000]).unwrap();
    let alone = output(dir.path(), &["--json"]);
    assert_eq!(alone.status.code(), Some(1));
    assert!(text(&alone.stderr).starts_with("note: garbage is skipped"), "{}", text(&alone.stderr));
    let _ring = live_run(dir.path(), "good");
    let both = output(dir.path(), &["--json"]);
    assert_eq!(objects(&both)[0]["run"], "good");
    assert!(text(&both.stderr).contains("garbage"), "{}", text(&both.stderr));
}

#[test]
fn a_ring_that_was_made_anew_is_followed() {
    let cut =
        |path: &Path| std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4096).unwrap();
    let harms: [&dyn Fn(&Path); 2] = [&|path| std::fs::remove_file(path).unwrap(), &cut];
    for harm in harms {
        let dir = TempDir::new().unwrap();
        let mut ring = live_run(dir.path(), "one");
        let mut child = monitor(dir.path(), &["--json", "--interval", "0.02"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        next();
        harm(ring.writer.path());
        assert!(ring.side.check().is_some());
        ring.writer.publish(&record(22));
        let until = Instant::now() + PATIENCE;
        loop {
            let object = next();
            let update = object["update"].as_u64();
            // Before or after, and never what a harmed file holds; a new file has no update until the next one.
            assert!([Some(20), None, Some(22)].contains(&update), "{object}");
            if update == Some(22) {
                break;
            }
            assert!(Instant::now() < until, "the new file was never read");
        }
        signal(&child, "TERM");
        assert_eq!(exit_code(child), 143);
    }
}

#[test]
fn a_ring_that_stays_damaged_is_an_error() {
    let dir = TempDir::new().unwrap();
    let ring = live_run(dir.path(), "one");
    let mut child = monitor(dir.path(), &["--json", "--interval", "0.02"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let path = ring.writer.path().to_owned();
    // Its process has ended before its file is damaged, so nothing will repair it.
    drop(ring);
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4096).unwrap();
    for line in lines {
        let object: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(object["update"].as_u64(), Some(20));
    }
    assert_eq!(exit_code(child), 0);
    assert_eq!(output(dir.path(), &["one", "--json"]).status.code(), Some(1));
}
