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
         Generated from the specifications in `crates/operant-env/src` by `cargo xtask worlds-doc`; do not edit.\n",
        specs.len(),
        families.len(),
    );
    for family in families {
        let _ = write!(text, "\n## {}\n", capitalised(family));
        let of_family: Vec<&EnvSpec> = specs.iter().filter(|spec| spec.family == family).collect();
        for spec in of_family.iter().filter(|spec| spec.variant_of.is_none()) {
            let variants: Vec<&EnvSpec> =
                specs.iter().filter(|other| other.variant_of.as_ref() == Some(&spec.name)).collect();
            section(&mut text, spec, &variants);
        }
    }
    text
}

fn section(text: &mut String, spec: &EnvSpec, variants: &[&EnvSpec]) {
    let EnvSpec { name, summary, rules, reference, obs, actions, options, .. } = spec;
    let _ = write!(
        text,
        "\n### `{name}`\n\n{}. {rules}\n\n\
         - observations: {obs}; actions: {actions}; time limit: {}\n\
         - reference: {reference}\n",
        capitalised(summary),
        spec.time_limit_text(),
    );
    if !spec.aliases.is_empty() {
        let _ = writeln!(text, "- also known as {}", spec.aliases.join(", "));
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
