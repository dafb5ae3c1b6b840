//! What a user writes about a run: a note and tags, in a file of its own. Training neither reads nor needs it.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::dir;
use crate::error::{Error, ErrorKind, Result};

/// The file in the run's directory.
pub const FILE: &str = "notes.json";

/// Held by the process that changes it.
const LOCK: &str = ".notes.lock";

/// Longest wait for a process that changes them.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest note, and longest tag, in characters.
const LONGEST: (usize, usize) = (4096, 64);

/// The note and the tags of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// The note; empty without one.
    pub note: String,
    /// The tags, in the order in which they were added; each once.
    pub tags: Vec<String>,
}

impl Notes {
    /// A note, if there is one, and tags.
    ///
    /// # Errors
    /// Usage when the note is too long, or a tag is not valid.
    pub fn new(note: Option<&str>, tags: &[String]) -> Result<Self> {
        let mut notes = Notes::default();
        notes.set_note(note.unwrap_or_default())?;
        tags.iter().try_for_each(|tag| notes.add(tag))?;
        Ok(notes)
    }

    /// The notes of the run in `dir`; none if it has no such file, or one that cannot be read.
    pub fn of(dir: &Path) -> Self {
        Self::read(dir).unwrap_or_default()
    }

    /// The notes of the run in `dir`, to be changed.
    ///
    /// # Errors
    /// When its file exists and cannot be read: it would be lost.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        if std::fs::symlink_metadata(&path).is_err() {
            return Ok(Notes::default());
        }
        let read = dir::read_small(&path).and_then(|text| Ok(serde_json::from_slice(&text)?));
        read.map_err(|error| {
            Error::disk("the notes of the run cannot be read", &path, &error)
                .remedy("correct the file or delete it; it contains only the note and the tags")
        })
    }

    /// Changes the notes of the run in `dir`, one process at a time, and returns them.
    ///
    /// # Errors
    /// Those of `change`, which then leaves the file as it is; when the file cannot be read or written, or another process holds it for
    /// seconds.
    pub fn change(dir: &Path, change: impl FnOnce(&mut Notes) -> Result<()>) -> Result<Self> {
        let _lock = lock(dir, LOCK_TIMEOUT)?;
        let mut notes = Notes::read(dir)?;
        let before = notes.clone();
        change(&mut notes)?;
        if notes != before {
            notes.write(dir)?;
        }
        Ok(notes)
    }

    /// Writes them into the run's directory as a whole.
    fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(FILE);
        let text = serde_json::to_string(self).map_err(std::io::Error::from);
        text.and_then(|text| dir::replace(&path, text + "\n", true)).map_err(|error| {
            Error::disk("the notes of the run cannot be written", &path, &error)
                .remedy("free some space, and see that its directory can be written")
        })
    }

    /// Whether there is neither a note nor a tag.
    pub fn is_empty(&self) -> bool {
        *self == Notes::default()
    }

    /// Replaces the note.
    ///
    /// # Errors
    /// Usage when it is too long.
    pub fn set_note(&mut self, note: &str) -> Result<()> {
        let note = note.trim();
        if note.chars().count() > LONGEST.0 {
            let what = format!("the note has more than {} characters", LONGEST.0);
            return Err(Error::usage(what).remedy("put a long text into a file of the run's directory"));
        }
        note.clone_into(&mut self.note);
        Ok(())
    }

    /// Adds a tag, unless it is there.
    ///
    /// # Errors
    /// Usage when it is not valid.
    pub fn add(&mut self, tag: &str) -> Result<()> {
        let is_legal = |c: char| c.is_alphanumeric() || "-_.:/+=@".contains(c);
        let length = tag.chars().count();
        if length == 0 || length > LONGEST.1 || tag.starts_with('-') || !tag.chars().all(is_legal) {
            return Err(Error::usage(format!("\"{tag}\" cannot be a tag")).remedy(format!(
                "use up to {} letters, digits and - _ . : / + = @, not beginning with a dash",
                LONGEST.1
            )));
        }
        if !self.tags.iter().any(|known| known == tag) {
            self.tags.push(tag.to_owned());
        }
        Ok(())
    }

    /// Adds the note, if there is one, and the tags of others to those of the run in `dir`.
    ///
    /// # Errors
    /// When the run's file cannot be read or written.
    pub fn add_to(&self, dir: &Path) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        Notes::change(dir, |notes| {
            if !self.note.is_empty() {
                notes.note.clone_from(&self.note);
            }
            self.tags.iter().try_for_each(|tag| notes.add(tag))
        })
        .map(drop)
    }
}

/// Takes the lock of the notes in `dir`.
fn lock(dir: &Path, timeout: Duration) -> Result<File> {
    let path = dir.join(LOCK);
    let failed = |error: &std::io::Error| {
        Error::disk("the notes of the run cannot be locked", &path, error)
            .remedy("free some space, and see that its directory can be written")
    };
    let file = dir::open_own(&path).map_err(|error| failed(&error))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
            Err(TryLockError::WouldBlock) if begun.elapsed() < timeout => {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                let what = format!("another process has locked the notes of the run for {timeout:?}");
                return Err(Error::new(ErrorKind::Disk, what).at(path.display().to_string()).remedy(
                    "repeat the command; `fuser` or `lslocks` shows the process, which can be ended",
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_added_to_those_of_a_run() {
        let dir = tempfile::tempdir().expect("a directory");
        let tags = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(Notes::of(dir.path()).is_empty(), "a run without a file");
        let first = Notes::new(Some(" the first "), &tags(&["a", "b", "a"])).expect("valid");
        first.add_to(dir.path()).expect("written");
        Notes::new(None, &tags(&["c", "b"])).expect("valid").add_to(dir.path()).expect("written");
        let both = Notes { note: "the first".to_owned(), tags: tags(&["a", "b", "c"]) };
        assert_eq!(Notes::read(dir.path()).expect("there"), both);
        Notes::default().add_to(&dir.path().join("absent")).expect("nothing to write");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_note_and_is_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(FILE), "{").expect("written");
        assert!(Notes::of(dir.path()).is_empty());
        let error = Notes::new(Some("new"), &[]).expect("valid").add_to(dir.path()).expect_err("refused");
        assert!(error.what.contains("cannot be read"), "{error}");
        assert_eq!(std::fs::read_to_string(dir.path().join(FILE)).expect("there"), "{");
    }

    #[test]
    fn processes_that_change_them_at_once_lose_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let add = |tag: String| Notes::change(dir.path(), |notes| notes.add(&tag)).expect("written");
                scope.spawn(move || (0..10).for_each(|k| drop(add(format!("t{thread}-{k}")))));
            }
        });
        assert_eq!(Notes::of(dir.path()).tags.len(), 40);
    }

    #[test]
    fn a_lock_that_another_process_keeps_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = lock(dir.path(), Duration::ZERO).expect("free");
        let error = lock(dir.path(), Duration::from_millis(20)).expect_err("held");
        assert!(error.what.contains("another process has locked the notes"), "{error}");
        assert!(error.place.is_some_and(|place| place.ends_with(LOCK)));
        drop(held);
        Notes::change(dir.path(), |notes| notes.add("free")).expect("written");
    }

    #[test]
    fn tags_are_words() {
        let mut notes = Notes::default();
        for tag in ["baseline", "lr=1e-3", "größe", "v1.2", "team/a"] {
            notes.add(tag).expect(tag);
        }
        for bad in ["", "two words", "a,b", "-x", "\u{1b}[2J", &"x".repeat(65)] {
            assert_eq!(notes.add(bad).expect_err(bad).exit_code(), 2, "{bad}");
        }
        assert_eq!(notes.set_note(&"x".repeat(4097)).expect_err("long").exit_code(), 2);
    }
}
