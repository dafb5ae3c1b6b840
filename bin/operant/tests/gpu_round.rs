//! The script of a GPU round (`cargo xtask gpu --round`) with the host's stand-in for a GPU, in tiny sizes.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The JSON of each line.
fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// Files of compiled kernels.
fn compiled(cache: &Path) -> usize {
    fs::read_dir(cache.join("kernels")).map_or(0, Iterator::count)
}

/// The script with tiny sizes.
fn script(results: &Path, step: Option<&str>) -> Command {
    let mut command = Command::new("sh");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/src/gpu/round.sh"));
    command.arg(results).args(step);
    command.envs([
        ("OPERANT", env!("CARGO_BIN_EXE_operant")),
        ("PYTHON", "no-such-python"),
        ("GPU", "cuda:0"),
    ]);
    command.envs([("ENVS", "64"), ("MANY", "64"), ("STEPS", "4"), ("MINIBATCH", "64"), ("EACH", "1")]);
    command.envs([("RUN", "1024"), ("BREAKOUT", "4096"), ("PRECISIONS", "f32"), ("WORLDS", "cartpole")]);
    command
}

#[test]
fn a_round_measures_compares_and_skips_what_does_not_fit() {
    let Some(libraries) = crate::stand_in::directory("a GPU round") else { return };
    let place = tempfile::tempdir().expect("a directory");
    let (results, cache) = (place.path().join("results"), place.path().join("cache"));
    let run = |step: Option<&str>, only: &str, budget: &str| {
        let mut command = script(&results, step);
        command.env("ONLY", only).env("BUDGET", budget);
        command.env("OPERANT_CUDA_LIBRARIES", &libraries).env("OPERANT_CACHE_DIR", &cache);
        let output = command.output().expect("sh runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // All kernels that the steps need are compiled ahead, and none twice.
    let only = "compiled cartpole-shared worlds jax-f32";
    fs::create_dir(&results).expect("a directory");
    assert!(run(Some("ahead"), only, "480").0);
    let ahead = compiled(&cache);
    assert!(ahead > 3, "{ahead} kernels");
    let (_, said) = run(None, only, "480");
    assert_eq!(compiled(&cache), ahead, "{said}");

    let round = lines(&results.join("round.jsonl"));
    assert!(round[0]["date"].is_string(), "{round:?}");
    let of = |step: &str| {
        round.iter().rev().find(|line| line["step"] == step).unwrap_or_else(|| panic!("{step}: {round:?}"))
    };
    // The machine, and two lines of each step: before and after.
    assert_eq!(round.len(), 9, "{round:?}");
    assert_eq!(of("cartpole-shared")["result"], "done", "{said}");
    assert_eq!(of("worlds")["result"], "done", "{said}");
    assert_eq!(of("jax-f32")["result"], "failed");
    assert!(of("jax-f32")["why"].as_str().is_some_and(|why| why.contains("no-such-python")), "{round:?}");
    assert!(said.contains("worlds: 45 s predicted, "), "{said}");

    let trained = &lines(&results.join("cartpole-shared.jsonl"))[0];
    assert_eq!((&trained["bench"], &trained["envs"]), (&"train".into(), &64.into()));
    assert!(trained["fraction_of_peak"].as_f64().is_some_and(|share| share > 0.0), "{trained}");
    let world = &lines(&results.join("worlds.jsonl"))[0];
    assert_eq!((&world["bench"], &world["bits_differ"]), (&"env".into(), &0.into()));
    let info = fs::read(results.join("info.json")).expect("the machine");
    let info: Value = serde_json::from_slice(&info).expect("one JSON object");
    assert!(info["gpus"][0]["name"].is_string(), "{info}");

    // A step that is predicted to take longer than what is left.
    let (_, said) = run(None, "cartpole-shared", "10");
    let round = lines(&results.join("round.jsonl"));
    assert_eq!((round.len(), &round[1]["result"]), (2, &"skipped".into()), "{said}");
}

#[test]
fn the_arguments_of_every_step_are_valid() {
    let Some(libraries) = crate::stand_in::directory("the steps of a GPU round") else { return };
    let place = tempfile::tempdir().expect("a directory");
    // A share without cases: every case is planned, and none is compiled.
    let mut command = script(place.path(), Some("ahead"));
    command.env("OPERANT_CUDA_LIBRARIES", &libraries).env("SHARE", "9/10");
    command.env("ONLY", "cartpole-shared cartpole-separate cartpole-many cartpole-128 gemm-128 gemm-conv gemm-embed gemm-mingru gemm-lstm gemm-pqn");
    let planned = command.output().expect("sh runs");
    assert!(planned.status.success() && planned.stderr.is_empty(), "{planned:?}");
    // Whole runs, on the CPU.
    for (step, steps) in [("overlap-off", 1_024), ("breakout_large", 4_096)] {
        let mut command = script(place.path(), Some(step));
        command.envs([("GPU", "cpu"), ("RUN_PRECISION", "f32")]);
        let output = command.output().expect("sh runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{stderr}"));
        assert_eq!(result["env_steps"], steps, "{result}");
    }
}
