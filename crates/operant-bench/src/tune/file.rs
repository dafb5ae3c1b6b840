//! The operant.toml that tuning writes: it changes the environment's table and leaves everything else as it is.

use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};

use operant_run::{Error, Result, dir};
use toml_edit::{DocumentMut, Item, Table};

use super::choice::Choice;

/// The comment above a tuned table.
const MARK: &str = "# operant tune ";
/// The comment after a tuned key.
const WROTE: &str = " # operant tune";

/// A configuration file and its parsed content.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    document: DocumentMut,
    /// The name of the environment's table: the existing one, or the default.
    table: String,
}

impl ConfigFile {
    /// Reads the file, which need not exist yet; `names` are the names of the environment, the default first.
    ///
    /// # Errors
    /// When it is not valid TOML.
    pub fn read(path: &Path, names: &[&str]) -> Result<Self> {
        let text = match dir::read_text(path) {
            Ok(text) => text,
            Err(error) if error.kind() == Io::NotFound => String::new(),
            Err(error) => return Err(cannot("read", path, &error)),
        };
        let document = text.parse::<DocumentMut>().map_err(|error| {
            Error::usage(format!("not valid TOML: {}", error.message().trim()))
                .at(path.display().to_string())
                .remedy("correct it, or write to another file with --output FILE")
        })?;
        let is_there = |name: &&&str| document.contains_key(name);
        let table = names.iter().find(is_there).or(names.first()).copied().unwrap_or_default().to_owned();
        if document.get(&table).is_some_and(|item| !item.is_table()) {
            return Err(Error::usage(format!("{table} is written inline, not as a table"))
                .at(path.display().to_string())
                .remedy(format!("begin it with [{table}], or write to another file with --output FILE")));
        }
        Ok(Self { path: path.to_path_buf(), document, table })
    }

    /// The name of the environment's table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Checks that the file can be written, before minutes are spent on the search.
    ///
    /// # Errors
    /// When its directory is not writable.
    pub fn check_writable(&self) -> Result<()> {
        // It is removed at once.
        temporary_sibling(&self.path).map(drop).map_err(|error| cannot("written", &self.path, &error))
    }

    /// Whether tuning wrote this key of the environment's table.
    pub fn was_tuned(&self, key: &str) -> bool {
        let table = self.document.get(&self.table).and_then(Item::as_table);
        table.and_then(|table| table.get(key)).and_then(Item::as_value).is_some_and(is_ours)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets these values in the environment's table, removes values of earlier tuning, and replaces the file atomically. `about`
    /// describes in one line how the values were found.
    ///
    /// # Errors
    /// When the file cannot be written; then it is unchanged.
    pub fn write(&mut self, choice: &Choice, about: &str) -> Result<()> {
        let name = self.table.clone();
        let last = self.document.iter().filter_map(|(_, item)| item.as_table()?.position()).max();
        let follows = !self.document.is_empty() && !self.document.contains_key(&name);
        let table = self.document.entry(&name).or_insert_with(|| {
            let mut table = Table::new();
            table.set_position(last.map(|last| last + 1));
            Item::Table(table)
        });
        let Some(table) = table.as_table_mut() else {
            let what = format!("{name} is not a table here");
            return Err(Error::usage(what).at(self.path.display().to_string()).remedy("remove it"));
        };
        let ours: Vec<String> = table
            .iter()
            .filter(|(_, item)| item.as_value().is_some_and(is_ours))
            .map(|(key, _)| key.to_owned())
            .collect();
        for key in ours {
            table.remove(&key);
        }
        for (key, value) in choice {
            // Texts that the search produced, in valid TOML.
            let mut value: toml_edit::Value = value.parse().unwrap_or_else(|_| value.as_str().into());
            *value.decor_mut() = toml_edit::Decor::new(" ", WROTE);
            table[*key] = Item::Value(value);
        }
        let before = above(table).to_owned();
        let kept: String =
            before.lines().filter(|line| !line.starts_with(MARK)).map(|line| format!("{line}\n")).collect();
        let kept = if follows { "\n".to_owned() } else { kept };
        table.decor_mut().set_prefix(format!("{kept}{MARK}{about}\n"));
        // An empty table is still written, with the comment; one in dotted keys becomes a table.
        table.set_implicit(false);
        table.set_dotted(false);
        dir::write_output(&self.path, self.document.to_string())
            .map_err(|error| cannot("written", &self.path, &error))
    }
}

/// Whether tuning wrote a value.
fn is_ours(value: &toml_edit::Value) -> bool {
    value
        .decor()
        .suffix()
        .and_then(|suffix| suffix.as_str())
        .is_some_and(|suffix| suffix.trim() == WROTE.trim())
}

/// The lines above a table's name.
fn above(table: &Table) -> &str {
    table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default()
}

/// A temporary file in the directory of `path`, with default permissions.
fn temporary_sibling(path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.prefix(".operant.toml-").tempfile_in(parent)
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::usage(format!("the configuration file cannot be {what}: {error}"))
        .at(path.display().to_string())
        .remedy("name a file in a directory that you can write to with --output FILE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(values: &[(&'static str, &str)]) -> Choice {
        values.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
    }

    /// The file after one tuning; a second one must not change it.
    fn written(text: &str, values: &[(&'static str, &str)]) -> String {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("operant.toml");
        if !text.is_empty() {
            std::fs::write(&path, text).expect("written");
        }
        let write = || {
            let mut file = ConfigFile::read(&path, &["cartpole", "CartPole-v1"]).expect("a file");
            file.check_writable().expect("a directory of one's own");
            file.write(&choice(values), "then").expect("written");
            let again = ConfigFile::read(&path, &["cartpole", "CartPole-v1"]).expect("a file");
            assert!(values.iter().all(|(key, _)| again.was_tuned(key)) && !again.was_tuned("gamma"));
            std::fs::read_to_string(&path).expect("there")
        };
        let (once, again) = (write(), write());
        assert_eq!(once, again, "it comes to rest");
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1, "nothing else is left");
        once
    }

    #[test]
    fn a_new_file_has_the_table_and_how_it_came_about() {
        let text = written("", &[("threads", "2"), ("waiting", "\"sleep\"")]);
        let lines = [
            "# operant tune then",
            "[cartpole]",
            "threads = 2 # operant tune",
            "waiting = \"sleep\" # operant tune",
            "",
        ];
        assert_eq!(text, lines.join("\n"));
        assert_eq!(written("", &[]), "# operant tune then\n[cartpole]\n");
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        let before = "# mine\nseed = 3 # three\n\n# a table\n[cartpole]\n# why\ngamma = 0.9\nthreads = 7 # operant tune\n\n[pendulum]\nseed = 4\n";
        let text = written(before, &[("num_envs", "64")]);
        let after = "# mine\nseed = 3 # three\n\n# a table\n# operant tune then\n[cartpole]\n# why\ngamma = 0.9\nnum_envs = 64 # operant tune\n\n[pendulum]\nseed = 4\n";
        assert_eq!(text, after, "what was tuned before has gone");
        // The user's values stay, unless something better was found.
        let text = written("[cartpole]\nnum_envs = 64 # mine\nthreads = 1\n", &[("threads", "2")]);
        let after = "# operant tune then\n[cartpole]\nnum_envs = 64 # mine\nthreads = 2 # operant tune\n";
        assert_eq!(text, after);
        // A table under the environment's other name is that environment's.
        let text = written("[CartPole-v1]\nseed = 1\n", &[("threads", "1")]);
        assert_eq!(text, "# operant tune then\n[CartPole-v1]\nseed = 1\nthreads = 1 # operant tune\n");
        let text = written("seed = 1\n[pendulum]\nseed = 2\n", &[("threads", "1")]);
        let after =
            "seed = 1\n[pendulum]\nseed = 2\n\n# operant tune then\n[cartpole]\nthreads = 1 # operant tune\n";
        assert_eq!(text, after);
        // Dotted keys become a table, after what follows them.
        let text = written("cartpole.seed = 1\nseed = 2\n", &[("threads", "1")]);
        let dotted: toml_edit::DocumentMut = text.parse().expect("TOML");
        assert_eq!(dotted["seed"].as_integer(), Some(2), "{text}");
        assert_eq!(dotted["cartpole"]["threads"].as_integer(), Some(1), "{text}");
    }

    #[test]
    fn unreadable_and_unwritable_files_are_reported_first() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("operant.toml");
        std::fs::write(&path, "seed = \n").expect("written");
        let error = ConfigFile::read(&path, &["cartpole"]).expect_err("no TOML");
        assert!(error.what.contains("not valid TOML") && error.remedy.is_some(), "{error}");
        let error = ConfigFile::read(&dir.path().join("missing/operant.toml"), &["cartpole"])
            .and_then(|file| file.check_writable())
            .expect_err("no directory");
        assert!(error.what.contains("cannot be written") && error.exit_code() == 2, "{error}");
        assert!(ConfigFile::read(dir.path(), &["cartpole"]).is_err(), "a directory");
        std::fs::write(&path, "cartpole = { threads = 2 }\n").expect("written");
        let error = ConfigFile::read(&path, &["cartpole"]).expect_err("no table to write to");
        assert!(error.what.contains("not as a table") && error.remedy.is_some(), "{error}");
    }
}
