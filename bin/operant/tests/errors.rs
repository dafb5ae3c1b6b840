//! Invalid input gives one clear error with its location and remedy and the right exit code, and changes nothing.

use crate::common::{SMALL, Sandbox};
use crate::terminal::Terminal;

/// A short run with several checkpoints.
const SHORT: &[&str] = &["--set", "total_timesteps=1280", "--set", "checkpoint_interval=2", "--quiet"];

fn trained(place: &Sandbox, env: &str, name: &str) {
    let mut args = vec!["train", env, "--name", name];
    args.extend([SMALL, SHORT].concat());
    let finished = place.operant(&args);
    assert_eq!(finished.code, Some(0), "{finished:#?}");
}

#[test]
fn names_are_suggested() {
    let place = Sandbox::new();
    place.operant(&["train", "cartpol"]).assert_error(2, &["\"cartpol\"", "did you mean \"cartpole\"?"]);
    place.operant(&["config", "CartPole-v0"]).assert_error(2, &["did you mean \"CartPole-v1\"?"]);
    place
        .operant(&["train", "cartpole", "--set", "learning_rat=1"])
        .assert_error(2, &["did you mean \"learning_rate\"?", "where: --set"]);
    place.operant(&["train", "cartpole", "--set", "lr=1"]).assert_error(2, &["it is \"learning_rate\" here"]);
    assert!(!place.path().join("runs").exists(), "nothing was trained");
}

#[test]
fn a_setting_without_effect_is_named_at_the_start() {
    let place = Sandbox::new();
    let with = |more: &[&str]| {
        let started = place
            .operant(&[&["train", "cartpole"], SMALL, SHORT, &["--set", "desired_kl=0.02"], more].concat());
        assert_eq!(started.code, Some(0), "{started:#?}");
        started.stderr
    };
    let warning = "warning: desired_kl = 0.02 has no effect with lr_schedule = \"linear\"";
    let stderr = with(&["--set", "lr_schedule=linear"]);
    assert!(stderr.contains(warning), "{stderr}");
    let stderr = with(&["--set", "lr_schedule=kl"]);
    assert!(!stderr.contains("no effect"), "{stderr}");
}

#[test]
fn a_program_of_another_name_gives_commands_with_its_own() {
    let place = Sandbox::new();
    let renamed = place.path().join("learner");
    std::os::unix::fs::symlink(place.command(&[]).get_program(), &renamed).expect("linked");
    let said = |args: &[&str]| {
        let output = std::process::Command::new(&renamed).args(args).current_dir(place.path()).output();
        String::from_utf8(output.expect("started").stderr).expect("UTF-8")
    };
    let unknown = said(&["eval", "nothing"]);
    assert!(unknown.contains("`learner train ENV`") && !unknown.contains("operant"), "{unknown}");
    let elsewhere = said(&["cartpole"]);
    assert!(elsewhere.contains("learner train cartpole"), "{elsewhere}");
}

#[test]
fn a_file_in_place_of_a_run_is_one_error() {
    let place = Sandbox::new();
    trained(&place, "cartpole", "mine");
    place.write("README.md", "text");
    for args in [
        &["show"][..],
        &["eval"],
        &["resume"],
        &["export", "--onnx", "out.onnx"],
        &["report"],
        &["monitor", "--once"],
        &["train", "--resume"],
        &["sweep", "--resume"],
    ] {
        place
            .operant(&[args, &["README.md"]].concat())
            .assert_error(2, &["README.md is a file, not a ", "where: README.md", "`operant runs` lists"]);
    }
    place
        .operant(&["show", "runs/mine/metrics.csv"])
        .assert_error(2, &["is a file, not a run", "name the directory that it belongs to: runs/mine"]);
}

#[test]
fn only_commands_that_have_settings_hint_at_them() {
    let place = Sandbox::new();
    for (args, hint, is_hinted) in [
        (&["train", "cartpole", "--lr", "1"][..], "learning_rate", true),
        (&["train", "cartpole", "pendulum"], "operant sweep SPEC.toml", true),
        (&["runs", "--lr", "1"], "learning_rate", false),
        (&["eval", "mine", "--steps", "3"], "total_timesteps", false),
        (&["eval", "mine", "cartpole"], "operant sweep SPEC.toml", false),
    ] {
        let refused = place.operant(args);
        assert_eq!(
            (refused.code, refused.stderr.contains(hint)),
            (Some(2), is_hinted),
            "{args:?} {refused:#?}"
        );
    }
}

#[test]
fn usage_errors_exit_with_two() {
    let place = Sandbox::new();
    for args in [&["trian", "cartpole"][..], &["train"], &["train", "cartpole", "--evns", "3"], &[]] {
        let finished = place.operant(args);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{args:?} {finished:#?}");
    }
    for args in [&["--help"][..], &["--version"], &["train", "--help"]] {
        let finished = place.operant(args);
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{args:?} {finished:#?}");
    }
}

#[test]
fn values_out_of_range_are_refused_before_training() {
    let place = Sandbox::new();
    for (flag, value, part) in [
        ("--envs", "0", "num_envs = 0"),
        ("--envs", "-4", "num_envs = -4"),
        ("--steps", "none", "total_timesteps = \"none\""),
        ("--seed", "-1", "seed = -1"),
        ("--device", "cuda", "device = \"cuda\""),
        ("--device", "cuda:1", "device = \"cuda:1\""),
        ("--device", "cuda:x", "is not a device"),
        ("--device", "tpu", "is not a device"),
        ("--precision", "tf32", "needs a GPU"),
        ("--precision", "f64", "is not one of the choices"),
        ("--set", "learning_rate=nan", "learning_rate = nan"),
        ("--set", "num_minibatches=7", "does not divide"),
        ("--set", "gamma=1.5", "gamma = 1.5"),
        ("--set", "hidden=[64, 0]", "width 0"),
        ("--set", "env.gravity=3", "gravity"),
        ("--name", "a/b", "cannot name a run"),
    ] {
        let finished = place.operant(&["train", "cartpole", flag, value]);
        finished.assert_error(2, &[part, &format!("where: {flag}")]);
    }
    assert!(!place.path().join("runs").exists(), "nothing was trained");
}

#[test]
fn options_of_an_environment_are_checked() {
    let place = Sandbox::new();
    let args = ["train", "minatar_breakout", "--set", "env.sticky_action_prob=1.5"];
    place.operant(&args).assert_error(2, &["sticky_action_prob", "1.5", "where: --set"]);
    assert!(!place.path().join("runs").exists(), "nothing was trained");
}

#[test]
fn broken_configuration_files_name_their_line() {
    let place = Sandbox::new();
    place.write("mine.toml", "seed = 2\nlearning_rate = 0.");
    let args = ["train", "cartpole", "--config", "mine.toml"];
    place.operant(&args).assert_error(2, &["not valid TOML", "where: mine.toml:2"]);
    place.write("mine.toml", "seed = 2\n\ngama = 0.9\n");
    place.operant(&args).assert_error(2, &["did you mean \"gamma\"?", "where: mine.toml:3"]);
    std::fs::write(place.path().join("mine.toml"), [0xff, 0xfe, 0x00]).expect("written");
    place.operant(&args).assert_error(2, &["not UTF-8", "where: mine.toml"]);
    place.operant(&["train", "cartpole", "--config", "no.toml"]).assert_error(2, &["where: no.toml"]);
    place.operant(&["train", "cartpole", "--config", "."]).assert_error(2, &["cannot be read"]);
    place.write("operant.toml", "num_envs = \"many\"");
    place.operant(&["train", "cartpole"]).assert_error(2, &["num_envs = \"many\"", "where: operant.toml:1"]);
}

#[test]
fn unknown_variables_are_refused() {
    let place = Sandbox::new();
    let output = place.command(&["config", "cartpole"]).env("OPERANT_GAMA", "1").output().expect("started");
    crate::common::Finished::of(output).assert_error(2, &["did you mean \"OPERANT_GAMMA\"?"]);
}

#[test]
fn an_unwritable_directory_is_a_disk_error_before_training() {
    let place = Sandbox::new();
    place.write("file", "");
    for dir in ["file/runs", "/proc/operant-runs"] {
        let finished = place.operant(&["train", "cartpole", "--run-dir", dir]);
        finished.assert_error(1, &["the run directory cannot be created", dir, "--run-dir"]);
    }
}

#[test]
fn an_existing_name_is_refused_and_its_run_unchanged() {
    let place = Sandbox::new();
    trained(&place, "cartpole", "mine");
    let before = place.final_state("mine");
    place
        .operant(&["train", "cartpole", "--name", "mine"])
        .assert_error(2, &["a run named mine exists already", "--resume mine"]);
    assert_eq!(place.final_state("mine"), before);
}

#[test]
fn a_checkpoint_of_another_environment_or_network_is_refused() {
    let place = Sandbox::new();
    trained(&place, "cartpole", "mine");
    let (before, rows) = (place.final_state("mine"), place.metrics("mine"));
    place
        .operant(&["train", "pendulum", "--resume", "mine"])
        .assert_error(2, &["run mine trains cartpole, not pendulum", "operant train cartpole --resume mine"]);
    for change in ["num_envs=16", "hidden=[24]", "seed=7"] {
        let args = ["train", "cartpole", "--resume", "mine", "--set", change];
        place.operant(&args).assert_error(2, &["cannot resume a run", "where: --set"]);
    }
    place.operant(&["train", "--resume", "mime"]).assert_error(2, &["did you mean \"mine\"?"]);
    place.operant(&["eval", "mime"]).assert_error(2, &["did you mean \"mine\"?"]);
    assert_eq!((place.final_state("mine"), place.metrics("mine")), (before, rows));
}

#[test]
fn a_damaged_checkpoint_falls_back_and_all_damaged_is_an_error() {
    let place = Sandbox::new();
    trained(&place, "cartpole", "mine");
    let before = place.final_state("mine");
    let damage = |path: &std::path::Path| {
        let file = path.join("state.safetensors");
        let bytes = std::fs::read(&file).expect("read");
        std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("written");
    };
    damage(&place.checkpoints("mine").pop().expect("a checkpoint").1);
    let eval = place.operant(&["eval", "mine", "--episodes", "3", "--json"]);
    assert_eq!(eval.code, Some(0), "{eval:#?}");
    assert!(eval.stderr.contains("warning: ") && eval.stderr.contains("damaged"), "{eval:#?}");
    let resumed = place.operant(&["train", "--resume", "mine", "--quiet"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    assert!(resumed.stderr.contains("warning: ") && resumed.stderr.contains("damaged"), "{resumed:#?}");
    assert_eq!(place.final_state("mine"), before, "the lost updates were trained again, to the same bits");

    for (_, path) in place.checkpoints("mine") {
        damage(&path);
    }
    place.operant(&["train", "--resume", "mine"]).assert_error(2, &["damaged"]);
    place.operant(&["eval", "mine"]).assert_error(2, &["damaged"]);
}

#[test]
fn divergence_ends_with_the_last_good_checkpoint() {
    let place = Sandbox::new();
    let mut args = vec!["train", "cartpole", "--name", "wild", "--set", "learning_rate=1e30"];
    args.extend([SMALL, SHORT].concat());
    args.extend(["--set", "max_nonfinite_updates=3", "--set", "lr_schedule=constant"]);
    let finished = place.operant(&args);
    finished.assert_error(1, &["training diverged", "3 updates in a row", "learning_rate"]);
}

#[cfg(not(feature = "mpi"))]
#[test]
fn a_build_without_mpi_says_once_what_to_install() {
    let place = Sandbox::new();
    let args = ["train", "cartpole", "--distributed", "mpi"];
    place.operant(&args).assert_error(2, &["does not include MPI", "openmpi-bin", "--features mpi"]);
    // The second of several processes leaves it to the first, and does not fail before that: a launcher would end the first.
    for variable in ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"] {
        let output = place.command(&args).env(variable, "1").output().expect("started");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{variable}");
    }
    assert!(!place.path().join("runs").exists());
}

#[test]
fn slips_in_names_of_runs_directories_and_filters_are_refused() {
    let place = Sandbox::new();
    trained(&place, "cartpole", "first");
    for command in [&["runs"][..], &["monitor", "--once"], &["stop", "first"], &["compare", "first", "first"]]
    {
        let refused = place.operant(&[command, &["--run-dir", "nope"]].concat());
        refused.assert_error(2, &["there is no directory nope", "--run-dir"]);
    }
    place
        .operant(&["runs", "--filter", "learning_rte=1"])
        .assert_error(2, &["\"learning_rte\" (did you mean \"learning_rate\"?)", "--filter"]);
    for filter in ["state=finished", "rate=0.5", "seed=1", "first"] {
        assert_eq!(place.operant(&["runs", "--filter", filter]).code, Some(0), "{filter}");
    }
    // On a terminal it waits for a run that begins later, but not for a slip.
    let slip = Terminal::start(&place.command(&["monitor", "frist"]), &[], (80, 24)).finish();
    assert!(slip.code == 2 && slip.raw.contains("(did you mean \"first\"?)"), "{slip:?}");
    for (words, hint) in [
        (&["train", "cartpole", "pendulum"][..], "operant sweep SPEC.toml"),
        (&["train", "cartpole", "--seeds", "3"], "operant sweep ENV --seeds 10"),
        (&["watch", "first"], "operant monitor RUN"),
    ] {
        let refused = place.operant(words);
        assert!(refused.code == Some(2) && refused.stderr.contains(hint), "{refused:#?}");
    }
}
