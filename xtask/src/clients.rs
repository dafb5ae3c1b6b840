//! `cargo xtask test --clients`: the Python package under Stable-Baselines3, TorchRL and PyTorch, in an environment of its own.

use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::tools;
use crate::wheel::Workshop;

const REQUIREMENTS: &str = "requirements-clients.txt";
const TESTS: &str = "crates/operant-python/tests/clients";

/// Each learns CartPole, or fails.
const EXAMPLES: [&[&str]; 4] = [
    &["examples/sb3_cartpole.py", "ppo"],
    &["examples/sb3_cartpole.py", "dqn"],
    &["examples/ppo_cleanrl.py", "--env-id", "operant/CartPole-v1"],
    &["examples/ppo_cleanrl.py", "--env-id", "CartPole-v1"],
];

/// Makes the environment, installs the package by itself, and runs the tests and the examples.
///
/// # Errors
///
/// A package cannot be installed, or the first step that fails.
pub fn run() -> Result<()> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let (root, target) = (metadata.workspace_root.as_std_path(), metadata.target_directory.as_std_path());
    let begin = Instant::now();
    let python = tools::environment(&target.join("clients-venv"), &root.join(REQUIREMENTS))?;
    let workshop = Workshop { root, target, python: &python };
    let python = workshop.install_quickly()?;
    let step = |args: &[&str]| -> Result<()> {
        let start = Instant::now();
        eprintln!("python {}", args.join(" "));
        workshop.step(Command::new(&python).args(args))?;
        eprintln!("python {}: good, {:.1} s", args.join(" "), start.elapsed().as_secs_f64());
        Ok(())
    };
    step(&["-m", "pytest", "--quiet", "-p", "no:cacheprovider", TESTS])?;
    EXAMPLES.iter().try_for_each(|example| step(example))?;
    eprintln!("all good, {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}
