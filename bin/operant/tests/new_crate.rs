//! `operant new`: builds the generated crate outside the repository, and tests its train, stop, resume, eval, monitor,
//! bench and emit commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Finished, Sandbox, wait_for};
use serde_json::Value;

/// The workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

#[test]
fn invalid_requests_are_refused_and_nothing_is_written() {
    let place = Sandbox::new();
    place.write("there", "");
    let nowhere = place.path().join("nowhere");
    for (args, what) in [
        (vec!["new", "there"], "the directory already exists"),
        (vec!["new", "2d"], "not a valid crate name"),
        (vec!["new", "fn"], "\"fn\" cannot be the name of a crate"),
        (vec!["new", "cartpole"], "cartpole is an environment of operant already"),
        (vec!["new", "operant"], "\"operant\" cannot be the name of a crate"),
        (
            vec!["new", "mine", "--operant", nowhere.to_str().expect("UTF-8")],
            "sources of operant are not found",
        ),
    ] {
        let refused = place.operant(&args);
        assert_eq!(refused.code, Some(2), "{refused:#?}");
        assert!(refused.stderr.contains(what) && refused.stderr.contains("remedy: "), "{refused:#?}");
    }
    let made: Vec<_> = fs::read_dir(place.path())
        .expect("a directory")
        .map(|entry| entry.expect("there").file_name())
        .collect();
    assert_eq!(made, ["there"]);
}

/// A crate written by `operant new`, with this workspace's profile and locked versions, so that its dependencies are
/// built already.
fn generated(place: &Sandbox) -> PathBuf {
    let made = place.operant(&["new", "lamplighter"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    assert!(made.stdout.contains("cargo run --release -- train lamplighter"), "{made:#?}");
    let dir = place.path().join("lamplighter");
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
    let workspace: toml::Table = workspace.parse().expect("TOML");
    let profiles = workspace["profile"].as_table().expect("profiles");
    let mut manifest: toml::Table =
        fs::read_to_string(dir.join("Cargo.toml")).expect("written").parse().expect("TOML");
    let own = manifest["profile"].as_table_mut().expect("profiles");
    for name in ["release", "quick"] {
        own.insert(name.to_owned(), profiles[name].clone());
    }
    fs::write(dir.join("Cargo.toml"), manifest.to_string()).expect("written");
    fs::copy(root().join("Cargo.lock"), dir.join("Cargo.lock")).expect("copied");
    dir
}

/// Cargo in the crate, with the build directory that this test's own binary is in.
fn cargo(dir: &Path, args: &[&str]) {
    let target = Path::new(env!("CARGO_BIN_EXE_operant")).ancestors().nth(2).expect("target/quick/operant");
    let output = Command::new(env!("CARGO"))
        .args(args)
        .args(["--profile", "quick", "--offline"])
        .current_dir(dir)
        .env("CARGO_TARGET_DIR", target)
        .stdin(Stdio::null())
        .output()
        .expect("cargo runs");
    let output = Finished::of(output);
    assert_eq!(output.code, Some(0), "cargo {args:?}: {output:#?}");
}

/// The crate's own command.
fn mine(place: &Sandbox, args: &[&str]) -> Command {
    let operant = place.command(&[]);
    let program = Path::new(env!("CARGO_BIN_EXE_operant")).with_file_name("lamplighter");
    let mut command = Command::new(program);
    command.args(args).current_dir(place.path()).stdin(Stdio::null()).env_clear();
    command.envs(std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("OPERANT_")));
    command.envs(operant.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

fn run(place: &Sandbox, args: &[&str]) -> Finished {
    Finished::of(mine(place, args).output().expect("started"))
}

fn json(finished: &Finished) -> Value {
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    serde_json::from_str(finished.stdout.trim()).expect("one object")
}

#[test]
#[ignore = "cargo xtask test --all"]
fn a_generated_crate_has_every_command() {
    let place = Sandbox::new();
    let dir = generated(&place);
    cargo(&dir, &["test"]);
    cargo(&dir, &["build"]);

    // It learns.
    let result = json(&run(&place, &["train", "lamplighter", "--name", "whole", "--json"]));
    assert_eq!(
        (&result["env"], &result["solved_at_step"].is_u64()),
        (&"lamplighter".into(), &true),
        "{result}"
    );

    // Stopped by another process of the same program, and resumed.
    let long =
        ["train", "lamplighter", "--name", "halved", "--steps", "4000000000", "--set", "eval_episodes=10"];
    let mut endless = mine(&place, &long);
    let mut child = endless.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    place.guard(&child);
    let ring = place.ring("halved");
    crate::common::wait_for_progress(&ring);
    let watched = json(&run(&place, &["monitor", "halved", "--once", "--json"]));
    assert_eq!((&watched["state"], &watched["run"]), (&"running".into(), &"halved".into()), "{watched}");
    let stopped = run(&place, &["stop", "halved"]);
    assert_eq!(stopped.code, Some(0), "{stopped:#?}");
    let code = wait_for("the run's end", || child.try_wait().expect("a child")).code();
    assert_eq!(code, Some(75));
    let (reached, _) = place.checkpoints("halved").pop().expect("a checkpoint");
    let more = (reached + 64 * 32 * 10).to_string();
    let resumed = json(&run(&place, &["train", "--resume", "halved", "--steps", &more, "--json"]));
    assert_eq!(resumed["env_steps"].as_u64(), more.parse().ok(), "{resumed}");

    // The other commands of a built-in environment.
    let evaluated = json(&run(&place, &["eval", "whole", "--json"]));
    assert!(evaluated["eval_return_mean"].as_f64().is_some_and(|mean| mean >= 0.9), "{evaluated}");
    let shown = run(&place, &["monitor", "whole", "--once"]);
    assert!(shown.stdout.contains("lamplighter") && shown.stdout.contains("finished"), "{shown:#?}");
    assert!(run(&place, &["emit", "lamplighter"]).stdout.contains("void env_step("));
    assert!(run(&place, &["config", "lamplighter"]).stdout.contains("# preset lamplighter"));
    let listed = run(&place, &["envs", "--json"]).stdout;
    assert!(listed.contains("\"lamplighter\"") && listed.contains("\"cartpole\""), "{listed}");
    let rows =
        run(&place, &["bench", "env", "--env", "lamplighter", "--envs", "64", "--budget", "0.2", "--json"]);
    assert_eq!(json(&rows)["env"], "lamplighter");
    let unknown = run(&place, &["train", "lamplihter"]);
    assert!(
        unknown.code == Some(2) && unknown.stderr.contains("did you mean \"lamplighter\""),
        "{unknown:#?}"
    );
}
