//! Worlds from outside the program: files that `save` wrote, classes in Python, Gymnasium environments, and the worlds that runs keep.

use std::fs::File;
use std::io::{Write, stderr};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use operant_env::world::{LoadError, MAX_FILE, World, WorldEnv};
use operant_env::{AnyEnv, EnvSpec, Registry};
pub use operant_gym::python;
use operant_gym::{Description, DescriptionError, GymEnv};
use operant_learn::{Snapshot, check_content};
use operant_metrics::plain;

use crate::config;
use crate::dir;
use crate::error::{Error, Result};
use crate::trust::{self, Trust};

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
    match read(path)? {
        text if Description::is_meant(&text) => {
            Err(Error::usage("this file only describes a Gymnasium environment; train it by name")
                .at(path.display().to_string())
                .remedy("give gym:ID or module:Class; `operant train --resume RUN` continues a run"))
        }
        text => world_of(&text, path, registry),
    }
}

/// The bytes of the file of a world.
fn read(path: &Path) -> Result<Vec<u8>> {
    operant_metrics::read_file(path, MAX_FILE).map_err(|error| unusable(&LoadError::Unreadable(error), path))
}

fn unusable(error: &LoadError, path: &Path) -> Error {
    Error::usage(format!("the world cannot be used: {error}"))
        .at(path.display().to_string())
        .remedy("check the path; `CLASS.save(path)` writes such a file: docs/your-own-world.md")
}

/// The world of a file's text.
fn world_of(text: &[u8], path: &Path, registry: &Registry) -> Result<Arc<dyn AnyEnv>> {
    let world = World::from_json(text).map_err(|error| unusable(&error, path))?;
    // Invalid TOML is reported with its line when it is used.
    if let Some(Ok(preset)) = world.spec.preset.as_ref().map(|preset| preset.parse()) {
        config::check_foreign_preset(&preset).map_err(|error| error.at(path.display().to_string()))?;
    }
    let EnvSpec { name, aliases, .. } = &world.spec;
    // A process that trained the world may know it already.
    let is_built_in = |env: &Arc<dyn AnyEnv>| env.file().is_none();
    let known =
        |name: &String| registry.find(name).ok().filter(|env| is_built_in(env)).map(|env| env.spec().name);
    if let Some(known) = aliases.iter().find_map(known) {
        return Err(Error::usage(format!("an alias of the world names the built-in environment {known}"))
            .at(path.display().to_string())
            .remedy("remove the alias"));
    }
    if let Some(known) = known(name) {
        return Err(Error::usage(format!("the world has the name of the built-in environment {known}"))
            .at(path.display().to_string())
            .remedy(format!("give it another name, such as @operant.world(name=\"my_{name}\")")));
    }
    Ok(Arc::new(WorldEnv::new(world)))
}

/// The world that a run keeps in its directory; None if it trains a built-in environment. `trained` is the checkpoint's snapshot, if there
/// is one: the file must be that of the training. Workers of a Gymnasium environment can only be started as `trust` says, and with
/// `only_evaluates` for evaluations only.
///
/// # Errors
/// When it cannot be read, is another environment than `name` or than that of the snapshot, or is a program that is not trusted.
pub fn of_run(
    run: &Path,
    name: &str,
    registry: &Registry,
    trained: Option<&Snapshot>,
    trust: Trust,
    only_evaluates: bool,
) -> Result<Option<Arc<dyn AnyEnv>>> {
    const REMEDY: &str = "restore the file that the run was trained with";
    let path = run.join(FILE);
    if std::fs::symlink_metadata(&path).is_err() {
        return Ok(None);
    }
    let text = read(&path)?;
    let at = path.display().to_string();
    let checked = |env: Arc<dyn AnyEnv>| {
        let found = env.spec().name;
        if found != name {
            let what = format!("the run was trained with {name}, but this file contains {found}");
            return Err(Error::usage(what).at(&at).remedy(REMEDY));
        }
        trained.map_or(Ok(()), |snapshot| check_content(snapshot, &*env))?;
        Ok(env)
    };
    if !Description::is_meant(&text) {
        return world_of(&text, &path, registry).and_then(checked).map(Some);
    }
    let mut description = description_of(&text, (&at, REMEDY))?;
    // What it would run is only shown if it is what was trained.
    checked(Arc::new(GymEnv::new(description.clone())))?;
    trust::check(&mut description, run, trust)?;
    if only_evaluates {
        description.only_evaluate();
    }
    Ok(Some(Arc::new(GymEnv::new(description))))
}

/// Keeps the text of an environment from outside the program in the directory of its run, with this user's mark if it is a program.
///
/// # Errors
/// When it cannot be written.
pub fn keep(text: &str, run: &Path) -> Result<()> {
    let path = run.join(FILE);
    let written = std::fs::create_dir_all(run).and_then(|()| dir::replace(&path, text, true));
    written.map_err(|error| {
        Error::disk("the environment cannot be kept", &path, &error)
            .remedy("free some space, or choose another directory with --run-dir DIR")
    })?;
    mark_run(text, run);
    Ok(())
}

/// Marks a run as this user's, if the text of its environment is a program. Without a mark it needs `--trust` later.
pub fn mark_run(text: &str, run: &Path) {
    let written = mark(text).map_or(Ok(()), |mark| dir::replace(&run.join(trust::MARK), mark, false));
    written.unwrap_or_else(|error| unmarked(&error));
}

/// The mark of this user for the text of an environment; none if it is no program, or there is no key.
pub(crate) fn mark(text: &str) -> Option<Vec<u8>> {
    let is_program = Description::is_meant(text.as_bytes());
    let description = is_program.then(|| description_of(text.as_bytes(), ("", "")).ok()).flatten();
    let description = description.filter(|description| !description.is_local())?;
    trust::mark(&description).map_err(|error| unmarked(&error)).ok()
}

fn unmarked(error: &std::io::Error) {
    tracing::warn!("the environment cannot be marked as this user's, and needs --trust later: {error}");
}

/// Whether a function of the program that trained the run in `dir` made its environment, so that no other program has it.
pub fn is_local(dir: &Path) -> bool {
    let text = read(&dir.join(FILE)).ok().filter(|text| Description::is_meant(text));
    text.and_then(|text| description_of(&text, ("", "")).ok())
        .is_some_and(|description| description.is_local())
}

/// The Gymnasium environment of a text, with the place and the remedy of one that cannot be used.
fn description_of(text: &[u8], (at, remedy): (&str, &str)) -> Result<Description> {
    Description::from_json(text, &interpreter()).map_err(|error| {
        let remedy = match &error {
            DescriptionError::Spec(_) => remedy,
            _ => "install the same version of operant in this Python as of the program",
        };
        Error::usage(format!("the environment cannot be used: {error}")).at(at).remedy(remedy)
    })
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
    note(&format!("{doing} {name} with {}", python.display()));
    // A file: processes that the environment starts may keep a pipe open.
    let printed = scratch.path().join("stderr");
    let status = File::create(&printed).and_then(|file| {
        let mut command = python::module(&python, "operant._record");
        command.arg(name).arg(&path).arg(std::process::id().to_string());
        // What the module prints is not a result of this program.
        let command = command.stdin(Stdio::null()).stdout(std::io::stderr()).stderr(file);
        python::status(command, INTERPRETER.get().map_or(|| false, |own| own.interrupted))
    });
    let status = status.map_err(|error| {
        Error::usage(format!(
            "{name} is an environment in Python, and {} cannot be started: {error}",
            python.display()
        ))
        .remedy("activate the Python environment that has operant-rl, or give a file that `save` wrote")
    })?;
    let text = std::fs::read(&printed).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    if !status.success() {
        // Python's own message, whether it lacks the package or has an older one.
        let lacks = text.contains("operant._record") && text.contains("No module named");
        let error = Error::usage(if lacks {
            format!("{} has no package operant", python.display())
        } else {
            let said = text.trim_end();
            match status.signal() {
                Some(signal) => format!(
                    "{} was killed by signal {signal} while it recorded the environment{}{said}",
                    python.display(),
                    if said.is_empty() { "" } else { ": " }
                ),
                None if said.is_empty() => {
                    format!("{} ended ({}) without recording the environment", python.display(), status)
                }
                None => said.to_owned(),
            }
        });
        return Err(error.at(name.to_owned()).remedy(if lacks {
            "install it there: pip install operant-rl; or activate the environment that has it"
        } else if status.signal().is_some() {
            "signal 9 often means too little memory, 11 a crash; import the module in Python alone to see"
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
    for line in text.lines() {
        note(&format!("{name}: {line}"));
    }
    let recorded = read(&path)?;
    if !Description::is_meant(&recorded) {
        return world_of(&recorded, &path, registry);
    }
    let remedy = "correct its spaces, for example with gymnasium.wrappers.TransformObservation";
    let mut description = description_of(&recorded, (name, remedy))?;
    // The user has named it.
    description.allow();
    for of_spaces in description.notes() {
        note(&format!("{name}: note: {of_spaces}"));
    }
    Ok(Arc::new(GymEnv::new(description)))
}

/// The Python of this process, where one runs in it.
static INTERPRETER: OnceLock<Interpreter> = OnceLock::new();

/// A Python in whose process this runs.
#[derive(Debug)]
pub struct Interpreter {
    /// Its program.
    pub python: PathBuf,
    /// Whether one of its signal handlers raised something, which ends a recording.
    pub interrupted: fn() -> bool,
    /// Takes the notes about an environment that is recorded; false if it does not, so that they go to standard error.
    pub note: fn(&str) -> bool,
}

/// Sets the interpreter of environments in Python; later calls have no effect.
pub fn set_interpreter(interpreter: Interpreter) {
    let _ = INTERPRETER.set(interpreter);
}

/// A line about an environment that is recorded.
fn note(line: &str) {
    let line = plain(line);
    if !INTERPRETER.get().is_some_and(|own| (own.note)(&line)) {
        let _ = writeln!(stderr(), "{line}");
    }
}

/// The Python that runs modules of the user: that of this process, that of `$VIRTUAL_ENV`, or the first `python3`.
pub fn interpreter() -> PathBuf {
    if let Some(own) = INTERPRETER.get() {
        return own.python.clone();
    }
    match std::env::var_os("VIRTUAL_ENV") {
        Some(environment) if !environment.is_empty() => Path::new(&environment).join("bin/python"),
        _ => PathBuf::from("python3"),
    }
}
