//! Python processes. They do not search the working directory for modules first, as Python does by default: it may be a stranger's, and
//! hold a module that is named as one of Python's packages.

use std::path::Path;
use std::process::Command;

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
