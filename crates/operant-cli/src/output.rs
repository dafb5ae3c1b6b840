//! Results go to stdout through here, so that a reader that has seen enough (`| head`) is no failure.

use std::io::{self, Write};

/// Writes text to stdout. A closed pipe counts as written.
///
/// # Errors
/// When stdout refuses for any other reason, such as a full disk behind a redirection.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("the result cannot be written to standard output"))
        }
        _ => Ok(()),
    }
}

/// Prints a warning to stderr, if anyone reads it.
pub fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "warning: {text}");
}

/// Tells something worth knowing on stderr, if anyone reads it.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
