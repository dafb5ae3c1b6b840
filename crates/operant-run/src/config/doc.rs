//! Generates the tables of docs/configuration.md from the settings.

use std::fmt::Write as _;

use operant_learn::Config;
use operant_learn::setting::Key;
use toml::Table;

use super::RunConfig;

/// Marks before and after the tables on the page.
const MARKS: (&str, &str) = (
    "<!-- The tables of settings, written by `cargo xtask config-doc`. -->\n",
    "<!-- The end of the tables. -->\n",
);

/// Every key with its flag, default, values and meaning, as Markdown.
pub fn tables() -> String {
    let mut text = String::new();
    let groups = [
        ("Hyperparameters", Config::KEYS, Table::try_from(Config::default())),
        ("How a run is carried out", RunConfig::KEYS, Table::try_from(RunConfig::default())),
    ];
    for (title, keys, defaults) in groups {
        let defaults = defaults.expect("settings are TOML");
        let _ = write!(
            text,
            "\n### {title}\n\n| key | default | values | meaning |\n| --- | --- | --- | --- |\n"
        );
        for key in keys {
            let default = defaults.get(key.name).map_or("none".to_owned(), |value| format!("`{value}`"));
            let _ = writeln!(text, "| {} | {default} | {} | {} |", names(key), key.kind, key.meaning());
        }
    }
    text + "\n"
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
