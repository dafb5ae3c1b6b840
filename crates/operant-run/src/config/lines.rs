//! Lines of a TOML document, for errors and origins.

use std::collections::BTreeMap;

/// The line of each key of a document, by its path.
#[derive(Default)]
pub(super) struct Lines {
    text: String,
    /// Where each key's path begins, in bytes.
    starts: BTreeMap<Vec<String>, usize>,
}

impl Lines {
    /// The lines of a document; empty if it is not TOML.
    pub fn of(text: &str) -> Self {
        fn walk(table: &toml::de::DeTable<'_>, path: &[String], starts: &mut BTreeMap<Vec<String>, usize>) {
            for (key, value) in table {
                let mut path = path.to_vec();
                path.push(key.get_ref().to_string());
                if let Some(inner) = value.get_ref().as_table() {
                    walk(inner, &path, starts);
                }
                starts.insert(path, key.span().start);
            }
        }
        let mut starts = BTreeMap::new();
        if let Ok(document) = toml::de::DeTable::parse(text) {
            walk(document.get_ref(), &[], &mut starts);
        }
        Lines { text: text.to_owned(), starts }
    }

    /// The line of the key at this path.
    pub fn get(&self, path: &[&str]) -> Option<usize> {
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        self.starts.get(&path).map(|start| line_of(&self.text, *start))
    }
}

/// The line, counted from 1, that holds a byte.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|b| *b == b'\n').count()
}
