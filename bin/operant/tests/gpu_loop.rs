//! The training loop on the host's stand-in for a GPU: overlapped rollouts, stop and resume, and the number of
//! environments chosen by the device.

#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::common::{Finished, SMALL, Sandbox, finish, read_until, send};
use rustix::process::Signal;

/// A test directory, and the stand-in for a GPU.
struct Machine {
    place: Sandbox,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Machine {
    /// None without a C++ compiler.
    fn with_stand_in(skipped: &str) -> Option<Self> {
        let directory = crate::stand_in::directory(skipped)?;
        Some(Machine { place: Sandbox::new(), variables: crate::stand_in::environment(&directory) })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        self.place.guard(&child);
        child
    }

    fn run(&self, args: &[&str]) -> Finished {
        finish(self.start(args))
    }

    /// A line of a run's config.toml.
    fn saved(&self, run: &str, key: &str) -> String {
        let path = self.place.path().join("runs").join(run).join("config.toml");
        let text = std::fs::read_to_string(path).expect("config.toml");
        let line = text.lines().find(|line| line.starts_with(&format!("{key} = ")));
        line.unwrap_or_else(|| panic!("no {key} in {text}")).to_owned()
    }
}

#[test]
fn a_stopped_run_with_overlap_resumes_to_the_same_bits() {
    let Some(machine) = Machine::with_stand_in("overlap, stopped and continued") else { return };
    let train = |name: &str, steps: &str, more: &[&str]| -> Child {
        let mut args = vec!["train", "cartpole", "--device", "cuda", "--overlap", "--json"];
        args.extend(["--name", name, "--steps", steps, "--set", "ring=false"]);
        machine.start(&[&args[..], SMALL, more].concat())
    };
    let mut child = train("stopped", "1e12", &["--set", "checkpoint_interval=3"]);
    read_until(&mut child, "env_steps");
    send(&child, Signal::TERM);
    let stopped = finish(child);
    assert_eq!(stopped.code, Some(75), "{stopped:#?}");
    let steps = stopped.json()["env_steps"].as_u64().expect("a count");
    assert_eq!(machine.place.checkpoints("stopped").last().map(|(step, _)| *step), Some(steps));
    assert_eq!(machine.saved("stopped", "overlap"), "overlap = true");

    let all = (steps + 6 * 128).to_string();
    let straight = finish(train("straight", &all, &[]));
    assert_eq!(straight.code, Some(0), "{straight:#?}");
    let resumed = machine.run(&["train", "--resume", "stopped", "--steps", &all, "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    let (a, b) = (machine.place.final_state("straight"), machine.place.final_state("stopped"));
    assert!(a == b, "the weights differ");
    assert_eq!(machine.place.metrics("straight"), machine.place.metrics("stopped"));
    // Overlap changes the result.
    let plain =
        [&["train", "cartpole", "--device", "cuda", "--name", "plain", "--steps", &all], SMALL].concat();
    assert_eq!(machine.run(&[&plain[..], &["--set", "ring=false"]].concat()).code, Some(0));
    assert!(machine.place.final_state("plain") != a, "the weights are the same without overlap");
}

#[test]
fn a_lost_gpu_leaves_a_checkpoint_to_resume_from() {
    let Some(machine) = Machine::with_stand_in("a GPU that is lost after some updates") else { return };
    for (name, overlap) in [("lost", &[][..]), ("overlapped", &["--overlap"])] {
        let args = |name: &str, device: &str| {
            let args = ["train", "cartpole", "--device", device, "--name", name, "--steps", "2560"];
            let more = [SMALL, &["--set", "ring=false", "--set", "checkpoint_interval=3"], overlap].concat();
            args.iter().chain(&more).map(ToString::to_string).collect::<Vec<_>>()
        };
        let lost = args(name, "cuda:5");
        let mut command = machine.command(&lost.iter().map(String::as_str).collect::<Vec<_>>());
        command.env("OPERANT_HOST_LAUNCHES", "30");
        let failed = Finished::of(command.output().expect("started"));
        let message = format!(
            "`operant train --resume {name}` continues from the last checkpoint, runs/{name}/checkpoints/"
        );
        failed.assert_error(1, &["CUDA_ERROR_LAUNCH_FAILED", &message]);
        let (step, _) = machine.place.checkpoints(name).pop().expect("a checkpoint");
        assert!((3 * 128..2_560).contains(&step), "{step}");
        assert_eq!(machine.place.run_file(name)["state"], "failed");

        let resumed = machine.run(&["train", "--resume", name, "--device", "cuda:0"]);
        assert_eq!(resumed.code, Some(0), "{resumed:#?}");
        let straight = args("straight", "cuda:0");
        let straight = machine.run(&straight.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(straight.code, Some(0), "{straight:#?}");
        assert!(
            machine.place.final_state("straight") == machine.place.final_state(name),
            "the weights differ"
        );
        std::fs::remove_dir_all(machine.place.path().join("runs/straight")).expect("removed");
    }
}

#[test]
fn overlap_needs_a_gpu() {
    let place = Sandbox::new();
    let refused = place.operant(&["train", "cartpole", "--overlap", "--name", "refused"]);
    refused.assert_error(2, &["overlap = true needs a GPU", "where: --overlap"]);
    let refused = place.operant(&["train", "cartpole", "--device", "cpu", "--set", "overlap=true"]);
    refused.assert_error(2, &["overlap = true needs a GPU", "where: --set"]);
    assert!(!place.path().join("runs").exists(), "nothing was trained");
}

#[test]
fn the_device_chooses_the_number_of_environments() {
    let Some(machine) = Machine::with_stand_in("as many environments as learn") else { return };
    // 100 updates of 8 steps in 40 environments, of which 32 are two whole tiles.
    let sets = [
        "num_steps=8",
        "num_minibatches=2",
        "update_epochs=1",
        "hidden=8",
        "eval_episodes=2",
        "solved_at=1e9",
        "ring=false",
        "lr_schedule=constant",
    ];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let steps = (100 * 8 * 40).to_string();
    let args = [
        "train", "cartpole", "-v", "--device", "cuda", "--envs", "auto", "--steps", &steps, "--name", "many",
    ];
    let finished = machine.run(&[&args[..], &sets].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let message =
        "num_envs: 32, which auto chose: as many as leave 100 updates within total_timesteps = 32000";
    assert!(finished.stderr.contains(message), "{finished:#?}");
    assert_eq!(machine.saved("many", "num_envs"), "num_envs = 32");
    let file = machine.place.run_file("many");
    assert_eq!(file["num_envs"], 32);
    assert!(file["num_envs_chosen"].as_str().is_some_and(|why| why.contains("100 updates")), "{file}");

    // A checkpoint has the states of that many environments: the number is kept, whatever would be chosen now.
    let more = (100 * 8 * 100).to_string();
    let args = ["train", "--resume", "many", "--envs", "auto", "--steps", &more, "--set", "eval_episodes=3"];
    let resumed = machine.run(&args);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    assert_eq!(machine.saved("many", "num_envs"), "num_envs = 32");

    // On the CPU it is the preset's.
    let args = ["train", "cartpole", "--device", "cpu", "--steps", "2000", "--name", "few"];
    let finished = machine.run(&[&args[..], &sets, &["--set", "num_envs=auto"]].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let shown = machine.run(&["config", "cartpole", "--device", "cpu"]).stdout;
    let preset = shown.lines().find(|line| line.starts_with("num_envs")).expect("num_envs");
    assert_eq!(machine.saved("few", "num_envs"), preset.split('#').next().expect("a line").trim());
    assert!(machine.place.run_file("few")["num_envs_chosen"].is_null());

    let shown = machine.run(&["config", "cartpole", "--envs", "auto"]).stdout;
    let line = shown.lines().find(|line| line.starts_with("num_envs")).expect("num_envs");
    assert!(line.starts_with("num_envs = \"auto\" ") && line.ends_with("# --envs"), "{line}");
}
