//! Generates the tables of docs/configuration.md, and the types of Python's keywords, from the settings.

use std::fmt::Write as _;

use operant_learn::Config;
use operant_learn::setting::{Key, Kind};
use toml::Table;

use super::RunConfig;
use super::keys::keys;

/// Marks before and after the tables on the page.
const MARKS: (&str, &str) = (
    "<!-- The tables of settings, written by `cargo xtask config-doc`. -->\n",
    "<!-- The end of the tables. -->\n",
);

/// Every key with its flag, default, values and meaning, as Markdown.
pub fn tables() -> String {
    let (mut text, defaults, mut group) = (String::new(), defaults(), None);
    for key in keys() {
        if group.replace(key.group) != Some(key.group) {
            let title = key.group.title();
            let _ = write!(
                text,
                "\n### {title}\n\n| key | default | values | meaning |\n| --- | --- | --- | --- |\n"
            );
        }
        let default = defaults.get(key.name).map_or("none".to_owned(), |value| format!("`{value}`"));
        let _ = writeln!(text, "| {} | {default} | {} | {} |", names(key), key.kind, key.meaning());
    }
    text + "\n"
}

/// The default of every key that has one.
pub(super) fn defaults() -> Table {
    let defaults = [Table::try_from(Config::default()), Table::try_from(RunConfig::default())];
    defaults.into_iter().flat_map(|table| table.expect("settings are TOML")).collect()
}

fn names(key: &Key) -> String {
    match key.flag {
        Some(flag) => format!("`{}`, `{}`", key.name, flag.name()),
        None => format!("`{}`", key.name),
    }
}

/// The page with current tables; None if it lacks the marks.
pub fn insert_tables(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(MARKS.0)?;
    let (_, after) = rest.split_once(MARKS.1)?;
    Some([before, MARKS.0, &tables(), MARKS.1, after].concat())
}

/// The module of the Python package with the type, default and meaning of each key as a keyword of `operant.train`. `init_from` is a parameter of its own, which
/// takes objects too.
pub fn python_types() -> String {
    let mut text = String::from(
        "\"\"\"Types, defaults and meanings of the settings of a run, written by `cargo xtask config-doc`. docs/configuration.md has ranges and defaults.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         import os\nfrom collections.abc import Sequence\nfrom typing import Literal, TypedDict\n\n\n\
         class Settings(TypedDict, total=False):\n    \"\"\"Keywords of `operant.train`.\"\"\"\n\n",
    );
    let mut rows = String::new();
    let defaults = defaults();
    for key in keys().filter(|key| key.name != "init_from") {
        let meaning = super::in_python(&key.meaning());
        let _ = writeln!(text, "    {}: {}\n    \"\"\"{meaning}.\"\"\"", key.name, python_type(key.kind));
        let default = defaults.get(key.name).map_or("none".to_owned(), ToString::to_string);
        let _ = writeln!(rows, "    {:?}: ({default:?}, {meaning:?}),", key.name);
    }
    let _ = write!(
        text,
        "\n\n# Default, as TOML, and meaning of each.\nSETTINGS: dict[str, tuple[str, str]] = {{\n{rows}}}\n"
    );
    text
}

fn python_type(kind: Kind) -> String {
    match kind {
        Kind::Count { .. } | Kind::Size(_) => "int".to_owned(),
        Kind::CountOr { word, .. } => format!("int | Literal[\"{word}\"]"),
        Kind::Real(_) => "float".to_owned(),
        Kind::Switch => "bool".to_owned(),
        Kind::Choice { words, .. } => format!("Literal[\"{}\"]", words.join("\", \"")),
        Kind::Text(_) => "str | os.PathLike[str]".to_owned(),
        Kind::Widths => "Sequence[int]".to_owned(),
        Kind::Convs => "Sequence[Sequence[int]]".to_owned(),
    }
}
