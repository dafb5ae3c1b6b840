//! Removal of rings that outlive their runs: the trainer has ended, and the run's directory was deleted without `operant rm`.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::directory::{distrust, ring_dirs, rings_in};
use super::file::{self, TURN};
use super::reader::RingReader;

/// Removes this user's rings of runs that have ended and whose directory is gone; returns how many.
pub fn prune() -> usize {
    let dirs = ring_dirs().into_iter().map(|place| place.dir);
    let own = dirs.filter(|dir| fs::symlink_metadata(dir).is_ok_and(|found| distrust(&found).is_none()));
    own.map(|dir| prune_in(&dir)).sum()
}

fn prune_in(dir: &Path) -> usize {
    // A trainer holds this lock while it makes a ring, so that no new ring takes the name of one that is removed here.
    let Ok(turn) = File::open(dir.join(TURN)) else { return 0 };
    if turn.try_lock().is_err() {
        return 0;
    }
    let orphans = rings_in(dir).into_iter().filter(|found| is_orphan(&found.path));
    orphans.filter(|found| fs::remove_file(&found.path).is_ok()).count()
}

/// Whether the ring's trainer has ended and its run's directory does not exist. A ring of another machine or of an earlier boot is a copy
/// that someone keeps.
fn is_orphan(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    if !file::is_ended(path)
        || !fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.uid() == own)
    {
        return false;
    }
    let Ok(ring) = RingReader::open(path) else { return false };
    let dir = &ring.identity().dir;
    // A path that is not UTF-8 is not stored as it is.
    let is_known = dir.is_absolute() && !dir.to_string_lossy().contains(char::REPLACEMENT_CHARACTER);
    ring.this_boot && is_known && matches!(dir.try_exists(), Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, RingOptions, create_in};

    #[test]
    fn a_ring_goes_when_its_trainer_and_its_directory_are_gone() {
        let place = tempfile::tempdir().unwrap();
        let (rings, run) = (place.path().join("rings"), place.path().join("run"));
        for dir in [&rings, &run] {
            fs::create_dir(dir).unwrap();
        }
        let of = |name: &str| Identity { dir: run.clone(), ..Identity::of_this_process(name, "cartpole") };
        let make = |identity: &Identity| create_in(&rings, identity, &RingOptions::default()).unwrap();
        drop(make(&of("ended")));
        drop(make(&Identity { boot_id: "another".to_owned(), ..of("copied") }));
        drop(make(&Identity { dir: "run".into(), ..of("relative") }));
        let live = make(&of("live"));
        let names = || rings_in(&rings).into_iter().map(|found| found.name).collect::<Vec<_>>();
        assert_eq!(prune_in(&rings), 0, "its directory is there");
        fs::remove_dir(&run).unwrap();
        let turn = File::open(rings.join(TURN)).unwrap();
        turn.lock().unwrap();
        assert_eq!(prune_in(&rings), 0, "a trainer makes a ring");
        drop(turn);
        assert_eq!(prune_in(&rings), 1);
        assert_eq!(names(), ["copied", "live", "relative"]);
        drop(live);
        assert_eq!(prune_in(&rings), 1);
        assert_eq!(names(), ["copied", "relative"]);
        assert_eq!(prune_in(&place.path().join("absent")), 0);
    }
}
