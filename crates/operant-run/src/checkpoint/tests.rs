//! Checkpoints saved, kept, damaged in every way, and read back.

mod damage;
mod process;
mod replay;

use std::fs;
use std::path::{Path, PathBuf};

use operant_learn::{Dtype, Tensor};
use tempfile::TempDir;

use super::*;
use crate::config::KeepCheckpoints;

/// A checkpoint with every element type, awkward numbers and tensors out of alphabetical order.
fn checkpoint(env_steps: u64) -> Checkpoint {
    let tensor = |name: &str, dtype, shape: &[usize], data: Vec<u8>| Tensor {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        data,
    };
    let step = env_steps as f32;
    Checkpoint {
        env: "cartpole".to_owned(),
        config: "num_envs = 8\n# a comment, kept: é\n".to_owned(),
        env_steps,
        updates: env_steps / 100,
        train_s: 0.1 + 0.2,
        eval_mean: None,
        totals: Totals {
            episodes: u64::MAX,
            wall_s: Some(0.1 + 0.7),
            attempts: EvalSchedule::new([(3, 0.1), (7, -1e-300)].into(), Some(1.0 / 3.0), None),
            ..Totals::default()
        },
        snapshot: Snapshot {
            tensors: vec![
                tensor(
                    "policy.0.weight",
                    Dtype::F32,
                    &[2, 1],
                    [step, f32::NAN].map(f32::to_le_bytes).concat(),
                ),
                tensor("adam.m.0", Dtype::F64, &[], 0.1f64.to_le_bytes().to_vec()),
                tensor("env.lifetime", Dtype::U64, &[1], u64::MAX.to_le_bytes().to_vec()),
                tensor("env.cell", Dtype::I32, &[1], (-1i32).to_le_bytes().to_vec()),
                tensor("env.bits", Dtype::U32, &[1], 0x8000_0001u32.to_le_bytes().to_vec()),
                tensor("env.none", Dtype::F32, &[0, 3], Vec::new()),
            ],
            counters: [("philox".to_owned(), u64::MAX - 1), ("updates".to_owned(), 7)].into(),
        },
    }
}

fn store(keep_last: usize) -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("checkpoints"), KeepCheckpoints::Latest(keep_last)).unwrap();
    (dir, store)
}

fn kept(store: &Store) -> Vec<u64> {
    steps(store.dir()).unwrap().into_iter().map(|(step, _)| step).collect()
}

/// Names of everything in the store's directory, sorted.
fn names(store: &Store) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(store.dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_checkpoint_reads_back_as_it_was() {
    let (_dir, mut store) = store(3);
    let saved = Checkpoint { eval_mean: Some(487.123_456_789_012_3), ..checkpoint(131_072) };
    let path = store.save(&saved).unwrap();
    assert_eq!(path.file_name().unwrap(), "step_000000131072");
    assert_eq!(load(&path).unwrap(), saved);
    let loaded = load_latest(store.dir()).unwrap();
    assert_eq!((loaded.checkpoint, loaded.path), (saved.clone(), path.clone()));
    assert!(loaded.warnings.is_empty());
    assert_eq!(names(&store), ["step_000000131072"]);
    let bytes = fs::read(path.join(STATE)).unwrap();
    store.save(&saved).unwrap();
    assert_eq!(fs::read(path.join(STATE)).unwrap(), bytes, "the same state makes the same file");
}

#[test]
fn non_finite_numbers_are_stored_as_none() {
    let (_dir, mut store) = store(1);
    let odd = Checkpoint { eval_mean: Some(f64::NAN), train_s: f64::INFINITY, ..checkpoint(1) };
    let loaded = load(&store.save(&odd).unwrap()).unwrap();
    assert_eq!((loaded.eval_mean, loaded.train_s), (None, 0.0));
}

#[test]
fn the_last_few_and_the_best_are_kept() {
    let (_dir, mut store) = store(2);
    assert_eq!(store.best().unwrap(), None);
    let means = [None, Some(50.0), Some(200.0), Some(90.0), None, Some(-1.0)];
    let expected: [&[u64]; 6] =
        [&[100], &[100, 200], &[200, 300], &[300, 400], &[300, 400, 500], &[300, 500, 600]];
    for (i, (mean, expected)) in means.into_iter().zip(expected).enumerate() {
        store.save(&Checkpoint { eval_mean: mean, ..checkpoint(100 * (i as u64 + 1)) }).unwrap();
        assert_eq!(kept(&store), expected, "save {i}");
    }
    assert_eq!(store.best().unwrap(), Some(store.dir().join("step_000000000300")));
    store.save(&Checkpoint { eval_mean: Some(200.0), ..checkpoint(700) }).unwrap();
    assert_eq!(store.best().unwrap(), Some(store.dir().join("step_000000000700")), "the latest of equals");
    assert_eq!(kept(&store), [600, 700]);
}

#[test]
fn log_keeps_four_for_each_doubling_the_best_and_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), KeepCheckpoints::LOG).unwrap();
    // A step is a hundredth of an update.
    let save = |store: &mut Store, updates: u64, eval_mean| {
        store.save(&Checkpoint { eval_mean, ..checkpoint(100 * updates) }).unwrap();
        kept(store).into_iter().map(|step| step / 100).collect::<Vec<_>>()
    };
    let milestones = |last: u64| (0..=last).filter(|updates| KeepCheckpoints::LOG.keeps(*updates));
    for updates in 0..100 {
        let now = save(&mut store, updates, (updates == 33).then_some(1.0));
        let best = (updates >= 33).then_some(33);
        let mut expected: Vec<u64> = milestones(updates).chain([updates]).chain(best).collect();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(now, expected);
    }
    assert!(kept(&store).len() <= 4 * 7 + 3, "at most four for each doubling");
    // Killed before it removed anything, the run goes on and keeps the same.
    let mut again = Store::open(dir.path(), KeepCheckpoints::LOG).unwrap();
    let later: Vec<u64> = (0..=112).filter(|at| KeepCheckpoints::LOG.keeps(*at) || *at == 33).collect();
    for updates in 97..=112 {
        save(&mut again, updates, None);
    }
    assert_eq!(kept(&again).into_iter().map(|step| step / 100).collect::<Vec<_>>(), later);
}

#[test]
fn saving_a_step_again_replaces_it() {
    let (_dir, mut store) = store(3);
    store.save(&checkpoint(100)).unwrap();
    let path = store.save(&checkpoint(200)).unwrap();
    fs::write(path.join("stray"), "from before").unwrap();
    let again = Checkpoint { eval_mean: Some(5.0), ..checkpoint(200) };
    store.save(&again).unwrap();
    assert_eq!(load(&path).unwrap(), again);
    assert!(!path.join("stray").exists());
    assert_eq!(kept(&store), [100, 200]);
    assert_eq!(names(&store).len(), 2);
}

#[test]
fn a_file_with_the_checkpoints_name_is_replaced() {
    let (_dir, mut store) = store(3);
    fs::write(store.dir().join("step_000000000100"), "in the way").unwrap();
    let path = store.save(&checkpoint(100)).unwrap();
    assert_eq!(load(&path).unwrap(), checkpoint(100));
}

#[test]
fn nothing_is_written_through_a_link_in_place_of_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let [own, checkpoints] = ["own", "checkpoints"].map(|name| dir.path().join(name));
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::symlink(&own, &checkpoints).unwrap();
    let error = Store::open(&checkpoints, KeepCheckpoints::Latest(3)).unwrap_err();
    assert!(error.to_string().contains("is a link to another directory"), "{error}");
    // One that takes the directory's place later.
    fs::remove_file(&checkpoints).unwrap();
    let mut store = Store::open(&checkpoints, KeepCheckpoints::Latest(3)).unwrap();
    fs::remove_dir(&checkpoints).unwrap();
    std::os::unix::fs::symlink(&own, &checkpoints).unwrap();
    assert!(matches!(store.save(&checkpoint(100)), Err(CheckpointError::Link(_))));
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
}

#[test]
fn leftovers_of_killed_saves_are_removed() {
    let (dir, mut store) = store(3);
    let leave = || {
        let leftover = store.dir().join(".tmp_step_000000000100_0");
        fs::create_dir_all(leftover.join("deeper")).unwrap();
        fs::write(leftover.join(STATE), "half").unwrap();
        fs::write(store.dir().join(".tmp_step_000000000100_1"), "a file").unwrap();
    };
    leave();
    assert!(matches!(load_latest(store.dir()), Err(CheckpointError::None(_))));
    store.save(&checkpoint(100)).unwrap();
    assert_eq!(names(&store), ["step_000000000100"]);
    let leftover = store.dir().join(".tmp_step_000000000200_0");
    fs::create_dir(&leftover).unwrap();
    fs::rename(store.dir().join("step_000000000100"), store.dir().join(".old_step_000000000100")).unwrap();
    let store = Store::open(dir.path().join("checkpoints"), KeepCheckpoints::Latest(3)).unwrap();
    assert_eq!(names(&store), ["step_000000000100"], "the temporary is removed, the old checkpoint restored");
    assert_eq!(load_latest(store.dir()).unwrap().checkpoint, checkpoint(100));
}

#[test]
fn leftovers_of_killed_saves_of_a_policy_are_removed_and_the_old_one_is_restored() {
    let place = tempfile::tempdir().unwrap();
    let (target, old) = (place.path().join("best"), place.path().join(".old_best"));
    save_alone(&checkpoint(100), &target, std::iter::empty()).unwrap();
    let leave = || {
        fs::create_dir_all(place.path().join(".tmp_best_x1/deeper")).unwrap();
        fs::rename(&target, &old).unwrap();
    };
    leave();
    fs::write(place.path().join(".tmp_best_notes"), "a user's file").unwrap();
    let fails = [("no/directory", Vec::new())].into_iter();
    assert!(save_alone(&checkpoint(200), &target, fails).is_err());
    assert_eq!(load(&target).unwrap(), checkpoint(100), "the old one is there again");
    leave();
    save_alone(&checkpoint(200), &target, std::iter::empty()).unwrap();
    assert_eq!(load(&target).unwrap(), checkpoint(200));
    // A directory of this name that is no checkpoint stays.
    fs::create_dir(&old).unwrap();
    save_alone(&checkpoint(300), &target, std::iter::empty()).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".old_best", ".tmp_best_notes", "best"]);
}

#[test]
fn resuming_from_an_earlier_checkpoint_renames_the_later_ones() {
    let (_dir, mut store) = store(2);
    for step in [100, 200, 300] {
        store.save(&Checkpoint { eval_mean: Some(step as f64), ..checkpoint(step) }).unwrap();
    }
    store.save(&checkpoint(250)).unwrap();
    assert_eq!(names(&store), ["discarded_step_000000000300", "step_000000000200", "step_000000000250"]);
    assert_eq!(load_latest(store.dir()).unwrap().checkpoint, checkpoint(250));
    assert_eq!(store.best().unwrap(), Some(store.dir().join("step_000000000200")));
    assert!(load(&store.dir().join("discarded_step_000000000300")).is_ok());
    // Also those that the next save would have passed.
    let mut store = store.resume_from(Some(200));
    store.save(&checkpoint(280)).unwrap();
    assert!(
        names(&store).ends_with(&["step_000000000200".to_owned(), "step_000000000280".to_owned()]),
        "{:?}",
        names(&store)
    );
    store.save(&checkpoint(290)).unwrap();
    assert!(names(&store).contains(&"step_000000000280".to_owned()));
}

#[test]
fn other_names_are_not_listed_as_checkpoints() {
    let (_dir, mut store) = store(3);
    for name in ["step_", "step_1", "step_0000000000001", "step_00000000000x", "best", "step_+00000000001"] {
        fs::create_dir(store.dir().join(name)).unwrap();
    }
    store.save(&checkpoint(u64::MAX)).unwrap();
    assert_eq!(kept(&store), [u64::MAX]);
}

#[test]
fn a_malformed_snapshot_is_refused_before_anything_is_written() {
    let (_dir, mut store) = store(3);
    let mut twice = checkpoint(100);
    twice.snapshot.tensors[1].name = "policy.0.weight".to_owned();
    let mut short = checkpoint(100);
    short.snapshot.tensors[0].data.pop();
    let mut huge = checkpoint(100);
    huge.snapshot.tensors[0].shape = vec![usize::MAX, 2];
    let mut reserved = checkpoint(100);
    reserved.snapshot.tensors[0].name = "__metadata__".to_owned();
    for bad in [twice, short, huge, reserved] {
        assert!(matches!(store.save(&bad), Err(CheckpointError::Snapshot(_))));
        assert!(names(&store).is_empty());
    }
}

#[test]
fn errors_name_the_path_and_the_remedy() {
    let (dir, mut store) = store(3);
    let path = store.save(&checkpoint(100)).unwrap();
    let loaded = load(&path).unwrap();
    assert!(loaded.expect_env("cartpole", &path).is_ok());
    let wrong = loaded.expect_env("acrobot", &path).unwrap_err();
    let none = load_latest(&dir.path().join("nowhere")).unwrap_err();
    let missing = load(&store.dir().join("step_000000000300")).unwrap_err();
    for (error, words) in [
        (wrong, ["step_000000000100", "cartpole", "acrobot"]),
        (none, ["nowhere", "no checkpoint", "another run"]),
        (missing, ["step_000000000300", "missing", "another checkpoint"]),
    ] {
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert!(!error.is_disk());
    }
    fs::write(dir.path().join("file"), "").unwrap();
    let blocked =
        Store::open(dir.path().join("file").join("checkpoints"), KeepCheckpoints::Latest(3)).unwrap_err();
    assert!(blocked.is_disk() && blocked.to_string().contains("file/checkpoints"), "{blocked}");
}
