//! What `cargo xtask worlds` writes is current: the texts and hashes of emitted CUDA, docs/worlds.md, and the list of worlds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use operant_env::builtin;

#[allow(dead_code)] // its `main`
#[path = "../examples/worlds.rs"]
mod worlds;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn written_files_are_current() {
    for (path, text) in worlds::files(&builtin()) {
        let found = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
        // A test below says more about these.
        assert!(
            found == text || path == worlds::HASHES,
            "{path} is stale or missing: run `cargo xtask worlds` and read the difference"
        );
    }
}

/// Hashes by file name.
fn rows(table: &str) -> BTreeMap<&str, &str> {
    table.lines().map(|row| row.split_once("  ").map_or((row, ""), |(hash, name)| (name, hash))).collect()
}

#[test]
fn environments_emit_what_was_read() {
    let found = std::fs::read_to_string(root().join(worlds::HASHES)).unwrap_or_default();
    let files = worlds::files(&builtin());
    let expected = &files.iter().find(|(path, _)| path == worlds::HASHES).expect("the table").1;
    let (mut old, new) = (rows(&found), rows(expected));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../emitted");
    let mut complaints = String::new();
    for (name, text) in worlds::emitted(&builtin()) {
        let file = format!("{name}.cuh");
        let Some(hash) = new.get(file.as_str()) else { continue };
        let what = match old.remove(file.as_str()) {
            Some(found) if found == *hash => continue,
            Some(_) => "emits other text",
            None => "has no row",
        };
        std::fs::create_dir_all(&target)
            .and_then(|()| std::fs::write(target.join(&file), text))
            .expect("target");
        complaints += &format!(
            "{name} {what}; the new text is target/emitted/{file}. `cargo xtask worlds --diff {name}` \
             emits the text of the last commit and shows the difference.\n"
        );
    }
    old.keys().for_each(|name| complaints += &format!("{name}: a row of no environment.\n"));
    assert!(
        complaints.is_empty() && found == *expected,
        "{} is stale:\n{complaints}If every difference is meant: `cargo xtask worlds`.",
        worlds::HASHES
    );
}

#[test]
fn no_other_files_are_kept() {
    let known: Vec<PathBuf> = worlds::files(&builtin()).into_iter().map(|(path, _)| path.into()).collect();
    for file in std::fs::read_dir(root().join(worlds::EMITTED)).expect("the directory") {
        let path = Path::new(worlds::EMITTED).join(file.expect("a file").file_name());
        assert!(known.contains(&path), "{} belongs to no environment", path.display());
    }
}
