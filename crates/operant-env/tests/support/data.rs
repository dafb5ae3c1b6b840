//! The compressed reference data of operant-env (tests/data/README.md), for its suites and those of bin/operant.

use std::io::Read;
use std::path::Path;

/// The text of tests/data/NAME.gz of operant-env.
pub fn text(name: &str) -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../crates/operant-env/tests/data/{name}.gz"));
    let mut text = String::new();
    std::fs::File::open(&path)
        .and_then(|file| flate2::read::GzDecoder::new(file).read_to_string(&mut text))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text
}
