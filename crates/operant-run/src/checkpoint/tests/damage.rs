//! Damaged checkpoints: never a panic, never a wrong state, always a fallback to the one before.

use super::*;
use crate::checkpoint::checksums::{self, CHECKSUMS, Files};

const FILES: [&str; 4] = [STATE, CONFIG, META, CHECKSUMS];

/// Rewrites a file and its line in `checksums`, so that the checksum is correct.
fn forge(path: &Path, name: &'static str, bytes: Vec<u8>) {
    let mut files: Files =
        [STATE, CONFIG, META].map(|name| (name, fs::read(path.join(name)).unwrap())).into();
    fs::write(path.join(name), &bytes).unwrap();
    files.insert(name, bytes);
    fs::write(path.join(CHECKSUMS), checksums::render(&files)).unwrap();
}

/// Damages one file of a checkpoint in many ways; `load` must refuse each, naming a file.
fn refuses(damages: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
    let (_dir, mut store) = store(3);
    let path = store.save(&checkpoint(100)).unwrap();
    for name in FILES {
        let file = path.join(name);
        let sound = fs::read(&file).unwrap();
        for (i, damaged) in damages(&sound).into_iter().enumerate() {
            fs::write(&file, damaged).unwrap();
            match load(&path) {
                Err(error @ (CheckpointError::Damaged { .. } | CheckpointError::Missing(_))) => {
                    assert!(error.to_string().contains("step_000000000100"), "{error}");
                }
                other => panic!("{name}, damage {i}: {other:?}"),
            }
        }
        fs::write(&file, sound).unwrap();
        assert_eq!(load(&path).unwrap(), checkpoint(100));
    }
}

#[test]
fn every_changed_byte_is_detected() {
    refuses(|sound| {
        let flips = [0x01, 0x20, 0x80, 0xff];
        let at = |i: usize, flip: u8| {
            let mut bytes = sound.to_vec();
            bytes[i] ^= flip;
            bytes
        };
        (0..sound.len()).flat_map(|i| flips.map(|flip| at(i, flip))).collect()
    });
}

#[test]
fn every_truncation_and_addition_is_detected() {
    refuses(|sound| {
        let longer = [&b"\n"[..], b"\0", b"x", b"00000000 0 x"].map(|tail| [sound, tail].concat());
        let doubled = [sound, sound].concat();
        (0..sound.len()).map(|n| sound[..n].to_vec()).chain(longer).chain([doubled]).collect()
    });
}

#[test]
fn each_missing_file_is_named() {
    let (_dir, mut store) = store(3);
    for name in FILES {
        let path = store.save(&checkpoint(100)).unwrap();
        fs::remove_file(path.join(name)).unwrap();
        match load(&path) {
            Err(CheckpointError::Missing(missing)) => assert_eq!(missing, path.join(name)),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn invalid_content_with_a_correct_checksum_is_refused() {
    let (_dir, mut store) = store(3);
    let mut path = PathBuf::new();
    let mut refused = |name, bytes: Vec<u8>| {
        path = store.save(&checkpoint(100)).unwrap();
        forge(&path, name, bytes);
        let error = load(&path).unwrap_err();
        assert!(matches!(error, CheckpointError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    };
    refused(META, b"{\"schema\": 1".to_vec());
    refused(META, b"[]".to_vec());
    refused(META, b"{\"schema\": 1, \"operant\": \"0.1.0\"}".to_vec());
    refused(META, b"\xff\xfe\0".to_vec());
    refused(CONFIG, b"\xff\xfe\0".to_vec());
    refused(STATE, Vec::new());
    refused(STATE, u64::MAX.to_le_bytes().to_vec());
    refused(STATE, state::encode(&Snapshot::default(), "").unwrap());
    let mut renamed = checkpoint(100).snapshot;
    renamed.tensors[0].name = "policy.1.weight".to_owned();
    refused(STATE, state::encode(&renamed, "").unwrap());
}

#[test]
fn a_damaged_checkpoint_falls_back_to_the_one_before_with_a_warning() {
    let (_dir, mut store) = store(5);
    let paths: Vec<_> = [100, 200, 300].map(|step| store.save(&checkpoint(step)).unwrap()).into();
    fs::write(paths[2].join(STATE), "garbage").unwrap();
    fs::remove_dir_all(&paths[1]).unwrap();
    fs::create_dir(&paths[1]).unwrap();
    let loaded = load_latest(store.dir()).unwrap();
    assert_eq!((&loaded.checkpoint, &loaded.path), (&checkpoint(100), &paths[0]));
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings[0].contains("step_000000000300")
            && warnings[0].contains("456 bytes were written, and it has 7"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("step_000000000200") && warnings[1].contains("missing"), "{warnings:?}");
    assert_eq!(warnings.len(), 2);

    store.save(&checkpoint(150)).unwrap();
    assert_eq!(kept(&store), [100, 150], "the damaged ones no longer precede those of the continued run");
    assert!(load_latest(store.dir()).unwrap().warnings.is_empty());

    for step in [100, 150] {
        fs::write(store.dir().join(load::name(step)).join(CONFIG), "garbage").unwrap();
    }
    let error = load_latest(store.dir()).unwrap_err();
    assert!(matches!(&error, CheckpointError::AllDamaged { errors, .. } if errors.len() == 2), "{error}");
    assert!(error.to_string().contains("step_000000000150/config.toml") && !error.is_disk(), "{error}");
}

#[test]
fn a_newer_schema_is_an_error_and_not_skipped() {
    let (_dir, mut store) = store(3);
    store.save(&checkpoint(100)).unwrap();
    let path = store.save(&checkpoint(200)).unwrap();
    forge(&path, META, br#"{"schema": 99, "operant": "9.9.9", "unknown": {}}"#.to_vec());
    for error in [load(&path).unwrap_err(), load_latest(store.dir()).unwrap_err()] {
        assert!(matches!(error, CheckpointError::Newer { found: 99, .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("9.9.9") && text.contains("upgrade") && text.contains("meta.json"), "{text}");
    }
}

#[test]
fn the_best_is_found_past_damaged_metadata() {
    let (_dir, mut store) = store(5);
    for step in [100, 200] {
        store.save(&Checkpoint { eval_mean: Some(step as f64), ..checkpoint(step) }).unwrap();
    }
    fs::write(store.dir().join(load::name(200)).join(META), "{}").unwrap();
    assert_eq!(store.best().unwrap(), Some(store.dir().join(load::name(100))));
}
