//! The error reporter: prints what went wrong, where, and the remedy to stderr.

use std::io::Write;

use crate::output::message;

/// Exit code of a bug in operant (EX_SOFTWARE of sysexits.h).
const BUG: i32 = 70;

/// Prints an error and returns its exit code.
pub fn report(error: &anyhow::Error) -> u8 {
    // A closed stderr must not turn an error into a panic.
    let mut stderr = std::io::stderr();
    match error.downcast_ref::<operant_run::Error>() {
        Some(known) => {
            let _ = writeln!(stderr, "error: {}", message(&known.to_string()));
            known.exit_code()
        }
        None => {
            let _ = writeln!(stderr, "error: {}", message(&format!("{error:#}")));
            1
        }
    }
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
        let mut stderr = std::io::stderr();
        let _ = writeln!(
            stderr,
            "error: this is a bug in operant: {message}\n  where: {place}\n  remedy: report it with the command line; \
             checkpoints already saved are intact, `operant train --resume RUN` continues from the last one"
        );
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            let _ = writeln!(stderr, "{}", std::backtrace::Backtrace::force_capture());
        }
        std::process::exit(BUG);
    }));
}
