//! `operant tune` as a user runs it, with small budgets: its output, its file and its errors. No measured value is checked.

#![cfg(target_os = "linux")]

use crate::common::{Finished, Sandbox};
use serde_json::Value;

/// Two seconds, on the CPU.
const BRIEF: [&str; 5] = ["--budget", "2", "--device", "cpu", "--json"];

/// Machine settings that are fixed, so that only learning settings are varied.
const MACHINE: [&str; 6] = ["--set", "threads=1", "--set", "rollout_tile=16", "--set", "waiting=sleep"];

fn tune(place: &Sandbox, args: &[&str]) -> Finished {
    place.operant(&[&["tune", "cartpole"], args].concat())
}

/// Its report, checked for the common keys.
fn report(finished: &Finished) -> Value {
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    assert_eq!(finished.stdout.lines().count(), 1, "{finished:#?}");
    let report: Value = serde_json::from_str(&finished.stdout).expect("an object");
    for spread in ["automatic", "best", "gain"] {
        let [min, median, max] =
            ["min", "median", "max"].map(|key| report[spread][key].as_f64().expect("a number"));
        assert!(0.0 < min && min <= median && median <= max, "{spread} of {report}");
    }
    assert!(["faster", "same", "slower"].contains(&report["verdict"].as_str().expect("a word")), "{report}");
    let tried = report["tried"].as_array().expect("a list");
    assert_eq!((&tried[0]["outcome"], &tried[0]["settings"]), (&"reference".into(), &serde_json::json!({})));
    report
}

/// The settings of all that was tried.
fn tried(report: &Value) -> Vec<String> {
    let list = report["tried"].as_array().expect("a list");
    list.iter().map(|tried| tried["settings"].to_string()).collect()
}

fn config(place: &Sandbox) -> String {
    place.operant(&["config", "cartpole", "--device", "cpu"]).stdout
}

#[test]
fn the_result_is_written_and_used_by_training() {
    let place = Sandbox::new();
    // One environment: more of them in a tile for 16 are far faster, and every episode reaches this threshold.
    let mine = "# mine\nseed = 7\nsolved_at = 1\neval_episodes = 1\neval_interval = 1\n";
    let file = place.path().join("operant.toml");
    std::fs::write(&file, mine).expect("written");
    place.write("slow.toml", "num_envs = 1\nnum_steps = 16\nupdate_epochs = 1\n");
    let with = |budget| {
        let slow = ["--config", "slow.toml", "--set", "num_minibatches=4", "--budget", budget];
        report(&tune(&place, &[&slow, &MACHINE[..], &BRIEF[2..]].concat()))
    };
    // On a busy machine two seconds may not show it.
    let mut found = with("2");
    for budget in ["10", "60"] {
        if found["verdict"] != "faster" {
            found = with(budget);
        }
    }
    assert_eq!((&found["for"], &found["device"]), (&"sps".into(), &"cpu".into()));
    assert_eq!(found["verdict"], "faster", "{found}");
    assert!(found["gain"]["min"].as_f64().expect("a number") > 1.0, "{found}");
    assert_eq!(found["file"], "operant.toml");
    let taken = found["tried"].as_array().expect("a list").iter().rfind(|tried| tried["outcome"] == "taken");
    assert_eq!(taken.expect("one was taken")["solved"], 3, "{found}");

    let text = std::fs::read_to_string(&file).expect("there");
    assert!(text.starts_with(mine), "{text}");
    let about = text.lines().find(|line| line.starts_with("# operant tune cartpole, 20"));
    assert!(about.is_some_and(|line| line.contains(" x in steps/s over the automatic settings")), "{text}");
    let settings = found["settings"].as_object().expect("settings");
    assert!(!settings.is_empty());
    for (key, value) in settings {
        let shown = config(&place);
        let line = shown.lines().find(|line| line.starts_with(&format!("{key} = "))).expect("shown");
        assert!(line.contains(&format!("{key} = {value}")) && line.contains("operant.toml:"), "{line}");
    }

    // The preset's settings again: earlier tuned keys are not part of the base and are removed.
    let again = report(&tune(&place, &[&MACHINE[..], &BRIEF].concat()));
    let text = std::fs::read_to_string(&file).expect("there");
    assert_eq!(text.matches("# operant tune").count(), 1, "{text}");
    if again["settings"].as_object().expect("settings").is_empty() {
        assert!(text.ends_with("[cartpole]\n"), "{text}");
    }
}

#[test]
fn every_setting_is_tried_unless_it_is_given() {
    let place = Sandbox::new();
    let found = report(&tune(&place, &[&["--dry-run"], &BRIEF[..]].concat()));
    assert!(found["file"].is_null() && !place.path().join("operant.toml").exists(), "nothing is written");
    let all = tried(&found).join(" ");
    for key in ["rollout_tile", "waiting"] {
        assert!(all.contains(key), "{key} was not tried: {all}");
    }
    assert!(!place.path().join("runs").exists(), "no run is left behind");
    let found = report(&tune(&place, &[&MACHINE[..], &["--envs", "16", "--dry-run"], &BRIEF].concat()));
    let all = tried(&found);
    let only = |set: &String| set.starts_with("{\"num_minibatches\":") && !set.contains("num_envs");
    assert!(all.len() > 1 && all[1..].iter().all(|set| set == "{}" || only(set)), "{all:?}");
}

#[test]
fn times_to_solve_are_of_runs_that_solved() {
    let place = Sandbox::new();
    let sets = ["solved_at=1", "eval_episodes=1", "eval_interval=1", "num_steps=16"];
    let mut easy = vec!["--for", "solve"];
    easy.extend(sets.iter().flat_map(|set| ["--set", *set]).chain(MACHINE));
    let found = report(&tune(&place, &[&easy[..], &["--envs", "16", "--seed", "5"], &BRIEF].concat()));
    assert_eq!(found["for"], "solve");
    let tried = found["tried"].as_array().expect("a list");
    assert!(tried.iter().filter(|tried| tried["unit"] == "s" && tried["solved"] == 3).count() > 1, "{found}");
    // The table lists all of them.
    let person = ["tune", "cartpole", "--dry-run", "--budget", "1", "--device", "cpu"];
    let shown = place.operant(&[&person[..], &easy].concat());
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    for word in ["settings", "times better", "automatic", "time to solve", "nothing was written"] {
        assert!(shown.stdout.contains(word), "{word} is missing: {}", shown.stdout);
    }
}

#[test]
fn invalid_requests_are_refused_at_once() {
    let place = Sandbox::new();
    place.operant(&["tune", "cartpol"]).assert_error(2, &["cartpol", "did you mean \"cartpole\""]);
    assert_eq!(tune(&place, &["--for", "fun"]).code, Some(2));
    assert_eq!(tune(&place, &["--budget", "-1"]).code, Some(2));
    let missing = ["--output", "missing/operant.toml"];
    tune(&place, &missing).assert_error(2, &["cannot be written", "missing/operant.toml"]);
    place.write("broken.toml", "seed = \n");
    let broken = ["--output", "broken.toml"];
    tune(&place, &broken).assert_error(2, &["not valid TOML", "broken.toml", "--output FILE"]);
    tune(&place, &["--device", "cuda:9"]).assert_error(2, &["cannot be used"]);
    let text = std::fs::read_to_string(place.path().join("broken.toml")).expect("there");
    assert_eq!(text, "seed = \n", "the file is unchanged");
}

#[test]
fn a_gpu_is_tuned_by_its_own_settings() {
    let Some(directory) = crate::stand_in::directory("tuning on a GPU") else { return };
    let place = Sandbox::new();
    let tune = |more: &[&str]| {
        let mut args = vec!["tune", "cartpole", "--device", "cuda", "--budget", "1", "--json", "--dry-run"];
        let small = ["num_envs=32", "num_steps=8", "hidden=8", "num_minibatches=2", "update_epochs=1"];
        let sets = small.iter().chain(&["solved_at=1", "eval_episodes=1"]).chain(more);
        args.extend(sets.flat_map(|set| ["--set", *set]));
        let mut command = place.command(&args);
        let found = command.envs(crate::stand_in::environment(&directory)).output().expect("operant starts");
        let found = report(&Finished::of(found));
        assert_eq!(found["device"], "cuda:0");
        tried(&found)
    };
    assert_eq!(
        tune(&["precision=f32", "overlap=false"]),
        ["{}", r#"{"kernels":"fused"}"#, r#"{"kernels":"gemm"}"#]
    );
    let of_gpus = [
        "{}",
        r#"{"overlap":true}"#,
        r#"{"precision":"tf32"}"#,
        r#"{"overlap":true,"precision":"tf32"}"#,
        r#"{"precision":"bf16"}"#,
        r#"{"overlap":true,"precision":"bf16"}"#,
    ];
    assert_eq!(tune(&["kernels=fused"]), of_gpus);
}
