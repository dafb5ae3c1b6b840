//! `operant train --init-from`: messages, errors, daemons, and another device.

use crate::common::{SMALL, Sandbox, wait_for};

const SHORT: &[&str] = &["--steps", "256", "--set", "ring=false"];

fn train<'a>(env: &'a str, name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let small = SMALL.iter().filter(|word| !word.starts_with("hidden"));
    // Each assignment is two words.
    let pairs: Vec<&str> = small.copied().filter(|word| *word != "--set").collect();
    let small = pairs.into_iter().flat_map(|set| ["--set", set]);
    ["train", env, "--name", name].into_iter().chain(small).chain(SHORT.iter().chain(more).copied()).collect()
}

/// A place with a run `first` of cartpole.
fn place() -> Sandbox {
    let place = Sandbox::new();
    let trained = place.operant(&train("cartpole", "first", &["--set", "hidden=[32]"]));
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    place
}

#[test]
fn a_run_says_where_its_weights_come_from_and_records_it() {
    let place = place();
    let trained = place.operant(&train("cartpole", "second", &["--init-from", "first"]));
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    assert!(trained.stderr.contains("weights: from first at step 256\n"), "{trained:#?}");
    let checkpoint = place.path().join("runs/first/checkpoints/step_000000000256");
    let config = std::fs::read_to_string(place.path().join("runs/second/config.toml")).expect("there");
    let checkpoint = checkpoint.canonicalize().expect("there");
    assert!(config.contains(&format!("init_from = \"{}\"", checkpoint.display())), "{config}");
    assert!(config.contains("hidden = [32]"), "{config}");
    let shown = place.operant(&["config", "cartpole", "--init-from", "first@256"]).stdout;
    let line = shown.lines().find(|line| line.starts_with("hidden")).unwrap_or_default();
    assert!(
        line.starts_with("hidden = [32] ") && line.ends_with("# weights of first at step 256"),
        "{shown}"
    );
    // What `--init-from` takes, other commands take too.
    let played = place.operant(&["eval", "second@0", "--episodes", "3", "--json"]);
    assert_eq!(played.json()["env_steps"], 0);
    for film in
        [&["play", "first@256", "--record", "film.png"][..], &["export", "first@256", "--onnx", "a.onnx"]]
    {
        assert_eq!(place.operant(film).code, Some(0), "{film:?}");
    }
    place.operant(&["play", "first@7", "--record", "film.png"]).assert_error(2, &["no checkpoint at step 7"]);
    for command in [&["show", "first@256"][..], &["train", "--resume", "first@256"]] {
        place
            .operant(command)
            .assert_error(2, &["first@256 is a checkpoint of first, not a run", "init-from"]);
    }

    let daemon = train("cartpole", "third", &["--init-from", "runs/first@256", "--detach"]);
    assert_eq!(place.operant(&daemon).code, Some(0));
    let log = place.path().join("runs/third/operant.log");
    wait_for("the line about weights", || {
        let log = std::fs::read_to_string(&log).ok()?;
        log.contains("weights: from first at step 256").then_some(())
    });
    wait_for("the result", || place.path().join("runs/third/result.json").exists().then_some(()));
}

#[test]
fn what_cannot_begin_with_weights_is_refused_before_training() {
    let place = place();
    let refused = |more: &[&str], parts: &[&str]| {
        place.operant(&train("cartpole", "x", more)).assert_error(2, parts);
        assert!(!place.path().join("runs/x").exists());
    };
    refused(&["--init-from", "frist"], &["there is no run \"frist\" (did you mean \"first\"?)"]);
    refused(&["--init-from", "first@1e6"], &["no checkpoint at step 1000000", "the nearest: first@256"]);
    let other = ["--init-from", "first", "--set", "hidden=64,64"];
    let parts = ["hidden = [64, 64] does not match the weights of first at step 256", "hidden = [32]"];
    refused(&other, &[&parts[..], &["where: --set"]].concat());
    refused(&[&other[..], &["--detach"]].concat(), &parts);
    let pqn = ["--init-from", "first", "--algorithm", "pqn"];
    refused(&pqn, &["algorithm = \"pqn\" does not match", "algorithm = \"ppo\"", "where: --algorithm"]);
    place
        .operant(&["train", "--resume", "first", "--init-from", "first"])
        .assert_error(2, &["continues with its own weights", "where: --init-from"]);
    place
        .operant(&["train", "--resume", "first", "--set", "init_from=first"])
        .assert_error(2, &["continues with its own weights"]);

    let file = place.checkpoints("first").pop().expect("a checkpoint").1.join("state.safetensors");
    let bytes = std::fs::read(&file).expect("read");
    std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("written");
    refused(&["--init-from", "first@256"], &["state.safetensors is damaged"]);
    refused(&["--init-from", "first"], &["no checkpoint in", "is damaged"]);
}

#[test]
fn weights_of_the_cpu_begin_a_run_on_a_gpu_with_overlap() {
    let Some(directory) = crate::stand_in::directory("weights of another run on a GPU") else { return };
    let place = place();
    let on_gpu = ["--init-from", "first", "--device", "cuda", "--overlap", "--set", "learning_rate=1e-30"];
    let mut command = place.command(&train("cartpole", "second", &on_gpu));
    command.envs(crate::stand_in::environment(&directory));
    let trained = crate::common::Finished::of(command.output().expect("started"));
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    assert!(trained.stderr.contains("weights: from first at step 256\n"), "{trained:#?}");
    // Steps this small change no weight, so that the last checkpoint plays as the source does.
    let returned = |run: &str| place.operant(&["eval", run, "--episodes", "20", "--json"]).json();
    let (first, second) = (returned("first"), returned("second"));
    assert_eq!(first["eval_return_mean"], second["eval_return_mean"]);
}
