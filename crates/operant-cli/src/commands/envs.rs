//! `operant envs`: lists the environments by family, filters them, or shows one in full.

mod one;
mod spaces;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use operant_env::{EnvOption, EnvSpec, OptionValue, OptionValues, Registry};
use operant_run::config::{EnvFacts, Layers};
use operant_run::{Requested, device};
use serde_json::{Value, json};

use crate::output;
use crate::table::{self, Column};

/// List the environments, or show one
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// An environment's name or alias, which shows it in full. Without an exact name, lists the environments whose family, name or
    /// description contains this text
    #[arg(value_name = "NAME|FILTER")]
    what: Option<String>,
    /// Print one JSON object per environment
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  operant envs                  all environments, by family
  operant envs minatar          those whose family or name contains it
  operant envs CartPole-v1      one in full: spaces, rules, options, picture
  operant envs --json | jq .env";

/// A listed environment with its configuration.
struct Listed {
    spec: EnvSpec,
    requested: Requested,
}

impl Listed {
    fn of(spec: EnvSpec, registry: &Registry) -> operant_run::Result<Self> {
        let requested = Layers::new(EnvFacts::of(&spec, registry))?.build()?;
        Ok(Listed { spec, requested })
    }

    /// The return at which the environment counts as solved, from its preset.
    fn solved_at(&self) -> Option<f64> {
        self.requested.settings.run.solved_at
    }
}

/// Prints the list, or one environment.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let (specs, one) = chosen(args.what.as_deref(), registry)?;
    let listed = specs.into_iter().map(|spec| Listed::of(spec, registry));
    let listed = listed.collect::<operant_run::Result<Vec<_>>>()?;
    let text = if args.json {
        listed.iter().map(|env| format!("{}\n", to_json(env))).collect()
    } else if let Some(env) = one {
        let asked = args.what.as_deref().unwrap_or_default();
        let text = one::text(&*env, &listed[0], &registry.specs(), table::width().unwrap_or(80), asked);
        output::print_painted(&text)?;
        return Ok(0);
    } else {
        match table::width() {
            Some(width) => by_family(&listed, width),
            None => tabs(&listed),
        }
    };
    output::print(&text)?;
    Ok(0)
}

/// Specifications, and the environment if one was named.
type Chosen = (Vec<EnvSpec>, Option<Arc<dyn operant_env::AnyEnv>>);

/// The environments that match `what`, and the one that has this name.
fn chosen(what: Option<&str>, registry: &Registry) -> operant_run::Result<Chosen> {
    let Some(what) = what else { return Ok((registry.specs(), None)) };
    let named = device::find(registry, what);
    if let Ok(env) = named {
        return Ok((vec![env.spec()], Some(env)));
    }
    let word = what.trim().to_lowercase();
    let of_family = |spec: &EnvSpec| spec.family.to_lowercase() == word.replace('_', " ");
    let has_word = |spec: &EnvSpec| {
        let names = std::iter::once(&spec.name).chain(&spec.aliases).chain([&spec.family, &spec.summary]);
        names.map(|name| name.to_lowercase()).any(|name| name.contains(&word))
    };
    let mut fitting: Vec<EnvSpec> = registry.specs().into_iter().filter(of_family).collect();
    if fitting.is_empty() && !word.is_empty() {
        fitting = registry.specs().into_iter().filter(has_word).collect();
    }
    match (fitting.is_empty(), named) {
        (true, Err(error)) => Err(error),
        _ => Ok((fitting, None)),
    }
}

/// The list for terminals: environments grouped by family, each followed by its variants.
fn by_family(listed: &[Listed], width: usize) -> String {
    let names: BTreeSet<&str> = listed.iter().map(|env| env.spec.name.as_str()).collect();
    let is_variant = |spec: &EnvSpec| spec.variant_of.as_deref().is_some_and(|base| names.contains(base));
    let bases: Vec<&EnvSpec> = listed.iter().map(|env| &env.spec).filter(|spec| !is_variant(spec)).collect();
    let column = bases.iter().map(|spec| spec.name.chars().count()).max().unwrap_or(0).min(32) + 4;
    let mut families: Vec<&str> = Vec::new();
    for spec in &bases {
        if !families.contains(&spec.family.as_str()) {
            families.push(&spec.family);
        }
    }
    let mut text = String::new();
    for family in families {
        text.push_str(if text.is_empty() { "" } else { "\n" });
        text.push_str(if family.is_empty() { "other" } else { family });
        text.push('\n');
        for spec in bases.iter().filter(|spec| spec.family == family) {
            text.push_str(&table::hanging(&format!("  {}", spec.name), column, &spec.summary, width));
            let variants = listed.iter().map(|env| &env.spec);
            let variants: Vec<&str> = variants
                .filter(|other| other.variant_of.as_ref() == Some(&spec.name))
                .map(|other| other.name.as_str())
                .collect();
            if !variants.is_empty() {
                text.push_str(&table::hanging(
                    "",
                    column,
                    &format!("variants: {}", variants.join(", ")),
                    width,
                ));
            }
        }
    }
    let count = match listed.len() {
        1 => "1 environment".to_owned(),
        count => format!("{count} environments"),
    };
    text + &format!("\n{count}; `operant envs NAME` shows one in full\n")
}

/// The list as tab-separated values, for pipes.
fn tabs(listed: &[Listed]) -> String {
    let columns = [
        Column::left("environment", 0),
        Column::left("family", 0),
        Column::left("observations", 0),
        Column::left("actions", 0),
        Column::right("time limit", 0),
        Column::right("solved at", 0),
    ];
    let row = |env: &Listed| {
        let spec = &env.spec;
        let mut about = vec![spec.summary.clone()];
        if !spec.aliases.is_empty() {
            about.push(format!("also: {}", spec.aliases.join(", ")));
        }
        about.extend(spec.metrics.iter().map(|metric| format!("metric {}: {}", metric.name, metric.help)));
        for EnvOption { name, default, values, help, .. } in &spec.options {
            about.push(format!("env.{name} = {default} ({values}): {help}"));
        }
        let cells = vec![
            spec.name.clone(),
            spec.family.clone(),
            spec.obs.to_string(),
            spec.actions.to_string(),
            if spec.has_time_limit() { spec.time_limit.to_string() } else { "-".to_owned() },
            env.solved_at().map_or_else(|| "-".to_string(), |threshold| threshold.to_string()),
        ];
        table::Row { cells, note: about.join("\n"), ..table::Row::default() }
    };
    table::tabs(&columns, "about", &listed.iter().map(row).collect::<Vec<_>>())
}

fn to_json(env: &Listed) -> Value {
    let spec = &env.spec;
    json!({
        "env": spec.name,
        "aliases": spec.aliases,
        "family": spec.family,
        "summary": spec.summary,
        "rules": spec.rules,
        "reference": spec.reference,
        "variant_of": spec.variant_of,
        "obs": spaces::obs_to_json(&spec.obs),
        "actions": spaces::actions_to_json(&spec.actions),
        "action_names": spec.action_names,
        "metrics": spec.metrics,
        "time_limit": spec.time_limit,
        "solved_at": env.solved_at(),
        "options": spec.options.iter().map(option_to_json).collect::<Vec<Value>>(),
        "preset": env.requested.settings.has_preset(),
    })
}

fn option_to_json(option: &EnvOption) -> Value {
    let EnvOption { name, default, values, help, .. } = option;
    let mut all = json!({"name": name, "help": help});
    all["default"] = match default {
        OptionValue::Number(number) => json!(number),
        OptionValue::Word(word) => json!(word),
    };
    match values {
        OptionValues::Range(low, high) => {
            (all["low"], all["high"]) = (json!(low), json!(high));
        }
        OptionValues::Whole(low, high) => {
            (all["low"], all["high"]) = (json!(f64::from(*low)), json!(f64::from(*high)));
        }
        OptionValues::Words(words) => all["words"] = json!(words),
        OptionValues::Path => all["path"] = json!(true),
        OptionValues::Metrics => all["names"] = json!(true),
    }
    all
}
