//! Output and files of a run: the JSON contract, the run directory, evaluation, configuration, closed pipes.

use std::process::Stdio;

use crate::common::{Finished, SMALL, Sandbox};

const SHORT: &[&str] = &["--set", "total_timesteps=1280"];

fn train(place: &Sandbox, more: &[&str]) -> Finished {
    let mut args = vec!["train", "cartpole"];
    args.extend([SMALL, SHORT].concat());
    args.extend(more);
    let finished = place.operant(&args);
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished
}

#[test]
fn json_is_one_object_with_the_contracts_keys_in_order() {
    let place = Sandbox::new();
    let finished = train(&place, &["--json", "--name", "mine", "--seed", "5"]);
    let result = finished.json();
    let keys = [
        "run",
        "env",
        "device",
        "seed",
        "env_steps",
        "updates",
        "wall_s",
        "train_s",
        "sps",
        "eval_return_mean",
        "eval_return_std",
        "eval_episodes",
        "eval_distinct",
        "eval_metrics",
        "solved_at_step",
        "solved_at_s",
        "checkpoint",
        "config",
    ];
    let places: Vec<usize> =
        keys.iter().map(|key| finished.stdout.find(&format!("\"{key}\":")).expect(key)).collect();
    assert!(places.is_sorted(), "{}", finished.stdout);
    assert_eq!(result.as_object().map(serde_json::Map::len), Some(keys.len()));
    assert_eq!(
        (&result["run"], &result["env"], &result["device"]),
        (&"mine".into(), &"cartpole".into(), &"cpu".into())
    );
    assert_eq!((result["seed"].as_u64(), result["env_steps"].as_u64()), (Some(5), Some(1280)));
    assert_eq!((result["updates"].as_u64(), result["eval_episodes"].as_u64()), (Some(10), Some(5)));
    assert!(
        result["eval_return_mean"].as_f64() >= Some(1.0),
        "an episode of CartPole pays at least 1: {result}"
    );
    assert!(result["wall_s"].as_f64() >= result["train_s"].as_f64());
    let written = std::fs::read_to_string(place.path().join("runs/mine/result.json")).expect("result.json");
    assert_eq!(written, finished.stdout);
    assert!(place.path().join(result["checkpoint"].as_str().expect("a path")).is_dir());
}

#[test]
fn runs_are_exported_as_a_table_or_to_a_tracker() {
    let place = Sandbox::new();
    let none = place.operant(&["runs", "--export", "wandb"]);
    assert!(none.code == Some(2) && none.stderr.contains("no run that has ended"), "{none:#?}");
    train(&place, &["--name", "first", "--seed", "5"]);
    train(&place, &["--name", "second", "--set", "hidden=[8,8]"]);
    let table = place.operant(&["runs", "--export", "csv"]).stdout;
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[0].starts_with("run,env,algorithm,state,") && rows.len() == 3, "{table}");
    assert!(rows[1].starts_with("first,cartpole,ppo,finished,"), "{table}");
    assert!(rows[2].starts_with("second,") && rows[2].contains("\"[8,8]\""), "{table}");
    let columns: Vec<&str> = rows[0].split(',').collect();
    assert!(
        ["eval_return_mean", "config.gamma", "seed", "dir"].iter().all(|name| columns.contains(name)),
        "{table}"
    );
    assert!(!columns.iter().any(|name| name.starts_with("changed.")), "{table}");
    let filtered = place.operant(&["runs", "--export", "csv", "--filter", "second"]).stdout;
    assert_eq!(filtered.lines().count(), 2, "{filtered}");
    let missing = place
        .command(&["runs", "--export", "wandb"])
        .env("VIRTUAL_ENV", "/nowhere")
        .output()
        .expect("a program");
    let text = String::from_utf8_lossy(&missing.stderr);
    assert!(
        missing.status.code() == Some(2) && text.contains("/nowhere/bin/python cannot be started"),
        "{text}"
    );
}

#[test]
fn a_run_leaves_its_directory() {
    let place = Sandbox::new();
    train(&place, &["--name", "mine"]);
    let dir = place.path().join("runs/mine");
    for file in ["config.toml", "metrics.csv", "operant.log", "result.json", "checkpoints"] {
        assert!(dir.join(file).exists(), "{file}");
    }
    let events = std::fs::read_dir(&dir)
        .expect("read")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("events.out.tfevents"));
    assert_eq!(events.count(), 1);
    assert_eq!(place.metrics("mine").len(), 10);
    assert!(!std::fs::read_to_string(dir.join("operant.log")).expect("read").is_empty());

    train(
        &place,
        &["--name", "bare", "--set", "csv=false", "--set", "tensorboard=false", "--run-dir", "elsewhere"],
    );
    let bare = place.path().join("elsewhere/bare");
    assert!(bare.join("result.json").exists() && !bare.join("metrics.csv").exists());
}

#[test]
fn results_go_to_stdout_and_progress_to_stderr() {
    let place = Sandbox::new();
    let plain = train(&place, &[]);
    assert!(
        plain.stdout.contains("greedy episodes") && plain.stdout.starts_with("run cartpole-1-"),
        "{plain:#?}"
    );
    assert!(plain.stderr.contains("100%"), "{plain:#?}");
    assert!(plain.stderr.lines().count() < 20, "a pipe gets a few lines: {plain:#?}");
    assert_eq!(train(&place, &["-q"]).stderr, "");
}

#[test]
fn a_run_begins_with_two_lines_and_verbose_has_the_others_of_the_log() {
    let place = Sandbox::new();
    let lines = |more: &[&str]| {
        let begun = train(&place, &[&["--set", "threads=1", "--set", "ring=false"], more].concat()).stderr;
        begun.lines().filter(|line| !line.contains('%')).map(str::to_owned).collect::<Vec<_>>()
    };
    let few = lines(&["--name", "few"]);
    let what = "cartpole with PPO on cpu with 1 thread: 8 envs x 16 steps, seed 1";
    assert_eq!(few, [what, "watch with `operant monitor few`"], "{few:#?}");
    let all = lines(&["--name", "all", "-v"]);
    let log = std::fs::read_to_string(place.path().join("runs/few/operant.log")).expect("the log");
    for part in ["in runs/", ": cartpole under its preset, on cpu", "plan: 1 thread"] {
        assert!(log.contains(part) && all.iter().any(|line| line.contains(part)), "{part}: {all:#?} {log}");
    }
    let resumed = place.operant(&["train", "--resume", "few", "--steps", "4096"]).stderr;
    assert!(resumed.starts_with(&format!("{what}, from step ")), "{resumed}");
}

#[test]
fn an_evaluation_reproduces_the_runs_own() {
    let place = Sandbox::new();
    let result = train(&place, &["--name", "mine", "--json"]).json();
    let by_name = place.operant(&["eval", "mine", "--episodes", "5", "--json"]).json();
    assert_eq!(by_name["eval_return_mean"], result["eval_return_mean"]);
    assert_eq!(by_name["eval_return_std"], result["eval_return_std"]);
    let checkpoint = result["checkpoint"].as_str().expect("a path");
    let by_path = place.operant(&["eval", checkpoint, "--episodes", "5", "--json"]).json();
    assert_eq!(by_path["eval_return_mean"], result["eval_return_mean"]);
    assert_eq!((&by_path["run"], &by_path["env"]), (&"mine".into(), &"cartpole".into()));
    let human = place.operant(&["eval", "runs/mine"]);
    assert!(human.code == Some(0) && human.stdout.contains("over 100 greedy episodes"), "{human:#?}");
    assert_eq!((&by_name["eval_actions"], &by_name["solved"]), (&"greedy".into(), &false.into()));
    let sampled = place.operant(&["eval", "mine", "--sample", "--episodes", "5", "--json"]).json();
    assert_eq!((&sampled["eval_actions"], &sampled["solved"]), (&"sampled".into(), &serde_json::Value::Null));
    assert_ne!(sampled["eval_return_mean"], result["eval_return_mean"]);
    let human = place.operant(&["eval", "mine", "--sample"]);
    assert!(human.code == Some(0) && human.stdout.contains("over 100 sampled episodes"), "{human:#?}");
    place
        .operant(&["eval", "mine", "--episodes", "0"])
        .assert_error(2, &["eval_episodes = 0", "where: --episodes"]);
    assert_eq!(by_name["changed_options"], serde_json::json!({}));
}

#[test]
fn an_evaluation_of_all_checkpoints_is_one_of_each() {
    let place = Sandbox::new();
    train(&place, &["--name", "mine", "--set", "checkpoint_interval=2", "--set", "keep_checkpoints=3"]);
    let all = place.operant(&["eval", "mine", "--all", "--episodes", "5", "--json"]);
    let rows: Vec<serde_json::Value> =
        all.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(rows.len() >= 3, "{all:#?}");
    for row in &rows {
        let alone = format!("mine@{}", row["env_steps"]);
        assert_eq!(&place.operant(&["eval", &alone, "--episodes", "5", "--json"]).json(), row);
    }
    let table = place.operant(&["eval", "mine", "--all", "--episodes", "5"]).stdout;
    let steps: Vec<&str> = table.lines().skip(2).filter_map(|line| line.split('\t').next()).collect();
    let expected: Vec<String> = rows.iter().map(|row| row["env_steps"].to_string()).collect();
    assert_eq!(steps, expected, "{table}");
    let first = rows[0]["checkpoint"].as_str().expect("a path");
    std::fs::write(place.path().join(first).join("state.safetensors"), "garbage").expect("written");
    let rest = place.operant(&["eval", "mine", "--all", "--episodes", "5", "--json"]);
    assert_eq!((rest.code, rest.stdout.lines().count()), (Some(0), rows.len() - 1), "{rest:#?}");
    assert!(rest.stderr.contains(first), "{rest:#?}");
    for row in &rows {
        let checkpoint = row["checkpoint"].as_str().expect("a path");
        std::fs::write(place.path().join(checkpoint).join("state.safetensors"), "garbage").expect("written");
    }
    let none = place.operant(&["eval", "mine", "--all", "--episodes", "5", "--json"]);
    none.assert_error(2, &["run mine has no checkpoint that can be read"]);
    place.operant(&["eval", "absent", "--all"]).assert_error(2, &["there is no run"]);
}

#[test]
fn an_evaluation_under_other_rules_names_them_and_solves_nothing() {
    let place = Sandbox::new();
    let small = ["--envs", "16", "--steps", "2048", "--set", "solved_at=-100", "--quiet"];
    place.operant(&[&["train", "breakout", "--name", "mine"], &small[..]].concat());
    let changed = ["eval", "mine", "--episodes", "5", "--set", "env.sticky_action_prob=0.5"];
    let evaluated = place.operant(&[&changed[..], &["--json"]].concat()).json();
    assert_eq!(evaluated["changed_options"], serde_json::json!({"sticky_action_prob": 0.5}));
    assert_eq!(evaluated["solved"], serde_json::Value::Null);
    let human = place.operant(&changed);
    let named = "changed     env.sticky_action_prob = 0.5 (training used other values)";
    assert!(human.stdout.contains(named) && !human.stdout.contains("solved"), "{human:#?}");
    // The same value as in training is no change.
    let same = ["eval", "mine", "--episodes", "5", "--set", "env.sticky_action_prob=0.1"];
    assert!(place.operant(&same).stdout.contains("solved (at -100)"));
}

#[test]
fn the_same_seed_trains_the_same_weights_on_any_number_of_threads() {
    let place = Sandbox::new();
    for (name, threads) in [("one", "threads=1"), ("two", "threads=2"), ("five", "threads=5")] {
        train(&place, &["--name", name, "--set", threads]);
    }
    train(&place, &["--name", "other", "--seed", "2"]);
    assert!(place.final_state("one") == place.final_state("two"));
    assert!(place.final_state("one") == place.final_state("five"));
    assert!(place.final_state("one") != place.final_state("other"));
    assert_eq!(place.metrics("one"), place.metrics("five"));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let place = Sandbox::new();
    for args in [&["envs"][..], &["config", "cartpole"], &["--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = place.command(args).stdout(writer).stderr(Stdio::piped()).output().expect("started");
        let finished = Finished::of(output);
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{args:?} {finished:#?}");
    }
    let full = std::fs::File::options().write(true).open("/dev/full").expect("opened");
    let output = place.command(&["envs"]).stdout(full).stderr(Stdio::piped()).output().expect("started");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_shown_configuration_is_a_valid_file_and_names_every_origin() {
    let place = Sandbox::new();
    std::fs::create_dir_all(place.path().join("xdg/operant")).expect("made");
    place.write("xdg/operant/operant.toml", "gamma = 0.5\ngae_lambda = 0.5\n");
    place.write("operant.toml", "seed = 3\ngae_lambda = 0.6\nvf_coef = 0.6\n[cartpole]\nclip_coef = 0.6\n");
    place.write("mine.toml", "vf_coef = 0.7\nupdate_epochs = 7\n");
    let mut command =
        place.command(&["config", "CartPole-v1", "--config", "mine.toml", "--set", "max_grad_norm=0.9"]);
    let shown = Finished::of(command.env("OPERANT_UPDATE_EPOCHS", "8").output().expect("started"));
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let line = |key: &str| -> &str {
        shown
            .stdout
            .lines()
            .find(|line| line.starts_with(&format!("{key} =")))
            .unwrap_or_else(|| panic!("{key}"))
    };
    for (key, value, origin) in [
        ("adam_eps", "0.00001", "# default"),
        ("learning_rate", "", "# preset cartpole"),
        ("gamma", "0.5", "operant/operant.toml:1"),
        ("gae_lambda", "0.6", "# operant.toml:2"),
        ("clip_coef", "0.6", "# operant.toml:5"),
        ("vf_coef", "0.7", "# mine.toml:1"),
        ("update_epochs", "8", "# OPERANT_UPDATE_EPOCHS"),
        ("max_grad_norm", "0.9", "# --set"),
        ("solved_at", "475", "# preset cartpole"),
    ] {
        assert!(line(key).contains(value) && line(key).contains(origin), "{key}: {}", line(key));
    }
    let other = Sandbox::new();
    other.write("shown.toml", &shown.stdout);
    let again = other.operant(&["config", "cartpole", "--config", "shown.toml"]);
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split('#').next().expect("a part").trim_end().to_string()).collect()
    };
    assert_eq!(values(&again.stdout), values(&shown.stdout));
}

#[test]
fn every_environment_is_listed_and_has_a_configuration() {
    let place = Sandbox::new();
    let listed = place.operant(&["envs", "--json"]);
    let mut names = Vec::new();
    for line in listed.stdout.lines() {
        let env: serde_json::Value = serde_json::from_str(line).expect("one object a line");
        assert!(env["time_limit"].as_u64() > Some(0) && env["obs"].is_object() && env["actions"].is_object());
        names.push(env["env"].as_str().expect("a name").to_string());
    }
    assert!(names.len() >= 6, "{names:?}");
    let table = place.operant(&["envs"]).stdout;
    for name in &names {
        assert!(table.contains(name.as_str()), "{name}");
        assert_eq!(place.operant(&["config", name]).code, Some(0), "{name}");
    }
}

#[test]
fn training_cartpole_stays_below_100_mb() {
    let place = Sandbox::new();
    let finished = place.operant(&["train", "cartpole", "--name", "mine", "--steps", "2e4", "--quiet"]);
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let text = std::fs::read_to_string(place.path().join("runs/mine/metrics.csv")).expect("metrics.csv");
    let header: Vec<&str> = text.lines().next().expect("a header").split(',').collect();
    let column = header.iter().position(|name| *name == "resident_memory").expect("the column");
    for row in text.lines().skip(1) {
        let bytes: f64 = row.split(',').nth(column).expect("a cell").parse().expect("a number");
        assert!(bytes > 0.0 && bytes < 100e6, "{bytes} bytes");
    }
}

#[test]
fn a_run_remembers_the_file_that_its_environment_was_made_from() {
    let place = Sandbox::new();
    place.write("base.pl", "p(a, b).\np(b, c).\nq(X, Y) :- p(X, Y).\nq(X, Z) :- p(X, Y), q(Y, Z).\n");
    let knowledge = ["train", "prover", "--name", "mine", "--set", "env.knowledge=base.pl", "--steps", "512"];
    let trained = place.operant(&[&knowledge, SMALL].concat());
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    let first = place.operant(&["eval", "mine", "--json"]).json();
    // From another directory.
    std::fs::create_dir(place.path().join("elsewhere")).expect("a directory");
    let mut command = place.command(&["eval", "../runs/mine", "--json"]);
    let elsewhere =
        Finished::of(command.current_dir(place.path().join("elsewhere")).output().expect("started"));
    assert_eq!(elsewhere.json()["eval_return_mean"], first["eval_return_mean"]);
    // After the file was moved.
    let rename = |from: &str, to: &str| std::fs::rename(place.path().join(from), place.path().join(to));
    rename("base.pl", "moved.pl").expect("renamed");
    place.operant(&["eval", "mine"]).assert_error(2, &["base.pl", "cannot be read"]);
    let moved = ["--set", "env.knowledge=moved.pl"];
    let again = place.operant(&[&["eval", "mine", "--json"], &moved[..]].concat());
    assert_eq!(again.json()["eval_return_mean"], first["eval_return_mean"]);
    let exported = place.operant(&[&["export", "mine", "--onnx", "x.onnx"], &moved[..]].concat());
    assert_eq!(exported.code, Some(0), "{exported:#?}");
    place.operant(&["eval", "mine", "--set", "gamma=1"]).assert_error(2, &["not an environment option"]);

    place.write("base.pl", "p(a, c).\np(b, c).\nq(X, Y) :- p(X, Y).\nq(X, Z) :- p(X, Y), q(Y, Z).\n");
    for command in [
        &["eval", "mine"][..],
        &["train", "--resume", "mine", "--steps", "1024"],
        &["export", "mine", "--onnx", "x.onnx"],
    ] {
        place.operant(command).assert_error(2, &["another file than in training", "where: ", "--set env.*"]);
    }
}

#[test]
fn replay_refuses_misspelled_keys() {
    let place = Sandbox::new();
    place.write("case.jsonl", "{\"state\":[0],\"actions\":[1],\"draw\":[[0.1]]}\n");
    let file = std::fs::File::open(place.path().join("case.jsonl")).expect("a file");
    let output = place.command(&["replay", "frozen_lake"]).stdin(file).output().expect("started");
    Finished::of(output)
        .assert_error(2, &["a key \"draw\" (did you mean \"draws\"?)", "where: standard input, line 1"]);
}
