//! `operant selftest` as a user runs it, with the host's stand-in for a GPU.

#[path = "../../../crates/operant-cuda/tests/support/stand_in.rs"]
mod stand_in;

use std::process::{Command, Output};

use serde_json::Value;

fn selftest(args: &[&str], cuda_libraries: &std::path::Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_operant"));
    command.arg("selftest").args(args).env("OPERANT_CUDA_LIBRARIES", cuda_libraries);
    for (name, value) in stand_in::environment(cuda_libraries) {
        command.env(name, value);
    }
    command.output().expect("operant starts")
}

#[test]
fn the_gpu_test_passes_on_the_stand_in_and_writes_what_it_found() {
    let Some(libraries) = stand_in::directory("the GPU's self-test") else { return };
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
    assert!(value["checks"].as_array().expect("checks").len() > 20);
    let speeds = value["speeds"].as_array().expect("speeds");
    assert!(speeds.iter().any(|row| row["bench"] == "rollout" && row["precision"] == "bf16"));
    assert!(speeds.iter().any(|row| row["bench"] == "train" && row["more"]["update_s"].is_number()));
    for row in speeds.iter().filter(|row| row["bench"] != "train") {
        assert_eq!(row["more"]["bus_bytes"], 0.0, "{row}");
        assert_eq!(row["more"]["launches"], 1.0, "{row}");
    }
}

#[test]
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
fn a_file_that_cannot_be_written_is_found_out_before_the_work() {
    let nowhere = tempfile::tempdir().expect("a directory");
    let output = selftest(&["cpu", "--out", "/no/such/directory/out.json"], nowhere.path());
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("--out /no/such/directory/out.json") && !stderr.contains("cpu:"), "{stderr}");
}
