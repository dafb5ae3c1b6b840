//! `cargo xtask site`: the documentation as a site, in target/site/html.
//!
//! The pages are those of the repository, at the same paths, so that their links work as they are; files that they link to are copied. A page with the Python API
//! is added, and rustdoc's pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools;

const SETTINGS: &str = "docs/site/mkdocs.yml";
const PACKAGE: &str = "crates/operant-python/python";
/// What pages are made of, besides docs.
const PAGES: [&str; 2] = ["README.md", "CHANGELOG.md"];
/// Modules of the Python package that the page of its API describes.
const MODULES: [&str; 5] = ["envs", "math", "shapes", "track", "pettingzoo"];
/// Crates whose API is for users: they write environments, and programs that train.
const ROOT_CRATES: [&str; 3] = ["operant-env", "operant-lane", "operant-run"];

/// Builds the site. With `--no-rust` without rustdoc's pages, which take minutes.
pub fn run(args: &[&str]) -> Result<()> {
    let with_rust = match args {
        [] => true,
        ["--no-rust"] => false,
        other => anyhow::bail!("`{}` is not understood; give nothing or --no-rust", other.join(" ")),
    };
    let metadata = tools::workspace()?;
    let (root, target) = (metadata.workspace_root.as_std_path(), metadata.target_directory.as_std_path());
    let python = tools::environment(&target.join("site-venv"), &root.join("requirements-site.txt"))?;
    let site = target.join("site");
    let (source, html) = (site.join("source"), site.join("html"));
    for old in [&source, &html] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    lay_out(root, &source)?;
    write(&source.join("api.md"), &api(root)?)?;
    let rust =
        if with_rust { rust_page() } else { "# Rust API\n\n`cargo doc --open` builds it.\n".to_owned() };
    write(&source.join("rust.md"), &rust)?;
    let settings = fs::read_to_string(root.join(SETTINGS)).context(SETTINGS)?;
    let added = format!(
        "\ndocs_dir: {}\nsite_dir: {}\n",
        serde_json::to_string(&source)?,
        serde_json::to_string(&html)?
    );
    let paths =
        format!("        python:\n          paths: [{}]\n", serde_json::to_string(&root.join(PACKAGE))?);
    let settings = settings.replacen("        python:\n", &paths, 1) + &added;
    let file = site.join("mkdocs.yml");
    write(&file, &settings)?;
    let mut mkdocs = Command::new(&python);
    mkdocs.args(["-m", "mkdocs", "build", "--quiet", "--strict", "--config-file"]).arg(&file);
    ensure!(mkdocs.env("NO_MKDOCS_2_WARNING", "1").status()?.success(), "mkdocs found mistakes in the pages");
    if with_rust {
        let mut doc = Command::new("cargo");
        doc.args(["doc", "--no-deps", "--quiet"]).current_dir(root);
        for name in ROOT_CRATES {
            doc.args(["-p", name]);
        }
        ensure!(doc.status()?.success(), "cargo doc failed");
        copy_tree(&target.join("doc"), &html.join("rust"))?;
    }
    println!("{}", html.join("index.html").display());
    Ok(())
}

/// Copies the pages, and the files that they link to. Links to directories become plain text, since a site has no listing of them.
fn lay_out(root: &Path, source: &Path) -> Result<()> {
    let mut pages: Vec<PathBuf> = PAGES.iter().map(PathBuf::from).collect();
    for directory in ["docs", "docs/results"] {
        for entry in fs::read_dir(root.join(directory))? {
            let name = Path::new(directory).join(entry?.file_name());
            if name.extension().is_some_and(|ending| ending == "md") {
                pages.push(name);
            }
        }
    }
    let mut seen: BTreeSet<PathBuf> = pages.iter().cloned().collect();
    while let Some(page) = pages.pop() {
        let text = fs::read_to_string(root.join(&page)).with_context(|| page.display().to_string())?;
        let directory = page.parent().unwrap_or(Path::new(""));
        let mut shown = text.clone();
        for link in links(&text) {
            let Some(file) = normal(&directory.join(link.split('#').next().unwrap_or_default())) else {
                continue;
            };
            let found = root.join(&file);
            if found.is_dir() {
                shown = unlinked(&shown, link);
            } else if found.is_file() && seen.insert(file.clone()) {
                if file.extension().is_some_and(|ending| ending == "md") {
                    pages.push(file);
                } else {
                    copy(&found, &source.join(&file))?;
                }
            }
        }
        write(&source.join(&page), &shown)?;
    }
    Ok(())
}

/// The page with the text of a link in its place.
fn unlinked(page: &str, link: &str) -> String {
    let end = format!("]({link})");
    let mut page = page.to_owned();
    while let Some(at) = page.find(&end) {
        let start = page[..at].rfind('[').unwrap_or(at);
        page = format!("{}{}{}", &page[..start], &page[start + 1..at], &page[at + end.len()..]);
    }
    page
}

/// The targets of links to files.
fn links(text: &str) -> BTreeSet<&str> {
    let parts = text.split("](").skip(1);
    let targets = parts.filter_map(|part| part.split(')').next());
    targets.filter(|link| !link.contains("://") && !link.starts_with('#') && !link.is_empty()).collect()
}

/// A path without `.` and `..`; None if it leaves the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::ParentDir if !parts.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            _ => return None,
        }
    }
    Some(parts)
}

/// A page with everything that the Python package exports, and with its further modules.
fn api(root: &Path) -> Result<String> {
    let init = root.join(PACKAGE).join("operant/__init__.py");
    let text = fs::read_to_string(&init).with_context(|| init.display().to_string())?;
    let list = text.split_once("__all__ = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.context("operant/__init__.py has no __all__")?;
    let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    let mut page =
        String::from("# Python API\n\nEverything that `import operant` has, then its modules.\n\n");
    for name in names.iter().filter(|name| !MODULES.contains(name)) {
        // The compiled module has no source to read.
        if !["DeviceArray", "build_info"].contains(name) {
            page += &format!("::: operant.{name}\n\n");
        }
    }
    for module in MODULES {
        page += &format!("::: operant.{module}\n\n");
    }
    Ok(page)
}

fn rust_page() -> String {
    let mut page = String::from("# Rust API\n\n");
    for name in ROOT_CRATES {
        let module = name.replace('-', "_");
        page += &format!("- <a href=\"rust/{module}/index.html\">{name}</a>\n");
    }
    page
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { copy_tree(&from, &to)? } else { copy(&from, &to)? }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found_and_followed() {
        let text =
            "[a](b.md#c), [d](../e.py) and ![f](g/h.png); not [i](https://j) or [k](#l) or an array[0](x y)";
        let found: Vec<&str> = links(text).into_iter().collect();
        assert_eq!(found, ["../e.py", "b.md#c", "g/h.png", "x y"]);
        let path = |path: &str| normal(Path::new(path)).map(|path| path.display().to_string());
        assert_eq!(path("docs/results/../../benches/./a.md").as_deref(), Some("benches/a.md"));
        assert_eq!((path("docs/../../secret"), path("/etc/passwd")), (None, None));
    }

    #[test]
    fn links_to_directories_become_text() {
        let page = "See [the examples](../examples), [both](../examples) and [this](that.md).";
        assert_eq!(unlinked(page, "../examples"), "See the examples, both and [this](that.md).");
    }

    #[test]
    fn every_name_of_the_package_is_on_the_page() {
        let page =
            api(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")).expect("a page");
        for name in
            ["operant.train", "operant.Policy", "operant.VectorEnv", "operant.track", "operant.Callback"]
        {
            assert!(page.contains(&format!("::: {name}\n")), "{name} in {page}");
        }
        assert!(!page.contains("operant.DeviceArray"), "{page}");
    }

    #[test]
    fn every_page_is_in_the_navigation_or_linked() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        let settings = fs::read_to_string(root.join(SETTINGS)).expect("settings");
        for entry in fs::read_dir(root.join("docs")).expect("docs") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name");
            assert!(
                !name.ends_with(".md") || settings.contains(&format!("docs/{name}")),
                "{name} is not in {SETTINGS}"
            );
        }
    }
}
