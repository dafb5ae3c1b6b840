//! `operant config`: the effective configuration of an environment, with the origin of each value.

use std::sync::Arc;

use operant_env::Registry;
use operant_learn::network::Network;
use operant_run::config::{self, EnvFacts};
use operant_run::device::{self, Device};
use operant_run::opponent;

use super::overrides::Overrides;
use crate::output;

/// Print the effective configuration as TOML, each value with its origin
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Environment: a name such as cartpole or CartPole-v1, a file NAME.world, a class in Python, module:Class, or a
    /// Gymnasium id, gym:ID
    env: String,
    #[command(flatten)]
    overrides: Overrides,
}

const AFTER_HELP: &str = "\
Comments show the network, layer by layer, with the FLOP of the products for
one observation. The output is itself a valid --config file:
  operant config cartpole > a.toml && operant train cartpole --config a.toml

An operant.toml may hold tables named after environments, whose values override
the rest of the file for that environment only, and options of the environment
itself under [env]:
  learning_rate = 0.001
  [cartpole]
  num_envs = 64
  [minatar_breakout.env]
  sticky_action_prob = 0.1

A preset has a [gpu] table, which overrides the rest of the preset on a GPU;
--device cuda shows it on any machine, and auto shows the device it would
choose.

Files, lowest first: the user's in $XDG_CONFIG_HOME/operant, ./operant.toml,
the one in the directory that holds the runs, --config FILE.
docs/configuration.md has every key.

Any key can come from the process environment, in upper case after OPERANT_:
  OPERANT_NUM_ENVS=64  OPERANT_HIDDEN=64,64  OPERANT_ENV_STICKY_ACTION_PROB=0.1";

/// Prints the configuration.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let env = device::find(registry, &args.env)?;
    let facts = EnvFacts::of(&env.spec(), registry);
    let requested = config::requested(facts, &args.overrides.command_line(), None)?;
    let (requested, auto) = device::foreseen(&requested)?;
    opponent::opposed(Arc::clone(&env), &requested.settings)?;
    for warning in requested.settings.without_effect() {
        output::warn(&warning);
    }
    if let Some(Device { name, reason: Some(reason), .. }) = &auto {
        output::print(&format!("# {} takes {name}: {reason}\n", requested.settings.run.device))?;
    }
    // A GPU that is requested by name need not exist.
    let device = auto.or_else(|| device::choose(&requested, None).ok().map(|(_, device)| device));
    let of_env = device::network(&*env, &requested.settings)?;
    output::print(&network(&of_env))?;
    // A length of 0 is chosen by the number of environments, which a GPU may choose later.
    let learner = &requested.settings.learner;
    if of_env.states > 0 && (learner.sequence_length > 0 || !requested.num_envs_is_open()) {
        let length = learner.sequence();
        output::print(&format!("# Sequence length of minibatches: {length} steps\n"))?;
    }
    match device.map(|device| device::kernels(&*env, &requested.settings, &device)) {
        Some(Ok(Some(choice))) => output::print(&format!("# {choice}\n"))?,
        Some(Err(error)) => output::print(&format!("# kernels: none; {}\n", error.what))?,
        Some(Ok(None)) | None => {}
    }
    output::print(&requested.to_toml(true))?;
    Ok(0)
}

/// The network as comments: a line for each layer.
fn network(network: &Network) -> String {
    let layers = network.layers().map(|layer| {
        let parameters = layer.params.len();
        [layer.name.clone(), layer.describe(), parameters.to_string(), layer.flops().to_string()]
    });
    let log_std = network
        .log_std
        .map(|_| ["log_std".to_owned(), String::new(), network.policy_outputs().to_string(), "0".to_owned()]);
    let total =
        ["all", "", &network.len().to_string(), &network.forward_flops().to_string()].map(str::to_owned);
    let header = ["layer", "shape", "parameters", "FLOP"].map(str::to_owned);
    let rows: Vec<[String; 4]> = [header].into_iter().chain(layers).chain(log_std).chain([total]).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 4] = core::array::from_fn(width);
    let line = |row: &[String; 4]| {
        let [layer, shape, parameters, flops] = row;
        let [a, b, c, d] = widths;
        format!("#   {layer:a$}  {shape:b$}  {parameters:>c$}  {flops:>d$}\n")
    };
    format!("# Network {}:\n{}#\n", network.architecture, rows.iter().map(line).collect::<String>())
}
