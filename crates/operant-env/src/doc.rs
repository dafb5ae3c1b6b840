//! Generates docs/worlds.md from the specifications.

use std::fmt::Write;

use crate::registry::Registry;
use crate::spec::EnvSpec;

/// The text of `docs/worlds.md`: one section per family, with all environments of the family.
pub fn markdown(registry: &Registry) -> String {
    let specs = registry.specs();
    let mut families: Vec<&str> = Vec::new();
    for spec in &specs {
        if !families.contains(&spec.family.as_str()) {
            families.push(&spec.family);
        }
    }
    let mut text = format!(
        "# Worlds\n\n\
         ```\n\
         operant envs                      # this list\n\
         operant envs minigrid             # one family\n\
         operant envs cartpole             # one environment: spaces, rules, options, preset, a picture\n\
         ```\n\n\
         {} environments in {} families. *Reference* names what each environment reproduces, and the differences.\n\n\
         Generated from the specifications in `crates/operant-env/src` by `cargo xtask worlds`; do not edit.\n",
        specs.len(),
        families.len(),
    );
    for family in families {
        let _ = write!(text, "\n## {}\n", capitalised(family));
        let of_family: Vec<&EnvSpec> = specs.iter().filter(|spec| spec.family == family).collect();
        let mut explained: Vec<String> = Vec::new();
        for spec in of_family.iter().filter(|spec| spec.variant_of.is_none()) {
            let variants: Vec<&EnvSpec> =
                specs.iter().filter(|other| other.variant_of.as_ref() == Some(&spec.name)).collect();
            section(&mut text, spec, &variants, &mut explained);
        }
    }
    text
}

/// The meaning of the numbers of an observation. Parts that several environments of the family have are explained once.
fn meaning(spec: &EnvSpec, explained: &mut Vec<String>) -> String {
    let mut spec = spec.clone();
    let is_known = |name: &String| name.contains(':') && explained.contains(name);
    let as_above = if spec.obs_names.iter().any(is_known) { "as above" } else { "" };
    spec.obs_names.retain(|name| !is_known(name));
    let new = spec.obs_names_text().unwrap_or_default();
    explained.append(&mut spec.obs_names);
    let texts: Vec<&str> = [as_above, &new].into_iter().filter(|text| !text.is_empty()).collect();
    if texts.is_empty() { String::new() } else { format!(" ({})", texts.join("; ")) }
}

fn section(text: &mut String, spec: &EnvSpec, variants: &[&EnvSpec], explained: &mut Vec<String>) {
    let EnvSpec { name, summary, rules, reference, obs, actions, options, action_names, .. } = spec;
    let names =
        if action_names.is_empty() { String::new() } else { format!(" ({})", action_names.join(", ")) };
    let _ = write!(
        text,
        "\n### `{name}`\n\n{}. {rules}\n\n\
         - observations: {obs}{}\n\
         - actions: {actions}{names}; time limit: {}\n\
         - reference: {reference}\n",
        capitalised(summary),
        meaning(spec, explained),
        spec.time_limit_text(),
    );
    if !spec.aliases.is_empty() {
        let _ = writeln!(text, "- also known as {}", spec.aliases.join(", "));
    }
    for metric in &spec.metrics {
        let _ = writeln!(text, "- metric `{}`: {}", metric.name, metric.help);
    }
    for option in options {
        let _ = writeln!(
            text,
            "- `env.{}` = {} ({}): {}",
            option.name, option.default, option.values, option.help
        );
    }
    if !variants.is_empty() {
        let variants: Vec<String> =
            variants.iter().map(|spec| format!("`{}`{}", spec.name, in_brackets(&spec.aliases))).collect();
        let _ = writeln!(text, "- variants: {}", variants.join("; "));
    }
}

fn in_brackets(aliases: &[String]) -> String {
    if aliases.is_empty() { String::new() } else { format!(" ({})", aliases.join(", ")) }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
