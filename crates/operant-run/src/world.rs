//! Worlds from outside the program: files that `save` wrote, classes in Python, Gymnasium environments, and the worlds that runs keep.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use operant_env::world::{World, WorldEnv};
use operant_env::{AnyEnv, Registry};
use operant_gym::{Description, DescriptionError, GymEnv};

use crate::error::{Error, Result};

/// The file of a run that trains a world, in its directory.
pub const FILE: &str = "env.world";

/// The ending of files of worlds.
const ENDING: &str = ".world";

/// Whether a name means a file.
pub fn is_file(name: &str) -> bool {
    name.ends_with(ENDING) || Path::new(name).is_file()
}

/// Whether a name means an environment that Python has: `module:Class`, `path/to/file.py:Class`, or `gym:ID` of Gymnasium. Keyword
/// arguments may follow a question mark.
pub fn is_python(name: &str) -> bool {
    let target = name.split_once('?').map_or(name, |(target, _)| target);
    // An id may have a namespace: gym:ALE/Pong-v5.
    if let Some(id) = target.strip_prefix("gym:") {
        return !id.is_empty();
    }
    target
        .rsplit_once(':')
        .is_some_and(|(module, class)| !module.is_empty() && !class.is_empty() && !class.contains('/'))
}

/// The name of an environment in Python with the preprocessing of a preset.
///
/// # Errors
/// When the name is of another kind.
pub fn with_preset(name: &str, preset: &str) -> Result<String> {
    if !is_python(name) || is_file(name) {
        return Err(Error::usage(format!("{name} is not a Gymnasium environment"))
            .at("--preset")
            .remedy("give gym:ID, such as gym:ALE/Pong-v5, or leave --preset out: built-in environments have presets of their own"));
    }
    Ok(format!("{name}{}preset={preset}", if name.contains('?') { '&' } else { '?' }))
}

/// The environment of a file.
///
/// # Errors
/// When it cannot be read, or is not a world.
pub fn load(path: &Path, registry: &Registry) -> Result<Arc<dyn AnyEnv>> {
    let at = || path.display().to_string();
    if std::fs::read(path).is_ok_and(|text| Description::is_meant(&text)) {
        return Err(Error::usage("this file only describes a Gymnasium environment; train it by name")
            .at(at())
            .remedy("give gym:ID or module:Class; `operant train --resume RUN` continues a run"));
    }
    let world = World::load(path).map_err(|error| {
        Error::usage(format!("the world cannot be used: {error}"))
            .at(at())
            .remedy("check the path; `CLASS.save(path)` writes such a file: docs/your-own-world.md")
    })?;
    let name = &world.spec.name;
    // A process that trained the world may know it already.
    let is_built_in = |env: &Arc<dyn AnyEnv>| env.file().is_none();
    if let Some(known) = registry.find(name).ok().filter(|env| is_built_in(env)).map(|env| env.spec().name) {
        return Err(Error::usage(format!("the world has the name of the built-in environment {known}"))
            .at(at())
            .remedy(format!("give it another name, such as @operant.world(name=\"my_{name}\")")));
    }
    Ok(Arc::new(WorldEnv::new(world)))
}

/// The world that a run keeps in its directory; None if it trains a built-in environment.
///
/// # Errors
/// When it cannot be read, or is another environment than `name`.
pub fn of_run(run: &Path, name: &str, registry: &Registry) -> Result<Option<Arc<dyn AnyEnv>>> {
    let path = run.join(FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let at = path.display().to_string();
    let env = load_any(&path, registry, (&at, "restore the file that the run was trained with"))?;
    let found = env.spec().name;
    if found != name {
        return Err(Error::usage(format!("the run was trained with {name}, but this file contains {found}"))
            .at(path.display().to_string())
            .remedy("restore the file that the run was trained with"));
    }
    Ok(Some(env))
}

/// The world or the Gymnasium environment of a file that a run keeps, or that was just recorded, with the place and the remedy of an
/// environment that cannot be used.
fn load_any(path: &Path, registry: &Registry, (at, remedy): (&str, &str)) -> Result<Arc<dyn AnyEnv>> {
    let Ok(text) = std::fs::read(path) else { return load(path, registry) };
    if !Description::is_meant(&text) {
        return load(path, registry);
    }
    let description = Description::from_json(&text, &interpreter()).map_err(|error| {
        let remedy = match &error {
            DescriptionError::Spec(_) => remedy,
            _ => "install the same version of operant in this Python as of the program",
        };
        Error::usage(format!("the environment cannot be used: {error}")).at(at).remedy(remedy)
    })?;
    Ok(Arc::new(GymEnv::new(description)))
}

/// Records what a name means in Python: a class with `@operant.world`, or the spaces of a Gymnasium environment. The Python is the one of
/// this process, that of `$VIRTUAL_ENV`, or the first `python3`.
///
/// # Errors
/// When there is no Python, it has no operant, or the class cannot be recorded.
pub fn record(name: &str, registry: &Registry) -> Result<Arc<dyn AnyEnv>> {
    let python = interpreter();
    let scratch = tempfile::tempdir().map_err(|error| {
        Error::disk("a temporary directory cannot be made", &std::env::temp_dir(), &error)
    })?;
    let path = scratch.path().join(FILE);
    let doing = if name.starts_with("gym:") { "reading the spaces of" } else { "recording" };
    eprintln!("{doing} {name} with {}", python.display());
    let output = Command::new(&python)
        .args(["-m", "operant._record", name])
        .arg(&path)
        .stdin(Stdio::null())
        // What the module prints is not a result of this program.
        .stdout(std::io::stderr())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| {
            Error::usage(format!(
                "{name} is an environment in Python, and {} cannot be started: {error}",
                python.display()
            ))
            .remedy("activate the Python environment that has operant-rl, or give a file that `save` wrote")
        })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        // Python's own message, whether it lacks the package or has an older one.
        let lacks = text.contains("operant._record") && text.contains("No module named");
        let error = Error::usage(if lacks {
            format!("{} has no package operant", python.display())
        } else {
            text.trim_end().to_owned()
        });
        return Err(error.at(name.to_owned()).remedy(if lacks {
            "install it there: pip install operant-rl; or activate the environment that has it"
        } else {
            "correct the name or the class; docs/your-own-world.md has examples"
        }));
    }
    if !path.is_file() {
        let what = format!("{} exited without recording {name}", python.display());
        return Err(Error::usage(what)
            .remedy("check whether the module or the environment's constructor ends the process"));
    }
    // Notes, and warnings of the module.
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let remedy = "correct its spaces, for example with gymnasium.wrappers.TransformObservation";
    load_any(&path, registry, (name, remedy))
}

/// The Python of this process, where one runs in it.
static INTERPRETER: OnceLock<PathBuf> = OnceLock::new();

/// Sets the interpreter of environments in Python; later calls have no effect.
pub fn set_interpreter(python: PathBuf) {
    let _ = INTERPRETER.set(python);
}

/// The Python that runs modules of the user: that of this process, that of `$VIRTUAL_ENV`, or the first `python3`.
pub fn interpreter() -> PathBuf {
    if let Some(python) = INTERPRETER.get() {
        return python.clone();
    }
    match std::env::var_os("VIRTUAL_ENV") {
        Some(environment) if !environment.is_empty() => Path::new(&environment).join("bin/python"),
        _ => PathBuf::from("python3"),
    }
}
