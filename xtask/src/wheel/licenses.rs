//! Licences of the code that the wheel links: the crates, Rust's standard library and zig's runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{MetadataCommand, Package};

use super::{Workshop, only_entry};

/// The file with the licences of crates and of zig's runtime, and that of Rust's standard library.
const CRATES: &str = "THIRD_PARTY_LICENSES.txt";
const STANDARD_LIBRARY: &str = "RUST_STANDARD_LIBRARY_LICENSES.html";

/// How names of licence files begin, in lower case.
const NAMES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// Writes the licences into the metadata of the unpacked wheel `tree`, built for the target `triple`.
///
/// # Errors
///
/// A crate without a licence that is known.
pub fn add(workshop: &Workshop<'_>, triple: &str, tree: &Path) -> Result<()> {
    let sysroot = workshop.output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let rust = Path::new(sysroot.trim()).join("share/doc/rust");
    let mut texts = Texts::default();
    for package in linked(workshop, triple)? {
        let title =
            format!("{} {} ({})", package.name, package.version, package.license.as_deref().unwrap_or("?"));
        for text in licences(&package, &rust.join("licenses"))? {
            texts.add(&title, &text);
        }
    }
    let zig = workshop.output(
        Command::new(workshop.python).args(["-c", "import ziglang; print(ziglang.__path__[0], end='')"]),
    )?;
    let zig = Path::new(&zig).join("LICENSE");
    texts.add(
        "zig's compiler runtime (MIT)",
        &fs::read_to_string(&zig).with_context(|| zig.display().to_string())?,
    );

    let info = only_entry(tree, ".dist-info")?;
    let place = info.join("licenses");
    fs::create_dir_all(&place)?;
    fs::write(place.join(CRATES), texts.page())?;
    let library = rust.join("COPYRIGHT-library.html");
    fs::copy(&library, place.join(STANDARD_LIBRARY))
        .with_context(|| format!("{} is missing from the Rust toolchain", library.display()))?;
    let metadata = fs::read_to_string(info.join("METADATA"))?;
    fs::write(info.join("METADATA"), with_license_files(&metadata)?)?;
    Ok(())
}

/// The wheel's metadata, which lists the files of licences.
fn with_license_files(metadata: &str) -> Result<String> {
    let (head, rest) =
        metadata.split_once("License-File: ").context("METADATA lists no licence of its own")?;
    Ok(format!("{head}License-File: {CRATES}\nLicense-File: {STANDARD_LIBRARY}\nLicense-File: {rest}"))
}

/// The crates of others that are linked into the package, by name.
fn linked(workshop: &Workshop<'_>, triple: &str) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args([
        "tree",
        "--locked",
        "--package",
        "operant-python",
        "--edges",
        "normal,no-proc-macro",
        "--target",
        triple,
    ]);
    let tree = workshop.output(tree.args(["--prefix", "none", "--no-dedupe", "--format", "{p}"]))?;
    let named: BTreeSet<(&str, &str)> = tree.lines().filter_map(name_and_version).collect();
    let metadata = MetadataCommand::new()
        .current_dir(workshop.root)
        .other_options(["--filter-platform".to_owned(), triple.to_owned()])
        .exec()?;
    let found = metadata.packages.into_iter().filter(|package| {
        package.source.is_some()
            && named.contains(&(package.name.as_str(), package.version.to_string().as_str()))
    });
    let mut found: Vec<Package> = found.collect();
    found.sort_by(|a, b| (a.name.as_str(), &a.version).cmp(&(b.name.as_str(), &b.version)));
    ensure!(!found.is_empty(), "cargo tree lists no crate:\n{tree}");
    Ok(found)
}

/// Name and version of a line of `cargo tree`, `rayon v1.12.0`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

/// The texts of a crate's licences: its own files, or, where it has none, its authors and the licence's text in `standard`.
fn licences(package: &Package, standard: &Path) -> Result<Vec<String>> {
    let dir = package.manifest_path.parent().context("a manifest lies in a directory")?;
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir)?.flatten().map(|entry| entry.path()).filter(|path| is_licence(path)).collect();
    files.sort();
    let read = |path: &PathBuf| fs::read_to_string(path).with_context(|| path.display().to_string());
    if !files.is_empty() {
        return files.iter().map(read).collect();
    }
    let expression = package.license.as_deref().unwrap_or_default();
    let ids = expression.split([' ', '/', '(', ')']).map(|id| standard.join(format!("{id}.txt")));
    let known: Vec<PathBuf> = ids.filter(|path| path.is_file()).collect();
    ensure!(
        !known.is_empty(),
        "{} {}: no licence file, and no text of its licence \"{expression}\"",
        package.name,
        package.version
    );
    let by = format!("Copyright (c) {}\n\n", package.authors.join(", "));
    known.iter().map(|path| Ok(by.clone() + &read(path)?)).collect()
}

fn is_licence(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    path.is_file() && NAMES.iter().any(|start| name.starts_with(start))
}

/// Licence texts, each with the titles of what it covers.
#[derive(Default)]
struct Texts(BTreeMap<String, BTreeSet<String>>);

impl Texts {
    /// Texts that differ in white space only are one.
    fn add(&mut self, title: &str, text: &str) {
        let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
        self.0.entry(lines.join("\n")).or_default().insert(title.to_owned());
    }

    fn page(&self) -> String {
        let mut page = "operant's compiled module contains the following software of others.\n".to_owned();
        for (text, titles) in &self.0 {
            let _ = write!(page, "\n{}\n", "=".repeat(80));
            titles.iter().for_each(|title| page.extend([title, "\n"]));
            let _ = write!(page, "\n{text}\n");
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_printed_once_with_all_that_it_covers() {
        let mut texts = Texts::default();
        texts.add("a 1.0.0 (MIT)", "Permission is granted\r\nto all\n");
        texts.add("b 2.0.0 (MIT)", "\nPermission is granted  \nto all");
        texts.add("b 2.0.0 (MIT)", "Another text");
        let page = texts.page();
        assert_eq!(page.matches("Permission is granted\nto all\n").count(), 1);
        assert!(page.contains("a 1.0.0 (MIT)\nb 2.0.0 (MIT)\n\nPermission"), "{page}");
        assert!(page.contains("\nb 2.0.0 (MIT)\n\nAnother text\n"), "{page}");
    }

    #[test]
    fn every_dependency_of_the_package_has_a_licence() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let workshop = Workshop { root, target: root, python: Path::new("python3") };
        let packages = linked(&workshop, "x86_64-unknown-linux-gnu").expect("cargo tree");
        for name in ["pyo3", "rayon", "clap"] {
            assert!(packages.iter().any(|package| *package.name == name), "{name} is linked and not listed");
        }
        assert!(!packages.iter().any(|package| *package.name == "serde_derive"), "a macro is not linked");
        for package in packages {
            assert!(package.license.is_some() || package.license_file.is_some(), "{}", package.name);
        }
    }

    #[test]
    fn lines_of_cargo_tree_and_metadata_are_read() {
        assert_eq!(name_and_version("rayon v1.12.0"), Some(("rayon", "1.12.0")));
        assert_eq!(name_and_version("operant-env v0.1.0 (/src)"), Some(("operant-env", "0.1.0")));
        let metadata = with_license_files("Name: x\nLicense-File: LICENSE\nText").expect("there is one");
        assert!(metadata.contains(CRATES) && metadata.ends_with("License-File: LICENSE\nText"), "{metadata}");
        assert!(with_license_files("Name: x\n").is_err());
    }
}
