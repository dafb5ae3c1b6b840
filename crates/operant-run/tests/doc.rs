//! docs/configuration.md and the Python package's keywords match the settings.

#[test]
fn docs_configuration_md_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let found =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("docs/configuration.md: {error}"));
    assert!(
        operant_run::config::insert_tables(&found).is_some_and(|current| current == found),
        "docs/configuration.md is stale; write its tables again with `cargo xtask config-doc`"
    );
}

#[test]
fn types_of_python_keywords_are_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../operant-python/python/operant/_settings.py");
    let found = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(
        found,
        operant_run::config::python_types(),
        "_settings.py is stale; write it again with `cargo xtask config-doc`"
    );
}
