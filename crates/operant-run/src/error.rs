//! The error type of a run: what went wrong, where, and the remedy.

use std::fmt;
use std::path::Path;

use operant_cuda::CudaError;
use operant_env::OptionError;
use operant_env::replay::CaseError;
use operant_learn::LearnError;
use operant_learn::group::Failure;

use crate::checkpoint::CheckpointError;
use crate::sinks::SinkError;

/// Kind of a failure; determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command line, a configuration or a checkpoint cannot be used as given; nothing was trained or changed.
    Usage,
    /// A file or directory could not be read or written.
    Disk,
    /// Training produced too many non-finite updates.
    Diverged,
    /// The device or an environment failed.
    Device,
}

/// A failure with its location and remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind, which determines the exit code.
    pub kind: ErrorKind,
    /// What went wrong, with the invalid value.
    pub what: String,
    /// Where: a file and line, a variable, a flag, a path.
    pub place: Option<String>,
    /// The remedy.
    pub remedy: Option<String>,
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of this kind with the message `what`.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Error { kind, what: what.into(), place: None, remedy: None }
    }

    /// Bad usage or configuration.
    pub fn usage(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Usage, what)
    }

    /// A file operation that failed at `path`.
    pub fn disk(what: impl Into<String>, path: &Path, error: &std::io::Error) -> Self {
        Error::new(ErrorKind::Disk, format!("{}: {error}", what.into())).at(path.display().to_string())
    }

    /// Sets where it happened.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Sets the remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Where it happened and the remedy, each with its label.
    pub fn notes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let notes = [("where:", &self.place), ("remedy:", &self.remedy)];
        notes.into_iter().filter_map(|(label, text)| Some((label, text.as_deref()?)))
    }

    /// The exit code of a process that ends with this error: 2 for usage, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::Usage => 2,
            ErrorKind::Disk | ErrorKind::Diverged | ErrorKind::Device => 1,
        }
    }
}

impl fmt::Display for Error {
    /// Several lines: `what`, then indented `where:` and `remedy:` lines where known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        self.notes().try_for_each(|(label, text)| write!(f, "\n  {label} {text}"))
    }
}

impl std::error::Error for Error {}

impl Failure for Error {
    fn is_refusal(&self) -> bool {
        self.kind == ErrorKind::Usage
    }
}

impl From<LearnError> for Error {
    fn from(error: LearnError) -> Self {
        match error {
            LearnError::Config { key, problem, remedy } => {
                Error::usage(format!("{key}: {problem}")).remedy(remedy)
            }
            LearnError::Snapshot(problem) => Error::usage(format!("the checkpoint does not fit: {problem}"))
                .remedy("use the environment that it was trained with, with the same options (--set env.*), files and network"),
            LearnError::Environment(error) => {
                let failed = Error::new(ErrorKind::Device, error.to_string());
                if error.remedy.is_empty() { failed } else { failed.remedy(error.remedy) }
            }
            stopped @ LearnError::Stopped => Error::new(ErrorKind::Device, stopped.to_string()),
            LearnError::Process(what) => Error::new(ErrorKind::Device, what),
            LearnError::Refused(what) => Error::usage(what),
            LearnError::Cuda(error) => error.into(),
        }
    }
}

impl From<CudaError> for Error {
    /// A device that this machine lacks is a usage error; anything else is a device failure.
    fn from(error: CudaError) -> Self {
        let kind = if error.is_of_the_machine() { ErrorKind::Usage } else { ErrorKind::Device };
        Error::new(kind, error.what()).remedy(error.remedy())
    }
}

/// ` (did you mean "x"?)` for the candidate nearest to `given`, or nothing when none is near.
pub fn did_you_mean<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(given, candidates) {
        Some(name) => format!(" (did you mean \"{name}\"?)"),
        None => String::new(),
    }
}

/// The candidate nearest to `given`, if one is near enough: by edit distance, else by initials (`lr`), else the only
/// one that contains it (`epochs`).
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let by_edits = candidates
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&given, &name.to_lowercase()), *name))
        .filter(|(distance, name)| {
            *distance <= 1 + given.len().max(name.len()) / 4 && *distance < given.len()
        })
        .min_by_key(|(distance, _)| *distance);
    if let Some((_, name)) = by_edits {
        return Some(name);
    }
    let initials =
        |name: &str| name.split(['_', '-']).filter_map(|word| word.chars().next()).collect::<String>();
    if let Some(name) = candidates.iter().find(|name| name.contains('_') && initials(name) == given) {
        return Some(name);
    }
    let mut containing =
        candidates.iter().filter(|name| given.len() >= 3 && name.to_lowercase().contains(&given));
    match (containing.next(), containing.next()) {
        (Some(name), None) => Some(name),
        _ => None,
    }
}

impl From<&OptionError> for Error {
    fn from(error: &OptionError) -> Self {
        Error::usage(error.to_string()).remedy(error.remedy())
    }
}

impl From<CaseError> for Error {
    fn from(error: CaseError) -> Self {
        Error::usage(error.to_string()).remedy(error.remedy())
    }
}

impl From<CheckpointError> for Error {
    fn from(error: CheckpointError) -> Self {
        let kind = if error.is_disk() { ErrorKind::Disk } else { ErrorKind::Usage };
        Error::new(kind, error.what()).remedy(error.remedy())
    }
}

impl From<SinkError> for Error {
    fn from(error: SinkError) -> Self {
        Error::new(ErrorKind::Disk, error.what()).remedy(error.remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let names = ["learning_rate", "gamma", "update_epochs", "num_envs", "norm_obs", "norm_adv"];
        let near = |given| nearest(given, names);
        assert_eq!(near("learning-rate"), Some("learning_rate"));
        assert_eq!(near("Gama"), Some("gamma"));
        assert_eq!(near("lr"), Some("learning_rate"));
        assert_eq!(near("epochs"), Some("update_epochs"));
        assert_eq!(near("norm"), None, "two contain it");
        assert_eq!(near("zzz"), None);
        assert_eq!(near(""), None);
    }

    #[test]
    fn an_error_shows_what_where_and_its_remedy() {
        let error = Error::usage("a is b").at("there").remedy("do c");
        assert_eq!(error.to_string(), "a is b\n  where: there\n  remedy: do c");
        let source = std::io::Error::other("x; y");
        let sink = Error::from(SinkError { doing: "write", path: "/a; b".into(), source });
        assert_eq!((sink.what.as_str(), sink.kind), ("cannot write /a; b: x; y", ErrorKind::Disk));
        assert!(sink.remedy.is_some_and(|remedy| remedy.starts_with("check the disk")));
    }

    #[test]
    fn a_missing_gpu_is_a_usage_error_and_a_failing_one_is_not() {
        let absent = Error::from(CudaError::NoSuchDevice { ordinal: 3, count: 1 });
        assert_eq!(absent.exit_code(), 2);
        assert!(absent.what.contains("no GPU 3"), "{absent}");
        assert!(absent.remedy.is_some_and(|remedy| remedy.contains("CUDA_VISIBLE_DEVICES")));
        let full = CudaError::OutOfMemory {
            device: "GPU 0".to_owned(),
            kind: "device",
            requested: 8,
            free: 4,
            total: 16,
        };
        let full = Error::from(LearnError::Cuda(full));
        assert_eq!((full.kind, full.exit_code()), (ErrorKind::Device, 1));
        assert!(full.what.contains("no room for 8 bytes"), "{full}");
        assert!(full.remedy.is_some_and(|remedy| remedy.starts_with("ask for less")));
    }
}
