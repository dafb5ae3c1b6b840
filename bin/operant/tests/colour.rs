//! Colours of what is printed: `--color`, the variables of the environment, and pipes.

use crate::common::{SMALL, Sandbox};

const ESCAPE: char = '\u{1b}';

/// Names and values.
type Variables<'a> = &'a [(&'a str, &'a str)];

/// What the command printed, on standard output and standard error, with these variables.
fn printed(place: &Sandbox, args: &[&str], variables: Variables) -> (String, String) {
    let mut command = place.command(args);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM"] {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output().expect("started");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

#[test]
fn colours_are_printed_where_they_are_asked_for_and_never_into_a_pipe_by_default() {
    let place = Sandbox::new();
    let train = [&["train", "cartpole", "--name", "mine", "--steps", "256"], SMALL].concat();
    assert_eq!(place.operant(&train).code, Some(0));
    // What each command prints in colours, and on which output.
    let commands: [(&[&str], bool, &str); 6] = [
        (&["runs"], true, "\u{1b}[1mrun"),
        (&["show", "mine"], true, "\u{1b}[1m\u{1b}[92mfinished"),
        (&["info"], true, "\u{1b}[1mverdict"),
        (&["envs", "--help"], true, "Options:"),
        (&["show", "absent"], false, "\u{1b}[1m\u{1b}[91merror:\u{1b}[0m there is no run"),
        (&["train", "cartpole", "--nonsense"], false, "error:"),
    ];
    let colours: [(&[&str], Variables, bool); 7] = [
        (&[], &[], false),
        (&["--color", "auto"], &[], false),
        (&["--color=never"], &[("CLICOLOR_FORCE", "1")], false),
        (&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&["--color=always"], &[], true),
        (&["--color", "always"], &[("NO_COLOR", "1")], true),
    ];
    for (command, to_stdout, part) in commands {
        for (flag, variables, is_coloured) in colours {
            let (out, err) = printed(&place, &[command, flag].concat(), variables);
            let text = if to_stdout { out } else { err };
            assert_eq!(text.contains(ESCAPE), is_coloured, "{command:?} {flag:?} {variables:?}: {text:?}");
            let part = if is_coloured { part } else { part.rsplit('m').next().unwrap_or_default() };
            assert!(text.contains(part), "{command:?} {flag:?}: no {part:?} in {text:?}");
        }
    }
    // Before the command, too; and JSON is for programs.
    assert!(printed(&place, &["--color=always", "runs"], &[]).0.contains(ESCAPE));
    assert!(!printed(&place, &["runs", "--json", "--color=always"], &[]).0.contains(ESCAPE));
    let (_, refused) = printed(&place, &["runs", "--color", "sometimes"], &[]);
    assert!(refused.contains("auto, always, never"), "{refused}");
}

#[test]
fn a_warning_has_its_word_in_colour_and_no_code_of_a_file() {
    let place = Sandbox::new();
    let train =
        [&["train", "cartpole", "--name", "mine", "--steps", "256", "--set", "checkpoint_interval=1"], SMALL];
    assert_eq!(place.operant(&train.concat()).code, Some(0));
    let state = place.path().join("runs/mine/checkpoints/step_000000000256/state.safetensors");
    std::fs::write(state, "\u{1b}[31mgarbage").expect("written");
    let (_, said) = printed(&place, &["eval", "mine", "--color=always"], &[]);
    assert!(said.starts_with("\u{1b}[1m\u{1b}[33mwarning:\u{1b}[0m ") && !said.contains("[31m"), "{said:?}");
}
