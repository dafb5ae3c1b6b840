//! Prints one environment in full.

use operant_env::{AnyEnv, EnvOption, EnvSpec, LaneWidth, TileSpec};
use operant_metrics::printable;
use operant_run::Requested;
use operant_run::config::{Origin, keys};
use toml::Value;

use crate::commands::play::Keyboard;

use super::Listed;
use crate::table::hanging;

/// Column where the values start.
const COLUMN: usize = 16;
/// Indentation of the picture.
const INDENT: usize = 2;

/// The description of an environment, as [`crate::output::print_painted`] takes it; `specs` are all specifications of the registry, and
/// `asked` is how the user named it.
pub fn text(env: &dyn AnyEnv, listed: &Listed, specs: &[EnvSpec], width: usize, asked: &str) -> String {
    let spec = &listed.spec;
    let mut text = hanging(&spec.name, COLUMN.max(spec.name.chars().count() + 2), &spec.summary, width);
    text.push('\n');
    let mut line = |label: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&hanging(&format!("  {label}"), COLUMN, value, width));
        }
    };
    line("also", &spec.aliases.join(", "));
    line("family", &spec.family);
    line("variant of", spec.variant_of.as_deref().unwrap_or_default());
    let variants: Vec<&str> = specs
        .iter()
        .filter(|other| other.variant_of.as_ref() == Some(&spec.name))
        .map(|other| other.name.as_str())
        .collect();
    if !variants.is_empty() {
        line("variants", &variants.join(", "));
    }
    line("rules", &spec.rules);
    line("reference", &spec.reference);
    line("observations", &spec.obs.to_string());
    line("", &spec.obs_names_text().unwrap_or_default());
    let names = match spec.action_names.as_slice() {
        [] => String::new(),
        names => format!(": {}", names.join(", ")),
    };
    let masked = if env.masked() { "; illegal ones are masked" } else { "" };
    line("actions", &format!("{}{names}{masked}", spec.actions));
    for (at, metric) in spec.metrics.iter().enumerate() {
        line(if at == 0 { "metrics" } else { "" }, &format!("{}: {}", metric.name, metric.help));
    }
    line("time limit", &spec.time_limit_text());
    line("solved at", &listed.solved_at().map_or_else(String::new, |threshold| threshold.to_string()));
    for (at, EnvOption { name, default, values, help, .. }) in spec.options.iter().enumerate() {
        let label = if at == 0 { "options" } else { "" };
        line(label, &format!("env.{name} = {default} ({values}): {help}"));
    }
    let on_cpu = preset(&listed.requested, |origin| matches!(origin, Origin::Preset(_)));
    let none = "none; uses the defaults (see `operant config`)";
    line("preset", if listed.requested.settings.has_preset() { &on_cpu } else { none });
    if let Some(gpu) = listed.requested.has_gpu_preset().then(|| listed.requested.on_gpu().ok()).flatten() {
        line("on a GPU", &preset(&gpu, |origin| matches!(origin, Origin::PresetGpu(_))));
    }
    // The picture may have colours.
    let mut text = printable(&text);
    if let Some(picture) = first_state(env) {
        text.push_str(&format!("\nA first state:\n\n{picture}"));
    }
    let name = if env.file().is_some() { asked } else { &spec.name };
    let keyboard = if Keyboard::of(spec, false).is_ok() { " --keyboard" } else { "" };
    let train = format!("\nTrain it:  operant train {name}\n");
    // Environments in worker processes are not drawn.
    let play = if env.leaves().is_empty() {
        String::new()
    } else {
        format!("Play it:   operant play {name}{keyboard}\n")
    };
    text + &printable(&(train + &play))
}

/// The settings from these origins that differ from the defaults.
fn preset(requested: &Requested, is_of: impl Fn(&Origin) -> bool) -> String {
    let defaults = toml::Table::try_from(operant_learn::Config::default()).unwrap_or_default();
    let shown = keys().filter(|key| requested.origin(key.name).is_some_and(&is_of)).filter_map(|key| {
        let value: &Value = requested.value(key.name)?;
        let is_default = defaults.get(key.name) == Some(value)
            && !matches!(requested.origin(key.name), Some(Origin::PresetGpu(_)));
        (!is_default).then(|| format!("{}={value}", key.name))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A picture of an initial state; `None` if the environment cannot be created.
fn first_state(env: &dyn AnyEnv) -> Option<String> {
    if env.leaves().is_empty() {
        return None;
    }
    let tile = TileSpec { evaluation: true, lanes: LaneWidth::One, ..TileSpec::new(1, 0, 16) };
    let stepper = env.stepper(tile).ok()?;
    let mut words = vec![0; env.leaves().len()];
    stepper.state(0, &mut words);
    let scene = env.picture(&words);
    let text = operant_draw::cells::print(scene.low, scene.high, &scene.shapes, INDENT);
    (!text.is_empty()).then_some(text)
}
