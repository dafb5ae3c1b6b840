//! How this process was started: its arguments, and the command that starts the same program again.

use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

/// The program, as a command and its leading arguments, and the arguments after them.
#[derive(Debug)]
pub struct Invocation {
    program: Vec<OsString>,
    arguments: Vec<OsString>,
}

static DECLARED: OnceLock<Invocation> = OnceLock::new();

/// Declares how this process was started, for a program that is not a separate file, such as a Python package: the words before its
/// arguments (`python -m operant`), and the arguments. Only the first declaration counts.
pub fn declare(program: Vec<OsString>, arguments: Vec<OsString>) {
    let _ = DECLARED.set(Invocation { program, arguments });
}

/// The arguments of this process, without the program's name.
pub fn arguments() -> Vec<OsString> {
    DECLARED.get().map_or_else(|| std::env::args_os().skip(1).collect(), |it| it.arguments.clone())
}

/// A command that starts this program again, still without arguments.
///
/// # Errors
/// When the program's file cannot be found.
pub fn this_program() -> std::io::Result<Command> {
    match DECLARED.get().map(|it| it.program.split_first()) {
        Some(Some((file, leading))) => {
            let mut command = Command::new(file);
            command.args(leading);
            Ok(command)
        }
        _ => std::env::current_exe().map(Command::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_its_own_file_until_another_is_declared() {
        let own = this_program().expect("a file");
        assert_eq!(own.get_program(), std::env::current_exe().expect("a file"));
        let words = |all: &[&str]| all.iter().map(OsString::from).collect::<Vec<_>>();
        declare(words(&["python", "-m", "operant"]), words(&["train"]));
        declare(words(&["other"]), Vec::new());
        let declared = this_program().expect("declared");
        assert_eq!(declared.get_program(), "python");
        assert_eq!(declared.get_args().collect::<Vec<_>>(), ["-m", "operant"]);
        assert_eq!(arguments(), ["train"]);
    }
}
