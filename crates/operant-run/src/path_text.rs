//! Paths as text: in JSON, on a terminal, and in a command that can be pasted into a shell. A path need not be UTF-8,
//! and may contain control characters.

use std::path::Path;

use operant_metrics::plain;
use serde::Serializer;

/// Serializes a path with invalid UTF-8 replaced, where serde would fail. For `serialize_with`.
///
/// # Errors
/// When the serializer fails.
pub fn serialize<S: Serializer>(path: impl AsRef<Path>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.as_ref().to_string_lossy())
}

/// [`serialize`] for a path that may be missing.
///
/// # Errors
/// When the serializer fails.
pub fn serialize_option<S: Serializer>(
    path: &Option<impl AsRef<Path>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&path.as_ref().to_string_lossy()),
        None => serializer.serialize_none(),
    }
}

/// A path, safe for a terminal.
pub fn shown(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

/// A word for a shell, quoted if necessary.
pub fn quoted(word: &str) -> String {
    let word = plain(word);
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./+=:@%,".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Longest file name that [`file_name`] makes, in bytes; endings may follow.
const MAX_NAME: usize = 200;

/// The file name for a name from a file or from a user, such as that of an environment: one part of a path, whatever the name contains.
pub fn file_name(name: &str) -> String {
    let mut name = plain(name).replace(['/', '\\'], "_");
    if name.is_empty() || name.starts_with('.') {
        name.replace_range(..name.len().min(1), "_");
    }
    while name.len() > MAX_NAME {
        name.pop();
    }
    name
}

/// The run in `dir` as an argument of a command, quoted for a shell: its name if it is in `parent`, the default
/// directory that holds the runs, or else its directory.
pub fn run_word(dir: &Path, parent: &Path) -> String {
    quoted(&run_argument(dir, parent))
}

/// As [`run_word`], not quoted.
pub fn run_argument(dir: &Path, parent: &Path) -> String {
    let absolute = |path: &Path| std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    let Ok(dir) = absolute(dir) else { return shown(dir) };
    match dir.file_name().and_then(|name| name.to_str()) {
        // A leading dash would make it a flag.
        Some(name) if !name.starts_with('-') && absolute(&parent.join(name)).is_ok_and(|by| by == dir) => {
            plain(name)
        }
        _ => shown(&dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        let words = ["mine", "a b", "it's", "", "$x", "a\u{1b}b"].map(quoted);
        assert_eq!(words, ["mine", "'a b'", r"'it'\''s'", "''", "'$x'", "'a b'"]);
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        let names = ["cartpole", "../../x", "/etc/passwd", "..", ".", "", "a\0b\nc", "a b"].map(file_name);
        assert_eq!(names, ["cartpole", "_._.._x", "_etc_passwd", "_.", "_", "_", "a b c", "a b"]);
        let long = file_name(&"é".repeat(300));
        assert!(long.len() <= MAX_NAME && long.chars().all(|c| c == 'é'));
        for name in names.iter().chain([&long]) {
            assert_eq!(Path::new("dir").join(name).parent(), Some(Path::new("dir")), "{name}");
        }
    }

    #[test]
    fn a_run_is_named_if_its_name_leads_to_it_and_by_its_directory_otherwise() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let root = std::fs::canonicalize(place.path()).expect("there");
        for dir in ["runs/mine", "runs/-x", "other/mine"] {
            std::fs::create_dir_all(root.join(dir)).expect("made");
        }
        let word = |dir: &str| run_word(&root.join(dir), &root.join("runs"));
        assert_eq!(word("runs/mine"), "mine");
        assert_eq!(word("other/mine"), root.join("other/mine").display().to_string());
        std::fs::create_dir(root.join("runs/my run")).expect("made");
        assert_eq!(word("runs/my run"), "'my run'");
        assert_eq!(run_argument(&root.join("runs/my run"), &root.join("runs")), "my run");
        assert_eq!(word("runs/-x"), root.join("runs/-x").display().to_string());
    }
}
