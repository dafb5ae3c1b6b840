//! Files that may be a stranger's, changed at random and made at random: each is read or refused. A panic, the end of the process, more
//! memory or more work than the limits below is a failure, and the input is kept. `cargo xtask fuzz --seconds N` runs it for longer.

mod checkpoints;
mod tables;
mod worlds;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Seconds for each kind of file, unless FUZZ_SECONDS says otherwise.
const SECONDS: u64 = 20;
/// Address space of the process, in KiB.
const MEMORY: u64 = 6 << 20;
/// CPU seconds for an input. The slowest that are within their limits take a few.
const WORK: Duration = Duration::from_secs(120);

/// What is read: makes the input with this number below a directory, and reads it.
type Kind = fn(&Path) -> Box<dyn FnMut(u64)>;

const KINDS: [(&str, Kind); 3] =
    [("world", worlds::reader), ("table", tables::reader), ("checkpoint", checkpoints::reader)];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a whole number"))
}

#[test]
#[ignore = "cargo xtask test --all"]
fn files_of_strangers_are_read_or_refused() {
    let seconds = number("FUZZ_SECONDS").unwrap_or(SECONDS);
    let first = number("FUZZ_FIRST").unwrap_or(0);
    let only = std::env::var("FUZZ_ONLY").ok();
    let mut failed = Vec::new();
    for (kind, _) in KINDS.iter().filter(|(kind, _)| only.as_deref().is_none_or(|only| only == *kind)) {
        let place = tempfile::tempdir().expect("a temporary directory");
        let program = std::env::current_exe().expect("this program");
        let ended = Command::new("sh")
            .args(["-c", "ulimit -v \"$1\" && shift && exec \"$@\"", "sh", &MEMORY.to_string()])
            .arg(program)
            .args(["--exact", "fuzz::reads_inputs_until_its_time_is_over", "--ignored", "--nocapture"])
            .env("FUZZ", format!("{kind} {first} {seconds}"))
            .env("FUZZ_PLACE", place.path())
            .env("XDG_CACHE_HOME", place.path())
            .output()
            .expect("started");
        if ended.status.success() {
            let counted = std::fs::read_to_string(place.path().join("counted")).expect("written at the end");
            eprintln!("{kind}: {counted} inputs from {first} on, each read or refused");
            continue;
        }
        let at = std::fs::read_to_string(place.path().join("number")).unwrap_or_default();
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{kind}-{at}"));
        let _ = std::fs::remove_dir_all(&kept);
        let copied = Command::new("cp").arg("-r").args([&place.path().join("input"), &kept]).status();
        assert!(copied.expect("cp").success(), "{kind} {at}: {}", ended.status);
        let said =
            String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout);
        let said: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        failed.push(format!(
            "{kind} {at}: {}; the input is {}; again: FUZZ_ONLY={kind} FUZZ_FIRST={at} FUZZ_SECONDS=0\n  {}",
            ended.status,
            kept.display(),
            said[said.len().saturating_sub(12)..].join("\n  ")
        ));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The process that reads: a test that does nothing unless the one above starts it.
#[test]
#[ignore = "cargo xtask test --all"]
fn reads_inputs_until_its_time_is_over() {
    let Ok(job) = std::env::var("FUZZ") else { return };
    let parts: Vec<&str> = job.split(' ').collect();
    let [kind, first, seconds] = parts[..] else { panic!("kind, first number, seconds") };
    let [first, seconds] = [first, seconds].map(|text| text.parse::<u64>().expect("a whole number"));
    let place = PathBuf::from(std::env::var_os("FUZZ_PLACE").expect("a directory"));
    let input = place.join("input");
    std::fs::create_dir_all(&input).expect("made");
    let mut read = KINDS.iter().find(|(name, _)| *name == kind).expect("a kind").1(&input);
    let reached = Arc::new(AtomicU64::new(first));
    watch(&reached);
    let begun = Instant::now();
    for at in first.. {
        std::fs::write(place.join("number"), at.to_string()).expect("written");
        reached.store(at, Ordering::Relaxed);
        read(at);
        if begun.elapsed().as_secs() >= seconds {
            std::fs::write(place.join("counted"), (at - first + 1).to_string()).expect("written");
            return;
        }
    }
}

/// Ends the process when an input takes more CPU time than any may.
fn watch(reached: &Arc<AtomicU64>) {
    let reached = Arc::downgrade(reached);
    std::thread::spawn(move || {
        let (mut at, mut since) = (u64::MAX, Duration::ZERO);
        while let Some(now) = reached.upgrade().map(|reached| reached.load(Ordering::Relaxed)) {
            let spent = cpu_time();
            if now != at {
                (at, since) = (now, spent);
            } else if spent.saturating_sub(since) > WORK {
                eprintln!("input {at} took more than {} CPU seconds", WORK.as_secs());
                std::process::abort();
            }
            std::thread::park_timeout(Duration::from_secs(1));
        }
    });
}

/// CPU time of this process: hundredths of a second of user and system, after the name in parentheses.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields = stat.rsplit_once(") ").expect("a name in parentheses").1.split(' ');
    let ticks = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks")).sum::<u64>();
    Duration::from_millis(10) * u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// Numbers that differ from input to input, and are the same for the same input (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ 0x5851_F42D_4C95_7F2D)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, count: usize) -> usize {
        (self.word() % count.max(1) as u64) as usize
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Changes bytes: some flipped, replaced, removed, repeated or moved, the end cut.
pub fn change_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(40)).min(bytes.len());
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.word() as u8,
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            4 => bytes.truncate(at),
            _ => {
                let digits: Vec<usize> =
                    (at..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).take(20).collect();
                if let Some(at) = digits.first() {
                    bytes[*at] = b'0' + random.below(10) as u8;
                }
            }
        }
    }
}

/// Changes a document: numbers, texts, and parts that are removed, repeated or replaced by others.
pub fn change_document(document: &mut Value, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let count = size(document);
        let other = part(document, &mut random.below(count)).expect("a part").clone();
        let chosen = part(document, &mut random.below(count)).expect("a part");
        match chosen {
            Value::Number(number) if random.below(4) > 0 => {
                let near = number.as_i64().unwrap_or(0).wrapping_add(random.below(5) as i64 - 2);
                *chosen = match random.below(8) {
                    0 => (-1).into(),
                    1 => u32::MAX.into(),
                    2 => u64::MAX.into(),
                    3 => 1e39.into(),
                    4 => (1u64 << random.below(40)).into(),
                    _ => near.into(),
                };
            }
            Value::Array(items) if !items.is_empty() && random.below(3) > 0 => {
                let at = random.below(items.len());
                match random.below(3) {
                    0 => drop(items.remove(at)),
                    1 => items.insert(at, items[at].clone()),
                    _ => items.truncate(at),
                }
            }
            Value::Object(fields) if !fields.is_empty() && random.below(3) > 0 => {
                let key = fields.keys().nth(random.below(fields.len())).expect("a key").clone();
                fields.remove(&key);
            }
            Value::String(text) if random.below(2) == 0 => {
                let mut bytes = std::mem::take(text).into_bytes();
                change_bytes(&mut bytes, random);
                *text = String::from_utf8_lossy(&bytes).into_owned();
            }
            _ => *chosen = other,
        }
    }
}

/// Parts of a document, itself among them.
fn size(document: &Value) -> usize {
    1 + match document {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    }
}

/// A part of a document by its number.
fn part<'a>(document: &'a mut Value, number: &mut usize) -> Option<&'a mut Value> {
    if *number == 0 {
        return Some(document);
    }
    *number -= 1;
    match document {
        Value::Array(items) => items.iter_mut().find_map(|item| part(item, number)),
        Value::Object(fields) => fields.values_mut().find_map(|field| part(field, number)),
        _ => None,
    }
}
