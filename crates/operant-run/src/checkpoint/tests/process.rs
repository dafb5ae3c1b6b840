//! Saves in a separate process: killed in the middle, and on a full disk.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

/// Variable that gives the child its directory.
const DIR: &str = "OPERANT_TEST_CHECKPOINTS";

/// The child process of these tests: saves until it fails, each step twice, and reports on stdout. Does nothing in the
/// parent.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let mut store = Store::open(PathBuf::from(dir), KeepCheckpoints::Latest(2)).unwrap();
    for step in 1.. {
        // Grows, so that a limit on file sizes is reached after some saves.
        let checkpoint = large(step);
        for _ in 0..2 {
            match store.save(&checkpoint) {
                Ok(_) => println!("\nsaved {step}"),
                Err(error) => {
                    println!("\nfailed {error}");
                    return;
                }
            }
        }
    }
}

/// A checkpoint with a tensor of `step` KiB.
fn large(step: u64) -> Checkpoint {
    let mut checkpoint = checkpoint(step);
    let (data, shape) = (vec![step as u8; step as usize * 1024], vec![step as usize * 256]);
    checkpoint.snapshot.tensors.push(Tensor { name: "large".to_owned(), dtype: Dtype::F32, shape, data });
    checkpoint
}

/// Starts the child behind a shell's `limits`.
fn spawn(dir: &Path, limits: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("{limits} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "checkpoint::tests::process::child", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_save_leaves_an_intact_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    for saves in [1, 2, 3, 6, 11] {
        let mut child = spawn(dir.path(), "");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut saved = lines.filter_map(|line| line.strip_prefix("saved ")?.parse::<u64>().ok());
        let last = saved.nth(saves - 1).expect("the child saves until it is killed");
        child.kill().unwrap();
        child.wait().unwrap();

        // Opening repairs what a kill between two renames leaves on file systems that cannot exchange names.
        let mut store = Store::open(dir.path(), KeepCheckpoints::Latest(2)).unwrap();
        let loaded = load_latest(dir.path()).unwrap();
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        assert!(loaded.checkpoint.env_steps >= last);
        assert_eq!(loaded.checkpoint, large(loaded.checkpoint.env_steps));
        assert!(names(&store).iter().all(|name| name.starts_with("step_") || name.starts_with("discarded_")));
        store.save(&large(loaded.checkpoint.env_steps + 1)).unwrap();
    }
}

#[test]
fn a_save_that_fails_leaves_the_older_ones_and_no_temporary() {
    let dir = tempfile::tempdir().unwrap();
    // At most 20 blocks of 512 or 1,024 bytes a file, and an error in place of the signal that is the default.
    let mut child = spawn(dir.path(), "trap '' XFSZ; ulimit -f 20;");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (mut last, mut failure) = (0, None);
    for line in lines {
        if let Some(step) = line.strip_prefix("saved ") {
            last = step.parse().unwrap();
        }
        failure = failure.or(line.strip_prefix("failed ").map(str::to_owned));
    }
    assert!(child.wait().unwrap().success());
    let failure = failure.expect("the limit is reached");
    assert!(failure.contains("state.safetensors") && failure.contains("free space"), "{failure}");
    assert!(last >= 2);
    let left: Vec<_> = steps(dir.path()).unwrap().into_iter().map(|(step, _)| step).collect();
    assert_eq!(left, [last - 1, last]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "a temporary was left");
    for step in left {
        assert_eq!(load(&dir.path().join(load::name(step))).unwrap(), large(step));
    }
}
