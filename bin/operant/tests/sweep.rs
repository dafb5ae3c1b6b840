//! `operant sweep`, `report` and `compare` as a user runs them: tables that survive kills, runs with the bits of `operant train`, and
//! one error for a specification that cannot be used.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::common::{Finished, Sandbox, finish, send, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Settings of a run of a few updates.
pub const BRIEF: [&str; 8] = [
    "--set",
    "num_envs=16",
    "--set",
    "num_steps=16",
    "--set",
    "total_timesteps=5120",
    "--set",
    "eval_episodes=4",
];

fn sweep(place: &Sandbox, args: &[&str]) -> Finished {
    let finished = place.operant(&[&["sweep"], args, &BRIEF].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished
}

/// Everything that must not depend on time: of each run of each setting the score and the steps.
fn table(place: &Sandbox, name: &str) -> Vec<String> {
    let report: Value = place.operant(&["report", name, "--json"]).json();
    let mut rows = Vec::new();
    for group in report["environments"][0]["groups"].as_array().expect("settings") {
        for run in group["runs"].as_array().expect("runs") {
            let of_run =
                ["seed", "score", "env_steps", "solved_at_step", "error"].map(|key| run[key].to_string());
            rows.push(format!("{} {} {}", group["name"], group["settings"], of_run.join(" ")));
        }
    }
    rows.sort();
    rows
}

/// A text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The settings of each trial that a run has ended of.
fn settings_by_trial(place: &Sandbox, name: &str) -> Vec<Value> {
    let report: Value = place.operant(&["report", name, "--json"]).json();
    let groups = report["environments"][0]["groups"].as_array().expect("groups");
    let mut all: Vec<Value> = groups.iter().map(|group| json!([group["name"], group["settings"]])).collect();
    all.sort_by_key(|trial| trial[0].as_str().map(str::to_owned));
    all
}

/// Runs that have begun.
fn begun(place: &Sandbox, name: &str) -> usize {
    let trials = place.path().join("runs").join(name).join("trials");
    std::fs::read_dir(trials).map_or(0, Iterator::count)
}

/// Waits until more than this number of runs has begun; false if the process has ended.
fn wait_for_more(place: &Sandbox, name: &str, child: &mut Child, before: usize) -> bool {
    wait_for("another run, or the end", || {
        let ended = child.try_wait().expect("waited for").is_some();
        (ended || begun(place, name) > before).then_some(!ended)
    })
}

/// The final state of each run, by directory.
fn states(place: &Sandbox, name: &str) -> BTreeMap<String, Vec<u8>> {
    let trials = place.path().join("runs").join(name).join("trials");
    let runs = std::fs::read_dir(&trials).expect("runs").map(|entry| entry.expect("a run").file_name());
    runs.map(|run| {
        let run = run.to_string_lossy().into_owned();
        let state = place.final_state(&format!("{name}/trials/{run}"));
        (run, state)
    })
    .collect()
}

#[test]
fn a_sweep_has_the_bits_of_single_runs() {
    let place = Sandbox::new();
    let done = sweep(
        &place,
        &["cartpole", "--name", "s", "--seeds", "3..4", "--set", "learning_rate=1e-3,1e-2", "--json"],
    );
    let report = done.json();
    assert_eq!(report["runs"], 4, "{report}");
    for (trial, rate) in [("0000", "1e-3"), ("0001", "1e-2")] {
        for seed in ["3", "4"] {
            let (name, rate) = (format!("single-{trial}-{seed}"), format!("learning_rate={rate}"));
            let args = ["train", "cartpole", "--quiet", "--name", &name, "--seed", seed, "--set", &rate];
            let single = place.operant(&[&args, &BRIEF[..]].concat());
            assert_eq!(single.code, Some(0), "{single:#?}");
            let inside = place.final_state(&format!("s/trials/{trial}-seed{seed}"));
            assert!(inside == place.final_state(&name), "trial {trial}, seed {seed}");
        }
    }
    // A run of a sweep is a run.
    let played = place.operant(&["eval", "runs/s/trials/0001-seed3", "--episodes", "2", "--json"]);
    assert_eq!(played.json()["eval_episodes"], 2, "{played:#?}");
}

/// A specification of each search.
const SEARCHES: [(&str, &str); 3] = [
    ("grid", "[vary]\nlearning_rate = [1e-4, 1e-3, 1e-2]\ngamma = [0.9, 0.99]\n"),
    (
        "halving",
        "[vary]\nlearning_rate = { log_uniform = [1e-4, 1e-2] }\n[search]\nmethod = \"random\"\ntrials = 5\n\
         halving = { first_steps = 1024, factor = 2 }\n",
    ),
    (
        "pbt",
        "[vary]\nlearning_rate = { log_uniform = [1e-4, 1e-2] }\nent_coef = [0.0, 0.01]\n[search]\nmethod = \"pbt\"\n\
         trials = 4\ninterval = 2048\n",
    ),
];

#[test]
fn a_killed_sweep_goes_on_with_the_same_table_and_bits() {
    for (name, vary) in SEARCHES {
        let place = Sandbox::new();
        place.write("spec.toml", &format!("env = \"cartpole\"\nseeds = 2\n{vary}"));
        sweep(&place, &["spec.toml", "--name", "whole", "--quiet"]);
        let args = ["sweep", "spec.toml", "--name", "killed", "--quiet"];
        let mut child = place.start(&[&args, &BRIEF[..]].concat());
        // Killed as soon as another run has begun, until there are none left to begin.
        let mut kills = 0;
        loop {
            let before = begun(&place, "killed");
            if !wait_for_more(&place, "killed", &mut child, before) {
                break;
            }
            child.kill().expect("killed");
            child.wait().expect("waited for");
            kills += 1;
            child = place.start(&["sweep", "--resume", "killed", "--quiet"]);
        }
        let last = finish(child);
        assert_eq!(last.code, Some(0), "{name}, after {kills} kills: {last:#?}");
        assert!(kills > 2, "{name}: {kills} kills");
        assert_eq!(table(&place, "killed"), table(&place, "whole"), "{name}, after {kills} kills");
        assert!(states(&place, "killed") == states(&place, "whole"), "{name}, after {kills} kills");
    }
}

#[test]
fn a_sweep_killed_at_20_random_moments_goes_on_with_the_same_table_and_bits() {
    let place = Sandbox::new();
    let spec = "env = \"cartpole\"\nseeds = 4\n[set]\ncheckpoint_interval = 1024\n[vary]\nlearning_rate = [1e-4, 1e-3, 1e-2]\n";
    place.write("spec.toml", spec);
    let started = Instant::now();
    sweep(&place, &["spec.toml", "--name", "whole", "--quiet"]);
    let whole_s = started.elapsed().as_secs_f64();
    let args = ["sweep", "spec.toml", "--name", "killed", "--quiet"];
    let mut child = place.start(&[&args, &BRIEF[..]].concat());
    // The sweep has been created once it has a table.
    let table_of_runs = place.path().join("runs/killed/sweep.db");
    wait_for("the table", || table_of_runs.exists().then_some(()));
    let (mut kills, mut ends) = (0, 0);
    // Moments from a linear congruential generator; on a slow machine they come earlier in the sweep.
    let mut random: u64 = 19;
    while kills < 20 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (random >> 40) as f64 / f64::from(1 << 24);
        std::thread::park_timeout(Duration::from_secs_f64(0.4 * share * whole_s));
        ends += usize::from(child.try_wait().expect("waited for").is_some());
        let _ = child.kill();
        child.wait().expect("waited for");
        kills += 1;
        child = place.start(&["sweep", "--resume", "killed", "--quiet"]);
    }
    let last = finish(child);
    assert_eq!(last.code, Some(0), "{last:#?}");
    let about = format!("{kills} kills, {ends} of them after the end");
    assert_eq!(table(&place, "killed"), table(&place, "whole"), "{about}");
    assert!(states(&place, "killed") == states(&place, "whole"), "{about}");
}

#[test]
fn a_bayesian_search_that_was_killed_keeps_its_decisions() {
    let place = Sandbox::new();
    let spec = "env = \"cartpole\"\n[vary]\nlearning_rate = { log_uniform = [1e-4, 1e-2] }\n[search]\nmethod = \"bayes\"\n\
                trials = 8\n";
    place.write("spec.toml", spec);
    let mut child = place.start(&[&["sweep", "spec.toml", "--name", "s", "--quiet"], &BRIEF[..]].concat());
    // Seven trials have begun and five have ended; from the fifth on they follow the model, which knows measured times.
    assert!(wait_for_more(&place, "s", &mut child, 6), "it has not ended");
    child.kill().expect("killed");
    child.wait().expect("waited for");
    let before = settings_by_trial(&place, "s");
    let done = place.operant(&["sweep", "--resume", "s", "--json"]);
    assert_eq!(done.code, Some(0), "{done:#?}");
    assert_eq!(done.json()["runs"], 8, "{done:#?}");
    let after = settings_by_trial(&place, "s");
    assert!(before.len() >= 5 && after.len() == 8, "{before:?} {after:?}");
    assert!(before.iter().all(|trial| after.contains(trial)), "{before:?} {after:?}");
}

#[test]
fn a_stopped_sweep_ends_as_if_it_had_not_stopped() {
    let place = Sandbox::new();
    let args = ["cartpole", "--seeds", "3", "--set", "learning_rate=1e-3,1e-2", "--quiet"];
    sweep(&place, &[&["--name", "whole"], &args[..]].concat());
    let mut child = place.start(&[&["sweep", "--name", "stopped"], &args[..], &BRIEF[..]].concat());
    let mut stops = 0;
    loop {
        let before = begun(&place, "stopped");
        if !wait_for_more(&place, "stopped", &mut child, before) {
            break;
        }
        send(&child, Signal::TERM);
        let stopped = finish(child);
        // The last runs may end before the signal arrives.
        assert!(matches!(stopped.code, Some(0 | 75)), "{stopped:#?}");
        stops += usize::from(stopped.code == Some(75));
        child = place.start(&["sweep", "--resume", "stopped", "--quiet"]);
    }
    let last = finish(child);
    assert_eq!(last.code, Some(0), "{last:#?}");
    assert!(stops > 0, "it was never stopped");
    assert_eq!(table(&place, "stopped"), table(&place, "whole"), "after {stops} stops");
    assert!(states(&place, "stopped") == states(&place, "whole"), "after {stops} stops");
}

#[test]
fn a_sweep_has_several_environments_and_their_options() {
    let place = Sandbox::new();
    place.write(
        "spec.toml",
        "env = [\"cartpole\", \"mountain_car\"]\n[vary]\n\"env.hide\" = [\"nothing\", \"velocity\"]\n",
    );
    let done = sweep(&place, &["spec.toml", "--name", "s", "--json"]);
    let report = done.json();
    let parts = report["environments"].as_array().expect("environments");
    let of_part = |part: &Value| {
        let mut hidden: Vec<String> = (part["groups"].as_array().expect("groups").iter())
            .map(|group| group["settings"]["env.hide"].as_str().expect("a word").to_owned())
            .collect();
        hidden.sort();
        (part["env"].as_str().expect("a name").to_owned(), hidden)
    };
    let both = vec!["nothing".to_owned(), "velocity".to_owned()];
    let expected = [("cartpole".to_owned(), both.clone()), ("mountain_car".to_owned(), both)];
    assert_eq!(parts.iter().map(of_part).collect::<Vec<_>>(), expected, "{report}");
    // The option of a table, given on the command line.
    let done = sweep(&place, &["cartpole", "--name", "t", "--set", "env.hide=nothing,velocity", "--json"]);
    let scores = |report: &Value| {
        let groups = report["environments"][0]["groups"].as_array().expect("groups");
        groups.iter().map(|group| group["score"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(scores(&done.json()), scores(&report));
}

#[test]
fn a_search_makes_a_metric_of_the_environment_small() {
    let place = Sandbox::new();
    place.write(
        "short.toml",
        "env = \"snake\"\n[set]\nnum_envs = 64\ntotal_timesteps = 40960\neval_episodes = 50\n\
         [vary]\nlearning_rate = [1e-6, 2.5e-3]\n[search]\nobjective = \"-snake_length\"\n",
    );
    let done = place.operant(&["sweep", "short.toml", "--name", "s", "--json"]);
    assert_eq!(done.code, Some(0), "{done:#?}");
    let report = done.json();
    let groups = report["environments"][0]["groups"].as_array().expect("groups");
    // A snake's length is 3 and its return, so the smaller score comes first.
    let score = |group: &Value| group["score"]["value"].as_f64().expect("a score");
    let objective = |group: &Value| group["objective"].as_f64().expect("an objective");
    assert!(score(&groups[0]) < score(&groups[1]), "{report}");
    for group in groups {
        assert!((objective(group) + 3.0 + score(group)).abs() < 1e-6, "{group}");
    }
    let length = format!("snake_length {:.3}", -objective(&groups[0]));
    let text = words(&place.operant(&["report", "s"]).stdout);
    assert!(
        text.contains(&format!(
            "is the best of 2 configurations on snake by -snake_length ({length}). Its eval return is"
        )) && text.contains("With one seed the difference may be chance")
            && text.contains(" configuration snake_length score "),
        "{text}"
    );
    assert_eq!(place.operant(&["report", "s", "--html", "s.html"]).code, Some(0));
    let page = std::fs::read_to_string(place.path().join("s.html")).expect("read");
    assert!(page.contains("<th>snake_<wbr>length</th>"));
    for command in [&["runs", "--sweeps"][..], &["show", "s"]] {
        let shown = place.operant(command);
        assert!(shown.stdout.contains(&length), "{shown:#?}");
    }
    place.write(
        "none.toml",
        "env = \"cartpole\"\n[search]\nobjective = \"success\"\n[vary]\ngamma = [0.9, 0.99]\n",
    );
    place
        .operant(&["sweep", "none.toml"])
        .assert_error(2, &["no metric \"success\"", "cartpole has no metrics of its own"]);
}

#[test]
fn a_sweep_keeps_an_environment_from_a_file() {
    let place = Sandbox::new();
    let world = format!("{}/../../crates/operant-env/tests/data/cartpole.world", env!("CARGO_MANIFEST_DIR"));
    let mine = place.path().join("mine.world");
    std::fs::copy(world, &mine).expect("copied");
    sweep(&place, &["./mine.world", "--name", "whole", "--seeds", "2", "--quiet"]);
    let mut child =
        place.start(&[&["sweep", "./mine.world", "--name", "killed", "--seeds", "2"], &BRIEF[..]].concat());
    assert!(wait_for_more(&place, "killed", &mut child, 0), "it has not ended");
    child.kill().expect("killed");
    child.wait().expect("waited for");
    std::fs::remove_file(mine).expect("removed");
    let done = place.operant(&["sweep", "--resume", "killed", "--quiet"]);
    assert_eq!(done.code, Some(0), "{done:#?}");
    assert!(states(&place, "killed") == states(&place, "whole"));
}

#[test]
fn a_sweep_is_carried_out_by_one_process() {
    let place = Sandbox::new();
    let endless = ["sweep", "cartpole", "--name", "s", "--set", "total_timesteps=1e12", "--quiet"];
    let mut child = place.start(&endless);
    assert!(wait_for_more(&place, "s", &mut child, 0), "it has not ended");
    let process = format!("process {}", child.id());
    place.operant(&["sweep", "--resume", "s"]).assert_error(2, &["is running already", &process]);
    place.operant(&endless).assert_error(2, &["runs/s"]);
    // A sweep is not a run.
    place.operant(&["eval", "s"]).assert_error(2, &["is a sweep, not a run"]);
    child.kill().expect("killed");
    child.wait().expect("waited for");
}

#[test]
fn a_signal_stops_a_sweep_with_checkpoints() {
    let place = Sandbox::new();
    let endless = ["--set", "total_timesteps=1e12", "--set", "learning_rate=1e-3,1e-2", "--quiet"];
    let child = place.start(&[&["sweep", "cartpole", "--name", "s", "--jobs", "2"], &endless[..]].concat());
    let metrics = |trial: &str| place.path().join(format!("runs/s/trials/{trial}-seed1/metrics.csv"));
    wait_for("both runs", || {
        let lines = |trial| std::fs::read_to_string(metrics(trial)).map_or(0, |text| text.lines().count());
        (lines("0000") > 2 && lines("0001") > 2).then_some(())
    });
    send(&child, Signal::INT);
    let stopped = finish(child);
    assert_eq!(stopped.code, Some(75), "{stopped:#?}");
    assert!(stopped.stderr.contains("`operant resume s` continues"), "{stopped:#?}");
    for trial in ["0000", "0001"] {
        assert!(!place.checkpoints(&format!("s/trials/{trial}-seed1")).is_empty(), "trial {trial}");
    }
    // Nothing but the directory can be given together with --resume.
    place.operant(&["sweep", "--resume", "s", "--steps", "10"]).assert_error(2, &["leave the settings out"]);
    place.write("operant.toml", "gamma = 0.5\n");
    place.operant(&["sweep", "--resume", "s"]).assert_error(2, &["has changed since", "gamma = 0.5"]);
}

#[test]
fn specifications_that_cannot_be_used_have_one_error_each() {
    let place = Sandbox::new();
    let rate = "[vary]\nlearning_rate = ";
    for (spec, parts) in [
        ("", &["names no environment"][..]),
        ("env = 3", &["env = 3"]),
        ("env = [\"cartpole\", \"cartpole\"]", &["twice"]),
        ("env = \"cartpol\"", &["did you mean \"cartpole\"?"]),
        ("env = \"cartpole\"\nseeds = \"5..1\"", &["seeds = \"5..1\"", "1..10"]),
        ("env = \"cartpole\"\nseeds = 0", &["seeds = 0"]),
        ("env = \"cartpole\"\nseeds = [1, 1]", &["contains a seed twice"]),
        ("env = \"cartpole\"\nseed = 1", &["unknown field `seed`", "spec.toml:2"]),
        ("env = \"cartpole\"\n[vary\n", &["not valid", "spec.toml:2"]),
        (&format!("env = \"cartpole\"\n{rate}[]"), &["learning_rate has no values"]),
        (&format!("env = \"cartpole\"\n{rate}[1e-3, 1e-3]"), &["value 0.001 twice"]),
        (&format!("env = \"cartpole\"\n{rate}[-1.0]"), &["learning_rate = -1.0", "[vary] learning_rate"]),
        (&format!("env = \"cartpole\"\n{rate}0.1"), &["is only one value", "[set]"]),
        (
            &format!("env = \"cartpole\"\n{rate}{{ log_unifrom = [1e-4, 1e-2] }}"),
            &["did you mean \"log_uniform\"?"],
        ),
        (
            &format!("env = \"cartpole\"\n{rate}{{ log_uniform = [0.0, 1e-2] }}"),
            &["is not a range", "above 0"],
        ),
        (
            &format!("env = \"cartpole\"\n{rate}{{ uniform = [1e-2, 1e-4] }}"),
            &["is not a range", "comes first"],
        ),
        (&format!("env = \"cartpole\"\n{rate}{{ uniform = [1e-4, 1e-2] }}"), &["needs a number of trials"]),
        (
            &format!("env = \"cartpole\"\n{rate}[1e-3]\n[set]\nlearning_rate = 1e-3"),
            &["in [set] and in [vary]"],
        ),
        (
            &format!("env = \"cartpole\"\n{rate}{{ uniform = [1e-4, 1e-2] }}\n[search]\nmethod = \"grid\""),
            &["a grid needs lists"],
        ),
        (&format!("env = \"cartpole\"\n{rate}[1e-3, 1e-2]\n[search]\ntrials = 3"), &["2 combinations"]),
        ("env = \"cartpole\"\n[vary]\nlerning_rate = [1e-3]", &["did you mean \"learning_rate\"?"]),
        ("env = \"cartpole\"\n[vary]\nseed = [1, 2]", &["a sweep sets seed itself", "spec.toml [vary] seed"]),
        ("env = \"cartpole\"\n[search]\nmethod = \"baies\"", &["did you mean \"bayes\"?"]),
        ("env = \"cartpole\"\n[search]\nmethod = \"random\"\ntrials = 3", &["nothing varies"]),
        (
            &format!("env = \"cartpole\"\n{rate}[1e-3, 1e-2]\n[search]\nmethod = \"pbt\"\ntrials = 4"),
            &["steps between generations"],
        ),
        (
            "env = \"cartpole\"\n[vary]\nhidden = [[8], [16]]\n[search]\nmethod = \"pbt\"\ntrials = 4\ninterval = 1000",
            &["cannot change hidden"],
        ),
        ("env = \"cartpole\"\n[vary]\nnum_minibatches = [4, 7]", &["does not divide", "num_minibatches=7"]),
    ] {
        place.write("spec.toml", spec);
        place.operant(&["sweep", "spec.toml"]).assert_error(2, parts);
    }
    place.operant(&["sweep", "missing.toml"]).assert_error(2, &["cannot be read", "missing.toml"]);
    place.operant(&["sweep", "--resume", "none"]).assert_error(2, &["there is no sweep \"none\""]);
    assert!(!place.path().join("runs").exists(), "nothing was trained");
}

#[test]
fn ray_needs_python_with_operant_and_ray() {
    let place = Sandbox::new();
    let python = place.path().join("venv/bin/python");
    std::fs::create_dir_all(python.parent().expect("a directory")).expect("made");
    let sweep = || {
        let mut command = place.command(&["sweep", "cartpole", "--ray", "auto"]);
        Finished::of(command.env("VIRTUAL_ENV", place.path().join("venv")).output().expect("started"))
    };
    sweep().assert_error(2, &["cannot be started", "--ray", "pip install '.[ray]'"]);
    for (script, part) in [
        (
            "echo 'Traceback ...' >&2; echo \"ModuleNotFoundError: No module named 'ray'\" >&2; exit 1",
            "No module named 'ray'",
        ),
        ("echo 0.0.1", "has operant 0.0.1, not "),
    ] {
        std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).expect("written");
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("set");
        // The line before it waits says for what.
        sweep().assert_error(2, &["looking for Ray and operant with", part, "--ray", "pip install '.[ray]'"]);
    }
    let alone = place.operant(&["sweep", "cartpole", "--cpus-per-run", "2"]);
    assert!(alone.code == Some(2) && alone.stderr.contains("--ray"), "{alone:#?}");
    assert!(!place.path().join("runs").exists(), "nothing was trained");
}

#[test]
fn a_trial_that_cannot_be_trained_fails_alone() {
    let place = Sandbox::new();
    // 48 minibatches fit 16 x 48 steps, and not 16 x 16. A grid would have been checked as a whole.
    let spec = "env = \"cartpole\"\n[set]\nnum_envs = 16\ntotal_timesteps = 3072\n[vary]\nnum_minibatches = [4, 48]\n\
                num_steps = [48, 16]\n[search]\nmethod = \"random\"\ntrials = 4\n";
    place.write("spec.toml", spec);
    let done = place.operant(&["sweep", "spec.toml", "--name", "s", "--json"]);
    assert_eq!(done.code, Some(0), "{done:#?}");
    let report = done.json();
    assert_eq!(report["failed"], 1, "{report}");
    assert!(report.to_string().contains("does not divide"), "{report}");
}

#[test]
fn a_sweep_of_which_every_run_failed_fails() {
    let place = Sandbox::new();
    let diverging = ["--seeds", "2", "--set", "learning_rate=1e30"];
    let done = place.operant(&[&["sweep", "cartpole", "--name", "s"], &diverging[..], &BRIEF[..]].concat());
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert!(done.stdout.contains("2 runs failed") && done.stdout.contains("training diverged"), "{done:#?}");
    // All of a population: copies of what failed fail as well.
    let pbt = ["--search", "pbt", "--trials", "4", "--interval", "2048", "--set", "learning_rate=1e30,1e31"];
    let done =
        place.operant(&[&["sweep", "cartpole", "--name", "t", "--json"], &pbt[..], &BRIEF[..]].concat());
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert!(done.json().to_string().contains("which it is a copy of, failed"), "{done:#?}");
}

#[test]
fn reports_are_written_and_runs_compared() {
    let place = Sandbox::new();
    sweep(
        &place,
        &["cartpole", "--name", "s", "--seeds", "3", "--set", "learning_rate=1e-3,1e-2", "--quiet"],
    );
    let shown = place.operant(&["report", "s"]);
    assert!(
        shown.stdout.contains("learning_rate=0.01") && shown.stdout.contains("95% interval"),
        "{shown:#?}"
    );
    assert!(words(&shown.stdout).contains("fewer than 5 seeds: the interval is unreliable"), "{shown:#?}");
    let written = place.operant(&["report", "s", "--html", "page.html", "--no-player", "--plots", "plots"]);
    assert_eq!((written.code, written.stdout.as_str()), (Some(0), ""), "{written:#?}");
    let page = std::fs::read_to_string(place.path().join("page.html")).expect("written");
    assert!(
        ["<svg", "name=\"viewport\"", "scores best of 2 configurations"]
            .iter()
            .all(|part| page.contains(part))
            && !page.contains("<script")
            && !page.contains("src="),
        "{page}"
    );
    let png = std::fs::read(place.path().join("plots/cartpole-steps.png")).expect("written");
    assert!(png.starts_with(b"\x89PNG"));
    let compared = place.operant(&["compare", "s", "s", "--json"]).json();
    assert_eq!(compared["improvement"]["value"], 0.5, "{compared}");
    // Runs from anywhere, such as those of the sweep.
    let runs: Vec<String> =
        (1..=3).flat_map(|seed| [0, 1].map(|trial| format!("runs/s/trials/000{trial}-seed{seed}"))).collect();
    let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
    let of_runs = place.operant(&[&["report", "--json"], &runs[..]].concat()).json();
    let groups = of_runs["environments"][0]["groups"].as_array().expect("settings");
    assert_eq!(groups.len(), 2, "{of_runs}");
    assert_eq!(groups[0]["settings"]["learning_rate"], 0.01, "{of_runs}");
    place.operant(&["report", "s", runs[0]]).assert_error(2, &["operant compare"]);
    place.operant(&["report", "nothing"]).assert_error(2, &["there is no sweep or run \"nothing\""]);
    place.operant(&["compare", "s", "ss"]).assert_error(2, &["did you mean \"s\"?"]);
}

#[test]
fn plots_of_a_strangers_result_stay_in_their_directory() {
    let place = Sandbox::new();
    let train = [&["train", "cartpole", "--name", "theirs", "--quiet"], &BRIEF[..]].concat();
    assert_eq!(place.operant(&train).code, Some(0));
    let file = place.path().join("runs/theirs/result.json");
    let text = std::fs::read_to_string(&file).expect("a result");
    std::fs::write(&file, text.replacen("\"env\":\"cartpole\"", "\"env\":\"../../outside\"", 1))
        .expect("written");
    let written = place.operant(&["report", "theirs", "--plots", "some/plots"]);
    assert_eq!(written.code, Some(0), "{written:#?}");
    assert!(place.path().join("some/plots/_._.._outside-scores.svg").is_file());
    let entries =
        std::fs::read_dir(place.path()).expect("read").map(|entry| entry.expect("there").file_name());
    let outside: Vec<_> = entries.filter(|name| name.to_string_lossy().contains("outside")).collect();
    assert!(outside.is_empty(), "{outside:?}");
}

#[test]
fn specifications_are_regular_files() {
    let place = Sandbox::new();
    std::os::unix::fs::symlink("/dev/zero", place.path().join("zero.toml")).expect("linked");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(place.path().join("pipe.toml"))
            .status()
            .expect("mkfifo")
            .success()
    );
    for file in ["zero.toml", "pipe.toml"] {
        place.operant(&["sweep", file]).assert_error(2, &["not a regular file", file]);
    }
    place.write("zoo.yml", "CartPole-v1:\n  n_envs: 8\n");
    place
        .operant(&["sweep", "zoo.yml"])
        .assert_error(2, &["zoo.yml is not a TOML file", "learning_rate = 3e-4"]);
    let knowledge = ["train", "prover", "--set", "env.knowledge=zero.toml"];
    place.operant(&knowledge).assert_error(2, &["not a regular file", "zero.toml"]);
}
