//! `operant selftest` as a user runs it, with the host's stand-in for a GPU.

use std::process::{Command, Output};

use serde_json::Value;

fn selftest(args: &[&str], cuda_libraries: &std::path::Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_operant"));
    command.arg("selftest").args(args).env("OPERANT_CUDA_LIBRARIES", cuda_libraries);
    for (name, value) in crate::stand_in::environment(cuda_libraries) {
        command.env(name, value);
    }
    command.output().expect("operant starts")
}

#[test]
#[ignore = "cargo xtask test --all"]
fn the_gpu_test_passes_on_the_stand_in_and_writes_its_result() {
    let Some(libraries) = crate::stand_in::directory("the GPU's self-test") else { return };
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("gpu.json");
    let output =
        selftest(&["gpu", "--quick", "--gpu", "2", "--out", file.to_str().expect("text")], &libraries);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let value: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("the file")).expect("one JSON object");
    assert_eq!(value["passed"], true);
    assert_eq!(value["gpu"]["device"], "cuda:2");
    assert_eq!(value["kernels"]["failed"], 0, "processes that compile ahead");
    assert!(value["checks"].as_array().expect("checks").len() > 20);
    let learning = value["learning"].as_array().expect("learning");
    assert_eq!((&learning[0]["env"], &learning[0]["precision"]), (&"cartpole".into(), &"f32".into()));
    let number = |key: &str| learning[0][key].as_f64().is_some_and(|x| x > 0.0);
    assert!(number("eval_return_mean") && number("train_s"), "{learning:?}");
    assert_eq!(learning[0]["env_steps"], 1_024);
}

#[test]
fn without_a_gpu_the_error_has_what_where_and_remedy() {
    let nowhere = tempfile::tempdir().expect("a directory");
    let output = selftest(&["gpu", "--quick", "--gpu", "77"], nowhere.path());
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("where: selftest gpu --gpu 77") && stderr.contains("remedy: "), "{stderr}");
}

#[test]
#[ignore = "cargo xtask test --all"]
fn the_cpu_test_passes() {
    let nowhere = tempfile::tempdir().expect("a directory");
    let output = selftest(&["cpu", "--quick", "--json"], nowhere.path());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(value["passed"], true);
    assert!(value["gpu"].is_null());
    assert!(
        value["checks"]
            .as_array()
            .expect("checks")
            .iter()
            .any(|check| { check["check"].as_str().is_some_and(|name| name.contains("learned")) })
    );
}

#[test]
fn an_unwritable_file_is_detected_before_the_work() {
    let nowhere = tempfile::tempdir().expect("a directory");
    let missing = nowhere.path().join("missing/out.json");
    let output = selftest(&["cpu", "--out", missing.to_str().expect("text")], nowhere.path());
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&format!("--out {}", missing.display())) && !stderr.contains("cpu:"), "{stderr}");
}
