//! Machines of tests/fixtures/machines, unfolded from one text each into a tree of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use operant_host::Topology;
use operant_host::topology::of_sysctl;
use tempfile::TempDir;

/// The tree of a machine; it goes away with the value.
pub fn unfold(name: &str) -> TempDir {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/machines/{name}.tree"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let root = tempfile::tempdir().expect("a temporary directory");
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (path, value) = line.split_once(" =").unwrap_or_else(|| panic!("{name}: {line}"));
        let value = value.strip_prefix(' ').unwrap_or(value);
        for path in paths(path) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            // A path that comes again adds a line.
            let before = fs::read_to_string(&path).unwrap_or_default();
            fs::write(path, format!("{before}{value}\n")).expect("a file");
        }
    }
    root
}

/// The machine of a tree; unfolded once, as some have thousands of files.
pub fn machine(name: &str) -> Topology {
    static SEEN: Mutex<BTreeMap<String, Topology>> = Mutex::new(BTreeMap::new());
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.entry(name.to_owned()).or_insert_with(|| Topology::below(unfold(name).path())).clone()
}

/// The Mac whose `sysctl hw machdep.cpu` printed this text.
#[allow(dead_code)] // an example shares this file
pub fn mac(name: &str) -> Topology {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/machines/{name}.sysctl"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let cpus = text.lines().find_map(|line| line.strip_prefix("hw.ncpu: ")).expect("the number of CPUs");
    of_sysctl(&text, cpus.parse().expect("a number"))
}

/// `cpu{0-2,8}/x` is cpu0/x, cpu1/x, cpu2/x and cpu8/x.
fn paths(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (numbers, after) = rest.split_once('}').expect("a closing brace");
    let numbers = numbers.split(',').flat_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u32>().expect("a number")..=last.parse().expect("a number")
    });
    numbers.map(|number| format!("{before}{number}{after}")).collect()
}
