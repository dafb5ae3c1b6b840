//! `operant envs`: the environments, their spaces, limits and options.

use operant_env::{ActionSpace, EnvSpec, ObsSpace, Registry};
use operant_run::config::{EnvFacts, Layers};
use serde_json::{Value, json};

use crate::output;
use crate::table::{self, Column};

/// List the environments
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON object per environment
    #[arg(long)]
    json: bool,
}

/// Prints the list.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let specs = registry.specs();
    let specs = specs.iter().map(|spec| Ok((spec, solved_at(spec, registry)?)));
    let specs = specs.collect::<operant_run::Result<Vec<_>>>()?;
    let text = if args.json {
        specs.iter().map(|(spec, threshold)| format!("{}\n", to_json(spec, *threshold))).collect()
    } else {
        table(&specs)
    };
    output::print(&text)?;
    Ok(0)
}

/// The return from which on it counts as solved, as its preset has it.
fn solved_at(spec: &EnvSpec, registry: &Registry) -> operant_run::Result<Option<f64>> {
    Ok(Layers::new(EnvFacts::of(spec, registry))?.build()?.settings.run.solved_at)
}

fn table(specs: &[(&EnvSpec, Option<f64>)]) -> String {
    let columns = [
        Column::left("environment", 0),
        Column::left("observations", 2),
        Column::left("actions", 3),
        Column::right("time limit", 4),
        Column::right("solved at", 1),
    ];
    let row = |(spec, threshold): &(&EnvSpec, Option<f64>)| {
        let mut about = vec![spec.summary.to_string()];
        if !spec.aliases.is_empty() {
            about.push(format!("also: {}", spec.aliases.join(", ")));
        }
        for option in &spec.options {
            let (low, high) = option.range;
            about
                .push(format!("env.{} = {} ({low} to {high}): {}", option.name, option.default, option.help));
        }
        let cells = vec![
            spec.name.to_string(),
            observations(&spec.obs),
            actions(&spec.actions),
            spec.time_limit.to_string(),
            threshold.map_or_else(|| "-".to_string(), |threshold| threshold.to_string()),
        ];
        table::Row { cells, note: about.join("\n") }
    };
    table::text(&columns, "about", &specs.iter().map(row).collect::<Vec<_>>())
}

fn observations(space: &ObsSpace) -> String {
    match space {
        ObsSpace::Box { low, .. } => format!("{} reals", low.len()),
        ObsSpace::Binary { shape } => {
            let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
            format!("{} bits", extents.join("x"))
        }
    }
}

fn actions(space: &ActionSpace) -> String {
    match space {
        ActionSpace::Discrete(choices) if choices.len() == 1 => format!("{} choices", choices[0]),
        ActionSpace::Discrete(choices) => {
            let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
            format!("{} choices", choices.join("x"))
        }
        ActionSpace::Box { low, high } if low.len() == 1 => format!("1 real, {} to {}", low[0], high[0]),
        ActionSpace::Box { low, .. } => format!("{} reals", low.len()),
    }
}

/// Infinite bounds become null, which JSON has instead.
fn to_json(spec: &EnvSpec, solved_at: Option<f64>) -> Value {
    let obs = match &spec.obs {
        ObsSpace::Box { low, high } => json!({"type": "box", "shape": [low.len()], "low": low, "high": high}),
        ObsSpace::Binary { shape } => json!({"type": "binary", "shape": shape}),
    };
    let actions = match &spec.actions {
        ActionSpace::Discrete(choices) if choices.len() == 1 => json!({"type": "discrete", "n": choices[0]}),
        ActionSpace::Discrete(choices) => json!({"type": "multi_discrete", "n": choices}),
        ActionSpace::Box { low, high } => {
            json!({"type": "box", "shape": [low.len()], "low": low, "high": high})
        }
    };
    let options: Vec<Value> = spec
        .options
        .iter()
        .map(|option| {
            let (low, high) = option.range;
            json!({"name": option.name, "default": option.default, "low": low, "high": high, "help": option.help})
        })
        .collect();
    json!({
        "env": spec.name,
        "aliases": spec.aliases,
        "summary": spec.summary,
        "obs": obs,
        "actions": actions,
        "time_limit": spec.time_limit,
        "solved_at": solved_at,
        "options": options,
        "preset": spec.preset.is_some(),
    })
}
