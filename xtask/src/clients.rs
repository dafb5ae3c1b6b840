//! The Python package together with large libraries, each group in its own environment: `cargo xtask test --clients` with
//! Stable-Baselines3, TorchRL and PyTorch, `cargo xtask test --ray` with Ray, `cargo xtask test --trackers` with Weights & Biases, MLflow, Trackio and TensorBoard.

use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::tools;
use crate::wheel::Workshop;

/// Libraries, and what is tested with them.
pub struct Clients {
    /// The environment's directory under the target directory.
    environment: &'static str,
    requirements: &'static str,
    tests: &'static str,
    /// Each learns CartPole, or fails.
    examples: &'static [&'static [&'static str]],
}

/// Stable-Baselines3, TorchRL and PyTorch.
pub const TORCH: Clients = Clients {
    environment: "clients-venv",
    requirements: "requirements-clients.txt",
    tests: "crates/operant-python/tests/clients",
    examples: &[
        &["examples/sb3_cartpole.py", "ppo"],
        &["examples/sb3_cartpole.py", "dqn"],
        &["examples/ppo_cleanrl.py", "--env-id", "operant/CartPole-v1"],
        &["examples/ppo_cleanrl.py", "--env-id", "CartPole-v1"],
        &["examples/own_loss.py"],
    ],
};

/// Ray.
pub const RAY: Clients = Clients {
    environment: "ray-venv",
    requirements: "requirements-ray.txt",
    tests: "crates/operant-python/tests/ray",
    examples: &[],
};

/// Trackers of experiments.
pub const TRACKERS: Clients = Clients {
    environment: "trackers-venv",
    requirements: "requirements-trackers.txt",
    tests: "crates/operant-python/tests/trackers",
    examples: &[],
};

/// Makes the environment, installs the package by itself, and runs the tests and the examples.
pub fn run(clients: &Clients) -> Result<()> {
    let metadata = tools::workspace()?;
    let (root, target) = (metadata.workspace_root.as_std_path(), metadata.target_directory.as_std_path());
    let begin = Instant::now();
    let python = tools::environment(&target.join(clients.environment), &root.join(clients.requirements))?;
    let workshop = Workshop { root, target, python: &python };
    let python = workshop.install_quickly()?;
    let step = |args: &[&str]| -> Result<()> {
        let start = Instant::now();
        eprintln!("python {}", args.join(" "));
        workshop.step(Command::new(&python).args(args))?;
        eprintln!("python {}: good, {:.1} s", args.join(" "), start.elapsed().as_secs_f64());
        Ok(())
    };
    step(&["-m", "pytest", "--quiet", "-p", "no:cacheprovider", clients.tests])?;
    clients.examples.iter().try_for_each(|example| step(example))?;
    eprintln!("all good, {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}
