//! Completions, as shells ask for them, and in a bash that someone types in.

use std::path::Path;
use std::process::Command;

use crate::common::{Finished, SMALL, Sandbox};
use crate::terminal::Terminal;

/// What may follow, where the last of these words is completed.
fn candidates(place: &Sandbox, words: &[&str]) -> Vec<String> {
    let mut command = place.command(&[&["--", "operant"], words].concat());
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let finished = Finished::of(command.output().expect("started"));
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{words:?}: {finished:#?}");
    finished.stdout.lines().map(str::to_owned).collect()
}

/// A directory with a trained run and one that a process trains.
fn with_runs() -> (Sandbox, std::fs::File) {
    let place = Sandbox::new();
    let small =
        ["train", "t_maze", "--name", "mine", "--steps", "256", "--quiet", "--set", "sequence_length=0"];
    let trained = place.operant(&[&small, SMALL].concat());
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    std::fs::create_dir_all(place.path().join("runs/live/checkpoints")).expect("made");
    place.write("runs/live/operant.log", "");
    let log = std::fs::File::open(place.path().join("runs/live/operant.log")).expect("opened");
    log.try_lock().expect("free");
    (place, log)
}

#[test]
fn tags_of_the_runs_are_completed() {
    let (place, _live) = with_runs();
    place.write("runs/mine/notes.json", r#"{"note":"","tags":["baseline","paper"]}"#);
    place.write("runs/live/notes.json", r#"{"tags":["paper","base-2"]}"#);
    let mut tags = candidates(&place, &["runs", "--tag", ""]);
    tags.sort();
    assert_eq!(tags, ["base-2", "baseline", "paper"]);
    assert_eq!(candidates(&place, &["tag", "mine", "pa"]), ["paper"]);
    assert_eq!(candidates(&place, &["runs", "--color", "al"]), ["always"]);
}

#[test]
fn environments_settings_and_their_values_are_completed() {
    let place = Sandbox::new();
    assert_eq!(candidates(&place, &["train", "cartp"]), ["cartpole", "cartpole_no_velocity"]);
    assert_eq!(candidates(&place, &["config", "CartPole-"]), ["CartPole-v1"]);
    assert_eq!(candidates(&place, &["train", "cartpole", "--set", "learning_r"]), ["learning_rate="]);
    let cores = candidates(&place, &["train", "cartpole", "--set", "core="]);
    assert!(
        cores.contains(&"core=mingru".to_owned()) && cores.contains(&"core=lstm".to_owned()),
        "{cores:?}"
    );
    assert_eq!(candidates(&place, &["train", "--algorithm", "pq"]), ["pqn"]);
    assert_eq!(candidates(&place, &["train", "--device", ""]), ["auto", "cpu", "cuda"]);
    assert_eq!(candidates(&place, &["train", "--precision=b"]), ["--precision=bf16"]);
    // The value that the setting has for this environment.
    let shown = place.operant(&["config", "pendulum"]).stdout;
    let gamma = shown.lines().find_map(|line| line.strip_prefix("gamma = ")).expect("a value");
    let gamma = gamma.split('#').next().expect("a value").trim();
    let completed = candidates(&place, &["train", "pendulum", "--set", "gamma="]);
    assert_eq!(completed, [format!("gamma={gamma}")]);
    let kept = candidates(&place, &["train", "pendulum", "--set", "keep_checkpoints="]);
    assert_eq!(kept, ["keep_checkpoints=3", "keep_checkpoints=log"]);
    // Options of the environment that is typed.
    let sticky = ["train", "breakout", "--set", "env.st"];
    assert_eq!(candidates(&place, &sticky), ["env.sticky_action_prob="]);
    assert_eq!(candidates(&place, &["train", "cartpole", "--set", "env.st"]), [] as [&str; 0]);
    let options = candidates(&place, &["train", "cartpole", "--st"]);
    assert_eq!(options, ["--steps"]);
    let commands = candidates(&place, &["comp"]);
    assert_eq!(commands, ["compare", "completions"]);
}

#[test]
fn runs_and_checkpoints_are_completed() {
    let (place, _log) = with_runs();
    assert_eq!(candidates(&place, &["eval", ""]), ["mine", "live"]);
    assert_eq!(candidates(&place, &["eval", "m"]), ["mine"]);
    assert_eq!(candidates(&place, &["train", "--resume", ""]), ["mine", "live"]);
    assert_eq!(candidates(&place, &["stop", ""]), ["live"]);
    assert_eq!(candidates(&place, &["eval", "mine@"]), ["mine@256"]);
    let path = "runs/mine/checkpoints/step_";
    assert_eq!(candidates(&place, &["eval", path]), [format!("{path}000000000256/")]);
    assert_eq!(candidates(&place, &["eval", "mine", "--set", "env.l"]), ["env.length="]);
    assert_eq!(candidates(&place, &["eval", "--run-dir", "absent", "m"]), [] as [&str; 0]);
    // Options where there is nothing else.
    let options = candidates(&place, &["eval", "--run-dir", "absent", ""]);
    assert!(options.iter().all(|option| option.starts_with("--")) && !options.is_empty(), "{options:?}");
    std::fs::rename(place.path().join("runs"), place.path().join("elsewhere")).expect("renamed");
    assert_eq!(candidates(&place, &["eval", "--run-dir", "elsewhere", "m"]), ["mine"]);
}

#[test]
fn every_kind_of_value_has_candidates() {
    let (place, _log) = with_runs();
    std::fs::create_dir_all(place.path().join("runs/rates")).expect("made");
    place.write("runs/rates/sweep.db", "");
    place.write("runs/mine/notes.json", r#"{"tags":["paper"]}"#);
    for (words, some) in [
        (&["monitor", ""][..], &["mine", "live", "rates"][..]),
        (&["bench", ""], &["env", "rollout", "train"]),
        (&["bench", "--device", "cpu,"], &["cpu,auto", "cpu,cpu", "cpu,cuda"]),
        (&["bench", "--precision", ""], &["f32", "tf32", "bf16"]),
        (&["bench", "--core", ""], &["mlp", "mingru", "gru", "lstm"]),
        (&["replay", "cartpole", "--device", ""], &["scalar", "wide", "cuda"]),
        (&["replay", "cartpole", "--precision", ""], &["f64", "f32"]),
        (&["runs", "--filter", ""], &["state=running", "paper", "t_maze"]),
        (&["sweep", "--ray", ""], &["auto"]),
    ] {
        let found = candidates(&place, words);
        assert!(some.iter().all(|some| found.iter().any(|word| word == some)), "{words:?}: {found:?}");
        assert!(found.iter().all(|word| !word.starts_with('-')), "{words:?}: {found:?}");
    }
}

#[test]
fn completing_looks_for_no_library_of_a_gpu() {
    let (place, _log) = with_runs();
    let loaded = |command: &mut Command| {
        let output = command.env("LD_DEBUG", "libs").output().expect("started");
        String::from_utf8_lossy(&output.stderr).contains("libcuda")
    };
    assert!(loaded(&mut place.command(&["info"])), "info looks for it, so this test would see it");
    for words in [
        &["eval", ""][..],
        &["train", "cartpole", "--device", ""],
        &["train", "cartpole", "--set", "num_envs="],
    ] {
        let mut command = place.command(&[&["--", "operant"], words].concat());
        command.env("COMPLETE", "fish").env_remove("OPERANT_DEVICE");
        assert!(!loaded(&mut command), "{words:?}");
    }
}

#[test]
fn an_unknown_shell_is_an_error_and_the_line_of_a_start_up_file_is_printed() {
    let place = Sandbox::new();
    for (shell, line) in [
        ("bash", "source <(COMPLETE=bash operant)"),
        ("zsh", "source <(COMPLETE=zsh operant)"),
        ("fish", "COMPLETE=fish operant | source"),
    ] {
        let printed = place.operant(&["completions", shell]);
        assert_eq!(printed.code, Some(0), "{printed:#?}");
        assert_eq!(printed.stdout.lines().last(), Some(line));
        let script = Finished::of(place.command(&[]).env("COMPLETE", shell).output().expect("started"));
        assert!(script.code == Some(0) && script.stdout.contains("COMPLETE="), "{script:#?}");
    }
    let script = Finished::of(place.command(&[]).env("COMPLETE", "zsh").output().expect("started")).stdout;
    let [suffix, describe] =
        ["suffix=(-S '')", "_describe -V 'values' other \"${suffix[@]}\""].map(|part| script.find(part));
    assert!(suffix.is_some() && suffix < describe, "no space after KEY=: {script}");
    let unknown = Finished::of(place.command(&["runs"]).env("COMPLETE", "tcsh").output().expect("started"));
    assert!(unknown.code == Some(2) && unknown.stderr.contains("unknown shell"), "{unknown:#?}");
}

#[test]
fn bash_completes_words_with_its_own_separators() {
    let (place, _log) = with_runs();
    let operant = place.command(&[]);
    let program = Path::new(operant.get_program());
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-i"]).current_dir(place.path());
    for (name, value) in operant.get_envs() {
        match value {
            Some(value) => bash.env(name, value),
            None => bash.env_remove(name),
        };
    }
    let path = std::env::var("PATH").expect("a path");
    bash.env("PATH", format!("{}:{path}", program.parent().expect("a directory").display()));
    let mut terminal = Terminal::start(&bash, &[("PS1", "> "), ("INPUTRC", "/dev/null")], (100, 30));
    terminal.wait_for(&["> "]);
    terminal.press("eval \"$(operant completions bash)\"; echo re''ady\r");
    // The prompt, too: what is typed before it is echoed twice.
    terminal.wait_for(&["\nready\n> "]);
    // What is typed up to the tabulator, and what the line is then.
    for (typed, line) in [
        ("operant train acro\t", "> operant train acrobot #"),
        ("operant train cartpole --set learning_r\t1", "> operant train cartpole --set learning_rate=1#"),
        ("operant train cartpole --set core=ming\t", "> operant train cartpole --set core=mingru #"),
        ("operant eval mine@\t", "> operant eval mine@256 #"),
        ("operant stop \t", "> operant stop live #"),
    ] {
        terminal.press(&format!("{typed}#"));
        terminal.wait_for(&[line]);
        terminal.press("\u{15}");
        terminal.wait_for_no(line);
    }
    terminal.press("exit\r");
    assert_eq!(terminal.finish().code, 0);
}
