//! `operant envs`: the environments, their spaces, limits and options.

use operant_env::{ActionSpace, EnvOption, EnvSpec, ObsSpace, OptionValue, OptionValues, Registry};
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
            let EnvOption { name, default, values, help } = option;
            about.push(format!("env.{name} = {default} ({values}): {help}"));
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
        ObsSpace::Binary { shape } => format!("{} bits", by(shape)),
        ObsSpace::Bytes { shape } => format!("{} bytes", by(shape)),
        ObsSpace::Index { shape, below } if shape.is_empty() => format!("1 of {}", below[0]),
        ObsSpace::Index { shape, .. } => format!("{} indices", by(shape)),
        ObsSpace::Parts(parts) => {
            let parts: Vec<String> =
                parts.iter().map(|(name, part)| format!("{name} {}", observations(part))).collect();
            parts.join(", ")
        }
    }
}

/// Extents as `10x10x4`.
fn by(shape: &[usize]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
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

fn obs_to_json(space: &ObsSpace) -> Value {
    match space {
        ObsSpace::Box { low, high } => json!({"type": "box", "shape": [low.len()], "low": low, "high": high}),
        ObsSpace::Binary { shape } => json!({"type": "binary", "shape": shape}),
        ObsSpace::Index { shape, below } => json!({"type": "index", "shape": shape, "below": below}),
        ObsSpace::Bytes { shape } => json!({"type": "bytes", "shape": shape}),
        ObsSpace::Parts(parts) => {
            let parts: Vec<Value> =
                parts.iter().map(|(name, part)| json!({"name": name, "space": obs_to_json(part)})).collect();
            json!({"type": "parts", "parts": parts})
        }
    }
}

/// Infinite bounds become null, which JSON has instead.
fn to_json(spec: &EnvSpec, solved_at: Option<f64>) -> Value {
    let obs = obs_to_json(&spec.obs);
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
            let EnvOption { name, default, values, help } = option;
            let mut all = json!({"name": name, "help": help});
            all["default"] = match default {
                OptionValue::Number(number) => json!(number),
                OptionValue::Word(word) => json!(word),
            };
            match values {
                OptionValues::Range(low, high) => {
                    (all["low"], all["high"]) = (json!(low), json!(high));
                }
                OptionValues::Words(words) => all["words"] = json!(words),
                OptionValues::Path => all["path"] = json!(true),
            }
            all
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
