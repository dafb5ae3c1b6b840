//! Games as a user trains and rates agents in them.

use serde_json::Value;

use crate::common::{Finished, Sandbox};

/// Settings of a run of a few updates.
const BRIEF: [&str; 12] = [
    "--set",
    "num_envs=16",
    "--set",
    "num_steps=32",
    "--set",
    "num_minibatches=4",
    "--set",
    "checkpoint_interval=2",
    "--steps",
    "2560",
    "--set",
    "eval_episodes=20",
];

fn train(place: &Sandbox, args: &[&str]) -> Finished {
    place.operant(&[&["train"], args, &BRIEF].concat())
}

fn trained(place: &Sandbox, args: &[&str]) -> Value {
    let finished = train(place, &[args, &["--json", "-q"]].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished.json()
}

#[test]
fn agents_learn_from_both_sides_or_one_and_are_rated() {
    let place = Sandbox::new();
    let own = trained(&place, &["connect_four", "--name", "own"]);
    // Its final evaluation is against random moves, and so is that of its checkpoint.
    let again = place.operant(&["eval", "own", "--episodes", "20", "--json"]).json();
    assert_eq!(again["eval_return_mean"], own["eval_return_mean"]);
    let strong =
        place.operant(&["eval", "own", "--episodes", "20", "--opponent", "mcts:200", "--json"]).json();
    assert!(strong["eval_return_mean"].as_f64() < again["eval_return_mean"].as_f64(), "{strong} {again}");

    let against = |name: &str| {
        trained(&place, &["connect_four", "--name", name, "--opponent", "own@1024", "--set", "core=gru"])
    };
    assert_eq!(against("one")["eval_return_mean"], against("two")["eval_return_mean"]);

    let pool = trained(
        &place,
        &["connect_four", "--name", "past", "--opponent", "pool", "--set", "pool_interval=2"],
    );
    let again = place.operant(&["eval", "past", "--episodes", "20", "--json"]).json();
    assert_eq!(again["eval_return_mean"], pool["eval_return_mean"], "against random moves");
    assert_eq!(again["opponent"], "random");
    for (run, who) in [("own", "pool"), ("past", "random")] {
        let parts = [&format!("opponent = \"{who}\" cannot resume a run"), "the games of the checkpoint"];
        place.operant(&["train", "--resume", run, "--opponent", who]).assert_error(2, &parts);
    }

    let league = |seed: &str| {
        let players =
            ["league", "own", "one", "random", "minimax:2", "--games", "20", "--json", "--seed", seed];
        place.operant(&players).json()
    };
    let rated = league("1");
    assert_eq!((rated.clone(), rated != league("2")), (league("1"), true), "the seed decides");
    let standings = rated["standings"].as_array().expect("standings");
    assert_eq!(standings.len(), 4);
    assert!(
        standings[3]["elo"].as_f64() > standings[2]["elo"].as_f64() && standings[2]["elo"] == 0.0,
        "{rated}"
    );
    let own = standings.iter().find(|standing| standing["run"] == "own").expect("an agent");
    assert_eq!((&own["env_steps"], standings[2].get("run")), (&2560.into(), None), "{rated}");
    let drawn = |args: &[&str], words: &[&str]| {
        let league = ["league", "random", "own", "--games", "20", "--plot", "elo.svg"];
        let finished = place.operant(&[&league, args].concat());
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        let svg = std::fs::read_to_string(place.path().join("elo.svg")).expect("a plot");
        assert!(words.iter().all(|word| svg.contains(word)), "{words:?} in {svg}");
    };
    drawn(&[], &["Elo rating", "own 2.6k", "random"]);
    drawn(&["--all", "minimax:1"], &["Elo rating", "environment steps", "own", "random", "minimax:1"]);
    std::fs::write(place.path().join("ratings.json"), rated.to_string()).expect("a file");
    let report = ["report", "own", "one", "--league", "ratings.json"];
    let text = place.operant(&report);
    assert!(text.stdout.contains("20 games of each pair") && text.stdout.contains("minimax:2"), "{text:#?}");
    assert_eq!(place.operant(&[&report[..], &["--json"]].concat()).json()["league"], rated);
    let finished = place.operant(&[&report[..], &["--html", "page.html"]].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let page = std::fs::read_to_string(place.path().join("page.html")).expect("a page");
    assert!(page.contains("<h3>Ratings</h3>") && page.contains("<td>1. minimax:2</td>"), "{page}");
    std::fs::write(place.path().join("other.json"), "{\"env\": 3}").expect("a file");
    let refused = place.operant(&["report", "own", "--league", "other.json"]);
    assert!(
        refused.code == Some(2)
            && refused.stderr.contains("not a league")
            && refused.stderr.contains("other.json"),
        "{refused:#?}"
    );
    let lost = place.operant(&["league", "random", "own", "--games", "20", "--plot", "nowhere/elo.svg"]);
    assert!(lost.code != Some(0) && lost.stdout.contains("Elo"), "the ratings are printed first: {lost:#?}");
    trained(&place, &["kuhn_poker", "--name", "cards"]);
    let cards = place.operant(&["league", "cards", "random", "--games", "20"]);
    assert!(cards.stdout.contains("each after 0 random moves"), "{cards:#?}");
    let table = place.operant(&["league", "own", "random", "--games", "20"]);
    assert!(
        table.stdout.contains("connect_four: 20 games of each pair, each after 4 random moves")
            && table.stdout.contains("own at step 2560"),
        "{table:#?}"
    );
}

#[test]
fn agents_with_memory_learn_from_both_sides_and_are_watched() {
    let place = Sandbox::new();
    let small = ["--set", "core=mingru", "--set", "hidden=[16]", "--set", "sequence_length=16"];
    trained(&place, &[&["connect_four", "--name", "own"], &small[..]].concat());
    let film = ["play", "own", "--opponent", "self", "--episodes", "1", "--record", "film.gif"];
    let played = place.operant(&film);
    assert!(played.code == Some(0) && place.path().join("film.gif").exists(), "{played:#?}");
    trained(&place, &[&["connect_four", "--name", "one", "--opponent", "own"], &small[..]].concat());
    let page = ["export", "one", "--html", "page.html"];
    place.operant(&page).assert_error(2, &["both sides of the game, each with its own", "operant play"]);
}

#[test]
fn what_cannot_be_played_is_said_before_anything_starts() {
    let place = Sandbox::new();
    trained(&place, &["cartpole", "--name", "pole"]);
    let refused = |args: &[&str], parts: &[&str]| place.operant(args).assert_error(2, parts);
    refused(
        &["train", "cartpole", "--opponent", "random"],
        &["cartpole has one player", "leave the opponent out"],
    );
    refused(&["train", "connect_four", "--opponent", "nobody"], &["nobody", "minimax:DEPTH"]);
    refused(
        &["train", "connect_four", "--opponent", "pole"],
        &["was trained in cartpole, not in connect_four"],
    );
    refused(&["train", "connect_four", "--algorithm", "dqn"], &["algorithm", "self-play"]);
    refused(&["train", "kuhn_poker", "--opponent", "mcts:9"], &["hide from each other", "use random"]);
    refused(&["play", "kuhn_poker", "--opponent", "mcts:9"], &["hide from each other", "use random"]);
    refused(&["train", "two_player_pong", "--opponent", "minimax:2"], &["at the same time", "use random"]);
    refused(&["config", "connect_four", "--opponent", "nobody"], &["nobody", "minimax:DEPTH"]);
    refused(&["config", "cartpole", "--opponent", "random"], &["cartpole has one player"]);
    refused(&["export", "pole", "--onnx", "same", "--c", "same"], &["same is named for two kinds of files"]);
    refused(&["league", "random", "minimax:2"], &["--env connect_four"]);
    refused(&["league", "random"], &["two players", "--all"]);
    refused(&["league", "random", "random", "--env", "othello"], &["twice"]);
    refused(&["league", "pole", "random", "--env", "othello"], &["--env"]);
    refused(&["league", "random", "minimax:1", "--env", "cartpole"], &["one player"]);
    refused(&["league", "pole", "random"], &["one player"]);
    refused(&["eval", "pole", "--opponent", "random"], &["one player"]);
    refused(&["eval", "pole", "--opponent", "self"], &["against itself"]);
    refused(&["eval", "pole", "--opponent", "pool"], &["against itself"]);
    refused(&["train", "cartpole", "--opponent", "pool"], &["cartpole has one player"]);
    refused(&["train", "connect_four", "--opponent", "pool", "--algorithm", "dqn"], &["algorithm", "replay"]);
    refused(&["play", "connect_four", "--opponent", "pool"], &["plays in its training alone"]);
    assert_eq!(std::fs::read_dir(place.path().join("runs")).expect("runs").count(), 1, "nothing was started");
}
