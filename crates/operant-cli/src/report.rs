//! The error reporter: prints what went wrong, where, and the remedy to stderr.

use std::io::Write;

use operant_run::paint::{BAD, LABEL, paint};

use crate::output::message;

/// Exit code of a bug in operant (EX_SOFTWARE of sysexits.h).
const BUG: i32 = 70;

/// Prints an error and returns its exit code.
pub fn report(error: &anyhow::Error) -> u8 {
    // A closed stderr must not turn an error into a panic.
    let mut stderr = anstream::stderr();
    match error.downcast_ref::<operant_run::Error>() {
        Some(known) => {
            let _ = writeln!(stderr, "{}", painted(&known.what, known.notes()));
            known.exit_code()
        }
        None => {
            let _ = writeln!(stderr, "{}", painted(&format!("{error:#}"), []));
            1
        }
    }
}

/// An error and its notes, each with its label.
fn painted<'a>(what: &str, notes: impl IntoIterator<Item = (&'static str, &'a str)>) -> String {
    let mut text = format!("{} {}", paint(BAD, "error:"), message(what));
    for (label, note) in notes {
        text.push_str(&format!("\n  {} {}", paint(LABEL, label), message(note)));
    }
    text
}

/// Turns a panic into a bug message and exit code 70.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload();
        let message = message
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| message.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let mut stderr = anstream::stderr();
        let remedy = "report it with the command line; checkpoints already saved are intact, `operant train --resume RUN` continues from \
                      the last one";
        let notes = [("where:", place.as_str()), ("remedy:", remedy)];
        let _ = writeln!(stderr, "{}", painted(&format!("this is a bug in operant: {message}"), notes));
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            let _ = writeln!(stderr, "{}", std::backtrace::Backtrace::force_capture());
        }
        std::process::exit(BUG);
    }));
}
