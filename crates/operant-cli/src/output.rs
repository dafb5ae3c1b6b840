//! Output to stdout and stderr. A closed pipe (`| head`) is not a failure.

use std::io::{self, Write};

use operant_metrics::printable;

/// Writes text to stdout, without the characters that a terminal obeys: some of it comes from files. A closed pipe counts as written.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_coloured(&printable(text))
}

/// Writes text that has escape sequences for colours, and is [`printable`] otherwise.
pub fn print_coloured(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("the result cannot be written to standard output"))
        }
        _ => Ok(()),
    }
}

/// Prints a warning to stderr; errors are ignored.
pub fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "warning: {}", printable(text));
}

/// Prints a note to stderr; errors are ignored.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}
