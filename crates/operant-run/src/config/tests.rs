//! Layering, origins, suggestions, ranges, and the round trip through `operant config`.

use operant_env::EnvOptions;
use operant_learn::cpu::unit_for;
use operant_learn::cuda::Kernels;
use operant_learn::setting::{Kind, Need};
use operant_learn::{CoreKind, LrSchedule, Precision};

use super::*;
use crate::error::{Error, ErrorKind};

mod devices;

/// The preset of a built-in environment.
fn preset(name: &str) -> Option<String> {
    operant_env::builtin().find(name).expect("registered").spec().preset
}

/// A path that does not exist: the directory above it is removed again.
fn nowhere() -> PathBuf {
    tempfile::tempdir().expect("a temporary directory").path().join("nowhere")
}

fn facts() -> EnvFacts {
    let known = ["cartpole", "pendulum", "minatar_breakout"];
    let mut known: BTreeMap<String, String> =
        known.iter().map(|name| (name.to_string(), name.to_string())).collect();
    known.insert("CartPole-v1".into(), "cartpole".into());
    EnvFacts { name: "cartpole".into(), preset: preset("cartpole"), known, ..EnvFacts::default() }
}

fn with_files(user: &str, here: &str, line: &CommandLine, variables: &[(&str, &str)]) -> Result<Requested> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (user_path, here_path) = (dir.path().join("user.toml"), dir.path().join("operant.toml"));
    std::fs::write(&user_path, user).expect("written");
    std::fs::write(&here_path, here).expect("written");
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    layered(facts(), line, None, Some(&user_path), &here_path, variables)
}

fn set(assignments: &[&str]) -> CommandLine {
    CommandLine { set: assignments.iter().map(ToString::to_string).collect(), ..CommandLine::default() }
}

fn valid(assignments: &[&str]) -> Requested {
    with_files("", "", &set(assignments), &[]).expect("valid")
}

fn in_file(here: &str) -> Result<Requested> {
    with_files("", here, &CommandLine::default(), &[])
}

fn error_of(line: &CommandLine) -> Error {
    let error = with_files("", "", line, &[]).expect_err("this configuration must be refused");
    assert_eq!(error.kind, ErrorKind::Usage);
    assert_eq!(error.exit_code(), 2);
    assert!(error.remedy.is_some(), "{error} has no remedy");
    error
}

#[test]
fn every_layer_overrides_the_one_below() {
    let nothing = CommandLine::default();
    let preset = valid(&[]);
    assert_eq!(preset.origin("learning_rate"), Some(&Origin::Preset("cartpole".into())));
    assert_eq!(preset.origin("adam_eps"), Some(&Origin::Default));
    assert_eq!(preset.settings.run.solved_at, Some(475.0));

    let user = with_files("learning_rate = 0.1\ngamma = 0.5", "", &nothing, &[]).expect("valid");
    assert_eq!((user.settings.learner.learning_rate, user.settings.learner.gamma), (0.1, 0.5));

    let here = with_files("learning_rate = 0.1\ngamma = 0.5", "\nlearning_rate = 0.2", &nothing, &[])
        .expect("valid");
    assert_eq!((here.settings.learner.learning_rate, here.settings.learner.gamma), (0.2, 0.5));
    let Some(Origin::File(path, Some(2))) = here.origin("learning_rate") else {
        panic!("origin {:?}", here.origin("learning_rate"))
    };
    assert!(path.ends_with("operant.toml"));

    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("mine.toml");
    std::fs::write(&path, "learning_rate = 0.3").expect("written");
    let mut line = CommandLine { config: Some(path), ..CommandLine::default() };
    let config = with_files("", "learning_rate = 0.2", &line, &[]).expect("valid");
    assert_eq!(config.settings.learner.learning_rate, 0.3);

    let variable = with_files("", "", &line, &[("OPERANT_LEARNING_RATE", "0.4")]).expect("valid");
    assert_eq!(variable.settings.learner.learning_rate, 0.4);
    assert_eq!(
        variable.origin("learning_rate").map(ToString::to_string),
        Some("OPERANT_LEARNING_RATE".into())
    );

    line.set.push("learning_rate=0.5".into());
    let assigned = with_files("", "", &line, &[("OPERANT_LEARNING_RATE", "0.4")]).expect("valid");
    assert_eq!(assigned.settings.learner.learning_rate, 0.5);

    line.flags.push(("num_envs", "--envs", "64".into()));
    line.set.push("num_envs=32".into());
    let flag = with_files("", "", &line, &[("OPERANT_NUM_ENVS", "16")]).expect("valid");
    assert_eq!(flag.settings.learner.num_envs, 64);
    assert_eq!(flag.origin("num_envs"), Some(&Origin::Flag("--envs".into())));
}

#[test]
fn a_resumed_runs_configuration_overrides_all_but_flags() {
    let saved = layered(facts(), &set(&["learning_rate=0.05", "seed=9"]), None, None, &nowhere(), [])
        .expect("valid")
        .settings
        .to_saved_toml();
    let variables = [("OPERANT_LEARNING_RATE".into(), "0.4".into())];
    let line = set(&["gamma=0.7"]);
    let resumed = layered(facts(), &line, Some(("old", &saved)), None, &nowhere(), variables).expect("valid");
    assert_eq!(
        (
            resumed.settings.learner.learning_rate,
            resumed.settings.learner.gamma,
            resumed.settings.learner.seed
        ),
        (0.05, 0.7, 9)
    );
    resumed.resuming(&saved, "old").expect("fits");
    let resumed_trunk = resumed.settings.learner.shared_trunk;

    // A key that the run's version did not know has its default, whatever the preset of today says.
    let with_pointer = EnvFacts { preset: Some("pointer = true".into()), ..facts() };
    let resumed =
        layered(with_pointer, &set(&[]), Some(("old", "num_envs = 8")), None, &nowhere(), []).expect("valid");
    assert!(!resumed.settings.learner.pointer);
    resumed.resuming("num_envs = 8", "old").expect("it continues");

    // Files and variables added since the run began have no effect.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let here = dir.path().join("operant.toml");
    std::fs::write(&here, "solved_at = 7.0\n[env]\nlength = 2\n").expect("written");
    let bare = EnvFacts { preset: None, ..facts() };
    let saved_bare =
        layered(bare.clone(), &set(&[]), None, None, &nowhere(), []).expect("valid").settings.to_saved_toml();
    let resumed = layered(bare, &set(&[]), Some(("old", &saved_bare)), None, &here, []).expect("valid");
    assert!(
        resumed.settings.env_options.is_empty() && resumed.settings.run.solved_at.is_none(),
        "{resumed:?}"
    );

    // The other trunk than the preset's, whichever that is.
    let other_trunk = format!("shared_trunk={}", !resumed_trunk);
    for change in ["num_envs=64", "hidden=[32]", &other_trunk, "activation=relu", "seed=3"] {
        let line = set(&[change]);
        let changed =
            layered(facts(), &line, Some(("old", &saved)), None, &nowhere(), []).expect("valid alone");
        let error = changed.resuming(&saved, "old").expect_err(change);
        assert!(error.what.contains(change.split('=').next().expect("a key")), "{error}");
        assert_eq!(error.place.as_deref(), Some("--set"));
    }
}

#[test]
fn an_environments_table_overrides_its_file_for_that_environment_only() {
    let file = "[pendulum]\ngamma = 0.1\n[\"CartPole-v1\"]\ngamma = 0.2\n[CartPole-v1.env]\nlength = 2\n";
    let requested = in_file(&format!("gamma = 0.3\n{file}")).expect("valid");
    assert_eq!(requested.settings.learner.gamma, 0.2);
    assert_eq!(requested.settings.env_options.get("length"), Some(&2.0.into()));

    let error = in_file("[pendulun]\ngamma = 0.1").expect_err("no such table");
    assert!(error.what.contains("did you mean \"pendulum\""), "{error}");
    let error = in_file("[pendulum]\ngama = 0.1").expect_err("no such key");
    assert!(error.what.contains("did you mean \"gamma\""), "{error}");
    assert!(error.place.expect("a place").ends_with("operant.toml:2"));
    // A table of a world, whose name is known only where it is used: its keys are checked, and nothing of it applies.
    let file = "gamma = 0.3\n[treasure_hunt]\ngamma = 0.1\n";
    let requested = in_file(file).expect("it may be a world's");
    assert_eq!(requested.settings.learner.gamma, 0.3);
    let file = "[treasure_hunt]\ngama = 0.1";
    let error = in_file(file).expect_err("no such key");
    assert!(error.what.contains("did you mean \"gamma\""), "{error}");
    let known = EnvFacts { options: [("length".to_owned(), 10.0.into())].into(), ..facts() };
    let missing = &nowhere();
    let error = layered(known, &set(&["length=5"]), None, None, missing, []).expect_err("an option");
    assert!(error.to_string().contains("write env.length"), "{error}");
    let error = in_file("length = 5").expect_err("not a key");
    assert!(error.to_string().contains("are written env.NAME"), "{error}");
}

#[test]
fn environment_options_come_from_every_layer() {
    let line = set(&["env.sticky_action_prob=0.25"]);
    let requested =
        with_files("", "[env]\nramping = true\nsticky_action_prob = 0.5", &line, &[("OPERANT_ENV_A", "3")])
            .expect("valid");
    let expected = [("a", 3.0), ("ramping", 1.0), ("sticky_action_prob", 0.25)];
    let expected: EnvOptions = expected.map(|(name, x)| (name.to_string(), x.into())).into();
    assert_eq!(requested.settings.env_options, expected);
    let file = "[env]\nview = 'bits'\nkeys = ['a', 'b']";
    let words = with_files("", file, &set(&["env.file=a b.pl"]), &[]).expect("valid").settings;
    let expected = [("view", "bits"), ("keys", "a,b"), ("file", "a b.pl")];
    assert_eq!(words.env_options, EnvOptions::from(expected.map(|(name, x)| (name.into(), x.into()))));
    assert!(error_of(&set(&["env.ramping=[1]"])).what.contains("finite number or a word"));
}

#[test]
fn unknown_keys_name_their_place_and_the_nearest_key() {
    let error = error_of(&set(&["learning_rat=1"]));
    assert!(error.what.contains("did you mean \"learning_rate\""), "{error}");
    assert_eq!(error.place.as_deref(), Some("--set"));
    let error = with_files("\n\nepoch = 3", "", &CommandLine::default(), &[]).expect_err("no such key");
    assert!(error.place.expect("a place").ends_with("user.toml:3"));
    let error =
        with_files("", "", &CommandLine::default(), &[("OPERANT_SEDE", "1")]).expect_err("no such key");
    assert!(error.what.contains("did you mean \"OPERANT_SEED\""), "{error}");
    assert!(error_of(&set(&["seed"])).what.contains("assignment"));
}

#[test]
fn files_of_other_libraries_have_an_error_of_their_own() {
    let place = tempfile::tempdir().expect("a directory");
    let with = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).expect("written");
        CommandLine { config: Some(path), ..CommandLine::default() }
    };
    let error = error_of(&with("ppo.json", "{\"n_envs\": 8}"));
    assert!(error.what.contains("TOML") && error.remedy.expect("one").contains("learning_rate = 3e-4"));
    let error = error_of(&with("other.yml", "Acrobot-v1:\n  n_envs: 8\n"));
    assert!(
        error.place.expect("a place").ends_with("other.yml")
            && error.remedy.expect("one").contains("Acrobot-v1")
    );
    let error = error_of(&set(&["learning_rate=lin_0.001"]));
    assert!(error.remedy.expect("one").contains("learning_rate=0.001 and lr_schedule=linear"));
    // Settings of a file of RL Baselines3 Zoo are below flags, as those of every file.
    let mut line = with("ppo.yml", "CartPole-v1:\n  n_envs: 8\n  n_steps: 64\n  frame_stack: 4\n");
    line.flags.push(("num_steps", "--set", "32".to_owned()));
    let settings = with_files("", "", &line, &[]).expect("valid").settings;
    assert!(settings.to_toml(true).contains("ppo.yml: frame_stack: 4 has no counterpart"));
    assert_eq!((settings.learner.num_envs, settings.learner.num_steps), (8, 32));
    assert!(settings.untranslated[0].ends_with("ppo.yml: frame_stack: 4"), "{:?}", settings.untranslated);
}

#[test]
fn a_key_has_the_name_of_earlier_versions_too_but_not_both_at_once() {
    let given = |line: &CommandLine| with_files("", "", line, &[]).map(|it| it.settings.learner.lr_schedule);
    assert_eq!(given(&set(&["anneal_lr=false"])).expect("valid"), LrSchedule::Constant);
    assert_eq!(given(&set(&["anneal_lr=true"])).expect("valid"), LrSchedule::Linear);
    let set_in = |text: &str, variables: &[(&str, &str)]| {
        with_files(text, "", &CommandLine::default(), variables).map(|it| it.settings.learner.lr_schedule)
    };
    assert_eq!(set_in("anneal_lr = false", &[]).expect("valid"), LrSchedule::Constant);
    let both = [("OPERANT_ANNEAL_LR", "false"), ("OPERANT_LR_SCHEDULE", "kl")];
    assert_eq!(set_in("", &both[..1]).expect("valid"), LrSchedule::Constant);
    // A higher layer overrides a lower one by either name.
    assert_eq!(set_in("lr_schedule = \"kl\"", &both[..1]).expect("valid"), LrSchedule::Constant);
    for error in [
        set_in("anneal_lr = false\nlr_schedule = \"kl\"", &[]).expect_err("both"),
        set_in("", &both).expect_err("both"),
        given(&set(&["anneal_lr=false", "lr_schedule=kl"])).expect_err("both"),
    ] {
        assert!(error.what.contains("lr_schedule is given twice"), "{error}");
        assert!(error.place.is_some() && error.remedy.expect("one") == "remove anneal_lr");
    }
}

#[test]
fn values_out_of_range_are_refused() {
    let refused: &[(&str, &[&str])] = &[
        ("num_envs", &["0", "-1", "many", "1.5"]),
        ("num_steps", &["0"]),
        ("num_minibatches", &["0"]),
        ("learning_rate", &["nan", "-0.1", "inf", "0", "big"]),
        ("gamma", &["1.01", "-0.1", "nan"]),
        ("gae_lambda", &["2"]),
        ("clip_coef", &["0", "-1"]),
        ("hidden", &["[64, 0]", "[]", "wide"]),
        ("conv", &["16", "[[16, 3]]", "[[16, 3, 0]]", "[[16, 100, 1]]", "[[0, 3, 1], [16, 3, 1]]"]),
        ("activation", &["sigmoid"]),
        ("lr_schedule", &["1", "cosine"]),
        ("update_epochs", &["0"]),
        ("max_grad_norm", &["0"]),
        ("total_timesteps", &["0"]),
        ("seed", &["-1"]),
        ("eval_episodes", &["0"]),
        ("device", &["gpu", "cuda:", "cuda:x", "cuda0", "cuda:-1", "cuda:99999999999999999999"]),
        ("precision", &["f16"]),
        ("name", &["../x", ""]),
        ("adam_beta1", &["1.0"]),
        ("threads", &["-2"]),
        ("solved_at", &["nan"]),
    ];
    for (key, values) in refused {
        for value in *values {
            let bad = format!("{key}={value}");
            let error = error_of(&set(&[&bad]));
            assert!(error.what.contains(key), "{bad}: {error}");
            assert_eq!(error.place.as_deref(), Some("--set"), "{bad}: {error}");
        }
    }
}

#[test]
fn values_without_effect_are_named() {
    let warned =
        |line: &[&str]| with_files("", "", &set(line), &[]).expect("valid").settings.without_effect();
    let cases: [(&[&str], &str); 9] = [
        (&["desired_kl=0.02"], "desired_kl = 0.02 has no effect with lr_schedule = \"linear\""),
        (&["huber_delta=2"], "huber_delta = 2.0 has no effect with value_loss = \"mse\""),
        (&["muon_momentum=0.9"], "muon_momentum = 0.9 has no effect with optimizer = \"adam\""),
        (&["intrinsic_coef=1"], "intrinsic_coef = 1.0 has no effect with intrinsic = \"none\""),
        (&["norm_reward=false", "clip_reward=5"], "clip_reward = 5.0 has no effect with norm_reward = false"),
        (&["prio_beta0=0.5", "prio_alpha=0"], "prio_beta0 = 0.5 has no effect with prio_alpha = 0.0"),
        (&["pool_latest=1"], "pool_latest = 1.0 has no effect with no opponent"),
        (&["value_min=-5"], "value_min = -5.0 has no effect with value_bins = 1"),
        (
            &["algorithm=dqn", "priority_exponent=0", "priority_beta=1"],
            "priority_beta = 1.0 has no effect with priority_exponent = 0.0",
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(warned(line), [expected], "{line:?}");
    }
    let meant: [&[&str]; 4] = [
        &["lr_schedule=kl", "desired_kl=0.02"],
        &["intrinsic=counts", "intrinsic_coef=1"],
        &["algorithm=dqn", "priority_exponent=0.6", "priority_beta=1"],
        // The default, as a run's own file has it.
        &["desired_kl=0.01"],
    ];
    for line in meant {
        assert!(warned(line).is_empty(), "{line:?}: {:?}", warned(line));
    }
    for Need { other, value, .. } in keys().filter_map(|key| key.needs) {
        let key = keys().find(|key| key.name == other).expect("a setting");
        if let Kind::Choice { words, .. } = key.kind {
            assert!(words.contains(&value), "{other} = {value}");
        }
    }
}

#[test]
fn a_configuration_may_request_a_gpu_that_this_machine_lacks() {
    for (device, ordinal) in [("cuda", 0), ("cuda:0", 0), ("cuda:7", 7)] {
        let line = set(&[&format!("device={device}"), "precision=bf16"]);
        let requested = with_files("", "", &line, &[]).expect("valid");
        let gpu = DeviceRequest::Only(DeviceName::Cuda(ordinal));
        assert_eq!(
            (&requested.settings.run.device, requested.settings.run.precision),
            (&gpu, Precision::Bf16)
        );
        assert_eq!(requested.value("device").and_then(|value| value.as_str()), Some(device));
    }
    assert!(with_files("", "", &set(&["precision=tf32"]), &[]).is_ok(), "auto may find one");
    let error = error_of(&set(&["device=cpu", "precision=tf32"]));
    assert!(error.what.contains("precision = \"tf32\" needs a GPU"), "{error}");
    assert_eq!(error.place.as_deref(), Some("--set"));
}

#[test]
fn minibatches_that_do_not_divide_are_refused_with_the_nearest_that_do() {
    let error = error_of(&set(&["num_envs=10", "num_steps=10", "num_minibatches=7"]));
    assert!(error.what.contains("10 x 10 = 100"), "{error}");
    assert!(error.remedy.as_deref().is_some_and(|remedy| remedy.contains("5 and 10")), "{error}");
    let error = error_of(&set(&["num_envs=2", "num_steps=2", "num_minibatches=1000000000"]));
    assert!(error.remedy.as_deref().is_some_and(|remedy| remedy.ends_with(": 4")), "{error}");
}

#[test]
fn minibatches_of_one_sample_are_refused_where_their_advantage_would_be_0() {
    let single = ["num_envs=2", "num_steps=8", "num_minibatches=16"];
    let error = error_of(&set(&single));
    assert!(error.what.contains("one sample") && error.place.as_deref() == Some("--set"), "{error}");
    valid(&[&single[..], &["norm_adv=false"]].concat());
    valid(&[&single[..2], &["num_minibatches=8"]].concat());
}

#[test]
fn batches_beyond_any_memory_are_refused() {
    let error = error_of(&set(&["num_envs=4194304", "num_steps=1048576"]));
    assert!(error.what.contains("too many"), "{error}");
}

#[test]
fn lenient_spellings_are_accepted() {
    let line = set(&["total_timesteps=2e5", "gamma=1", "hidden=32,16", "activation=relu", "num_envs=1_6"]);
    let requested = with_files("", "", &line, &[("OPERANT_HIDDEN", "8")]).expect("valid");
    assert_eq!(requested.settings.learner.total_timesteps, 200_000);
    assert_eq!((requested.settings.learner.gamma, requested.settings.learner.num_envs), (1.0, 16));
    assert_eq!(requested.settings.learner.hidden, [32, 16]);
    for one in ["conv=[16, 3, 1]", "conv=[[16,3,1]]"] {
        let conv = valid(&[one]).settings.learner.conv;
        assert_eq!(conv, [[16, 3, 1]]);
    }
}

#[test]
fn the_shown_configuration_reads_back_as_itself() {
    let line = set(&[
        "learning_rate=0.1",
        "hidden=[3, 5]",
        "env.sticky_action_prob=0.1",
        "log_std_init=-1e-7",
        "name=x",
    ]);
    let requested = with_files("", "gamma = 0.123456789012345678", &line, &[]).expect("valid");
    let shown = requested.to_toml(true);
    assert!(shown.contains("learning_rate = 0.1"), "{shown}");
    assert!(shown.contains("# preset cartpole"), "{shown}");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("shown.toml");
    std::fs::write(&path, &shown).expect("written");
    let line = CommandLine { config: Some(path), ..CommandLine::default() };
    let again = with_files("", "", &line, &[]).expect("valid");
    assert_eq!(
        (&again.settings.learner, &again.settings.run),
        (&requested.settings.learner, &requested.settings.run)
    );
    assert_eq!(again.settings.env_options, requested.settings.env_options);
    assert_eq!(environment_of(&shown.parse().expect("TOML")).as_deref(), Some("cartpole"));

    let elsewhere = EnvFacts { name: "pendulum".into(), preset: preset("pendulum"), ..facts() };
    let error = layered(elsewhere, &line, None, None, &nowhere(), []).expect_err("wrong environment");
    assert!(error.what.contains("a configuration of cartpole"), "{error}");
}

#[test]
fn broken_files_are_refused_with_their_line() {
    let error = in_file("seed = 1\nlearning_rate = ").expect_err("truncated");
    assert!(error.what.contains("not valid TOML"), "{error}");
    assert!(error.place.expect("a place").ends_with("operant.toml:2"));
    let line = CommandLine { config: Some(nowhere()), ..CommandLine::default() };
    assert_eq!(error_of(&line).place.as_deref(), line.config.as_deref().and_then(Path::to_str));
}

/// The environments whose presets have no `solved_at`.
const WITHOUT_THRESHOLD: [&str; 23] = [
    "blackjack",
    "breakout_large",
    "capture_the_flag",
    "connect_four",
    "craftax_classic",
    "game_2048",
    "go_9x9",
    "hex",
    "kuhn_poker",
    "leduc_poker",
    "minatar_asterix",
    "minatar_asterix_minimal",
    "minatar_seaquest",
    "minatar_space_invaders",
    "minatar_space_invaders_minimal",
    "mountain_car_no_velocity",
    "othello",
    "pendulum_no_velocity",
    "prover",
    "quadrotor_hover",
    "quadrotor_lemniscate",
    "snake",
    "two_player_pong",
];

/// Of MiniGrid's tasks nine have a measured threshold.
fn is_without_threshold(name: &str) -> bool {
    let measured = [
        "minigrid_empty_random_5x5",
        "minigrid_doorkey_5x5",
        "minigrid_memory_s7",
        "minigrid_doorkey_16x16",
        "minigrid_fourrooms",
        "minigrid_keycorridor_s3r2",
        "minigrid_keycorridor_s3r3",
        "minigrid_multiroom_n4_s5",
        "minigrid_obstructedmaze_1dl",
    ];
    WITHOUT_THRESHOLD.contains(&name) || name.starts_with("minigrid_") && !measured.contains(&name)
}

#[test]
fn every_preset_is_valid_for_its_environment_on_every_device() {
    let registry = operant_env::builtin();
    for spec in registry.specs() {
        let name = spec.name.as_str();
        let preset = &EnvFacts::of(&spec, &registry).preset.expect("a preset, or that of the base");
        for device in ["cpu", "auto", "cuda"] {
            let facts = EnvFacts { name: name.to_string(), preset: Some(preset.clone()), ..facts() };
            let line = set(&[&format!("device={device}")]);
            let requested = layered(facts, &line, None, None, &nowhere(), []).expect(name);
            let is_measured =
                (spec.family != "bodies" || name == "inverted_pendulum") && !is_without_threshold(name);
            assert_eq!(requested.settings.run.solved_at.is_some(), is_measured, "{name}");
            let on_gpu = requested.on_gpu().expect("valid");
            let has_gpu = operant_learn::presets::has_gpu(preset);
            assert_eq!(requested.has_gpu_preset(), has_gpu, "{name}");
            assert_eq!(
                requested.settings.uses_gpu_preset(),
                has_gpu && device == "cuda",
                "{name} on {device}"
            );
            assert!(!has_gpu || on_gpu.settings.learner.num_envs >= 1024, "{name}");
        }
    }
}

#[test]
fn a_preset_s_memory_does_not_apply_without_a_core() {
    let facts = || EnvFacts { name: "t_maze".into(), preset: preset("t_maze"), ..facts() };
    let of = |line: &CommandLine| layered(facts(), line, None, None, &nowhere(), []);
    let without = of(&set(&["core=mlp"])).expect("valid").settings.learner;
    assert_eq!((without.core, without.sequence_length), (CoreKind::Mlp, 0));
    let other = of(&set(&["core=gru"])).expect("valid").settings.learner;
    assert_eq!((other.core, other.sequence_length), (CoreKind::Gru, 64));
    // What the user sets is theirs, and the network's description refuses it.
    let asked = of(&set(&["core=mlp", "sequence_length=32"])).expect("valid").settings.learner;
    assert_eq!(asked.sequence_length, 32);
}

#[test]
fn a_preset_s_embed_width_does_not_apply_without_tables() {
    let name = "minigrid_obstructedmaze_1dl";
    let facts = || EnvFacts { name: name.into(), preset: preset(name), ..facts() };
    let of = |line: &CommandLine| layered(facts(), line, None, None, &nowhere(), []);
    let width = |line: &[&str]| of(&set(line)).expect("valid").settings.learner.embed_width;
    assert_eq!([width(&[]), width(&["encoder=embed_sum"]), width(&["encoder=auto"])], [8, 8, 16]);
    assert_eq!(width(&["encoder=auto", "embed_width=32"]), 32);
}

#[test]
fn a_preset_from_outside_the_program_sets_hyperparameters_and_thresholds() {
    let of = |preset: &str, is_foreign| {
        let facts = EnvFacts { preset: Some(preset.into()), is_foreign, ..facts() };
        layered(facts, &CommandLine::default(), None, None, &nowhere(), [])
    };
    let fits = "gamma = 0.5\nsolved_at = 1.0\neval_interval = 2\neval_episodes = 3\n[gpu]\nnum_envs = 64\n";
    assert_eq!(of(fits, true).expect("valid").settings.learner.gamma, 0.5);
    for key in ["run_dir", "cache_dir", "name", "device"] {
        for preset in [format!("{key} = \"cpu\""), format!("[cartpole]\n{key} = \"cpu\"")] {
            let error = of(&preset, true).expect_err("refused");
            assert!(error.what.contains(&format!("preset sets {key},")), "{error}");
            assert!(error.place.is_some_and(|place| place.contains("cartpole")) && error.remedy.is_some());
            of(&preset, false).expect("the program's own");
        }
    }
    for preset in ["ring_group = true", "[gpu]\nthreads = 4096", "csv = false"] {
        of(preset, true).expect_err(preset);
    }
}

#[test]
fn the_configuration_of_a_resumed_run_names_no_directories() {
    for text in [
        "run_dir = \"there\"\ncache_dir = \"there\"\ngamma = 0.5",
        "gamma = 0.5\n[cartpole]\nrun_dir = \"there\"",
    ] {
        let settings =
            layered(facts(), &CommandLine::default(), Some(("theirs", text)), None, &nowhere(), []);
        let settings = settings.expect("valid").settings;
        assert_eq!((settings.run.run_dir, settings.run.cache_dir), ("runs".into(), None));
        assert_eq!(settings.learner.gamma, 0.5);
    }
}

#[test]
fn the_gpu_table_overrides_the_preset_and_nothing_else() {
    let table = Origin::PresetGpu("cartpole".into());
    assert_eq!(table.to_string(), "preset cartpole [gpu]");
    let on_cpu = valid(&["device=cpu"]);
    assert_eq!(on_cpu.origin("num_envs"), Some(&Origin::Preset("cartpole".into())));

    // Each way to request a GPU applies it, and changes nothing else of the preset.
    let nothing = CommandLine::default();
    let flag = CommandLine { flags: vec![("device", "--device", "cuda:1".into())], ..nothing.clone() };
    let by_variable = [("OPERANT_DEVICE", "cuda")];
    for requested in [
        with_files("", "", &set(&["device=cuda"]), &[]),
        with_files("device = \"cuda\"", "", &nothing, &[]),
        in_file("[cartpole]\ndevice = \"cuda:0\""),
        with_files("", "", &nothing, &by_variable),
        with_files("device = \"cpu\"", "", &flag, &by_variable),
    ] {
        let requested = requested.expect("valid");
        assert_eq!(requested.origin("num_envs"), Some(&table));
        assert_eq!(requested.origin("gamma"), Some(&Origin::Preset("cartpole".into())));
        assert_eq!(requested.origin("adam_eps"), Some(&Origin::Default));
        assert!(requested.to_toml(true).contains("# preset cartpole [gpu]"), "{}", requested.to_toml(true));
        assert_ne!(requested.settings.learner, on_cpu.settings.learner);
    }
    let overruled = with_files("device = \"cuda\"", "", &flag, &[("OPERANT_DEVICE", "cpu")]).expect("valid");
    assert_eq!(overruled.origin("num_envs"), Some(&table));
    let cpu = with_files("device = \"cuda\"", "", &nothing, &[("OPERANT_DEVICE", "cpu")]).expect("valid");
    assert_eq!(cpu.settings.learner, on_cpu.settings.learner);

    for user in ["num_envs = 64", "[cartpole]\nnum_envs = 64"] {
        let requested = with_files("", user, &set(&["device=cuda"]), &[]).expect("valid");
        assert_eq!(requested.settings.learner.num_envs, 64);
        assert_eq!(requested.origin("num_steps"), Some(&table));
    }
}

#[test]
fn an_unknown_key_in_the_gpu_table_is_refused() {
    let mut layers = Layers::new(EnvFacts { name: "bare".into(), preset: None, ..facts() }).expect("valid");
    let error = layers.preset("gamma = 0.5\n[gpu]\nnum_env = 4096\n", "bare").expect_err("no such key");
    assert!(error.what.contains("did you mean \"num_envs\""), "{error}");
    assert_eq!(error.place.as_deref(), Some("preset bare [gpu]"));
    let error = layers.preset("[gpu]\nnum_envs = 0\n", "bare").expect_err("out of range");
    assert!(error.what.contains("num_envs = 0 is too small"), "{error}");
}

#[test]
fn a_resumed_run_keeps_its_own_configuration_on_any_device() {
    let saved = valid(&["device=cpu"]).settings.to_saved_toml();
    for device in ["cuda", "auto"] {
        let line = set(&[&format!("device={device}")]);
        let resumed = layered(facts(), &line, Some(("old", &saved)), None, &nowhere(), [])
            .and_then(|requested| requested.on_gpu())
            .expect("valid");
        assert_eq!(resumed.origin("num_envs"), Some(&Origin::Resumed("old".into())));
        assert!(!resumed.settings.uses_gpu_preset());
        resumed.resuming(&saved, "old").expect("it continues");
    }
}

#[test]
fn auto_accepts_values_that_fit_one_device_only() {
    // 2,048 minibatches divide the batch of thousands of environments, and not that of a few.
    let requested = with_files("", "", &set(&["num_minibatches=2048"]), &[]).expect("a GPU takes it");
    assert_eq!(requested.on_gpu().expect("valid").settings.learner.num_minibatches, 2048);
    assert!(requested.resolve(None).is_err());
    assert!(with_files("", "", &set(&["num_minibatches=2048", "device=cpu"]), &[]).is_err());
    assert!(with_files("", "", &set(&["num_minibatches=1009"]), &[]).is_err(), "neither takes it");
}

#[test]
fn the_users_file_follows_xdg() {
    let home = |name: &str| (name == "HOME").then(|| OsString::from("/home/u"));
    assert_eq!(user_file(home), Some("/home/u/.config/operant/operant.toml".into()));
    let xdg = |name: &str| Some(OsString::from(if name == "HOME" { "/home/u" } else { "/etc/x" }));
    assert_eq!(user_file(xdg), Some("/etc/x/operant/operant.toml".into()));
}

#[test]
fn the_file_in_the_run_directory_overrides_the_working_directorys() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (here, runs) = (dir.path().join("operant.toml"), dir.path().join("runs"));
    std::fs::create_dir(&runs).expect("created");
    let runs_file = runs.join("operant.toml");
    std::fs::write(&here, format!("run_dir = {:?}\nseed = 1\nnum_steps = 32\n", runs)).expect("written");
    std::fs::write(&runs_file, "seed = 2\n").expect("written");
    let with = |line: &CommandLine| layered(facts(), line, None, None, &here, []);
    let requested = with(&CommandLine::default()).expect("valid");
    assert_eq!((requested.settings.learner.seed, requested.settings.learner.num_steps), (2, 32));
    assert_eq!(requested.origin("seed"), Some(&Origin::File(runs_file.clone(), Some(1))));
    assert_eq!(with(&set(&["seed=3"])).expect("valid").settings.learner.seed, 3);
    std::fs::write(&runs_file, "seed = 2\nrun_dir = \"elsewhere\"\n").expect("written");
    let error = with(&CommandLine::default()).expect_err("it would not be found there");
    assert!(error.what.contains("run_dir cannot be set by a file that is found through it"), "{error}");
    // If the runs are in the working directory itself, there is one file.
    let line = set(&[&format!("run_dir={}", dir.path().display())]);
    assert_eq!(with(&line).expect("valid").settings.learner.seed, 1);
}

#[test]
fn only_available_sizes_are_accepted() {
    for (key, good, bad) in [("rollout_tile", ["0", "16", "64"], "48"), ("lane_width", ["0", "8", "16"], "4")]
    {
        for value in good {
            assert!(with_files("", "", &set(&[&format!("{key}={value}")]), &[]).is_ok(), "{key}={value}");
        }
        for value in [bad, "-8", "16.5", "wide"] {
            let error = error_of(&set(&[&format!("{key}={value}")]));
            assert!(
                error.remedy.is_some_and(|remedy| remedy.starts_with("give 0 for the plan's")),
                "{value}"
            );
        }
    }
}

#[test]
fn machine_settings_have_keys_a_flag_and_two_variables() {
    let nothing = CommandLine::default();
    let default = valid(&[]);
    assert!(default.settings.run.optimize_perf && !default.settings.run.pin);
    assert_eq!((default.settings.run.threads, default.settings.run.waiting), (0, WaitingRequest::Auto));

    let off = |requested: Result<Requested>, origin: &str| {
        let requested = requested.expect("valid");
        assert!(!requested.settings.run.optimize_perf);
        assert_eq!(requested.origin("optimize_perf").map(ToString::to_string).as_deref(), Some(origin));
    };
    let (short, full) = ("OPTIMIZE_PERF", "OPERANT_OPTIMIZE_PERF");
    off(with_files("", "optimize_perf = true", &nothing, &[(short, "false")]), short);
    off(with_files("", "", &nothing, &[(full, "false")]), full);
    // In either order of the variables.
    off(with_files("", "", &nothing, &[(short, "true"), (full, "false")]), full);
    off(with_files("", "", &nothing, &[(full, "false"), (short, "true")]), full);
    let flag = ("optimize_perf", "--optimize-perf", "false".to_string());
    let line = CommandLine { flags: vec![flag], ..nothing.clone() };
    off(with_files("", "", &line, &[(short, "true"), (full, "true")]), "--optimize-perf");
    off(with_files("", "", &set(&["optimize_perf=false"]), &[(short, "")]), "--set");
    let error = with_files("", "", &nothing, &[(short, "no")]).expect_err("no switch");
    assert_eq!(error.place.as_deref(), Some(short));
    assert!(error.what.contains("neither true nor false"), "{error}");

    for waiting in WaitingRequest::ALL {
        let line = set(&[&format!("waiting={waiting}"), "pin=true"]);
        let requested = with_files("", "", &line, &[]).expect("valid");
        assert!(requested.settings.run.pin && requested.settings.run.waiting == waiting);
    }
    assert!(error_of(&set(&["waiting=park"])).remedy.expect("a remedy").contains("auto, spin, yield, sleep"));
    assert!(error_of(&set(&["pin=2"])).what.contains("neither true nor false"));
    assert!(error_of(&set(&["optimise_perf=true"])).what.contains("did you mean \"optimize_perf\""));
}

#[test]
fn a_variable_is_a_key_or_one_that_something_else_reads() {
    for name in ["OPERANT_ISA", "OPERANT_CACHE_DIR", "OPERANT_RING_DIR"] {
        assert!(with_files("", "", &CommandLine::default(), &[(name, "v3")]).is_ok(), "{name}");
    }
    let error = with_files("", "", &CommandLine::default(), &[("OPERANT_THREAD", "2")]).expect_err("no key");
    assert!(error.what.contains("did you mean \"OPERANT_THREADS\""), "{error}");
}

#[test]
fn every_choice_reads_back_as_written() {
    for kernels in Kernels::ALL {
        let requested = valid(&[&format!("kernels={kernels}")]);
        assert_eq!(requested.settings.run.kernels, kernels);
        assert!(requested.to_toml(false).contains(&format!("\nkernels = \"{kernels}\"\n")));
    }
    assert!(error_of(&set(&["kernels=cublas"])).remedy.expect("a remedy").contains("auto, fused, gemm"));
    // The word of earlier versions.
    let requested = with_files("", "kernels = \"layers\"", &set(&[]), &[]).expect("still read");
    assert_eq!(requested.settings.run.kernels, Kernels::Gemm);
    assert!(requested.to_toml(false).contains("\nkernels = \"gemm\"\n"));
    for device in ["auto", "cpu", "cuda:3", "cuda:1,cuda:0,cpu"] {
        assert_eq!(device.parse::<DeviceRequest>().map(|device| device.to_string()).as_deref(), Ok(device));
    }
}

#[test]
fn every_key_has_one_name_one_flag_and_a_meaning() {
    let mut names: Vec<&str> = keys().map(|key| key.name).collect();
    let mut flags: Vec<&str> = keys().filter_map(|key| key.flag).map(|flag| flag.name()).collect();
    assert!(keys().all(|key| key.meaning().len() > 5) && flags.iter().all(|flag| flag.starts_with("--")));
    for list in [&mut names, &mut flags] {
        let all = list.len();
        list.sort_unstable();
        list.dedup();
        assert_eq!(list.len(), all);
    }
}

#[test]
fn settings_of_a_pool_are_shown_where_one_plays_or_they_are_set() {
    let shown = |assignments: &[&str]| {
        let requested = valid(assignments);
        let keys = ["pool_size", "pool_sampling"];
        keys.map(|key| requested.settings.to_toml(false).contains(&format!("\n{key} = ")))
    };
    assert_eq!(shown(&[]), [false, false]);
    assert_eq!(shown(&["opponent=random"]), [false, false]);
    assert_eq!(shown(&["opponent=pool"]), [true, true]);
    assert_eq!(shown(&["pool_size=3"]), [true, false]);
}
