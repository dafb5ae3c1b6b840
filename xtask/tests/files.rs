//! Every source file opens with a comment that says what it is, and none grows beyond 800 lines. Unsafe code and names of instruction sets are
//! in few of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories with sources, below the root.
const SOURCE_DIRECTORIES: &[&str] = &["crates", "bin", "benches", "kernels", "xtask", "docs", ".ci"];

const LONGEST: usize = 800;

/// The comment signs of a kind of source; None for files that are not sources.
fn comment_signs(path: &Path) -> Option<&'static [&'static str]> {
    match path.extension()?.to_str()? {
        "rs" => Some(&["//!", "//"]),
        "cu" | "cuh" | "cpp" | "h" => Some(&["//", "/*"]),
        "py" => Some(&["\"\"\"", "#"]),
        "sh" => Some(&["#"]),
        _ => None,
    }
}

/// All source files below a directory.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.map(|entry| entry.expect("directory entries can be read").path()) {
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target" && name != "__pycache__") {
                sources(&path, found);
            }
        } else if comment_signs(&path).is_some() {
            found.push(path);
        }
    }
}

/// The problem of a source text, if any.
fn complaint(path: &Path, text: &str) -> Option<String> {
    let lines = text.lines().count();
    if lines > LONGEST {
        return Some(format!("{lines} lines, more than {LONGEST}: split it by topic"));
    }
    let first = text.lines().find(|line| !line.starts_with("#!/")).unwrap_or_default();
    let words = comment_signs(path)?.iter().find_map(|sign| first.strip_prefix(sign)).unwrap_or_default();
    let says = words.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count() >= 2;
    (!says).then(|| "the first line must be a comment that says what the file is".to_string())
}

#[test]
fn every_source_file_says_what_it_is_and_keeps_to_one_thing() {
    let root = Path::new(".."); // tests run in their package's directory
    let mut found = Vec::new();
    for directory in SOURCE_DIRECTORIES {
        sources(&root.join(directory), &mut found);
    }
    assert!(
        found.iter().any(|path| path.ends_with("xtask/tests/files.rs")),
        "the search misses this very file"
    );
    found.sort();
    let mut broken = Vec::new();
    for path in &found {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let shown = path.strip_prefix(root).unwrap_or(path).display();
        broken.extend(complaint(path, &text).map(|complaint| format!("{shown}: {complaint}")));
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn first_lines_are_judged_correctly() {
    let complains = |name: &str, text: &str| complaint(Path::new(name), text).is_some();
    assert!(!complains("a.rs", "//! The game of Go.\n"));
    assert!(complains("a.rs", "use std::fs;\n"));
    assert!(complains("a.rs", "\n//! The game of Go.\n"));
    assert!(complains("a.rs", "//!\n"));
    assert!(complains("a.rs", ""));
    assert!(!complains("a.py", "#!/usr/bin/env python3\n\"\"\"Plots the table.\"\"\"\n"));
    assert!(complains("a.py", "#!/usr/bin/env python3\nimport os\n"));
    assert!(!complains("a.cu", "// Adds two rows.\n"));
    assert!(complains("a.rs", &format!("//! Too long.\n{}", "\n".repeat(LONGEST))));
    assert!(!complains("a.rs", &format!("//! Just so.\n{}", "\n".repeat(LONGEST - 1))));
}

/// The paths that may contain unsafe code.
const UNSAFE_CODE_PATHS: &[&str] = &[
    "crates/operant-metrics/src/ring/mapping",
    "crates/operant-cuda",
    // Instructions for bf16, and the choice between them.
    "crates/operant-bf16/src",
    // Calls of MPI, for which the binding has no safe form that can be given up.
    "crates/operant-mpi/src/enabled.rs",
    // Memory that worker processes share.
    "crates/operant-gym/src/shared.rs",
    // DLPack is a C ABI in Python capsules, and no crate has its present version.
    "crates/operant-python/src/dlpack.rs",
    // Exported names of WebAssembly.
    "crates/operant-page/src/exports.rs",
    // Streams and arrays of other libraries are given to what is unsafe there.
    "crates/operant-python/src/device.rs",
    // The copies of operant for levels of x86-64, which only the linker knows.
    "bin/operant-portable/src",
    // Handlers of signals that are system calls alone.
    "crates/operant-python/src/worker.rs",
    // Calls of macOS for which there is no safe wrapper.
    "crates/operant-host/src/os/macos.rs",
    "crates/operant-metrics/src/os/macos.rs",
    "crates/operant-run/src/os/macos.rs",
];

#[test]
fn unsafe_code_is_only_in_allowed_paths() {
    let root = Path::new("..");
    let mut found = Vec::new();
    for directory in ["crates", "bin", "benches", "xtask"] {
        sources(&root.join(directory), &mut found);
    }
    // Assembled from parts, so that this file does not match.
    let signs = ["{", "fn", "impl", "extern"].map(|next| ["unsafe", next].join(" "));
    let is_unsafe = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        code.starts_with("#![allow(unsafe") || signs.iter().any(|sign| code.contains(sign))
    };
    let (mut unsafe_lines, mut broken) = (0, Vec::new());
    for path in found.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(path).expect("a source file is UTF-8");
        let place = path.strip_prefix(root).expect("below the root");
        let lines = text.lines().enumerate().filter(|(_, line)| is_unsafe(line));
        if UNSAFE_CODE_PATHS.iter().any(|path| place.starts_with(path)) {
            unsafe_lines += lines.count();
        } else {
            broken.extend(lines.map(|(n, line)| format!("{}:{}: {line}", place.display(), n + 1)));
        }
    }
    assert!(unsafe_lines > 0, "the search finds no unsafe code where there is some");
    assert!(broken.is_empty(), "unsafe code outside the allowed paths:\n{}", broken.join("\n"));
}

/// The paths whose code may name an instruction set or ask for one, and why.
const INSTRUCTION_SET_PATHS: &[(&str, &str)] = &[
    ("crates/operant-lane/src/isa", "a file for each set, from which all kernels take their shape"),
    ("crates/operant-bf16/src", "a file for each set with products in bf16"),
    (
        "crates/operant-cli/src/commands/info/build.rs",
        "`operant info` lists what was compiled for, and what the CPU has",
    ),
    ("bin/operant-portable/src/main.rs", "the portable program chooses a level of x86-64"),
    ("xtask/src/operant.rs", "heads of tables name the set of the build"),
    ("xtask/src/test/mod.rs", "tests run on other levels of x86-64"),
    ("xtask/src/wheel/levels.rs", "the levels of x86-64 that a wheel has engines for"),
    ("xtask/tests/files.rs", "this list"),
];

#[test]
fn instruction_sets_are_named_only_where_they_are_the_subject() {
    const SIGNS: [&str; 13] = [
        "target_feature",
        "target_arch",
        "feature_detected",
        "arch::x86",
        "arch::aarch64",
        "avx",
        "sse2",
        "amx",
        "neon",
        // Vectors come from isa.
        "wide::f32",
        "wide::i32",
        "wide::u32",
        "wide::{",
    ];
    let root = Path::new("..");
    let mut found = Vec::new();
    for directory in ["crates", "bin", "benches", "xtask"] {
        sources(&root.join(directory), &mut found);
    }
    let mut unused: Vec<_> = INSTRUCTION_SET_PATHS.iter().map(|(path, _)| *path).collect();
    let mut broken = Vec::new();
    for path in found.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(path).expect("a source file is UTF-8");
        let place = path.strip_prefix(root).expect("below the root");
        // Comments may say what was measured where.
        let code = |line: &str| line.split("//").next().unwrap_or_default().to_ascii_lowercase();
        let names = |line: &str| SIGNS.iter().any(|sign| code(line).contains(sign));
        let lines: Vec<_> = text.lines().enumerate().filter(|(_, line)| names(line)).collect();
        match INSTRUCTION_SET_PATHS.iter().find(|(path, _)| place.starts_with(path)) {
            Some((allowed, _)) if !lines.is_empty() => unused.retain(|path| path != allowed),
            Some(_) => {}
            None => {
                broken.extend(lines.iter().map(|(n, line)| format!("{}:{}: {line}", place.display(), n + 1)))
            }
        }
    }
    assert!(unused.is_empty(), "these name no instruction set: {unused:?}");
    assert!(broken.is_empty(), "take the shape from operant_lane::isa instead:\n{}", broken.join("\n"));
}

#[test]
fn systems_are_told_apart_in_one_file_a_crate() {
    let mut found = Vec::new();
    sources(Path::new("../crates"), &mut found);
    let (mut files, mut broken) = (0, Vec::new());
    for path in found.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        // bf16 asks Linux for AMX.
        if path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "operant-bf16") {
            continue;
        }
        let text = fs::read_to_string(path).expect("a source file is UTF-8");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        // A crate's attributes, and what is compiled for tests too.
        let names =
            |line: &&str| line.contains("target_os") && !line.starts_with("#![") && !line.contains("(test,");
        let lines: Vec<&str> = code.lines().filter(names).collect();
        if path.ends_with("os/mod.rs") {
            files += 1;
        } else {
            broken.extend(lines.iter().map(|line| format!("{}: {line}", path.display())));
        }
    }
    assert!(files >= 5, "the search finds {files} files");
    assert!(
        broken.is_empty(),
        "move it into os/linux.rs and os/macos.rs of the crate:\n{}",
        broken.join("\n")
    );
}

#[test]
fn environments_are_formatted() {
    // A macro declares their modules, and so `cargo fmt` does not find them.
    let mut found = Vec::new();
    sources(Path::new("../crates/operant-env/src"), &mut found);
    found.sort();
    let checked = Command::new("rustfmt")
        .args(["--check", "--edition", "2024"])
        .args(&found)
        .output()
        .expect("rustfmt runs");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(
        checked.status.success(),
        "run `cargo xtask worlds`:\n{said}{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}
