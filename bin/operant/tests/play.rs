//! `operant play` with real runs: films with every frame, episodes in a terminal, and refusals.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::common::Sandbox;
use crate::terminal::Terminal;

fn trained(place: &Sandbox) {
    let args =
        ["train", "cartpole", "--steps", "4096", "--name", "mine", "--quiet", "--set", "eval_episodes=1"];
    assert_eq!(place.operant(&args).code, Some(0));
}

/// The length of the first episode that was printed.
fn steps(stdout: &str) -> usize {
    let line = stdout.lines().find(|line| line.starts_with("episode")).expect("an episode");
    line.split(", ")
        .nth(1)
        .and_then(|part| part.strip_suffix(" steps"))
        .and_then(|n| n.parse().ok())
        .expect("steps")
}

/// The returns that were printed.
fn returns(stdout: &str) -> Vec<f64> {
    let of = |line: &str| line.split("return ").nth(1)?.split(',').next()?.parse().ok();
    stdout.lines().filter_map(of).collect()
}

/// Frames of a GIF: its image separators, found by walking its blocks.
fn frames(bytes: &[u8]) -> usize {
    assert_eq!(&bytes[..6], b"GIF89a");
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    let mut at = 13 + table(bytes[10]);
    let mut count = 0;
    loop {
        match bytes[at] {
            0x3b => return count,
            0x21 => at += 2,
            0x2c => {
                count += 1;
                at += 10 + table(bytes[at + 9]) + 1;
            }
            other => panic!("block {other:#x} at {at}"),
        }
        while bytes[at] != 0 {
            at += 1 + usize::from(bytes[at]);
        }
        at += 1;
    }
}

#[test]
fn a_film_has_a_frame_for_every_state() {
    let place = Sandbox::new();
    trained(&place);
    let played = place.operant(&["play", "mine", "--record", "a.gif"]);
    assert_eq!(played.code, Some(0), "{played:#?}");
    let gif = std::fs::read(place.path().join("a.gif")).expect("a film");
    assert_eq!(frames(&gif), steps(&played.stdout) + 1, "{}", played.stdout);
    assert!(played.stdout.contains(&format!("a.gif: {} frames, ", frames(&gif))), "{}", played.stdout);

    // The episodes are those of the evaluation, and every play shows the same.
    let again = place.operant(&["play", "mine", "--record", "b.gif"]);
    assert_eq!(std::fs::read(place.path().join("b.gif")).expect("a film"), gif, "{again:#?}");
    let evaluated = place.operant(&["eval", "mine", "--episodes", "1", "--json"]);
    let evaluated: serde_json::Value = serde_json::from_str(&evaluated.stdout).expect("JSON");
    assert_eq!(evaluated["eval_return_mean"].as_f64(), Some(returns(&played.stdout)[0]), "{evaluated}");

    // Two episodes, as a sheet.
    let sheet =
        place.operant(&["play", "cartpole", "--seed", "5", "--episodes", "2", "--record", "sheet.png"]);
    assert_eq!((sheet.code, returns(&sheet.stdout).len()), (Some(0), 2), "{sheet:#?}");
    let png = std::fs::read(place.path().join("sheet.png")).expect("a sheet");
    let size = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    assert!(
        png.starts_with(b"\x89PNG") && sheet.stdout.contains(&format!("{} x {}", size(16), size(20))),
        "{sheet:#?}"
    );
}

#[test]
fn the_best_and_the_worst_are_those_of_the_evaluation() {
    let place = Sandbox::new();
    trained(&place);
    let evaluated = place.operant(&["eval", "mine", "--episodes", "100", "--json"]);
    let evaluated: serde_json::Value = serde_json::from_str(&evaluated.stdout).expect("JSON");
    let play = |more: &[&str]| {
        let played = place.operant(&[&["play", "mine", "--record", "a.png"], more].concat());
        assert_eq!(played.code, Some(0), "{played:#?}");
        returns(&played.stdout)
    };
    let extreme = |flag: &str| play(&[flag, "--episodes", "2"]);
    let (best, worst) = (extreme("--best"), extreme("--worst"));
    let sampled = place.operant(&["eval", "mine", "--sample", "--json"]).json();
    assert_eq!(Some(play(&["--best", "--sample"])[0]), sampled["eval_return_max"].as_f64());
    assert_eq!(Some(play(&["--worst", "--sample"])[0]), sampled["eval_return_min"].as_f64());
    assert_eq!(Some(best[0]), evaluated["eval_return_max"].as_f64());
    assert_eq!(Some(worst[0]), evaluated["eval_return_min"].as_f64());
    assert!(best[0] >= best[1] && worst[0] <= worst[1] && best[1] >= worst[1], "{best:?} {worst:?}");
}

#[test]
fn an_mp4_goes_through_ffmpeg() {
    let place = Sandbox::new();
    let play = ["play", "minatar_breakout", "--set", "env.sticky_action_prob=0", "--record", "a.mp4"];
    let mut command = place.command(&play);
    let without = command.env("PATH", place.path()).output().expect("started");
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(
        without.status.code() == Some(2) && said.contains("needs ffmpeg") && said.contains("remedy"),
        "{said}"
    );

    // A program of that name that keeps what it is given.
    place.write("ffmpeg", "#!/bin/sh\n[ \"$1\" = -version ] && exit 0\nfor file; do :; done\necho \"$@\" > arguments\ncat > \"$file\"\n");
    let program = place.path().join("ffmpeg");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap_or_default());
    let output = place.command(&play).env("PATH", &path).output().expect("started");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:#?}");
    let arguments = std::fs::read_to_string(place.path().join("arguments")).expect("arguments");
    let size = arguments.split(' ').skip_while(|word| *word != "-s").nth(1).expect("a size").to_owned();
    let (width, height) = size.split_once('x').expect("width x height");
    let bytes = 4 * width.parse::<u64>().expect("a number") * height.parse::<u64>().expect("a number");
    let written = std::fs::metadata(place.path().join("a.mp4")).expect("written").len();
    // The last state is shown for a second, 15 frames.
    assert_eq!(written, bytes * (steps(&stdout) as u64 + 15), "{stdout}");

    place.write("ffmpeg", "#!/bin/sh\n[ \"$1\" = -version ] && exit 0\nhead -c 200000 /dev/zero | tr '\\0' x >&2\necho no such codec >&2\ncat > /dev/null\nexit 3\n");
    let failed = place.command(&play).env("PATH", &path).output().expect("started");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(failed.status.code() == Some(1) && said.contains("no such codec"), "{said}");
}

#[test]
fn bad_requests_are_refused_before_anything_is_played() {
    let place = Sandbox::new();
    for (args, parts) in [
        (&["play", "cartpole"][..], &["not a terminal", "--record FILE.gif"][..]),
        (
            &["play", "cartpol", "--record", "a.gif"],
            &["no environment or run is named", "did you mean \"cartpole\""],
        ),
        (&["play", "cartpole", "--record", "a.avi"], &["must be .gif, .mp4 or .png"]),
        (
            &["play", "cartpole", "--set", "gamma=1", "--record", "a.gif"],
            &["gamma=1", "not an environment option"],
        ),
        (&["play", "cartpole", "--set", "env.wind=1", "--record", "a.gif"], &["wind"]),
        (
            &["play", "cartpole", "--best", "--episodes", "101", "--record", "a.gif"],
            &["--episodes 101", "at most 100"],
        ),
        (&["play", "cartpole", "--keyboard"], &["not a terminal", "remove --keyboard"]),
        (&["play", "cartpole", "--sample", "--record", "a.gif"], &["has no policy", "where: --sample"]),
        (&["play", "nothing"], &["no environment or run is named \"nothing\""]),
    ] {
        place.operant(args).assert_error(2, parts);
    }
    place.operant(&["play", "cartpole", "--record", "absent/a.gif"]).assert_error(1, &["absent/a.gif"]);
    assert!(!place.path().join("a.gif").exists());
    trained(&place);
    let nothing = ["play", "runs/mine/checkpoints", "--record", "a.gif"];
    place.operant(&nothing).assert_error(2, &["checkpoints"]);
}

#[test]
fn a_terminal_shows_episodes_pauses_and_is_given_back() {
    let place = Sandbox::new();
    trained(&place);
    let play = ["play", "mine"];
    let mut terminal = Terminal::start(&place.command(&play), &[], (80, 24));
    terminal.wait_for(&["cartpole: mine at 4096 steps", "episode 1  step", "return", "q quit", "n next"]);
    terminal.press(" ");
    let paused = terminal.wait_for(&["space continue"]);
    let number = paused.split("episode ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    terminal.press("n");
    terminal.wait_for(&[&format!("episode {}  step 0", number.expect("a number") + 1)]);
    terminal.press(" ");
    terminal.wait_for(&["space pause"]);
    // A key that comes together with a resize is not lost, whichever is seen first.
    for round in 0..400u32 {
        let (columns, shown) = [(120, "space continue"), (100, "space pause")][round as usize % 2];
        let begun = Instant::now();
        terminal.resize(columns, 40);
        while begun.elapsed() < Duration::from_micros(round.into()) {}
        terminal.press(" ");
        terminal.wait_for(&[shown]);
    }
    terminal.resize(120, 40);
    terminal.press("q");
    let left = terminal.finish();
    assert_eq!((left.code, left.restored), (0, true));
    assert!(left.raw.contains("episode 1: return"), "how the episodes ended");
}

#[test]
fn every_episode_that_was_shown_is_printed_once() {
    let place = Sandbox::new();
    let left =
        Terminal::start(&place.command(&["play", "cartpole", "--episodes", "2"]), &[], (80, 24)).finish();
    assert_eq!((left.code, left.restored), (0, true));
    for line in ["episode 1: return", "episode 2: return"] {
        assert_eq!(left.raw.matches(line).count(), 1, "{line}");
    }
}

#[test]
fn an_episode_that_runs_without_keys_begins_with_one() {
    let place = Sandbox::new();
    let play = ["play", "minatar_breakout", "--keyboard", "--episodes", "1"];
    let mut terminal = Terminal::start(&place.command(&play), &[], (80, 24));
    terminal.wait_for(&["minatar_breakout: keyboard", "press a key to begin"]);
    terminal.press("\u{1b}[C");
    // Then it goes on by itself, to its end.
    let left = terminal.finish();
    assert!(left.code == 0 && left.raw.contains("episode 1: return "), "{}", left.raw);
}

#[test]
fn keys_play_and_the_window_names_them() {
    let place = Sandbox::new();
    let play = ["play", "cartpole", "--keyboard", "--episodes", "1", "--record", "own.gif"];
    let mut terminal = Terminal::start(&place.command(&play), &[], (80, 24));
    terminal.wait_for(&["cartpole: keyboard", "step 0", "← →"]);
    terminal.press("\u{1b}[C");
    terminal.wait_for(&["step 1"]);
    terminal.press("0");
    terminal.wait_for(&["step 2"]);
    // A key that is no action.
    terminal.press("7");
    terminal.press("1");
    terminal.wait_for(&["step 3"]);
    terminal.press("q");
    let left = terminal.finish();
    assert_eq!((left.code, left.restored), (0, true));
    assert!(left.raw.contains("episode 1: return 3, 3 steps, not ended"), "{}", left.raw);
    assert_eq!(frames(&std::fs::read(place.path().join("own.gif")).expect("a film")), 4);
}
