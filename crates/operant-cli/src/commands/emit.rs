//! `operant emit`: the CUDA source that an environment becomes.

use operant_env::{Env, EnvOptions, Visitor, emit::emit, registry};
use operant_run::Error;

use crate::output;

/// Print the CUDA source that an environment becomes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Environment, by name or by Gymnasium's id
    env: String,
}

struct Emit;

impl Visitor for Emit {
    type Output = String;

    fn visit<E: Env>(self, env: E) -> String {
        emit(&env)
    }
}

/// Prints the source.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let source = registry::with_env(&args.env, &EnvOptions::new(), Emit)
        .map_err(|error| Error::usage(error.to_string()).remedy("`operant envs` lists them all"))?;
    output::print(&source)?;
    Ok(0)
}
