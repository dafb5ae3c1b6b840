//! The compressed reference data of operant-env (tests/data/README.md), for its suites and those of bin/operant.

use std::io::Read;
use std::path::{Path, PathBuf};

/// Where reference data is: tests/data of operant-env, or the directory that OPERANT_REFERENCE names.
pub fn directory() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/operant-env/tests/data");
    std::env::var_os("OPERANT_REFERENCE").map_or_else(own, PathBuf::from)
}

/// The text of NAME.gz there.
pub fn text(name: &str) -> String {
    let path = directory().join(format!("{name}.gz"));
    let mut text = String::new();
    std::fs::File::open(&path)
        .and_then(|file| flate2::read::GzDecoder::new(file).read_to_string(&mut text))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text
}
