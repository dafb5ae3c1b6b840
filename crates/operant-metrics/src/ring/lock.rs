//! The lock that shows whether a trainer is alive: the trainer holds it for as long as it lives, and the kernel
//! releases it however the process ends. Readers test it and never take it.

pub use crate::os::{hold, is_held};

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_lock_is_seen_through_another_descriptor_and_ends_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let (holder, other) = (open(), File::open(open_path(&path, &open)).unwrap());
        assert!(!is_held(&other).unwrap());
        assert!(hold(&holder).unwrap());
        assert!(is_held(&other).unwrap());
        drop(open());
        assert!(is_held(&other).unwrap(), "another descriptor of the process does not release it");
        assert!(!hold(&open()).unwrap());
        drop(holder);
        assert!(!is_held(&other).unwrap());
    }

    /// The file is there before it is opened for reading.
    fn open_path<'a>(path: &'a std::path::Path, open: &impl Fn() -> File) -> &'a std::path::Path {
        drop(open());
        path
    }
}
