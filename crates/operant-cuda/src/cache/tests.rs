//! The cache on disk: damage, foreign files, directories that cannot be written, several writers.

use super::*;

fn program() -> Program {
    Program {
        name: "one.cu".to_owned(),
        source: "text".to_owned(),
        headers: vec![("a.h".to_owned(), "b".to_owned())],
        defines: vec![("N".to_owned(), "1".to_owned())],
    }
}

const VERSION: Version = Version { major: 13, minor: 0 };

fn key_of(program: &Program) -> Key {
    Key::new(program, 90, &["--std=c++17".to_owned()], VERSION, Path::new("any/libnvrtc.so"))
}

fn cache() -> (tempfile::TempDir, Cache) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let cache = Cache::new(Some(directory.path().to_path_buf()));
    (directory, cache)
}

fn kept() -> Option<(Vec<u8>, String)> {
    Some((b"code".to_vec(), "log".to_owned()))
}

#[test]
fn what_is_kept_is_found_again() {
    let (_directory, cache) = cache();
    let key = key_of(&program());
    assert_eq!(cache.load(&key), None);
    cache.store(&key, b"code", "log").expect("it can be kept");
    assert_eq!(cache.load(&key), kept());
    cache.store(&key, b"code", "log").expect("it can be kept again");
    let files = std::fs::read_dir(cache.file(&key).expect("a file").parent().expect("a directory"));
    assert_eq!(files.expect("a directory").count(), 1, "nothing partial stays behind");
}

#[test]
fn every_part_changes_the_key() {
    let change = |change: &dyn Fn(&mut Program)| {
        let mut program = program();
        change(&mut program);
        key_of(&program)
    };
    let options = ["--std=c++17".to_owned()];
    let compiler = Path::new("any/libnvrtc.so");
    let keys = [
        key_of(&program()),
        change(&|program| program.source.push('x')),
        change(&|program| program.headers[0].1.push('x')),
        change(&|program| program.headers[0] = ("a.hb".to_owned(), String::new())),
        change(&|program| program.headers.clear()),
        change(&|program| program.defines[0].1 = "2".to_owned()),
        change(&|program| std::mem::swap(&mut program.headers, &mut program.defines)),
        Key::new(&program(), 80, &options, VERSION, compiler),
        Key::new(&program(), 90, &[], VERSION, compiler),
        Key::new(&program(), 90, &options, Version { major: 13, minor: 1 }, compiler),
        Key::new(&program(), 90, &options, VERSION, Path::new("/other/libnvrtc.so")),
    ];
    for (i, one) in keys.iter().enumerate() {
        for other in &keys[i + 1..] {
            assert_ne!(one, other, "key {i} has a double");
        }
    }
    assert_eq!(keys[0], key_of(&program()));
}

#[test]
fn another_library_at_the_same_path_is_another_compiler() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let library = directory.path().join("libnvrtc.so");
    let key = || Key::new(&program(), 90, &[], VERSION, &library);
    std::fs::write(&library, "one").expect("a file");
    let one = key();
    assert_eq!(one, key());
    std::fs::write(&library, "another").expect("a file");
    assert_ne!(one, key());
}

#[test]
fn a_damaged_file_is_as_good_as_none() {
    let (_directory, cache) = cache();
    let key = key_of(&program());
    cache.store(&key, b"code", "log").expect("it can be kept");
    let file = cache.file(&key).expect("a file");
    let whole = std::fs::read(&file).expect("the file");
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 1;
        assert_eq!(decode(&damaged, &key), None, "byte {position} is not guarded");
    }
    for length in 0..whole.len() {
        assert_eq!(decode(&whole[..length], &key), None, "a file cut at {length} passes");
    }
    let mut long = whole.clone();
    long.push(0);
    assert_eq!(decode(&long, &key), None);
    std::fs::write(&file, b"garbage").expect("the file");
    assert_eq!(cache.load(&key), None);
    cache.store(&key, b"code", "log").expect("it is replaced");
    assert_eq!(cache.load(&key), kept());
}

#[test]
fn lengths_that_do_not_add_up_are_refused_though_the_checksum_holds() {
    let key = key_of(&program());
    let file = |log: u64, code: u64| {
        let mut body = key.0.as_bytes().to_vec();
        body.extend_from_slice(&log.to_le_bytes());
        body.extend_from_slice(&code.to_le_bytes());
        body.extend_from_slice(b"logcode");
        [MAGIC.as_slice(), blake3::hash(&body).as_bytes(), &body].concat()
    };
    assert_eq!(decode(&file(3, 4), &key), kept());
    for (log, code) in [(3, 3), (3, 5), (u64::MAX, 8), (8, u64::MAX), (u64::MAX, u64::MAX), (0, 0)] {
        assert_eq!(decode(&file(log, code), &key), None, "{log} {code}");
    }
}

#[test]
fn a_file_of_another_program_is_not_taken() {
    let (_directory, cache) = cache();
    let key = key_of(&program());
    let other = key_of(&Program { source: "other".to_owned(), ..program() });
    cache.store(&other, b"other code", "").expect("it can be kept");
    let (from, to) = (cache.file(&other).expect("a file"), cache.file(&key).expect("a file"));
    std::fs::rename(from, to).expect("renamed");
    assert_eq!(cache.load(&key), None);
}

#[test]
fn a_directory_that_cannot_be_written_is_only_reported() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "in the way").expect("a file");
    // A file where a directory should be: refused to every user, root too.
    let cache = Cache::new(Some(file.clone()));
    let key = key_of(&program());
    let note = cache.store(&key, b"code", "log").expect_err("it cannot be kept");
    assert!(note.contains(&file.display().to_string()), "{note}");
    assert_eq!(cache.load(&key), None);
    assert_eq!(Cache::new(None).store(&key, b"code", "log"), Ok(()));
    assert_eq!(Cache::new(None).load(&key), None);
}

/// The variable that names the shared cache for one of two processes.
const DIRECTORY: &str = "OPERANT_TEST_OF_TWO_PROCESSES";

#[test]
fn two_processes_keep_the_same_program() {
    let key = key_of(&program());
    if let Some(shared) = std::env::var_os(DIRECTORY) {
        // One of the two.
        let cache = Cache::new(Some(shared.into()));
        for _ in 0..100 {
            cache.store(&key, &[7; 200_000], "log").expect("it can be kept");
            let (code, log) = cache.load(&key).expect("a whole file at every moment");
            assert!(code == [7; 200_000] && log == "log");
        }
        return;
    }
    let (directory, cache) = cache();
    let child = || {
        let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "cache::tests::two_processes_keep_the_same_program"]);
        command.env(DIRECTORY, directory.path()).stdout(std::process::Stdio::piped());
        command.spawn().expect("it runs again")
    };
    for child in [child(), child()] {
        let output = child.wait_with_output().expect("it ends");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
    assert!(cache.load(&key).is_some());
    let files = std::fs::read_dir(directory.path().join("kernels")).expect("a directory");
    assert_eq!(files.count(), 1, "nothing partial stays behind");
}

#[test]
fn concurrent_readers_see_only_whole_files() {
    let (_directory, cache) = cache();
    let key = key_of(&program());
    let code = vec![7u8; 200_000];
    cache.store(&key, &code, "log").expect("it can be kept");
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..50 {
                        cache.store(&key, &code, "log").expect("it can be kept");
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let (found, log) = cache.load(&key).expect("a whole file at every moment");
            assert!(found == code && log == "log");
        }
    });
}
