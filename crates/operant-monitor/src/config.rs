//! The user's configuration of the monitor: `operant-monitor.toml` in the directory of the user's operant.toml.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use crossterm::event::KeyCode;
use operant_draw::symbols::Marker;
use operant_draw::theme::{Colours, ThemeName};
use operant_metrics::{MAX_SMALL_FILE, plain, read_file};
use serde::Deserialize;

use crate::MonitorError;
use crate::layout::PanelKind;

/// The file's name.
const FILE: &str = "operant-monitor.toml";

/// The configuration, checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// The theme, without `--theme`.
    pub theme: ThemeName,
    pub marker: Option<Marker>,
    /// Panels by columns, where the screen has room for them; the built-in layout if empty.
    pub layout: Vec<Vec<PanelKind>>,
    pub colours: Colours,
    /// For a key, the built-in key that it stands for.
    pub keys: Vec<(KeyCode, KeyCode)>,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    theme: Option<String>,
    marker: Option<String>,
    layout: Vec<Vec<String>>,
    #[serde(alias = "colors")]
    colours: BTreeMap<String, String>,
    keys: BTreeMap<String, String>,
}

impl Config {
    /// The user's configuration; the default one without a file.
    ///
    /// # Errors
    /// When the file cannot be read, or has a value that is not valid.
    pub fn of_user() -> Result<Self, MonitorError> {
        let path = file(|name| std::env::var_os(name));
        path.map_or_else(|| Ok(Config::default()), |path| Self::read(&path))
    }

    /// The configuration in a file; the default one if there is none.
    ///
    /// # Errors
    /// The errors of [`Config::of_user`].
    pub fn read(path: &Path) -> Result<Self, MonitorError> {
        let refused = |problem: String| MonitorError::Config { path: path.to_path_buf(), problem };
        let bytes = match read_file(path, MAX_SMALL_FILE) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Config::default()),
            read => read.map_err(|error| refused(error.to_string()))?,
        };
        let text = String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8 text".to_owned()))?;
        Self::parse(&text).map_err(|problem| refused(plain(problem.trim())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut colours = Colours::default();
        written.colours.iter().try_for_each(|(role, colour)| colours.set(role, colour))?;
        let panel = |name: &String| {
            PanelKind::of_name(name).ok_or_else(|| {
                let names = PanelKind::ALL.map(PanelKind::name).join(", ");
                format!("layout: there is no panel {name}; the panels are {names}")
            })
        };
        let columns =
            written.layout.iter().map(|column| column.iter().map(panel).collect::<Result<Vec<_>, _>>());
        let layout: Vec<Vec<PanelKind>> = columns.collect::<Result<_, _>>()?;
        let mut all: Vec<PanelKind> = layout.iter().flatten().copied().collect();
        all.sort_by_key(|panel| panel.key());
        if layout.iter().any(Vec::is_empty) || all.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("layout: each column needs at least one panel, and each panel may appear only once"
                .to_owned());
        }
        let key = |name: &str| {
            key_of(name).ok_or_else(|| {
                format!("keys: {name} is neither a character nor a key such as enter or pageup")
            })
        };
        let keys = written.keys.iter().map(|(typed, meant)| Ok((key(typed)?, key(meant)?)));
        let marker = |name: &str| match name {
            "braille" => Ok(Marker::Braille),
            "block" => Ok(Marker::Block),
            "ascii" => Ok(Marker::Ascii),
            _ => Err(format!("marker: {name} is none of braille, block, ascii")),
        };
        let theme = |name: &str| {
            let themes = || "auto, dark, light, ansi, none";
            ThemeName::from_str(name, false).map_err(|_| format!("theme: {name} is none of {}", themes()))
        };
        Ok(Config {
            theme: written.theme.as_deref().map_or(Ok(ThemeName::Auto), theme)?,
            marker: written.marker.as_deref().map(marker).transpose()?,
            layout,
            colours,
            keys: keys.collect::<Result<_, String>>()?,
        })
    }

    /// The built-in key that a typed key stands for.
    pub fn meant(&self, typed: KeyCode) -> KeyCode {
        self.keys.iter().find(|(key, _)| *key == typed).map_or(typed, |(_, meant)| *meant)
    }
}

/// The user's file, by the variables of the environment.
fn file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The specification ignores relative paths.
    let configured = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = configured.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))?;
    Some(base.join("operant").join(FILE))
}

/// A key by its character or name.
fn key_of(name: &str) -> Option<KeyCode> {
    let mut letters = name.chars();
    if let (Some(letter), None) = (letters.next(), letters.next()) {
        return Some(KeyCode::Char(letter));
    }
    Some(match name {
        "space" => KeyCode::Char(' '),
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "backtab" => KeyCode::BackTab,
        "backspace" => KeyCode::Backspace,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        name => KeyCode::F(name.strip_prefix('f')?.parse().ok().filter(|number| (1..=12).contains(number))?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_everything_and_none_sets_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert_eq!(Config::read(&path).unwrap(), Config::default());
        let text = "theme = \"light\"\nmarker = \"block\"\nlayout = [[\"returns\", \"losses\"], [\"scene\"]]\n\
            [colours]\naccent = \"#102030\"\n[keys]\n\"Q\" = \"q\"\nf5 = \"space\"\n";
        std::fs::write(&path, text).unwrap();
        let config = Config::read(&path).unwrap();
        assert_eq!((config.theme, config.marker), (ThemeName::Light, Some(Marker::Block)));
        assert_eq!(config.layout, [vec![PanelKind::Returns, PanelKind::Losses], vec![PanelKind::Scene]]);
        assert_eq!(config.meant(KeyCode::Char('Q')), KeyCode::Char('q'));
        assert_eq!(config.meant(KeyCode::F(5)), KeyCode::Char(' '));
        assert_eq!(config.meant(KeyCode::Char('x')), KeyCode::Char('x'));
        assert_ne!(config.colours, Colours::default());
    }

    #[test]
    fn what_is_not_valid_is_named() {
        for (text, part) in [
            ("themes = 1", "unknown field"),
            ("theme = \"red\"", "theme: red is none of auto, dark"),
            ("marker = \"dot\"", "marker: dot is none of braille"),
            ("layout = [[\"return\"]]", "there is no panel return; the panels are returns, speed"),
            ("layout = [[\"speed\", \"speed\"]]", "each panel may appear only once"),
            ("layout = [[]]", "at least one panel"),
            ("[colors]\ngood = \"green\"", "green is not a colour"),
            ("[keys]\nq = \"quit\"", "quit is neither a character"),
        ] {
            let problem = Config::parse(text).expect_err(text);
            assert!(problem.contains(part), "{text}: {problem}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        std::fs::write(&path, "theme = 1").unwrap();
        let error = Config::read(&path).expect_err("no word");
        assert!(error.exit_code() == 2 && error.what().contains(FILE), "{error}");
    }

    #[test]
    fn the_file_is_beside_the_users_operant_toml() {
        let with = |pairs: &[(&str, &str)]| {
            let get =
                |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into());
            file(get)
        };
        let home = Some(PathBuf::from("/home/a/.config/operant/operant-monitor.toml"));
        assert_eq!(with(&[("HOME", "/home/a")]), home);
        assert_eq!(with(&[("HOME", "/home/a"), ("XDG_CONFIG_HOME", "relative")]), home);
        assert_eq!(
            with(&[("XDG_CONFIG_HOME", "/etc/x")]),
            Some("/etc/x/operant/operant-monitor.toml".into())
        );
        assert_eq!(with(&[]), None);
    }
}
