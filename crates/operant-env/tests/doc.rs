//! docs/worlds.md matches the specifications, and they say what lists and readers need.

use operant_env::builtin;

#[test]
fn docs_worlds_md_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/worlds.md");
    let found = std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("docs/worlds.md: {error}; write it with `cargo xtask worlds-doc`"));
    assert!(
        found == operant_env::markdown(&builtin()),
        "docs/worlds.md is stale; write it again with `cargo xtask worlds-doc`"
    );
}

#[test]
fn every_world_is_described() {
    let specs = builtin().specs();
    for spec in &specs {
        let texts = [&spec.family, &spec.summary, &spec.rules, &spec.reference];
        assert!(texts.iter().all(|text| !text.is_empty()), "{}", spec.name);
        // ONNX models have inputs and outputs of these names.
        let reserved = ["action", "logits", "value", "mean", "log_std", "action_mask"];
        let parts = spec.obs.parts();
        assert!(
            parts.iter().all(|(part, _)| !reserved.contains(part) && !part.contains('.')),
            "{}",
            spec.name
        );
        if let Some(base) = &spec.variant_of {
            assert!(specs.iter().any(|other| other.name == *base), "{} is a variant of {base}", spec.name);
        }
    }
}

#[test]
fn no_two_worlds_share_a_name() {
    let mut seen = std::collections::HashMap::new();
    for spec in builtin().specs() {
        for name in spec.aliases.iter().chain([&spec.name]) {
            let before = seen.insert(name.clone(), spec.name.clone());
            assert_eq!(before, None, "{name} is {} too", spec.name);
        }
    }
}
