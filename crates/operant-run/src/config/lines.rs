//! Lines of a TOML document, for errors and origins.

use std::collections::BTreeMap;

/// The line of each key of a document, by its path.
#[derive(Default)]
pub(super) struct Lines(BTreeMap<Vec<String>, usize>);

impl Lines {
    /// The lines of a document; empty if it is not TOML.
    pub fn of(text: &str) -> Self {
        fn walk(
            text: &str,
            table: &toml::de::DeTable<'_>,
            path: &[String],
            lines: &mut BTreeMap<Vec<String>, usize>,
        ) {
            for (key, value) in table {
                let mut path = path.to_vec();
                path.push(key.get_ref().to_string());
                if let Some(inner) = value.get_ref().as_table() {
                    walk(text, inner, &path, lines);
                }
                lines.insert(path, line_of(text, key.span().start));
            }
        }
        let mut lines = BTreeMap::new();
        if let Ok(document) = toml::de::DeTable::parse(text) {
            walk(text, document.get_ref(), &[], &mut lines);
        }
        Lines(lines)
    }

    /// The line of the key at this path.
    pub fn get(&self, path: &[&str]) -> Option<usize> {
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        self.0.get(&path).copied()
    }
}

/// The line, counted from 1, that holds a byte.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|b| *b == b'\n').count()
}
