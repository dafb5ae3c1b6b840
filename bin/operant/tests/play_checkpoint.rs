//! The NumPy script of docs/checkpoints.md plays checkpoints in Gymnasium as well as operant does.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Sandbox;

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

#[test]
fn the_page_shows_the_script() {
    let page = std::fs::read_to_string(docs("checkpoints.md")).expect("the page");
    let script = std::fs::read_to_string(docs("play_checkpoint.py")).expect("the script");
    assert!(page.contains(&format!("```python\n{script}```")), "docs/checkpoints.md shows another script");
}

#[test]
fn numpy_plays_checkpoints_in_gymnasium() {
    let Some(python) = std::env::var_os("OPERANT_TEST_PYTHON") else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED numpy_plays_checkpoints_in_gymnasium: no OPERANT_TEST_PYTHON with gymnasium; cargo xtask python makes one"
        );
        return;
    };
    let place = Sandbox::new();
    for (env, least) in [("cartpole", 500.0), ("pendulum", -170.0)] {
        let result = place.operant(&["train", env, "--json", "--quiet"]).json();
        let checkpoint = result["checkpoint"].as_str().expect("a checkpoint");
        let played =
            Command::new(&python).arg(docs("play_checkpoint.py")).arg(checkpoint).output().expect("started");
        let said = String::from_utf8_lossy(&played.stdout);
        assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
        let mean = said.split("mean return ").nth(1).and_then(|rest| rest.split(' ').next());
        let mean: f64 =
            mean.and_then(|mean| mean.parse().ok()).unwrap_or_else(|| panic!("no mean in {said}"));
        assert!(mean >= least, "{env}: {said}");
    }
}
