//! Networks with convolutions and with memory: shown, trained, resumed, evaluated and exported; descriptions that do not fit are refused.

use crate::common::Sandbox;

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
    "lr_schedule=constant",
    "--set",
    "eval_episodes=8",
    "--set",
    "ring=false",
];

fn train(place: &Sandbox, args: &[&str]) -> serde_json::Value {
    let finished = place.operant(&[TRAIN, &["--json"], args].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished.json()
}

#[test]
fn a_network_with_convolutions_trains_resumes_and_is_exported() {
    let place = Sandbox::new();
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

/// A run in environments that need memory.
const REMEMBER: &[&str] = &[
    "train",
    "minigrid_memory_s7",
    "--envs",
    "16",
    "--quiet",
    "--set",
    "core=lstm",
    "--set",
    "core_layers=2",
    "--set",
    "hidden=[12]",
    "--set",
    "num_steps=32",
    "--set",
    "sequence_length=16",
    "--set",
    "lr_schedule=constant",
    "--set",
    "eval_episodes=8",
    "--set",
    "ring=false",
];

#[test]
fn a_network_with_memory_trains_resumes_and_is_played() {
    let place = Sandbox::new();
    let train = |args: &[&str]| {
        let finished = place.operant(&[REMEMBER, &["--json"], args].concat());
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        finished.json()
    };
    train(&["--name", "whole", "--steps", "2048", "--set", "threads=1"]);
    train(&["--name", "parts", "--steps", "1024", "--set", "threads=2"]);
    // The first part ended within episodes, which continue from the saved memory.
    let resumed = place.operant(&["train", "--resume", "parts", "--steps", "2048", "--quiet", "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    assert!(place.final_state("whole") == place.final_state("parts"));
    let evaluated = place.operant(&["eval", "parts", "--episodes", "8", "--json"]);
    assert_eq!(evaluated.json()["eval_return_mean"], resumed.json()["eval_return_mean"]);
    let played = place.operant(&["play", "whole", "--record", "film.png", "--episodes", "1"]);
    assert_eq!(played.code, Some(0), "{played:#?}");
    place
        .operant(&["train", "--resume", "parts", "--steps", "4096", "--set", "core=gru"])
        .assert_error(2, &["core = \"gru\" cannot resume", "where: --set"]);
    let exported = place.operant(&["export", "whole", "--onnx", "m.onnx", "--safetensors", "m.safetensors"]);
    assert_eq!(exported.code, Some(0), "{exported:#?}");
}

#[test]
fn memory_is_shown_and_measured() {
    let place = Sandbox::new();
    let sets = ["--set", "core=gru", "--set", "core_width=32", "--set", "shared_trunk=true"];
    let shown = place.operant(&[&["config", "cartpole"], &sets[..]].concat());
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let lines: Vec<Vec<&str>> = shown.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    for line in [
        "# Network 4-64-64-gru(32)-(2+1):",
        "# trunk.core.0 64 -> 32, gru 9408 18432",
        "# policy, value 32 -> 3 99 192",
    ] {
        assert!(lines.contains(&line.split_whitespace().collect()), "{line}: {}", shown.stdout);
    }
    let bench =
        ["bench", "train", "--env", "cartpole", "--envs", "64", "--threads", "1", "--budget", "1", "--json"];
    let measured =
        place.operant(&[&bench[..], &["--core", "mingru", "--hidden", "16", "--steps", "16"]].concat());
    assert_eq!(measured.code, Some(0), "{measured:#?}");
    // The 32 steps override the preset's sequence_length = 64.
    let preset = ["--env", "t_maze", "--core", "gru", "--steps", "32", "--hidden", "16"];
    let shorter = place.operant(&[&bench[..2], &preset[..], &bench[4..]].concat());
    assert_eq!(shorter.code, Some(0), "{shorter:#?}");
    assert!(
        measured.json()["work"].as_str().is_some_and(|work| work.contains("mingru(16)")),
        "{measured:#?}"
    );
}

/// `operant config` prints these lines of the network; a run and one that is resumed in its middle end in the same bits.
fn shown_trained_and_resumed(env: &str, sets: &[&str], lines: &[&str]) {
    let place = Sandbox::new();
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let shown = place.operant(&[&["config", env], &sets[..]].concat());
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let printed: Vec<_> = shown.stdout.lines().map(words).collect();
    for line in lines {
        assert!(printed.contains(&words(line)), "{line}: {}", shown.stdout);
    }
    let few = ["--envs", "8", "--quiet", "--set", "num_steps=32", "--set", "lr_schedule=constant"];
    let quiet = ["--set", "eval_episodes=8", "--set", "ring=false"];
    let train = [&["train", env], &few[..], &quiet, &sets].concat();
    for (name, steps) in [("whole", "2048"), ("parts", "1024")] {
        let finished = place.operant(&[&train[..], &["--name", name, "--steps", steps]].concat());
        assert_eq!(finished.code, Some(0), "{finished:#?}");
    }
    let resumed = place.operant(&["train", "--resume", "parts", "--steps", "2048", "--quiet"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    assert!(place.final_state("whole") == place.final_state("parts"));
}

#[test]
fn embeddings_are_shown_trained_and_resumed() {
    let sets = [
        "encoder=embed",
        "embed_width=8",
        "conv=[[16, 3, 1]]",
        "hidden=[24]",
        "layer_norm=true",
        "shared_trunk=true",
    ];
    let lines = [
        "# Network 984-embed(8)-conv3/1(5x5x16)-24n-(7+1):",
        "# trunk.embed 984 -> 400, 24 rows of 8 192 0",
        "# trunk.conv.0 7x7x8 -> 5x5x16, 3x3, stride 1 1168 57600",
        "# trunk.0.norm 24, normalised 48 0",
    ];
    shown_trained_and_resumed("minigrid_empty_8x8", &sets, &lines);
}

#[test]
fn residual_blocks_are_shown_trained_and_resumed() {
    let sets = ["residual_blocks=2", "hidden=[24, 16]", "layer_norm=true", "shared_trunk=true"];
    let lines = [
        "# Network 4-24n-16-residual(16)-residual(16)-(2+1):",
        "# trunk.1 24 -> 16 400 768",
        "# trunk.blocks.0 16 + (16, normalised -> 64 -> 16) 2160 4096",
        "# trunk.norm 16, normalised 32 0",
    ];
    shown_trained_and_resumed("cartpole", &sets, &lines);
    let place = Sandbox::new();
    let refused = place.operant(&["train", "prover", "--set", "residual_blocks=2"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("a pointer head does not support residual blocks"), "{refused:#?}");
}

#[test]
fn candidates_are_shown_trained_and_resumed() {
    let lines = [
        "# Network 22050-embed(16)-21x(64-64)-(20+1):",
        "# trunk.embed 22050 -> 3360, 105 rows of 16 1680 0",
        "# trunk.0 21 x (160 -> 64) 10304 430080",
        "# policy, value 64 -> 64, 20 dot products 4225 10880",
    ];
    shown_trained_and_resumed("prover", &[], &lines);
}

#[test]
fn the_network_is_shown_layer_by_layer() {
    let place = Sandbox::new();
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
    let place = Sandbox::new();
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
    for (env, sets, parts) in [
        ("cartpole", &["encoder=embed"][..], ["no part of the observation has indices", "4 reals"]),
        ("taxi", &["embed_width=64"], ["has no tables", "encoder = \"embed\""]),
        ("minatar_breakout", &["encoder=embed"], ["no part of the observation has indices", "10x10x4 bits"]),
        (
            "minigrid_empty_8x8",
            &["encoder=embed_sum", "conv=[[16, 3, 1]]"],
            ["the encoder pools the pixels", "image: 7x7x3 indices"],
        ),
    ] {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        for command in ["train", "config"] {
            let args = [&[command, env], &sets[..]].concat();
            place.operant(&args).assert_error(2, &[parts[0], parts[1], "where: --set"]);
        }
    }
    for (env, sets, parts) in [
        ("cartpole", &["pointer=true"][..], ["two parts, a state and its candidates", "4 reals"]),
        ("pendulum", &["pointer=true"], ["discrete actions, and these are real numbers", "observes 3 reals"]),
        (
            "minigrid_empty_8x8",
            &["pointer=true"],
            ["must list 7 candidates, one for each action", "image: 7x7x3 indices"],
        ),
        ("prover", &["pointer=true", "core=gru"], ["does not support a core", "successors: 20x10x3"]),
        ("prover", &["pointer=true", "encoder=embed_sum"], ["pool all candidates", "successors: 20x10x3"]),
    ] {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        for command in ["train", "config"] {
            let args = [&[command, env], &sets[..]].concat();
            place.operant(&args).assert_error(2, &[parts[0], parts[1], "where: --set"]);
        }
    }
    for (sets, parts) in [
        (&["sequence_length=32"][..], ["core = \"mlp\" has no memory", "mingru, gru or lstm"]),
        (&["core_width=32"], ["core = \"mlp\" has no memory", "core_width = 0"]),
        (&["core_layers=2"], ["core = \"mlp\" has no memory", "core_layers = 1"]),
        (&["core=rnn"], ["not one of the choices", "mlp, mingru, gru, lstm"]),
        (&["core=mingru", "core_width=32"], ["highway gate", "core_width = 0"]),
        (&["core=gru", "sequence_length=48"], ["48 does not divide num_steps", "divisor"]),
        (
            &["core=lstm", "sequence_length=64", "num_minibatches=32"],
            ["does not divide the 16 x 1 = 16 sequences of 64", "16"],
        ),
    ] {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        for command in ["train", "config"] {
            let args = [&[command, "cartpole"], &sets[..]].concat();
            place.operant(&args).assert_error(2, &[parts[0], parts[1], "where: --set"]);
        }
    }
    assert!(!place.path().join("runs").exists());
}
