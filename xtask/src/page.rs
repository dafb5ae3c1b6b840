//! The runtime of pages in which an agent plays: `cargo xtask page` compiles it, `cargo xtask test --page` plays it in Node.js and Chromium.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::tools;

const TARGET: &str = "wasm32-unknown-unknown";
/// Where exports take it from.
const RUNTIME: &str = "crates/operant-sweep/src/player/runtime.wasm.lzma";
/// The hash of its environments, for a test.
const WORLDS: &str = "crates/operant-sweep/src/player/runtime.worlds";
/// The environments that emit these texts are compiled into it.
const EMITTED: &str = "kernels/envs";

/// Compiles the runtime, and puts it where exports take it from.
pub fn run() -> Result<()> {
    let metadata = tools::workspace()?;
    let root = metadata.workspace_root.as_std_path();
    let target = metadata.target_directory.as_std_path().join("page");
    let added = Command::new("rustup").args(["target", "add", TARGET]).status();
    ensure!(
        added.is_ok_and(|status| status.success()),
        "cannot install the standard library of {TARGET}: `rustup target add {TARGET}` failed"
    );
    let worlds = hash(&root.join(EMITTED))?;
    let build =
        ["rustc", "--profile", "page", "--package", "operant-page", "--lib", "--crate-type", "cdylib"];
    let built = Command::new("cargo")
        .current_dir(root)
        .args(build)
        .args(["--target", TARGET, "--target-dir"])
        .arg(&target)
        // The instructions of this machine are not those of a browser; `.cargo/config.toml` has those.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("PAGE_WORLDS", &worlds)
        .status()
        .context("cannot start cargo")?;
    ensure!(built.success(), "the runtime does not compile");
    let wasm = target.join(TARGET).join("page/operant_page.wasm");
    let wasm = std::fs::read(&wasm).with_context(|| format!("cannot read {}", wasm.display()))?;
    let wasm = stripped(&wasm).context("the compiler wrote no WebAssembly")?;
    let runtime = target.join("runtime.wasm");
    std::fs::write(&runtime, &wasm).with_context(|| format!("cannot write {}", runtime.display()))?;
    let packed = packed(&runtime)?;
    std::fs::write(root.join(RUNTIME), &packed).with_context(|| format!("cannot write {RUNTIME}"))?;
    std::fs::write(root.join(WORLDS), worlds).with_context(|| format!("cannot write {WORLDS}"))?;
    eprintln!("{RUNTIME}: {} bytes, {} uncompressed", packed.len(), wasm.len());
    Ok(())
}

/// Plays episodes of every world and of every kind of policy in Node.js, and pages in headless Chromium.
pub fn test() -> Result<()> {
    let metadata = tools::workspace()?;
    for program in ["node", "chromium"] {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        ensure!(
            found.is_ok_and(|status| status.success()),
            "there is no {program}: apt-get install nodejs chromium"
        );
    }
    let test =
        ["test", "--profile", "quick", "--package", "operant-sweep", "--test", "tests", "--", "pages::"];
    let tested = Command::new("cargo")
        .current_dir(metadata.workspace_root.as_std_path())
        .args(test)
        .args(["--include-ignored", "--nocapture", "--test-threads=1"])
        .status()
        .context("cannot start cargo")?;
    ensure!(tested.success(), "a page does not play as the engine does");
    Ok(())
}

/// A file as LZMA, for whose bytes `pb=0` is best: instructions are not aligned.
fn packed(wasm: &Path) -> Result<Vec<u8>> {
    let options = ["--format=lzma", "--lzma1=preset=9e,lc=4,pb=0", "--stdout"];
    let output = Command::new("xz")
        .args(options)
        .arg(wasm)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start xz, which Debian's xz-utils has")?;
    ensure!(output.status.success(), "xz failed ({})", output.status);
    Ok(output.stdout)
}

/// The hash of all texts that environments emit, which a test compares.
fn hash(emitted: &Path) -> Result<String> {
    let entries = std::fs::read_dir(emitted)?.collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<_> =
        entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for file in files {
        hasher.update(&std::fs::read(file)?);
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The program without its custom sections, such as the names of functions; None if it is damaged.
fn stripped(wasm: &[u8]) -> Option<Vec<u8>> {
    /// Magic number and version.
    const HEADER: usize = 8;
    let (header, mut rest) = wasm.split_at_checked(HEADER)?;
    let mut kept = header.to_vec();
    while let [kind, size @ ..] = rest {
        // LEB128: seven bits a byte, the lowest first.
        let bytes = 1 + size.iter().position(|byte| byte & 0x80 == 0)?;
        let length =
            size[..bytes].iter().rev().fold(0, |length, byte| length << 7 | usize::from(byte & 0x7f));
        let (section, others) = rest.split_at_checked(1 + bytes + length)?;
        if *kind != 0 {
            kept.extend(section);
        }
        rest = others;
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_sections_go_and_the_others_stay() {
        let header = *b"\0asm\x01\0\0\0";
        let (custom, code) = (vec![0, 3, 1, b'x', 7], [&[10, 0x81, 0x01][..], &[5; 129]].concat());
        let all = [&header[..], &custom, &code, &custom].concat();
        assert_eq!(stripped(&all), Some([&header[..], &code].concat()));
        assert_eq!(stripped(&all[..all.len() - 1]), None);
    }
}
