//! Runs of earlier versions, kept in `tests/data`: they are listed, evaluated, and resumed to the same weights.

use std::path::Path;

use crate::common::Sandbox;

/// Copies a directory with everything below it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("read").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// The runs of that commit, in `runs/` of a new directory.
fn runs_of(commit: &str) -> Sandbox {
    let place = Sandbox::new();
    copy(&data(commit), &place.path().join("runs"));
    place
}

fn data(commit: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(commit)
}

/// The tensors of a safetensors file: what follows its header.
fn tensors(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).expect("read");
    let (length, _) = bytes.split_first_chunk::<8>().expect("a length");
    let header = usize::try_from(u64::from_le_bytes(*length)).expect("a length");
    bytes.split_off(8 + header)
}

#[test]
fn runs_of_350bba2_are_listed_and_evaluated() {
    let place = runs_of("350bba2");
    let listed = place.operant(&["runs", "--json"]);
    assert_eq!(listed.code, Some(0), "{listed:#?}");
    for run in ["classic", "grid"] {
        let row =
            listed.stdout.lines().find(|line| line.contains(&format!("\"run\":\"{run}\""))).expect("listed");
        let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
        let result: serde_json::Value = serde_json::from_slice(
            &std::fs::read(place.path().join("runs").join(run).join("result.json")).expect("read"),
        )
        .expect("JSON");
        assert_eq!((&row["state"], row["env_steps"].as_u64()), (&"finished".into(), Some(2560)), "{row}");
        assert_eq!(row["eval_return_mean"], result["eval_return_mean"]);
        let evaluated = place.operant(&["eval", run, "--episodes", "5", "--json"]).json();
        assert_eq!(evaluated["eval_return_mean"], result["eval_return_mean"], "{run}");
    }
}

#[test]
fn runs_of_350bba2_resume_to_the_weights_that_350bba2_reached() {
    let place = runs_of("350bba2");
    for run in ["classic", "grid"] {
        let resumed = place.operant(&["train", "--resume", run, "--steps", "5120", "--quiet"]);
        assert_eq!(resumed.code, Some(0), "{resumed:#?}");
        let dir = place.path().join("runs").join(run);
        let reached = tensors(&dir.join("checkpoints/step_000000005120/state.safetensors"));
        assert!(reached == tensors(&data("350bba2").join(format!("{run}.continued.safetensors"))), "{run}");
        // Its rows are kept, under the current columns.
        let rows = place.metrics(run);
        assert_eq!(rows.len(), 20, "{run}");
        assert!(!dir.join("metrics.1.csv").exists(), "nothing was renamed");
    }
}

#[test]
fn a_key_that_350bba2_did_not_have_is_its_default_there() {
    let place = runs_of("350bba2");
    let resume = ["train", "--resume", "grid", "--steps", "5120", "--quiet", "--set"];
    place
        .operant(&[&resume[..], &["conv=[[16, 3, 1]]"]].concat())
        .assert_error(2, &["conv = [[16, 3, 1]] cannot resume a run with conv = []", "where: --set"]);
    assert_eq!(place.operant(&[&resume[..], &["conv=[]"]].concat()).code, Some(0));
}
