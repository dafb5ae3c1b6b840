//! `operant export`: writes a trained policy for other programs.

use std::path::{Path, PathBuf};

use operant_env::Registry;
use operant_run::export::c::{self, Header};
use operant_run::{Error, SavedPolicy, config, export};
use operant_sweep::player;

use super::overrides::RunFlags;
use crate::output;

/// Write a trained policy as ONNX, safetensors, C or a web page
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
    /// Write the policy as one C99 file that allocates nothing and calls no library
    #[arg(long, value_name = "FILE")]
    c: Option<PathBuf>,
    /// Write a web page in which the agent plays its environment: one file that loads nothing
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// In the C file, store matrices as int8, and print what that costs
    #[arg(long, requires = "c")]
    int8: bool,
    /// The word that names in the C file begin with [default: policy]
    #[arg(long, value_name = "NAME", requires = "c")]
    c_name: Option<String>,
    #[command(flatten)]
    of_run: RunFlags,
}

const AFTER_HELP: &str = "\
Examples:
  operant export mine --onnx mine.onnx --safetensors mine.safetensors
  operant export runs/mine/checkpoints/step_000000204800 --onnx mine.onnx
  operant export mine --c policy.h --int8
  operant export mine --html mine.html

The ONNX model takes obs (batch, ...), or each part of the observation under its
name. It returns action (the greedy one), value, and logits or mean and log_std.
With memory it also takes core_state and returns next_core_state; where actions
can be illegal it takes action_mask. Normalisation of observations and bounds of
actions are part of it.

The C file declares policy_reset and policy_act, which computes the greedy
action of an observation; the comment at its top describes both.

The page plays the episodes of `operant play`, bit for bit, in any browser since
2023; you can play there with the keyboard. Environments of Gymnasium, and those
that cannot be recorded, are refused.

An existing file is replaced.";

/// Exports, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let files = [&args.onnx, &args.safetensors, &args.c, &args.html];
    if files.iter().all(|file| file.is_none()) {
        return Err(Error::usage("export needs a file to write")
            .remedy("give --onnx FILE, --safetensors FILE, --c FILE or --html FILE")
            .into());
    }
    let named: Vec<&PathBuf> = files.iter().filter_map(|file| file.as_ref()).collect();
    if let Some(twice) = (1..named.len()).find(|&k| named[..k].contains(&named[k])) {
        let error = Error::usage(format!("{} is named for two kinds of files", named[twice].display()));
        return Err(error.remedy("give each a file of its own").into());
    }
    let line = args.of_run.command_line()?;
    let parent = config::run_dir(registry.known(), &line)?;
    let saved = SavedPolicy::load_with(registry, &parent, &args.run, &line)?;
    for warning in &saved.warnings {
        output::warn(warning);
    }
    let name = args.c_name.as_deref().unwrap_or(c::NAME);
    let with_path = |path| Ok::<_, Error>((path, c::header(&saved, name, args.int8)?));
    let header = args.c.as_ref().map(with_path).transpose()?;
    let page = args.html.as_ref().map(|path| Ok::<_, Error>((path, player::page(&saved)?))).transpose()?;
    if let Some(path) = &args.onnx {
        export::write_onnx(&saved, path)?;
    }
    if let Some(path) = &args.safetensors {
        export::write_safetensors(&saved, path)?;
    }
    let sizes = header.map(|(path, header)| write_c(path, header)).transpose()?;
    let bytes = page.map(|(path, page)| player::write(&page, path).map(|()| page.len())).transpose()?;
    for path in files.into_iter().flatten() {
        output::print(&format!(
            "{}: the policy of run {} ({}) at {} steps\n",
            path.display(),
            saved.run,
            saved.policy.env,
            saved.env_steps
        ))?;
    }
    sizes.map_or(Ok(()), |sizes| output::print(&sizes))?;
    bytes.map_or(Ok(()), |bytes| {
        output::print(&format!("  {:.2} MB; open it in a browser\n", bytes as f64 / 1e6))
    })?;
    Ok(0)
}

/// Writes the C file, and returns lines with its sizes and what its weights cost.
fn write_c(path: &Path, (header, loss): (Header, Option<String>)) -> Result<String, Error> {
    let [constants, memory] = [header.constants, header.memory].map(|bytes| bytes as f64 / 1e3);
    header.write(path)?;
    let sizes = format!("  {constants:.1} kB of constants, {memory:.1} kB of memory\n");
    Ok(loss.map_or(sizes.clone(), |loss| format!("{sizes}  int8: {loss}\n")))
}
