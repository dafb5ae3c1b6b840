//! Compiled kernels on disk: a file per program, named by a hash of its inputs, with a checksum.
//!
//! A file is written under another name and renamed, so that readers see all of it or nothing, and two processes that
//! compile the same program leave one whole file. A file that is damaged, foreign or of another format is ignored.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use crate::library::Version;
use crate::program::Program;

/// First in a file. A new format gets a new number here.
const MAGIC: &[u8; 16] = b"operant cubin 1\n";

/// Bytes before the log: the magic, the checksum of all that follows it, the key, and the lengths of log and code.
const HEAD: usize = 16 + 32 + 32 + 8 + 8;

/// The user's cache directory: `$OPERANT_CACHE_DIR`, else `$XDG_CACHE_HOME/operant`, else `~/.cache/operant`; None without these variables.
pub fn default_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("OPERANT_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("operant")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/operant")))
}

/// The name of a compiled program: a hash of all its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(blake3::Hash);

impl Key {
    /// The compiler is identified by its version and by its file's path, size and time, since another library may have the
    /// same version.
    pub fn new(
        program: &Program,
        architecture: u32,
        options: &[String],
        version: Version,
        compiler: &Path,
    ) -> Self {
        let mut hasher = blake3::Hasher::new();
        // Each part is preceded by its length and each list by its count, so that different inputs never hash the same bytes.
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        part(MAGIC);
        part(program.name.as_bytes());
        part(program.source.as_bytes());
        for pairs in [&program.headers, &program.defines] {
            part(&(pairs.len() as u64).to_le_bytes());
            for (name, text) in pairs {
                part(name.as_bytes());
                part(text.as_bytes());
            }
        }
        part(&(options.len() as u64).to_le_bytes());
        for option in options {
            part(option.as_bytes());
        }
        part(&architecture.to_le_bytes());
        part(version.to_string().as_bytes());
        part(compiler.as_os_str().as_encoded_bytes());
        if let Ok(file) = compiler.metadata() {
            let changed = file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            part(&file.len().to_le_bytes());
            part(&changed.unwrap_or_default().as_nanos().to_le_bytes());
        }
        Key(hasher.finalize())
    }
}

/// A directory of compiled kernels, or none.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    directory: Option<PathBuf>,
}

impl Cache {
    pub fn new(directory: Option<PathBuf>) -> Self {
        Cache { directory }
    }

    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    fn file(&self, key: &Key) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join("kernels").join(format!("{}.cubin", key.0.to_hex())))
    }

    /// The code and the log, if they are stored and undamaged.
    pub fn load(&self, key: &Key) -> Option<(Vec<u8>, String)> {
        let bytes = std::fs::read(self.file(key)?).ok()?;
        decode(&bytes, key)
    }

    /// Stores code and log. An error is only reported; compilation succeeds without the cache.
    pub fn store(&self, key: &Key, code: &[u8], log: &str) -> Result<(), String> {
        let Some(file) = self.file(key) else { return Ok(()) };
        let directory = file.parent().unwrap_or(Path::new("."));
        let fails = |error: std::io::Error| {
            format!("compiled kernels cannot be kept in {}: {error}", directory.display())
        };
        std::fs::create_dir_all(directory).map_err(fails)?;
        // Unique among processes (even in containers, where process ids repeat) and threads.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let partial = directory.join(format!(".{}.{process}.{now}.{count}.partial", key.0.to_hex()));
        let written = std::fs::File::create_new(&partial)
            .and_then(|mut open| open.write_all(&encode(key, code, log)))
            .and_then(|()| std::fs::rename(&partial, &file));
        written.map_err(|error| {
            let _ = std::fs::remove_file(&partial);
            fails(error)
        })
    }
}

fn encode(key: &Key, code: &[u8], log: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(HEAD + log.len() + code.len());
    body.extend_from_slice(key.0.as_bytes());
    body.extend_from_slice(&(log.len() as u64).to_le_bytes());
    body.extend_from_slice(&(code.len() as u64).to_le_bytes());
    body.extend_from_slice(log.as_bytes());
    body.extend_from_slice(code);
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(blake3::hash(&body).as_bytes());
    file.extend_from_slice(&body);
    file
}

fn decode(file: &[u8], key: &Key) -> Option<(Vec<u8>, String)> {
    let rest = file.strip_prefix(MAGIC)?;
    let (checksum, body) = rest.split_at_checked(32)?;
    let body = (blake3::hash(body).as_bytes() == checksum).then_some(body)?;
    let body = body.strip_prefix(key.0.as_bytes())?;
    let (lengths, body) = body.split_at_checked(16)?;
    let (log, code) = lengths.split_at(8);
    let length = |bytes: &[u8]| usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok();
    let (log, code) = (length(log)?, length(code)?);
    if body.len() != log.checked_add(code)? {
        return None;
    }
    let (log, code) = body.split_at(log);
    Some((code.to_vec(), String::from_utf8(log.to_vec()).ok()?))
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
