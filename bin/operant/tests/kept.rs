//! `keep_checkpoints = "log"`: which checkpoints of a run are there at its end, and a film of them.

use crate::common::{SMALL, Sandbox, endless, finish, wait_for};

/// Environment steps of an update.
const BATCH: u64 = 128;
const LOG: &[&str] = &["--set", "keep_checkpoints=log"];

/// Whether `log` keeps the checkpoint after this many updates: four for each doubling.
fn is_milestone(updates: u64) -> bool {
    updates < 4 || (0..60).any(|power| (4..8).any(|quarter| quarter << power == updates))
}

fn updates(place: &Sandbox, run: &str) -> Vec<u64> {
    place.checkpoints(run).iter().map(|(step, _)| step / BATCH).collect()
}

#[test]
fn log_keeps_the_same_checkpoints_after_a_kill_and_a_resume() {
    let place = Sandbox::new();
    let mut child = place.start(&[&endless("killed"), LOG].concat());
    let some = |run| updates(&place, run).iter().any(|update| *update >= 20);
    wait_for("checkpoints", || some("killed").then_some(()));
    child.kill().expect("killed");
    assert_eq!(finish(child).code, None);
    let reached = *updates(&place, "killed").last().expect("a checkpoint");
    // Not a milestone, so that the last checkpoint is one more.
    let last = 2 * reached + 1;
    let steps = (last * BATCH).to_string();
    let resumed = place.operant(&["train", "--resume", "killed", "--steps", &steps, "-q"]);
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    let straight =
        [&["train", "cartpole", "--name", "straight", "--steps", &steps, "-q"], SMALL, LOG].concat();
    assert_eq!(place.operant(&straight).code, Some(0));
    let expected: Vec<u64> = (0..=last).filter(|update| is_milestone(*update) || *update == last).collect();
    assert_eq!(updates(&place, "straight"), expected);
    assert_eq!(updates(&place, "killed"), expected);
    let config = std::fs::read_to_string(place.path().join("runs/killed/config.toml")).expect("there");
    assert!(config.contains("\nkeep_checkpoints = \"log\"\n"), "{config}");
}

#[test]
fn a_film_goes_through_the_checkpoints_and_the_results_do_not_depend_on_them() {
    let place = Sandbox::new();
    let train = |name: &str, more: &[&str]| {
        let args = [&["train", "cartpole", "--name", name, "--steps", "1024", "-q"], SMALL, more].concat();
        assert_eq!(place.operant(&args).code, Some(0));
    };
    train("log", LOG);
    train("few", &[]);
    assert!(place.final_state("log") == place.final_state("few"), "the weights differ");
    let played = place.operant(&["play", "log", "--all", "--record", "film.png"]);
    assert_eq!(played.code, Some(0), "{played:#?}");
    let lines: Vec<&str> = played.stdout.lines().collect();
    for (line, update) in lines.iter().zip([0, 1, 2, 3, 4, 5, 6, 7, 8]) {
        assert!(
            line.starts_with(&format!("trained for {} steps, episode 1: ", update * BATCH)),
            "{played:#?}"
        );
    }
    assert_eq!(lines.len(), 10, "an episode of each, and the film: {played:#?}");
    let two = place.operant(&["play", "log", "--all", "--episodes", "2", "--record", "two.png"]);
    assert_eq!(two.stdout.matches("episode 2: ").count(), 9, "{two:#?}");
    place
        .operant(&["play", "cartpole", "--all", "--record", "a.gif"])
        .assert_error(2, &["--all", "no policy"]);
}
