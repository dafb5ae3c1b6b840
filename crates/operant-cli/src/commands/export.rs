//! `operant export`: writes a trained policy for other programs.

use std::path::PathBuf;

use operant_env::Registry;
use operant_run::{Error, SavedPolicy, config, export};

use super::overrides::RunFlags;
use crate::output;

/// Write a trained policy as ONNX or safetensors
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A run's name or path for its latest checkpoint, RUN@STEP for its checkpoint at that step, or a checkpoint's path
    #[arg(value_name = "RUN[@STEP]|CHECKPOINT")]
    run: String,
    /// Write an ONNX model
    #[arg(long, value_name = "FILE")]
    onnx: Option<PathBuf>,
    /// Write the policy's arrays, named as in PyTorch, as a safetensors file
    #[arg(long, value_name = "FILE")]
    safetensors: Option<PathBuf>,
    #[command(flatten)]
    of_run: RunFlags,
}

const AFTER_HELP: &str = "\
Examples:
  operant export mine --onnx mine.onnx --safetensors mine.safetensors
  operant export runs/mine/checkpoints/step_000000204800 --onnx mine.onnx

The ONNX model takes obs (batch, ...), or each part of the observation under its
name. It returns action (the greedy one), value, and logits or mean and log_std.
With memory it also takes core_state and returns next_core_state; where actions
can be illegal it takes action_mask. Normalisation of observations and bounds of
actions are part of it. An existing file is replaced.";

/// Exports, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    if args.onnx.is_none() && args.safetensors.is_none() {
        return Err(Error::usage("export needs a file to write")
            .remedy("give --onnx FILE or --safetensors FILE, or both")
            .into());
    }
    let line = args.of_run.command_line()?;
    let parent = config::run_dir(registry.known(), &line)?;
    let saved = SavedPolicy::load_with(registry, &parent, &args.run, &line)?;
    for warning in &saved.warnings {
        output::warn(warning);
    }
    if let Some(path) = &args.onnx {
        export::write_onnx(&saved, path)?;
    }
    if let Some(path) = &args.safetensors {
        export::write_safetensors(&saved, path)?;
    }
    for path in [&args.onnx, &args.safetensors].into_iter().flatten() {
        output::print(&format!(
            "{}: the policy of run {} ({}) at {} steps\n",
            path.display(),
            saved.run,
            saved.policy.env,
            saved.env_steps
        ))?;
    }
    Ok(0)
}
