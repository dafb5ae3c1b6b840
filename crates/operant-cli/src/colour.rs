//! `--color`, which every command takes: whether what is printed outside the monitor has colours.

use std::ffi::OsString;

use anstream::AutoStream;
use clap::ValueEnum as _;
use clap::builder::Styles;

/// When to print colours.
pub type When = clap::ColorChoice;

/// The flag.
const FLAG: &str = "--color";

/// Colours of help and of clap's errors.
pub const STYLES: Styles = Styles::styled()
    .header(operant_run::paint::GOOD)
    .usage(operant_run::paint::GOOD)
    .literal(operant_run::paint::LABEL)
    .placeholder(anstyle::AnsiColor::Cyan.on_default())
    .error(operant_run::paint::BAD)
    .valid(operant_run::paint::LABEL)
    .invalid(operant_run::paint::WARNING);

/// Takes the flag among the words of a command, before they are parsed: help and errors of parsing have colours too. Without it, NO_COLOR,
/// CLICOLOR, CLICOLOR_FORCE and TERM decide, and whether the output is a terminal.
pub fn choose(words: &[OsString]) {
    let choice = match asked(words) {
        When::Auto => anstream::ColorChoice::Auto,
        When::Always => anstream::ColorChoice::Always,
        When::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
    console::set_colors_enabled_stderr(of_stderr());
}

/// Whether standard error takes colours.
fn of_stderr() -> bool {
    AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// The last valid value of the flag.
fn asked(words: &[OsString]) -> When {
    let words = words.iter().map(|word| word.to_str().unwrap_or_default()).take_while(|word| *word != "--");
    let words: Vec<&str> = words.collect();
    let values = words.iter().enumerate().filter_map(|(at, word)| match word.strip_prefix(FLAG) {
        Some("") => words.get(at + 1).copied(),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    });
    values.filter_map(|value| When::from_str(value, false).ok()).next_back().unwrap_or(When::Auto)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_found_before_the_words_are_parsed() {
        let asked = |line: &str| asked(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(asked("operant runs --color always"), When::Always);
        assert_eq!(asked("operant --color=never runs"), When::Never);
        assert_eq!(asked("operant runs --color never --color=auto"), When::Auto);
        assert_eq!(asked("operant runs --colors always"), When::Auto);
        assert_eq!(asked("operant runs -- --color always"), When::Auto);
        assert_eq!(asked("operant runs --color"), When::Auto);
    }
}
