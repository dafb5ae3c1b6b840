//! tests/attacks.sh with the program that was built.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::Sandbox;

#[test]
#[ignore = "cargo xtask test --all"]
fn ten_attacks_fail() {
    let place = Sandbox::new();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let world = tests.join("../../../crates/operant-env/tests/data/cartpole.world");
    let python = std::env::var_os("OPERANT_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    if !Command::new(&python)
        .args(["-c", "import sqlite3"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
    {
        eprintln!("SKIPPED ten_attacks_fail: no Python with sqlite3; `cargo xtask python` makes one");
        return;
    }
    let script = tests.join("attacks.sh").display().to_string();
    let mut attacks = place.by(&[&script], &[]);
    let ended = attacks.arg(world).arg(python).output().expect("sh");
    let said = String::from_utf8_lossy(&ended.stdout);
    let verdicts = said.lines().filter(|line| line.starts_with("PASS ")).count();
    assert!(ended.status.success() && verdicts == 10, "{:?}\n{said}", ended.status);
}
