//! Whose program a Gymnasium environment is. Workers import and call what the file of a run names, so a stranger's run is a stranger's
//! program. A run that this user started has a mark: the hash of that program under a random key that only this user can read.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use operant_gym::Description;

use crate::dir;
use crate::error::{Error, Result};

/// The file with the mark, next to the environment's file.
pub const MARK: &str = "env.mark";

/// The file with the key. It is in the directory that the user's variables name: an operant.toml, which names one for kernels, may
/// be a stranger's.
const KEY: &str = "trust.key";

/// Which programs of stored runs may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// None: only spaces and weights are used.
    Nothing,
    /// Those that this user started, or trusted, before.
    Own,
    /// All: `--trust`.
    All,
}

impl Trust {
    /// [`Trust::All`] if the user says so.
    pub fn of_flag(is_given: bool) -> Self {
        if is_given { Trust::All } else { Trust::Own }
    }
}

/// Lets the workers of the environment that is kept in `dir` be started, if it is the user's own program or a trusted one, which is then
/// marked.
///
/// # Errors
/// Usage when it is neither; the error shows the program.
pub(crate) fn check(description: &mut Description, dir: &Path, trust: Trust) -> Result<()> {
    if trust == Trust::Nothing {
        return Ok(());
    }
    if description.is_local() {
        let what = "the environment of this run was made by a Python function, which the run does not store";
        return Err(Error::usage(what).at(dir.join(crate::world::FILE).display().to_string()).remedy(
            "pass the function again in Python: operant.resume(run, env=FUNCTION) or run.eval(env=FUNCTION)",
        ));
    }
    let key = key();
    let is_own = |key: &[u8; blake3::KEY_LEN]| {
        let kept = dir::read_small(&dir.join(MARK)).ok();
        // The comparison of hashes takes the same time wherever they differ.
        kept.and_then(|kept| blake3::Hash::from_hex(kept.trim_ascii()).ok())
            == Some(mark_of(description, key))
    };
    if !key.as_ref().is_ok_and(is_own) {
        if trust == Trust::Own {
            return Err(stranger(description, dir, key.err()));
        }
        let write = |key| dir::replace(&dir.join(MARK), text(description, &key), false);
        if let Err(error) = key.and_then(write) {
            tracing::warn!(
                "the environment cannot be marked as this user's, and needs --trust again: {error}"
            );
        }
    }
    description.allow();
    Ok(())
}

/// This user's mark of an environment, as its file has it.
///
/// # Errors
/// When there is no key.
pub(crate) fn mark(description: &Description) -> io::Result<Vec<u8>> {
    Ok(text(description, &key()?))
}

fn text(description: &Description, key: &[u8; blake3::KEY_LEN]) -> Vec<u8> {
    format!("{}\n", mark_of(description, key).to_hex()).into_bytes()
}

fn mark_of(description: &Description, key: &[u8; blake3::KEY_LEN]) -> blake3::Hash {
    let program = serde_json::to_vec(&("operant environment 1", description.program()));
    blake3::keyed_hash(key, &program.expect("texts"))
}

/// The error for a program that the user has not started before.
fn stranger(description: &Description, dir: &Path, no_key: Option<io::Error>) -> Error {
    let [make, directory] = description.program();
    // As Rust's literals, so that nothing in them is hidden.
    let what = format!(
        "the run's environment is a program without this user's mark: Python would import and call {make:?}, with modules from {directory:?}"
    );
    let why = no_key.map_or_else(String::new, |error| format!("\n  this user's key cannot be used: {error}"));
    Error::usage(what + &why)
        .at(dir.join(crate::world::FILE).display().to_string())
        .remedy("check what that is, and add --trust if you trust it and everyone who can change its files; runs of other users, machines and earlier versions of operant need it once")
}

/// This user's key, which is made if there is none.
fn key() -> io::Result<[u8; blake3::KEY_LEN]> {
    let missing = || io::Error::other("no cache directory: HOME and XDG_CACHE_HOME are not set");
    let dir = operant_cuda::cache_directory().ok_or_else(missing)?;
    key_in(&dir)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", dir.join(KEY).display())))
}

fn key_in(dir: &Path) -> io::Result<[u8; blake3::KEY_LEN]> {
    let path = dir.join(KEY);
    if let Some(key) = read_key(&path)? {
        return Ok(key);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mut key = [0; blake3::KEY_LEN];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    // Its mode is 0600. The key appears whole, and of two processes that make one, the first wins.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(&key)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(&path) {
        Ok(_) => Ok(key),
        Err(lost) if lost.error.kind() == ErrorKind::AlreadyExists => {
            read_key(&path)?.ok_or_else(|| ErrorKind::NotFound.into())
        }
        Err(failed) => Err(failed.error),
    }
}

/// The key in a file; None if there is no file.
fn read_key(path: &Path) -> io::Result<Option<[u8; blake3::KEY_LEN]>> {
    let mut file = match File::options().read(true).custom_flags(dir::NOFOLLOW).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let found = file.metadata()?;
    // Another file of the user's, in a directory that others can write to, may begin with bytes that they know.
    if !found.is_file() || found.len() != blake3::KEY_LEN as u64 || found.nlink() != 1 {
        return Err(io::Error::other("it is damaged or hard-linked; remove it for a new key"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o077 != 0 {
        return Err(io::Error::other("other users can read or write it; remove it for a new key"));
    }
    let mut key = [0; blake3::KEY_LEN];
    file.read_exact(&mut key)?;
    Ok(Some(key))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_private() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let dir = parent.path().join("cache/operant");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let made: Vec<_> = (0..8).map(|_| scope.spawn(|| key_in(&dir).expect("a key"))).collect();
            made.into_iter().map(|thread| thread.join().expect("ended")).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]) && keys[0] != [0; blake3::KEY_LEN]);
        let mode = |path: &Path| std::fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!((mode(&dir.join(KEY)), mode(&dir)), (0o600, 0o700));
        assert_eq!(std::fs::read_dir(&dir).expect("read").count(), 1, "no other file is left");
        assert_ne!(key_in(&parent.path().join("other")).expect("a key"), keys[0]);
    }

    #[test]
    fn a_key_that_others_can_change_or_that_is_damaged_is_not_used() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        key_in(dir.path()).expect("a key");
        let path = dir.path().join(KEY);
        let refused = || key_in(dir.path()).expect_err("refused").to_string();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("changed");
        assert!(refused().contains("other users"), "{}", refused());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("changed");
        for other in ["short", "a text of the user's that is longer than a key"] {
            std::fs::write(&path, other).expect("written");
            assert!(refused().contains("damaged"), "{}", refused());
        }
        std::fs::remove_file(&path).expect("removed");
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, [7; blake3::KEY_LEN]).expect("written");
        std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o600)).expect("changed");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("linked");
        refused();
        std::fs::remove_file(&path).expect("removed");
        std::fs::hard_link(&elsewhere, &path).expect("linked");
        refused();
    }
}
