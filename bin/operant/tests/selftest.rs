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
    let speeds = value["speeds"].as_array().expect("speeds");
    assert!(speeds.iter().any(|row| row["bench"] == "rollout" && row["precision"] == "bf16"));
    assert!(speeds.iter().any(|row| row["bench"] == "train" && row["more"]["update_s"].is_number()));
    for row in speeds.iter().filter(|row| row["bench"] != "train") {
        assert_eq!(row["more"]["bus_bytes"], 0.0, "{row}");
        // A network outside the kernel takes launches for each of its layers.
        let fused = row["bench"] != "rollout" || row["more"]["weights_at"].is_string();
        assert!(!fused || row["more"]["launches"] == 1.0, "{row}");
    }
    for (precision, width) in [("f32", "64-64"), ("tf32", "64-64"), ("bf16", "128-128")] {
        let of = |row: &&Value| {
            row["bench"] == "train"
                && row["precision"] == precision
                && row["what"].as_str().is_some_and(|what| what.contains(width))
        };
        let row = speeds.iter().find(of).unwrap_or_else(|| panic!("no training in {precision}, {width}"));
        for key in ["sample_epochs_per_s", "rollout_s", "update_s", "launches"] {
            assert!(row["more"][key].as_f64().is_some_and(|x| x > 0.0), "{key}: {row}");
        }
        assert!(
            row["more"]["bus_bytes"].as_f64().is_some_and(|bytes| bytes > 0.0 && bytes <= 4096.0),
            "{row}"
        );
    }
    structure(&value);
    assert!(stderr.contains("goal: ") && stderr.contains("not judged"), "{stderr}");
}

/// The parts that start whole processes, in small sizes.
fn structure(value: &Value) {
    let number = |value: &Value| value.as_f64().is_some_and(|x| x > 0.0);
    let learning = value["learning"].as_array().expect("learning");
    assert_eq!((&learning[0]["env"], &learning[0]["precision"]), (&"cartpole".into(), &"f32".into()));
    assert!(number(&learning[0]["eval_return_mean"]) && number(&learning[0]["train_s"]), "{learning:?}");
    assert_eq!(learning[0]["env_steps"], 1_024);

    let telemetry = &value["telemetry"];
    for arm in ["no_ring", "ring", "ring_8_monitors"] {
        assert!(
            number(&telemetry[arm]["sps_median"]) && number(&telemetry[arm]["to_no_ring"]),
            "{telemetry}"
        );
    }
    assert!(number(&telemetry["monitor_lines"]), "monitors read: {telemetry}");

    let start = &value["solved_from_start"];
    assert!(number(&start["cold_s"]) && number(&start["warm_s_median"]), "{start}");
    assert_eq!(start["reduced"], true);

    // No NVML here: null, and why.
    let goal = value["speeds"].as_array().expect("speeds").iter().find(|row| row["more"]["gpu"].is_object());
    let gpu = &goal.expect("the goal's run was monitored")["more"]["gpu"];
    assert!(gpu["utilization"].is_number() || gpu["why"].is_string(), "{gpu}");

    let verdict = value["verdict"].as_array().expect("a verdict");
    let of = |part: &str| {
        let has = |row: &&Value| row["what"].as_str().is_some_and(|what| what.contains(part));
        verdict.iter().find(has).unwrap_or_else(|| panic!("no goal of {part} in {verdict:?}"))
    };
    for (part, goal) in
        [("in f32, steps", 200e6), ("in bf16, steps", 500e6), ("bytes", 4096.0), ("CartPole", 1.0)]
    {
        let row = of(part);
        assert_eq!(row["goal"], goal, "{row}");
        assert!(number(&row["measured"]), "{row}");
        assert!(row["reached"].is_null(), "small sizes are not compared with goals: {row}");
    }
    assert_eq!(of("utilization in bf16")["goal"], 0.9);
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
