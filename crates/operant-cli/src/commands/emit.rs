//! `operant emit`: prints the CUDA source generated from an environment.

use operant_env::Registry;
use operant_run::{Error, device};

use crate::output;

/// Print the CUDA source generated from an environment
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Environment: a name such as cartpole or CartPole-v1, a file NAME.world, or a class in Python, module:Class
    env: String,
}

/// Prints the source.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let env = device::find(registry, &args.env)?;
    let source = env.emit().ok_or_else(|| {
        Error::usage(format!("the environment {} has no CUDA source", env.spec().name))
            .remedy("it runs on the CPU only")
    })?;
    output::print(&source)?;
    Ok(0)
}
