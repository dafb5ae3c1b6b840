//! docs/metrics.md matches the table.

#[test]
fn docs_metrics_md_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let found = std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("docs/metrics.md: {error}; write it with `cargo xtask metrics-doc`"));
    assert!(
        found == operant_metrics::markdown(),
        "docs/metrics.md is stale; write it again with `cargo xtask metrics-doc`"
    );
}
