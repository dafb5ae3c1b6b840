//! Replaces a directory so that a crash leaves the old one or the new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Prefix of a checkpoint while it is being replaced, on file systems that cannot exchange two names.
pub const OLD: &str = ".old_";

/// Renames the directory `new` to `target`, removing the existing one.
pub fn replace(new: &Path, target: &Path) -> io::Result<()> {
    if target.symlink_metadata().is_err() {
        return fs::rename(new, target);
    }
    match renameat_with(CWD, new, CWD, target, RenameFlags::EXCHANGE) {
        Ok(()) => {
            // The new one is in place; what remains under the temporary name is removed by the next save at the latest.
            let _ = remove(new);
            Ok(())
        }
        Err(_) => replace_in_two_steps(new, target),
    }
}

/// Like [`replace`] without an atomic exchange; [`restore`] repairs a crash between its steps.
fn replace_in_two_steps(new: &Path, target: &Path) -> io::Result<()> {
    let old = old_name(target);
    remove_if_there(&old)?;
    fs::rename(target, &old)?;
    fs::rename(new, target).inspect_err(|_| drop(fs::rename(&old, target)))?;
    let _ = remove(&old);
    Ok(())
}

/// Restores a checkpoint whose replacement was never renamed, given its path with the prefix [`OLD`]; otherwise removes it.
pub fn restore(old: &Path) -> io::Result<()> {
    let name = old.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(OLD));
    match name.map(|name| old.with_file_name(name)) {
        Some(target) if target.symlink_metadata().is_err() => fs::rename(old, target),
        _ => remove(old),
    }
}

/// Removes a directory with its content, or a file.
pub fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// [`remove`], which does not fail if nothing exists.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// The name of a checkpoint while [`replace_in_two_steps`] replaces it.
pub fn old_name(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!("{OLD}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(path: &Path, content: &str) {
        fs::create_dir(path).unwrap();
        fs::write(path.join("file"), content).unwrap();
    }

    #[test]
    fn both_ways_replace_a_directory_and_leave_nothing_else() {
        for replace in [replace, replace_in_two_steps] {
            let dir = tempfile::tempdir().unwrap();
            let (new, target) = (dir.path().join("new"), dir.path().join("step"));
            make(&new, "new");
            make(&target, "old");
            make(&dir.path().join(".old_step"), "left by a crash");
            replace(&new, &target).unwrap();
            assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "new");
            remove_if_there(&dir.path().join(".old_step")).unwrap();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_failed_replacement_keeps_the_old_directory() {
        for replace in [replace, replace_in_two_steps] {
            let dir = tempfile::tempdir().unwrap();
            let target = dir.path().join("step");
            make(&target, "old");
            assert!(replace(&dir.path().join("never made"), &target).is_err());
            assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "old");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_crash_between_the_two_steps_is_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let (old, target) = (dir.path().join(".old_step"), dir.path().join("step"));
        make(&old, "old");
        restore(&old).unwrap();
        assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "old");
        make(&old, "older");
        restore(&old).unwrap();
        assert!(!old.exists());
        assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "old");
    }
}
