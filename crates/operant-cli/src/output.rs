//! Output to stdout and stderr. A closed pipe (`| head`) is not a failure.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use operant_metrics::printable;
use operant_run::paint;

/// The file name of the program, if it is not `operant`.
static PROGRAM: OnceLock<String> = OnceLock::new();

/// Sets the program's name (argv[0]), which messages use in the commands that they suggest.
pub fn started_by(word: &OsStr) {
    let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
    if let Some(name) = name.filter(|name| name != "operant") {
        let _ = PROGRAM.set(name);
    }
}

/// A message for a terminal: without the characters that one obeys, and with commands as this program is called.
pub fn message(text: &str) -> String {
    renamed(&printable(text))
}

/// The text with commands as this program is called.
fn renamed(text: &str) -> String {
    PROGRAM.get().map_or_else(|| text.to_owned(), |program| commands_of(program, text))
}

/// The name by which the program was started.
pub fn program() -> &'static str {
    PROGRAM.get().map_or("operant", String::as_str)
}

/// Whether the program is called `operant`.
pub fn is_operant() -> bool {
    PROGRAM.get().is_none()
}

/// The text with `operant COMMAND` as `PROGRAM COMMAND`.
fn commands_of(program: &str, text: &str) -> String {
    let cli = <crate::Cli as clap::CommandFactory>::command();
    let is_command = |rest: &str| {
        let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next();
        cli.get_subcommands().any(|command| Some(command.get_name()) == word)
    };
    let mut parts = text.split("operant ");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_word = !all.ends_with(|c: char| c.is_alphanumeric() || "-_./".contains(c));
        all.push_str(if is_word && is_command(part) { program } else { "operant" });
        all.push(' ');
        all.push_str(part);
    }
    all
}

/// Writes text to stdout, without the characters that a terminal obeys: some of it comes from files. A closed pipe counts as written.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_painted(&printable(text))
}

/// Writes text that is painted, and is [`printable`] otherwise.
pub fn print_painted(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("the result cannot be written to standard output"))
        }
        _ => Ok(()),
    }
}

/// Prints a warning to stderr; errors are ignored.
pub fn warn(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", paint::warning(&message(text)));
}

/// Prints a note to stderr; errors are ignored.
pub fn note(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", message(text));
}

/// Prints a painted note of clap to stderr; errors are ignored.
pub fn note_painted(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", renamed(text));
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_are_named_as_the_program_is_called() {
        let text = "a bug in operant train; `operant train --resume r` or operant stop r; operant trains; ./operant runs";
        let expected =
            "a bug in op train; `op train --resume r` or op stop r; operant trains; ./operant runs";
        assert_eq!(super::commands_of("op", text), expected);
    }
}
