//! Builds the host's stand-in for a GPU (kernels/host): a directory with a `libcuda.so` that runs kernels on the CPU, every
//! thread a fiber, a `libnvrtc.so` that compiles them with the host's C++ compiler, a `libcublasLt.so.13` for matrix products,
//! and a `libnccl.so.2` for sums between devices.
//! Tests of several crates include this file.
//!
//! ```ignore
//! #[path = "../../operant-cuda/tests/support/stand_in.rs"]
//! mod stand_in;
//!
//! #[test]
//! fn kernels_do_what_they_should() {
//!     let Some(directory) = stand_in::directory("my test") else { return };
//!     let cuda = Cuda::find_in(Some(&directory)).unwrap().cached_in(Some(&stand_in::cache(&directory)));
//!     ... device 0 runs threads in order, 1 in reverse, 2 shuffled; kernels/host/driver.h lists the others
//! }
//!
//! #[test]
//! fn kernels_stay_within_their_memory() {
//!     let Some(output) = stand_in::rerun_sanitized("kernels_do_what_they_should") else { return };
//!     stand_in::must_pass(&output);
//! }
//! ```

#![allow(dead_code, reason = "each test uses its own part")]

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// What the driver is built from.
const DRIVER: &[&str] = &[
    "engine.cpp",
    "grid.cpp",
    "fiber.cpp",
    "driver.cpp",
    "driver_memory.cpp",
    "driver_streams.cpp",
    "driver_modules.cpp",
];
/// What the compiler is built from.
const COMPILER: &[&str] = &["nvrtc.cpp"];
/// What the library for matrix products is built from.
const BLAS: &[&str] = &["blas.cpp"];
/// What the library for sums between GPUs is built from.
const NCCL: &[&str] = &["nccl.cpp"];
/// What kernels include.
const HEADERS: &[&str] =
    &["cuda_on_host.h", "cuda_collectives.h", "cuda_scalars.h", "engine.h", "intrinsics.h"];

const OPTIONS: &[&str] =
    &["-std=c++17", "-O2", "-g1", "-fPIC", "-shared", "-pthread", "-fno-gnu-unique", "-Wall", "-Wextra"];
const SANITIZERS: &[&str] =
    &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// The variable that names the stand-in for a test that runs in its own process.
const CHILD: &str = "OPERANT_STAND_IN";

/// The directory for `Cuda::find_in`, built if it does not exist; in a process of [`rerun_sanitized`] the sanitized one.
/// None, with a message on stderr, without a C++ compiler.
pub fn directory(skipped: &str) -> Option<PathBuf> {
    match std::env::var_os(CHILD) {
        Some(directory) => Some(PathBuf::from(directory)),
        None => plain(skipped),
    }
}

/// The stand-in without sanitizers.
pub fn plain(skipped: &str) -> Option<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let compiler = compiler(skipped)?;
    Some(BUILT.get_or_init(|| build(&compiler, "plain", &[])).clone())
}

/// The stand-in as built for processors other than x86-64, with the C library's fibers.
pub fn portable(skipped: &str) -> Option<PathBuf> {
    let compiler = compiler(skipped)?;
    Some(build(&compiler, "portable", &["-DOPERANT_HOST_UCONTEXT"]))
}

/// The stand-in with engine and kernels under AddressSanitizer and UBSan: for processes that preload their libraries
/// ([`rerun_sanitized`], [`sanitizer_environment`]).
pub fn sanitized(skipped: &str) -> Option<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let compiler = compiler(skipped)?;
    if preload(&compiler).is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {skipped}: {} has no libasan and libubsan; install them",
            compiler.path
        );
        return None;
    }
    Some(BUILT.get_or_init(|| build(&compiler, "sanitized", SANITIZERS)).clone())
}

/// The kernel cache of this stand-in; others do not load its kernels.
pub fn cache(directory: &Path) -> PathBuf {
    directory.join("cache")
}

/// The variables with which another program uses this stand-in.
pub fn environment(directory: &Path) -> Vec<(&'static str, PathBuf)> {
    vec![("OPERANT_CUDA_LIBRARIES", directory.to_path_buf()), ("OPERANT_CACHE_DIR", cache(directory))]
}

/// The additional variables for a program with the sanitized stand-in.
pub fn sanitizer_environment() -> Vec<(&'static str, String)> {
    let libraries = compiler("sanitizers").as_ref().and_then(preload).unwrap_or_default();
    vec![
        ("LD_PRELOAD", libraries),
        ("ASAN_OPTIONS", "detect_leaks=0:detect_odr_violation=0:abort_on_error=0:exitcode=99".to_owned()),
        ("UBSAN_OPTIONS", "print_stacktrace=1".to_owned()),
    ]
}

/// Runs one test of this very binary, by its whole name, in its own process.
pub fn rerun(test: &str) -> Option<Output> {
    let directory = plain(test)?;
    Some(run_child(test, &directory, &[]))
}

/// Like `rerun`, with these additional variables, such as `OPERANT_HOST_STREAMS` (kernels/host/driver.h).
pub fn rerun_with(test: &str, variables: &[(&str, String)]) -> Option<Output> {
    let directory = plain(test)?;
    Some(run_child(test, &directory, variables))
}

/// Like `rerun`, with the sanitized stand-in.
pub fn rerun_sanitized(test: &str) -> Option<Output> {
    let directory = sanitized(test)?;
    Some(run_child(test, &directory, &sanitizer_environment()))
}

/// Like `rerun`, with the portable stand-in.
pub fn rerun_portable(test: &str) -> Option<Output> {
    let directory = portable(test)?;
    Some(run_child(test, &directory, &[]))
}

/// Whether this is the process in which the test of this name has these variables set. Otherwise starts that process, which
/// must pass.
#[track_caller]
pub fn is_machine(test: &str, variables: &[(&str, &str)]) -> bool {
    if is_child() {
        return true;
    }
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    if let Some(child) = rerun_with(test, &variables) {
        must_pass(&child);
    }
    false
}

/// Whether this process was started by one of these.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Fails with the child's output unless it passed.
#[track_caller]
pub fn must_pass(child: &Output) {
    assert!(child.status.success(), "{}: {}", child.status, said(child));
}

/// Fails with the child's output unless it failed and printed each of `words`.
#[track_caller]
pub fn must_fail(child: &Output, words: &[&str]) {
    let text = said(child);
    assert!(!child.status.success(), "it passed, but should have ended with {words:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{}, and not a word of {word:?}: {text}", child.status);
    }
}

/// The child's stdout and stderr.
pub fn said(child: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr))
}

fn run_child(test: &str, directory: &Path, variables: &[(&str, String)]) -> Output {
    let binary = std::env::current_exe().expect("this test's binary");
    let output = Command::new(binary)
        .args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .envs(environment(directory))
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .output()
        .expect("this test's binary runs");
    // A wrong test name would pass.
    let text = said(&output);
    assert!(text.contains("running 1 test\n"), "there is no test of the name {test}: {text}");
    output
}

/// A C++ compiler and its version.
#[derive(Clone)]
struct Compiler {
    path: String,
    version: Vec<u8>,
}

fn compiler(skipped: &str) -> Option<Compiler> {
    let path = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
    match Command::new(&path).arg("--version").env_remove("LD_PRELOAD").stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Some(Compiler { path, version: output.stdout }),
        _ => {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED {skipped}: no C++ compiler `{path}`; apt-get install g++, or set CXX"
            );
            None
        }
    }
}

/// The sanitizers' libraries in LD_PRELOAD's format; None if the compiler has none.
fn preload(compiler: &Compiler) -> Option<String> {
    let file = |name: &str| {
        let asked = Command::new(&compiler.path)
            .arg(format!("-print-file-name={name}"))
            .env_remove("LD_PRELOAD")
            .output()
            .ok()?;
        let path = String::from_utf8(asked.stdout).ok()?.trim().to_owned();
        Path::new(&path).is_absolute().then_some(path)
    };
    Some(format!("{} {}", file("libasan.so")?, file("libubsan.so")?))
}

/// kernels/host, from whichever package includes this file.
fn sources() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = package.ancestors().map(|root| root.join("kernels/host")).find(|place| place.is_dir());
    found.expect("kernels/host lies above every package")
}

/// Builds the libraries unless the same sources were built before. Several processes may do so at once: each builds in its
/// own directory, and the first to finish renames its directory to the shared name.
fn build(compiler: &Compiler, flavour: &str, more: &[&str]) -> PathBuf {
    let sources = sources();
    let mut hash = DefaultHasher::new();
    let mut names: Vec<PathBuf> = std::fs::read_dir(&sources)
        .expect("kernels/host can be read")
        .map(|entry| entry.expect("an entry of kernels/host").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "h" || kind == "cpp"))
        .collect();
    names.sort();
    for path in &names {
        path.file_name().hash(&mut hash);
        std::fs::read(path).expect("a source of kernels/host").hash(&mut hash);
    }
    (&compiler.path, &compiler.version, OPTIONS, more).hash(&mut hash);

    let parent =
        option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from).join("stand-in");
    let directory = parent.join(format!("{flavour}-{:016x}", hash.finish()));
    if directory.is_dir() {
        return directory;
    }
    let scratch = parent.join(format!("{flavour}-{:016x}.{}", hash.finish(), std::process::id()));
    std::fs::create_dir_all(scratch.join("include")).expect("a directory for the stand-in");
    for header in HEADERS {
        std::fs::copy(sources.join(header), scratch.join("include").join(header))
            .expect("a header can be copied");
    }
    let start = |library: &str, parts: &[&str], link: &str| {
        Command::new(&compiler.path)
            .args(OPTIONS)
            .args(more)
            .arg("-fvisibility=hidden")
            .arg(format!("-DOPERANT_HOST_CXX=\"{}\"", compiler.path))
            .args(parts.iter().map(|part| sources.join(part)))
            .arg(format!("-Wl,-soname,{library}"))
            .args(["-o".as_ref(), scratch.join(library).as_os_str(), OsStr::new(link)])
            .env_remove("LD_PRELOAD")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the C++ compiler runs")
    };
    let builds = [
        start("libcuda.so", DRIVER, "-ldl"),
        start("libnvrtc.so", COMPILER, "-ldl"),
        start("libcublasLt.so.13", BLAS, "-ldl"),
        start("libnccl.so.2", NCCL, "-ldl"),
    ];
    for build in builds {
        let output = build.wait_with_output().expect("the C++ compiler ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the stand-in for a GPU does not compile:\n{errors}");
    }
    if let Err(error) = std::fs::rename(&scratch, &directory) {
        assert!(directory.is_dir(), "{} cannot be renamed: {error}", scratch.display());
        std::fs::remove_dir_all(&scratch).expect("the second of two builds can be removed");
    }
    directory
}
