//! Notes and tags of runs: `train --note --tag`, `note`, `tag`, and what shows them.

use crate::common::{SMALL, Sandbox};

fn train(place: &Sandbox, name: &str, more: &[&str]) {
    let args = [&["train", "cartpole", "--name", name, "--steps", "256", "-q"], SMALL, more].concat();
    let trained = place.operant(&args);
    assert_eq!(trained.code, Some(0), "{trained:#?}");
}

/// What a command prints that succeeds.
fn printed(place: &Sandbox, args: &[&str]) -> String {
    let finished = place.operant(args);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{args:?} {finished:#?}");
    finished.stdout
}

/// The names of the runs that a command lists.
fn listed(place: &Sandbox, args: &[&str]) -> Vec<String> {
    let lines = printed(place, &[&["runs", "--json"], args].concat());
    let name =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["run"].as_str().map(str::to_owned);
    lines.lines().filter_map(name).collect()
}

#[test]
fn notes_and_tags_are_shown_and_found_and_change_nothing_else() {
    let place = Sandbox::new();
    train(&place, "plain", &[]);
    train(&place, "noted", &["--note", "a first try", "--tag", "baseline", "--tag", "paper"]);
    assert!(place.final_state("plain") == place.final_state("noted"), "the weights differ");
    let read =
        |run: &str, file: &str| std::fs::read_to_string(place.path().join("runs").join(run).join(file));
    assert_eq!(read("plain", "config.toml").expect("there"), read("noted", "config.toml").expect("there"));
    assert!(read("plain", "notes.json").is_err(), "a run without notes has no file for them");

    let shown = printed(&place, &["show", "noted"]);
    assert!(shown.contains("\n  note         a first try\n  tags         baseline, paper\n"), "{shown}");
    assert!(!printed(&place, &["show", "plain"]).contains("tags"));
    let table = printed(&place, &["runs"]);
    assert!(
        table.lines().any(|line| line.starts_with("noted\t") && line.contains("\tbaseline, paper\t")),
        "{table}"
    );
    assert_eq!(listed(&place, &["--tag", "baseline", "--tag", "paper"]), ["noted"]);

    assert_eq!(printed(&place, &["tag", "plain", "baseline"]), "run plain: baseline\n");
    assert_eq!(printed(&place, &["tag", "noted", "paper", "--remove"]), "run noted: baseline\n");
    assert_eq!(listed(&place, &["--tag", "baseline"]), ["plain", "noted"]);
    assert_eq!(listed(&place, &["--tag", "paper"]), [""; 0]);
    assert_eq!(listed(&place, &["--filter", "base"]), ["plain", "noted"]);

    printed(&place, &["note", "noted", "another"]);
    assert_eq!(printed(&place, &["note", "noted"]), "another\n");
    let json: serde_json::Value =
        serde_json::from_str(&printed(&place, &["show", "noted", "--json"])).expect("JSON");
    assert_eq!((&json["note"], &json["tags"]), (&"another".into(), &serde_json::json!(["baseline"])));

    // A run that continues keeps them, and takes more.
    let more = place.operant(&["resume", "noted", "--steps", "512", "--tag", "long", "-q"]);
    assert_eq!(more.code, Some(0), "{more:#?}");
    assert_eq!(printed(&place, &["tag", "noted"]), "run noted: baseline, long\n");
    assert_eq!(printed(&place, &["note", "noted"]), "another\n");
    printed(&place, &["note", "noted", ""]);
    assert_eq!(printed(&place, &["note", "noted"]), "run noted has no note\n");
}

#[test]
fn tags_that_are_no_words_and_files_that_cannot_be_read_are_refused() {
    let place = Sandbox::new();
    let bad = ["train", "cartpole", "--name", "bad", "--tag", "two words"];
    place.operant(&bad).assert_error(2, &["\"two words\" cannot be a tag"]);
    assert!(!place.path().join("runs/bad").exists());
    train(&place, "mine", &["--tag", "base"]);
    place
        .operant(&["tag", "mine", "bse", "--remove"])
        .assert_error(2, &["no tag \"bse\"", "did you mean \"base\""]);
    place.operant(&["note", "absent", "text"]).assert_error(2, &["there is no run"]);
    place.write("runs/mine/notes.json", "garbage");
    place.operant(&["tag", "mine", "more"]).assert_error(1, &["cannot be read", "notes.json"]);
    assert!(printed(&place, &["show", "mine"]).starts_with("run mine: finished"));
}
