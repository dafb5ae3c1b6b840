//! Compiles emitted code with the host's C++ compiler and runs it. Shared by the tests of operant-lane and operant-env.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The C++ compiler; None, with a message on stderr about the skipped test, if there is none.
pub fn compiler(skipped: &str) -> Option<String> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
    let found = Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Some(compiler);
    }
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED {skipped}: no C++ compiler `{compiler}`; apt-get install g++, or set CXX"
    );
    None
}

/// Compiles `source` (which may include `intrinsics.h`), feeds it `input` and returns what it prints.
pub fn run(compiler: &str, name: &str, source: &str, input: &[u8]) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a scratch directory");
    let (file, program) = (scratch.join("program.cpp"), scratch.join("program"));
    std::fs::write(&file, source).expect("the source can be written");
    let built = Command::new(compiler)
        .args([
            "-std=c++17",
            "-O1",
            "-ffp-contract=off",
            "-Wall",
            "-Wno-unknown-pragmas",
            "-Wno-unused-function",
        ])
        .args(["-Wno-unused-const-variable", "-Werror", "-I"])
        .arg(root.join("kernels/host"))
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the compiler runs");
    let messages = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{name} does not compile:\n{messages}\n{source}");
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the writer ends").expect("the program reads its input");
    assert!(output.status.success(), "{name} failed: {}", output.status);
    std::fs::remove_dir_all(&scratch).expect("the scratch directory can be removed");
    output.stdout
}
