//! `operant runs`, `show`, `stop`, `pause`, `resume`, `rm` and `sweep --detach`, `--dry-run` on real sweeps. Every command that one of
//! them prints as the way to continue is executed.

use std::process::Child;

use crate::common::{Daemon, Finished, Sandbox, finish, send, wait_for};
use crate::sweep::BRIEF;
use rustix::process::Signal;
use serde_json::Value;

/// Two trials of two seeds that only a signal ends.
const ENDLESS: [&str; 12] = [
    "--jobs",
    "2",
    "--seeds",
    "2",
    "--set",
    "learning_rate=1e-3,1e-2",
    "--set",
    "total_timesteps=1e12",
    "--set",
    "num_envs=16",
    "--set",
    "num_steps=16",
];

const RATES: [&str; 4] = ["--seeds", "2", "--set", "learning_rate=1e-3,1e-2"];

fn swept(place: &Sandbox, args: &[&str]) -> Finished {
    let finished = place.operant(&[&["sweep"], args, &BRIEF, &["--quiet"]].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished
}

/// The sweep as `operant show --json` has it.
fn shown(place: &Sandbox, sweep: &str) -> Value {
    let shown = place.operant(&["show", sweep, "--json"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    shown.json()
}

fn state(place: &Sandbox, sweep: &str) -> String {
    shown(place, sweep)["state"].as_str().expect("a state").to_owned()
}

/// Rows of the metrics of a run.
fn rows(place: &Sandbox, run: &str) -> usize {
    std::fs::read_to_string(place.path().join(run).join("metrics.csv")).map_or(0, |text| text.lines().count())
}

/// Starts an endless sweep, and waits until its first two runs train.
fn live(place: &Sandbox, name: &str, dir: &str, more: &[&str]) -> Child {
    let args = ["sweep", "cartpole", "--name", name, "--quiet"];
    let child = place.start(&[&args[..], &ENDLESS, more].concat());
    wait_for("both runs", || {
        let trains = |seed: u64| rows(place, &format!("{dir}/{name}/trials/0000-seed{seed}")) > 2;
        (trains(1) && trains(2)).then_some(())
    });
    child
}

/// The words of the first command in a text that begins with `operant resume` or `operant sweep --resume`, without the program.
fn printed(text: &str) -> Vec<String> {
    let start = ["operant resume ", "operant sweep --resume "].iter().find_map(|start| text.find(start));
    let command = &text[start.unwrap_or_else(|| panic!("no command in {text}"))..];
    let end = command.find(['`', '\n']).unwrap_or(command.len());
    command[..end].split(' ').skip(1).map(|word| word.trim_matches('\'').to_owned()).collect()
}

/// Runs the command that a text prints, with these arguments added.
fn follow(place: &Sandbox, text: &str, more: &[&str]) -> Finished {
    let words = printed(text);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
    place.operant(&words)
}

/// What must not depend on time: the score and steps of every run, and its final state.
fn results(place: &Sandbox, sweep: &str) -> Vec<(String, Vec<u8>)> {
    let report = place.operant(&["report", sweep, "--json"]).json();
    let mut all = Vec::new();
    for group in report["environments"][0]["groups"].as_array().expect("groups") {
        for run in group["runs"].as_array().expect("runs") {
            let name = run["dir"].as_str().and_then(|dir| dir.rsplit('/').next()).expect("a directory");
            let figures = ["seed", "score", "env_steps", "error"].map(|key| run[key].to_string()).join(" ");
            let weights = place.final_state(&format!("{sweep}/trials/{name}"));
            all.push((format!("{name} {} {figures}", group["settings"]), weights));
        }
    }
    all.sort();
    all
}

#[test]
fn sweeps_are_listed_shown_and_removed_as_runs_are() {
    let place = Sandbox::new();
    swept(&place, &[&["cartpole", "--name", "rates"], &RATES[..]].concat());
    let train = [&["train", "cartpole", "--name", "mine", "--quiet"], &BRIEF[..]].concat();
    assert_eq!(place.operant(&train).code, Some(0));
    // In one list for people, apart for scripts.
    let listed = place.operant(&["runs"]).stdout;
    let line = listed.lines().find(|line| line.starts_with("rates\t")).expect("a line");
    assert!(line.contains("\tfinished\t2 of 2\t") && line.contains("learning_rate=0.01"), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with("mine\t")), "{listed}");
    let run = place.operant(&["runs", "--json"]).json();
    assert_eq!((&run["run"], &run["kind"]), (&"mine".into(), &"run".into()));
    let sweep = place.operant(&["runs", "--sweeps", "--json"]).json();
    assert_eq!((&sweep["sweep"], &sweep["kind"]), (&"rates".into(), &"sweep".into()));
    assert_eq!((&sweep["state"], &sweep["pid"]), (&"finished".into(), &Value::Null));
    assert_eq!((&sweep["trials_done"], &sweep["trials_planned"]), (&2.into(), &2.into()));
    let report = place.operant(&["report", "rates", "--json"]).json();
    let best = &report["environments"][0]["groups"][0];
    assert_eq!(sweep["best"][0]["settings"], best["settings"], "{sweep}");
    assert_eq!(sweep["best"][0]["objective"], best["objective"], "{sweep}");
    assert!(sweep["best"][0]["front"].as_array().is_some_and(|front| !front.is_empty()), "{sweep}");
    for (filters, count) in [
        (&["rates"][..], 1),
        (&["state=finished"], 1),
        (&["learning_rate=0.01"], 1),
        (&["learning_rate=0.5"], 0),
        (&["state=running"], 0),
    ] {
        let filters = filters.iter().flat_map(|filter| ["--filter", filter]);
        let args: Vec<&str> = ["runs", "--sweeps", "--json"].into_iter().chain(filters).collect();
        assert_eq!(place.operant(&args).stdout.lines().count(), count, "{args:?}");
    }
    // In full.
    let text = place.operant(&["show", "rates"]).stdout;
    for part in [
        "sweep rates: finished\n",
        "grid, 2 trials, 2 seeds, by eval_return",
        "2 of 2 trials, 4 of 4 results\n",
        "learning_rate: 0.001, 0.01",
        "2/2 runs",
        "operant report rates --html rates.html\n",
    ] {
        assert!(text.contains(part), "no \"{part}\" in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let json = shown(&place, "rates");
    assert_eq!(json["trials"].as_array().map(Vec::len), Some(2));
    assert!(
        json["command"].as_str().is_some_and(|text| text.starts_with("operant sweep cartpole")),
        "{json}"
    );
    for (key, value) in sweep.as_object().expect("an object") {
        assert_eq!(&json[key], value, "{key}");
    }
    // Commands of runs refuse a sweep, and a slip suggests it.
    place.operant(&["checkpoint", "rates"]).assert_error(2, &["is a sweep, not a run", "0000-seed1"]);
    place.operant(&["play", "rates"]).assert_error(2, &["is a sweep, not a run", "0000-seed1"]);
    place.operant(&["show", "rtaes"]).assert_error(2, &["did you mean \"rates\"?"]);
    let again = [&["sweep", "cartpole", "--name", "rates"], &BRIEF[..]].concat();
    place
        .operant(&again)
        .assert_error(2, &["a sweep named rates exists already", "operant resume runs/rates"]);
    assert_eq!(place.operant(&["resume", "runs/rates", "--quiet"]).code, Some(0));
    place.operant(&["rm", "rates"]).assert_error(2, &["--yes"]);
    let removed = place.operant(&["rm", "rates", "mine", "--yes"]);
    assert_eq!(removed.code, Some(0), "{removed:#?}");
    assert!(removed.stdout.contains("sweep rates: removed runs/rates, "), "{removed:#?}");
    assert_eq!(std::fs::read_dir(place.path().join("runs")).expect("read").count(), 0);
}

#[test]
fn a_damaged_sweep_is_a_line_of_the_list() {
    let place = Sandbox::new();
    swept(&place, &["cartpole", "--name", "whole"]);
    std::fs::create_dir_all(place.path().join("runs/broken")).expect("made");
    place.write("runs/broken/sweep.db", "no database");
    let listed = place.operant(&["runs", "--sweeps"]);
    assert_eq!(listed.code, Some(0), "{listed:#?}");
    assert!(listed.stdout.contains("\nwhole\tcartpole\tfinished\t"), "{listed:#?}");
    assert!(listed.stdout.lines().any(|line| line.starts_with("broken\t-\tdamaged\t")), "{listed:#?}");
    place.operant(&["show", "broken"]).assert_error(1, &["cannot be read"]);
}

#[test]
fn a_sweep_that_was_stopped_and_resumed_is_the_one_that_was_not() {
    let place = Sandbox::new();
    let args = ["cartpole", "--set", "learning_rate=1e-3,1e-2", "--seeds", "3", "--jobs", "1"];
    swept(&place, &[&["--name", "whole"], &args[..]].concat());
    let mut child = place.start(&[&["sweep", "--name", "parts", "--quiet"], &args[..], &BRIEF[..]].concat());
    let mut stops = 0;
    loop {
        // Until one more run has begun, or the sweep has ended.
        let trials = place.path().join("runs/parts/trials");
        let begun = || std::fs::read_dir(&trials).map_or(0, Iterator::count);
        let before = begun();
        let ended = wait_for("another run, or the end", || {
            let ended = child.try_wait().expect("waited for").is_some();
            (ended || begun() > before).then_some(ended)
        });
        if ended {
            break;
        }
        let stopped = place.operant(&["stop", "parts"]);
        let code = finish(child).code;
        assert!(matches!((stopped.code, code), (Some(0), Some(0 | 75))), "{stopped:#?}, {code:?}");
        if code == Some(75) {
            stops += 1;
            assert!(stopped.stdout.contains("sweep parts: preempted, "), "{stopped:#?}");
            assert_eq!(printed(&stopped.stdout), ["resume", "parts"]);
        }
        child = place.start(&["resume", "parts", "--quiet"]);
    }
    let last = finish(child);
    assert_eq!(last.code, Some(0), "{last:#?}");
    assert!(stops > 0, "it was never stopped");
    assert!(results(&place, "parts") == results(&place, "whole"), "after {stops} stops");
    let again = place.operant(&["stop", "parts"]);
    assert!(again.code == Some(0) && again.stdout.contains("had ended already: finished"), "{again:#?}");
}

#[test]
fn a_sweep_pauses_with_all_its_runs() {
    let place = Sandbox::new();
    let child = live(&place, "s", "runs", &[]);
    let of = |seed: u64| format!("runs/s/trials/0000-seed{seed}");
    let paused = place.operant(&["pause", "s"]);
    assert!(paused.code == Some(0) && paused.stdout.starts_with("sweep s: paused\n"), "{paused:#?}");
    assert_eq!(state(&place, "s"), "paused");
    let before = [rows(&place, &of(1)), rows(&place, &of(2))];
    let run_state = |seed| place.operant(&["show", &of(seed), "--json"]).json()["state"].clone();
    assert_eq!([run_state(1), run_state(2)], ["paused", "paused"]);
    place.operant(&["pause", "s"]).assert_error(2, &["is paused already", "operant resume s"]);
    place.operant(&["rm", "s", "--yes"]).assert_error(2, &["is being trained already", "operant stop s"]);
    place.operant(&["sweep", "--resume", "s"]).assert_error(2, &["is running already", "operant stop"]);
    place.operant(&["resume", "s", "--set", "gamma=0.9"]).assert_error(2, &["its settings are fixed"]);
    place.operant(&["resume", "s", "--tag", "x"]).assert_error(2, &["neither a note nor tags"]);
    // A paused run has written what it had, and writes no more: these commands took longer than its updates.
    assert_eq!([rows(&place, &of(1)), rows(&place, &of(2))], before);
    let resumed = follow(&place, &paused.stdout, &[]);
    assert!(resumed.code == Some(0) && resumed.stdout.starts_with("sweep s: running\n"), "{resumed:#?}");
    wait_for("further updates", || {
        (rows(&place, &of(1)) > before[0] && rows(&place, &of(2)) > before[1]).then_some(())
    });
    place.operant(&["resume", "s"]).assert_error(2, &["is being trained: running", "operant monitor s"]);
    // A second request waits for the first, which may have waited in vain.
    let first = place.operant(&["pause", "s", "--timeout", "0.001"]).code;
    let second = place.operant(&["pause", "s"]).code;
    assert!(matches!((first, second), (Some(1), Some(0 | 2)) | (Some(0), Some(2))), "{first:?}, {second:?}");
    assert_eq!(state(&place, "s"), "paused");
    // It is stopped while it is paused, too.
    let stopped = place.operant(&["stop", "s"]);
    assert!(stopped.code == Some(0) && stopped.stdout.contains("preempted, 0 of 2 trials"), "{stopped:#?}");
    assert_eq!(finish(child).code, Some(75));
    place.operant(&["pause", "s"]).assert_error(2, &["is not being trained: preempted", "operant resume s"]);
    assert!([1, 2].iter().all(|seed| !place.checkpoints(&format!("s/trials/0000-seed{seed}")).is_empty()));
}

#[test]
fn a_sweep_that_waits_for_its_runs_to_pause_can_continue() {
    let place = Sandbox::new();
    // An update of seconds.
    let args = ["num_envs=256", "num_steps=4096", "total_timesteps=1e12"].map(|setting| ["--set", setting]);
    let begin = ["sweep", "cartpole", "--name", "s", "--quiet", "--jobs", "1", "--seeds", "1"];
    let mut child = place.start(&[&begin[..], args.as_flattened()].concat());
    wait_for("its run", || place.path().join("runs/s/trials/0000-seed1/run.json").exists().then_some(()));
    let paused = place.operant(&["pause", "s", "--timeout", "0.001"]);
    assert!(matches!(paused.code, Some(0 | 1)), "{paused:#?}");
    wait_for("that it takes the request", || {
        let now = shown(&place, "s");
        (now["state"] == "paused" || now["reason"] == "pausing").then_some(())
    });
    let resumed = place.operant(&["resume", "s"]);
    assert!(resumed.code == Some(0) && resumed.stdout.starts_with("sweep s: running\n"), "{resumed:#?}");
    let now = shown(&place, "s");
    assert_eq!((&now["state"], &now["reason"]), (&"running".into(), &Value::Null), "{now}");
    child.kill().expect("killed");
    finish(child);
}

#[test]
fn a_sweep_is_a_daemon_like_a_run() {
    let place = Sandbox::new();
    let begin = ["sweep", "cartpole", "--name", "night", "--detach", "--json"];
    let begun = place.operant(&[&begin[..], &ENDLESS].concat());
    assert_eq!(begun.code, Some(0), "{begun:#?}");
    let daemon = Daemon(begun.json());
    assert_eq!((&daemon.0["sweep"], daemon.is_alive()), (&"night".into(), true));
    assert_eq!(shown(&place, "night")["pid"], daemon.0["pid"]);
    let stopped = place.operant(&["stop", "night"]);
    assert_eq!(stopped.code, Some(0), "{stopped:#?}");
    daemon.wait();
    let output = std::fs::read_to_string(place.path().join("runs/night/daemon.out")).expect("its output");
    assert!(output.contains("SIGTERM: stopped; `operant resume night` continues"), "{output}");
    // Continued as a daemon, too.
    let resumed = follow(&place, &stopped.stdout, &["--detach", "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    let daemon = Daemon(resumed.json());
    assert_eq!(state(&place, "night"), "running");
    daemon.send(Signal::KILL);
    daemon.wait();
    // A process that it was starting may hold its lock until it is another program.
    wait_for("its end", || (state(&place, "night") == "killed").then_some(()));
    let text = place.operant(&["show", "night"]).stdout;
    assert_eq!(printed(&text), ["resume", "night"]);
    // What cannot begin is an error of the command.
    let wrong = place.operant(&["sweep", "cartpole", "--detach", "--set", "gamma=2"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("gamma"), "{wrong:#?}");
}

#[test]
fn commands_that_continue_a_sweep_are_right_wherever_it_is() {
    let place = Sandbox::new();
    let child = live(&place, "rates", "else where", &["--run-dir", "else where"]);
    send(&child, Signal::INT);
    let stopped = finish(child);
    assert_eq!(stopped.code, Some(75), "{stopped:#?}");
    // Quoted, from the working directory; a dry run shows that it is found.
    let hint = stopped.stderr.split('`').nth(1).expect("a command").to_owned();
    let shell = hint.replacen("operant", "\"$0\"", 1).replacen("resume", "sweep --dry-run --resume", 1);
    let planned = place.by(&["sh", "-c", &shell], &[]).output().expect("started");
    let planned = Finished::of(planned);
    assert_eq!(planned.code, Some(0), "{hint}: {planned:#?}");
    assert!(planned.stdout.starts_with("sweep rates: 4 runs; "), "{planned:#?}");
    // So is the one of `stop`, and that of `show`.
    let again = place.operant(&["stop", "rates", "--run-dir", "else where"]);
    let shown = place.operant(&["show", "rates", "--run-dir", "else where"]);
    let command = hint.trim_start_matches("operant ");
    assert!(
        again.stdout.contains(command) && shown.stdout.replace("\n               ", " ").contains(command),
        "{again:#?} {shown:#?}"
    );
}

#[test]
fn a_dry_run_prints_the_runs_and_trains_nothing() {
    let place = Sandbox::new();
    let args = [&["sweep", "cartpole", "--dry-run", "--jobs", "2"], &RATES[..], &BRIEF].concat();
    let planned = place.operant(&args);
    assert_eq!(planned.code, Some(0), "{planned:#?}");
    for part in [
        "sweep of cartpole: 4 runs; 20.5k steps, 2 parallel runs, ",
        "learning_rate=0.001\n",
        "learning_rate=0.01\n",
        "time: unknown; no run of cartpole has finished in runs\n",
    ] {
        assert!(planned.stdout.contains(part), "no \"{part}\" in {planned:#?}");
    }
    assert!(!place.path().join("runs").exists(), "nothing is trained");
    let wrong = [&args[..], &["--set", "gamma=2"]].concat();
    place.operant(&wrong).assert_error(2, &["gamma"]);
    // From measured speed, once there is some: of a run, then of a sweep.
    let train = [&["train", "cartpole", "--name", "one", "--quiet"], &BRIEF[..]].concat();
    assert_eq!(place.operant(&train).code, Some(0));
    let planned = place.operant(&args).stdout;
    assert!(planned.contains("time: about ") && planned.contains("measured in run one\n"), "{planned}");
    swept(&place, &[&["cartpole", "--name", "before"], &RATES[..]].concat());
    let planned = place.operant(&[&args[..], &["--json"]].concat()).json();
    assert!(planned["seconds"].as_f64() > Some(0.0), "{planned}");
    assert!(
        planned["basis"].as_str().is_some_and(|text| text.ends_with("measured in sweep before")),
        "{planned}"
    );
    assert_eq!(planned["trials"].as_array().map(Vec::len), Some(2), "{planned}");
    assert_eq!((&planned["runs"], &planned["env_steps"]), (&4.into(), &20_480.into()));
    // Of a sweep that has ended nothing is left.
    let left = place.operant(&["sweep", "--resume", "before", "--dry-run", "--json"]).json();
    assert_eq!(
        (&left["runs_done"], &left["env_steps"], &left["seconds"]),
        (&4.into(), &0.into(), &0.0.into())
    );
    // Halving and models say what they choose later.
    place.write("halving.toml", "env = \"cartpole\"\n[vary]\nlearning_rate = { log_uniform = [1e-4, 1e-2] }\n[search]\nmethod = \"bayes\"\ntrials = 9\nhalving = { first_steps = 1280, factor = 3 }\n");
    let planned = place.operant(&[&["sweep", "halving.toml", "--dry-run"], &BRIEF[..]].concat()).stdout;
    assert!(
        planned.contains("rounds: 9 trials to 1.3k, 3 trials to 3.8k, 1 trial to 5.1k\n")
            && planned.contains("and 5 more trials\n"),
        "{planned}"
    );
    // 9 trials of 1280 steps, 3 of 2560 more, 1 of 1280 more.
    assert!(planned.contains("; 20.5k steps, "), "{planned}");
}

#[test]
fn several_specifications_are_swept_one_after_the_other() {
    let place = Sandbox::new();
    for (file, rate) in [("a.toml", "1e-3"), ("b.toml", "1e-2")] {
        place.write(file, &format!("env = \"cartpole\"\n[set]\nlearning_rate = {rate}\n"));
    }
    let both = ["sweep", "a.toml", "b.toml", "--quiet"];
    let done = place.operant(&[&both[..], &["--json"], &BRIEF].concat());
    assert_eq!(done.code, Some(0), "{done:#?}");
    let rates: Vec<Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|report| report["environments"][0]["common"]["learning_rate"].clone())
        .collect();
    assert_eq!(rates, ["0.001", "0.01"]);
    assert_eq!(place.operant(&["runs", "--sweeps", "--json"]).stdout.lines().count(), 2);
    place
        .operant(&[&both[..], &["--name", "one"], &BRIEF].concat())
        .assert_error(2, &["one name cannot name 2 sweeps"]);
    // Environments are of one sweep.
    swept(&place, &["cartpole", "pendulum", "--name", "both"]);
    let listed = place.operant(&["runs", "--sweeps", "--filter", "both"]).stdout;
    for env in ["cartpole", "pendulum"] {
        assert!(listed.contains(&format!("both\t{env}\tfinished\t1 of 1\t")), "{listed}");
    }
    // All are checked before the first begins.
    place.write("c.toml", "env = \"cartpol\"\n");
    place.operant(&["sweep", "a.toml", "c.toml", "--quiet"]).assert_error(2, &["did you mean \"cartpole\"?"]);
    assert_eq!(place.operant(&["runs", "--sweeps", "--json"]).stdout.lines().count(), 3);
}
