//! `cargo xtask lines`: how many lines the project has, per crate and top-level directory; [`BUDGET`] is the budget.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The crates of the engine itself; everything else is the shell around it.
const CORE: &[&str] = &[
    "crates/operant-bf16",
    "crates/operant-env",
    "crates/operant-lane",
    "crates/operant-learn",
    "crates/operant-metrics",
    "crates/operant-monitor",
    "crates/operant-parity",
    "kernels",
];

/// The most lines of code, with the unit tests in its files, without tests/ and emitted text.
const BUDGET: usize = 130_000;

/// Lines of one crate or directory.
#[derive(Clone, Copy, Default)]
struct Lines {
    code: usize,
    /// In the files of the code.
    unit_tests: usize,
    tests: usize,
    /// Text that environments emit.
    emitted: usize,
    /// Test data, and results next to the documentation.
    data: usize,
}

impl Lines {
    fn row(self, name: &str) -> String {
        let Lines { code, unit_tests, tests, emitted, data } = self;
        format!("{name:<26} {code:>8} {unit_tests:>10} {tests:>8} {emitted:>8} {data:>8}\n")
    }
}

impl std::ops::AddAssign for Lines {
    fn add_assign(&mut self, other: Lines) {
        self.code += other.code;
        self.unit_tests += other.unit_tests;
        self.tests += other.tests;
        self.emitted += other.emitted;
        self.data += other.data;
    }
}

/// Prints the table.
pub fn run() -> Result<()> {
    let metadata = crate::tools::workspace()?;
    let rooms = rooms(metadata.workspace_root.as_std_path())?;
    println!("{:<26} {:>8} {:>10} {:>8} {:>8} {:>8}", "", "code", "unit tests", "tests", "emitted", "data");
    let (mut core, mut shell) = (Lines::default(), Lines::default());
    for (room, lines) in &rooms {
        print!("{}", lines.row(room));
        *(if CORE.contains(&room.as_str()) { &mut core } else { &mut shell }) += *lines;
    }
    let mut all = core;
    all += shell;
    print!("{}{}{}", core.row("core"), shell.row("shell"), all.row("all"));
    println!(
        "shell to core {:.2}; code with unit tests {} of {BUDGET}",
        shell.code as f64 / core.code as f64,
        all.code + all.unit_tests
    );
    Ok(())
}

/// The lines of each crate, program, or directory of the root.
fn rooms(root: &Path) -> Result<BTreeMap<String, Lines>> {
    let listed =
        Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().context("git is needed")?;
    ensure!(listed.status.success(), "git ls-files failed; is this a checkout?");
    let mut rooms: BTreeMap<String, Lines> = BTreeMap::new();
    for file in listed.stdout.split(|&byte| byte == 0).filter_map(|name| std::str::from_utf8(name).ok()) {
        let Some(lines) = lines(root, file)? else { continue };
        let mut parts = file.split('/');
        let first = parts.next().unwrap_or_default();
        let room = match (first, parts.next()) {
            ("crates" | "bin", Some(second)) => format!("{first}/{second}"),
            _ => first.to_owned(),
        };
        *rooms.entry(room).or_default() += lines;
    }
    Ok(rooms)
}

/// The lines of a file; None where it is prose, configuration or not text.
fn lines(root: &Path, file: &str) -> Result<Option<Lines>> {
    let Some((_, ending)) = file.rsplit_once('.') else { return Ok(None) };
    let is_code = ["rs", "py", "cu", "cuh", "cpp", "h"].contains(&ending);
    let is_test = file.split('/').any(|part| part == "tests");
    let is_unit_test = file.ends_with("tests.rs");
    let is_data = !is_code && (is_test || file.starts_with("docs/results/") && ending != "md");
    // A link, or a file that is deleted but not committed yet, has no text of its own.
    if !is_code && !is_data || !root.join(file).is_file() {
        return Ok(None);
    }
    let text = std::fs::read(root.join(file)).with_context(|| format!("cannot read {file}"))?;
    let count = |text: &[u8]| text.iter().filter(|&&byte| byte == b'\n').count();
    let mut lines = Lines::default();
    // Unit tests stand at the end of a file.
    let text = String::from_utf8_lossy(&text);
    let unit_tests = text
        .find("\n#[cfg(test)]\nmod tests {")
        .filter(|_| !is_test)
        .map_or(0, |at| count(&text.as_bytes()[at..]));
    lines.unit_tests = unit_tests;
    let count = count(text.as_bytes()) - unit_tests;
    *(if is_data {
        &mut lines.data
    } else if file.starts_with("kernels/envs/") {
        &mut lines.emitted
    } else if is_test {
        &mut lines.tests
    } else if is_unit_test {
        &mut lines.unit_tests
    } else {
        &mut lines.code
    }) += count;
    Ok(Some(lines))
}
