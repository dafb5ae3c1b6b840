//! The rows of a replay in a file of their own: read back, damaged, and of another size.

use operant_learn::LearnError;
use operant_learn::cpu::off_policy::replay::{Replay, ReplayLayout};

use super::*;
use crate::checkpoint::checksums::{self, CHECKSUMS, Summed};

/// A replay of three environments with rings of 7 rows, of which this many were written.
fn replay(written: u64) -> Replay {
    let layout = ReplayLayout { obs: 0, mask: 2, actions: 2, reward: 3, end: 4, state: 5, stride: 8 };
    let (mut replay, mut word) = (Replay::new(layout, 3, 7), 0);
    let rows = written.min(7) as usize;
    let filled = replay.restore(&[written; 3], [3, rows, 8], |rows| {
        for row in rows.chunks_mut(8) {
            row.fill_with(|| {
                word += 1;
                word
            });
            row[4] = 0;
        }
        Ok::<_, LearnError>(())
    });
    filled.unwrap();
    replay
}

fn rows(replay: &Replay) -> (Vec<u64>, Vec<u32>) {
    (replay.heads().to_vec(), replay.written_rows().flatten().copied().collect())
}

#[test]
fn rows_come_back_and_another_size_does_not_fit() {
    for written in [0, 5, 7, 23] {
        let (_dir, mut store) = store(3);
        let replay = replay(written);
        let path = store.save_with(&checkpoint(100), Some(&replay)).unwrap();
        assert_eq!(load(&path).unwrap(), checkpoint(100));
        let file = find_replay(&path).unwrap().unwrap();
        assert_eq!((&file.heads[..], file.shape), (replay.heads(), [3, written.min(7) as usize, 8]));
        let mut other = Replay::new(replay.layout().clone(), 3, 7);
        assert!(read_replay(&path, &mut other).unwrap());
        assert_eq!(rows(&other), rows(&replay));
        let mut smaller = Replay::new(replay.layout().clone(), 3, 4);
        match read_replay(&path, &mut smaller) {
            Err(error @ CheckpointError::Misfit { .. }) => {
                let text = error.to_string();
                assert!(written > 4 && text.contains("replay.safetensors does not fit"), "{text}");
            }
            other => assert!(other.unwrap() && written == 0),
        }
        assert!(!read_replay(&store.save(&checkpoint(200)).unwrap(), &mut other).unwrap());
    }
}

#[test]
fn damage_is_named_and_falls_back() {
    let (_dir, mut store) = store(3);
    store.save_with(&checkpoint(100), Some(&replay(5))).unwrap();
    let path = store.save_with(&checkpoint(200), Some(&replay(6))).unwrap();
    let file = path.join(REPLAY);
    let sound = fs::read(&file).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..sound.len()).step_by(7).map(|n| sound[..n].to_vec()).collect();
    damaged.extend(
        (0..sound.len()).map(|k| sound.iter().enumerate().map(|(i, byte)| byte ^ u8::from(i == k)).collect()),
    );
    for bytes in damaged {
        fs::write(&file, bytes).unwrap();
        let loaded = load_latest_whole(store.dir()).unwrap();
        assert_eq!(loaded.checkpoint.env_steps, 100);
        assert!(loaded.warnings()[0].contains("replay.safetensors is damaged"), "{:?}", loaded.warnings());
        // What needs no replay does not read it.
        assert_eq!(load_latest(store.dir()).unwrap().checkpoint.env_steps, 200);
    }
    // With a checksum that is right: fewer rows, a longer header than there is, rows of another shape.
    let list = fs::read_to_string(path.join(CHECKSUMS)).unwrap();
    let of_others: String = list.split_inclusive('\n').filter(|line| !line.contains(REPLAY)).collect();
    let header_at = |at: usize, with: &[u8]| [&sound[..at], with, &sound[at + with.len()..]].concat();
    let text = String::from_utf8_lossy(&sound).into_owned();
    let shape = text.find("[3,6,8]").unwrap();
    for bytes in [
        sound[..sound.len() - 32].to_vec(),
        header_at(0, &u64::MAX.to_le_bytes()),
        header_at(0, &8u64.to_le_bytes()),
        header_at(shape, b"[3,7,8]"),
        header_at(shape, b"[9,6,8]"),
        b"\x02\0\0\0\0\0\0\0{}".to_vec(),
    ] {
        let mut sum = Summed::new(Vec::new());
        std::io::Write::write_all(&mut sum, &bytes).unwrap();
        fs::write(path.join(CHECKSUMS), of_others.clone() + &sum.line(REPLAY)).unwrap();
        fs::write(&file, &bytes).unwrap();
        assert!(checksums::check(&path, REPLAY).unwrap());
        match read_replay(&path, &mut replay(6)) {
            Err(CheckpointError::Damaged { path, .. }) => assert_eq!(path, file),
            other => panic!("{other:?}"),
        }
    }
}
