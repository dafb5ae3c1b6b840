//! Networks with convolutions: shown, trained, resumed, evaluated and exported; descriptions that do not fit are refused.

mod common;

use common::Place;

/// A run over MiniGrid's image, direction and mission.
const TRAIN: &[&str] = &[
    "train",
    "minigrid_fetch_5x5_n2",
    "--envs",
    "8",
    "--quiet",
    "--set",
    "conv=[[8, 3, 1], [5, 2, 2]]",
    "--set",
    "hidden=[16]",
    "--set",
    "num_steps=32",
    "--set",
    "anneal_lr=false",
    "--set",
    "eval_episodes=8",
    "--set",
    "ring=false",
];

fn train(place: &Place, args: &[&str]) -> serde_json::Value {
    let finished = place.operant(&[TRAIN, &["--json"], args].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished.json()
}

#[test]
fn a_network_with_convolutions_trains_resumes_and_is_exported() {
    let place = Place::new();
    train(&place, &["--name", "whole", "--steps", "2048", "--set", "threads=1"]);
    let first = train(&place, &["--name", "parts", "--steps", "1024", "--set", "threads=2"]);
    let resumed = place.operant(&["train", "--resume", "parts", "--steps", "2048", "--quiet", "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    assert_ne!(first["env_steps"], resumed.json()["env_steps"]);
    assert!(place.final_state("whole") == place.final_state("parts"));
    let evaluated = place.operant(&["eval", "parts", "--episodes", "8", "--json"]);
    assert_eq!(evaluated.json()["eval_return_mean"], resumed.json()["eval_return_mean"]);
    place
        .operant(&["train", "--resume", "parts", "--steps", "4096", "--set", "conv=[]"])
        .assert_error(2, &["conv = [] cannot resume", "where: --set"]);

    let exported = place.operant(&["export", "whole", "--onnx", "m.onnx", "--safetensors", "m.safetensors"]);
    assert_eq!(exported.code, Some(0), "{exported:#?}");
    let bytes = std::fs::read(place.path().join("m.safetensors")).expect("written");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).expect("JSON");
    assert_eq!(header["actor.conv.1.weight"]["shape"], serde_json::json!([5, 8, 2, 2]));
    let film = place.operant(&["play", "whole", "--record", "film.png", "--episodes", "1"]);
    assert_eq!(film.code, Some(0), "{film:#?}");
}

#[test]
fn the_network_is_shown_layer_by_layer() {
    let place = Place::new();
    let sets = ["--set", "conv=[[16, 3, 1]]", "--set", "hidden=[64]", "--set", "shared_trunk=true"];
    let shown = place.operant(&[&["config", "minatar_breakout"], &sets[..]].concat());
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let lines: Vec<Vec<&str>> = shown.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    for line in [
        "# Network 400-conv3/1(8x8x16)-64-(6+1):",
        "# layer shape parameters FLOP",
        "# trunk.conv.0 10x10x4 -> 8x8x16, 3x3, stride 1 592 73728",
        "# trunk.0 1024 -> 64 65600 131072",
        "# policy, value 64 -> 7 455 896",
        "# all 66647 205696",
    ] {
        assert!(lines.contains(&line.split_whitespace().collect()), "{line}: {}", shown.stdout);
    }
    assert!(
        shown.stdout.lines().take_while(|line| line.starts_with('#')).all(|line| line.chars().count() <= 80)
    );
}

#[test]
fn networks_that_do_not_fit_are_refused() {
    let place = Place::new();
    for (env, conv, parts) in [
        ("cartpole", "[[16, 3, 1]]", ["no part of the observation is an image", "4 reals"]),
        ("minatar_breakout", "[[16, 11, 1]]", ["kernel 11", "10x10x4 bits"]),
        ("minatar_breakout", "[[4, 9, 1], [4, 3, 1]]", ["convolution 1", "2x2x4"]),
        ("minatar_breakout", "[[16, 3]]", ["not [channels, kernel, stride]", "[[16, 3, 1]]"]),
        ("snake", "[[16, 3, 1]]", ["channels first", "2x11x11 bits"]),
        ("minatar_breakout", "16", ["not a list of convolutions", "[[16, 3, 1]]"]),
    ] {
        let set = format!("conv={conv}");
        for command in ["train", "config"] {
            let args = [command, env, "--set", &set];
            place.operant(&args).assert_error(2, &[parts[0], parts[1], "where: --set"]);
        }
    }
    assert!(!place.path().join("runs").exists());
}
