//! Python processes. They do not search the working directory for modules first, as Python does by default: it may be a stranger's, and
//! hold a module that is named as one of Python's packages.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::os::{self, ChildExit};

/// How often an interruption is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// How long processes that an environment started have to end after SIGTERM, before they are killed.
const ENDING: Duration = Duration::from_secs(2);

/// How often they are checked for exit.
const TICK: Duration = Duration::from_millis(10);

/// What `-P` does from Python 3.11 on.
const SAFE_PATH: &str = "import sys\nif sys.path[:1] == ['']: del sys.path[0]\n";

/// Runs the module that is the first argument, with the arguments after it.
const RUN_MODULE: &str =
    "import runpy\nrunpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)\n";

/// `python -c CODE`. `sys` is imported.
pub fn code(python: &Path, code: &str) -> Command {
    let mut command = Command::new(python);
    command.arg("-c").arg(format!("{SAFE_PATH}{code}"));
    command
}

/// `python -m MODULE`.
pub fn module(python: &Path, module: &str) -> Command {
    let mut command = code(python, RUN_MODULE);
    command.arg(module);
    command
}

/// Runs a process in its own process group until it ends or `interrupted`, and ends what it leaves there.
///
/// # Errors
/// When it cannot be started, or was interrupted.
pub fn status(command: &mut Command, interrupted: fn() -> bool) -> io::Result<ExitStatus> {
    let mut child = command.process_group(0).spawn()?;
    let exit = ChildExit::of(&child)?;
    let mut is_interrupted = false;
    while !is_interrupted && !exit.wait(&mut child, LOOK) {
        is_interrupted = interrupted();
    }
    if is_interrupted {
        child.kill()?;
    }
    let status = child.wait();
    end_groups([Pid::from_child(&child)]);
    if is_interrupted { Err(io::ErrorKind::Interrupted.into()) } else { status }
}

/// Ends the processes of groups whose first process has ended.
pub(crate) fn end_groups(groups: impl IntoIterator<Item = Pid>) {
    // While a group has processes, the system does not give its number to another one.
    let asked = groups.into_iter().filter(|group| kill_process_group(*group, Signal::TERM).is_ok());
    let (mut left, deadline): (Vec<Pid>, _) = (asked.collect(), Instant::now() + ENDING);
    while !left.is_empty() && Instant::now() < deadline {
        os::remove_ended(&mut left);
        if !left.is_empty() {
            thread::sleep(TICK);
        }
    }
    for group in left {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python prints in a directory that has modules named as Python's own.
    fn printed(mut command: Command, argument: &str) -> String {
        let place = tempfile::tempdir().expect("a temporary directory");
        for module in ["json", "runpy", "platform"] {
            let path = place.path().join(module).with_extension("py");
            std::fs::write(path, "print('a stranger')").expect("written");
        }
        let output = command.arg(argument).current_dir(place.path()).env_remove("PYTHONSAFEPATH").output();
        let output = output.expect("python3 is there");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    #[test]
    fn modules_of_the_working_directory_do_not_replace_pythons_own() {
        let python = Path::new("python3");
        let names = "import json, runpy; print(sys.argv[1:], json.__name__)";
        assert_eq!(printed(code(python, names), "a b"), "['a b'] json\n");
        let version = printed(module(python, "platform"), "terse");
        assert!(!version.contains("stranger") && version.trim().len() > 4, "{version}");
    }
}
