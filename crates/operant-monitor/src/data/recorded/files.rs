//! The small files of a run's directory: `run.json`, `config.toml`, the end of `operant.log`, the names of its checkpoints.
//! They are untrusted: each is read up to a limit, and an unreadable file counts as missing.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, SystemTime};

use operant_metrics::{Event, Level, MAX_SMALL_FILE, SavedCheckpoint, open_file, plain, read_file};

use crate::date::Date;

/// Bytes at the end of the log that are read, and events that are kept of them.
const LOG_TAIL: u64 = 64 << 10;
const MAX_EVENTS: usize = 200;
/// Settings that are compared at most.
const MAX_SETTINGS: usize = 1000;

/// When a file was last written; none if that cannot be read.
pub(super) fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

/// The age of a moment; zero for a future one.
pub(super) fn ago(moment: SystemTime) -> Duration {
    moment.elapsed().unwrap_or_default()
}

/// The settings of a run, from its `config.toml`: names with their values as text, `[env]`'s as `env.name`. Empty where
/// there is no such file or it is no TOML.
pub fn settings(dir: &Path) -> Vec<(String, String)> {
    let parsed = read_file(&dir.join("config.toml"), MAX_SMALL_FILE)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| text.parse::<toml::Table>().ok());
    let mut settings = Vec::new();
    for (name, value) in parsed.unwrap_or_default() {
        match value {
            toml::Value::Table(inner) => {
                let of_inner = |(key, value): (String, toml::Value)| (format!("{name}.{key}"), value);
                settings.extend(inner.into_iter().map(of_inner));
            }
            value => settings.push((name, value)),
        }
    }
    let text = |(name, value): (String, toml::Value)| match value {
        toml::Value::String(text) => (plain(&name), plain(&text)),
        value => (plain(&name), plain(&value.to_string())),
    };
    settings.into_iter().take(MAX_SETTINGS).map(text).collect()
}

/// The last lines of `operant.log`, oldest first. A line that does not begin with a time and a level continues the one
/// before it and is skipped.
pub(super) fn events(dir: &Path) -> Vec<Event> {
    let tail = || -> Option<Vec<u8>> {
        let mut file = open_file(&dir.join("operant.log")).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL))).ok()?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    let tail = String::from_utf8_lossy(&tail().unwrap_or_default()).into_owned();
    let mut events: Vec<Event> = tail.lines().filter_map(event).collect();
    events.drain(..events.len().saturating_sub(MAX_EVENTS));
    for (number, event) in (0..).zip(&mut events) {
        event.number = number;
    }
    events
}

/// `2026-11-21T10:46:36.120456Z  INFO checkpoint saved env_steps=102400`.
fn event(line: &str) -> Option<Event> {
    let (time, rest) = line.split_once(char::is_whitespace)?;
    let (level, text) = rest.trim_start().split_once(' ')?;
    let level = match level {
        "INFO" => Level::Info,
        "WARN" => Level::Warning,
        "ERROR" => Level::Error,
        _ => return None,
    };
    Some(Event { number: 0, unix_ns: Date::unix_ns_of(time)?, level, text: plain(text.trim()) })
}

/// The latest checkpoint, by the steps in its directory's name.
pub(super) fn checkpoint(dir: &Path) -> Option<SavedCheckpoint> {
    let entries = std::fs::read_dir(dir.join("checkpoints")).ok()?.flatten();
    let step = |path: &Path| path.file_name()?.to_str()?.strip_prefix("step_")?.parse::<u64>().ok();
    let saved = entries.map(|entry| entry.path()).filter_map(|path| Some((step(&path)?, path)));
    let (env_steps, path) = saved.max_by_key(|(env_steps, _)| *env_steps)?;
    Some(SavedCheckpoint { env_steps, path: plain(&path.to_string_lossy()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        dir
    }

    #[test]
    fn log_lines_are_events_and_what_continues_them_is_not() {
        let log = b"ut in its first line\n\
            2026-11-21T14:02:06.250000Z  INFO checkpoint saved env_steps=102400\n\
            2026-11-21T14:02:07Z  WARN the disk \x1b[31mis full\n  in two lines\n\
            2026-11-21T14:02:08Z DEBUG not shown\nnot a time ERROR x\n";
        let events = events(dir(&[("operant.log", log)]).path());
        let texts: Vec<_> =
            events.iter().map(|event| (event.number, event.level, event.text.as_str())).collect();
        assert_eq!(
            texts,
            [
                (0, Level::Info, "checkpoint saved env_steps=102400"),
                (1, Level::Warning, "the disk  [31mis full")
            ]
        );
        assert_eq!(events[0].unix_ns, 1_795_269_726_250_000_000);
    }

    #[test]
    fn settings_are_names_and_values() {
        let config =
            b"environment = \"cartpole\"\nseed = 1 # default\nhidden = [64, 64]\n[env]\nwind = 0.5\n";
        let settings = settings(dir(&[("config.toml", config)]).path());
        let settings: Vec<_> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert!(
            settings.contains(&("environment", "cartpole")) && settings.contains(&("hidden", "[64, 64]"))
        );
        assert!(settings.contains(&("seed", "1")) && settings.contains(&("env.wind", "0.5")), "{settings:?}");
    }

    #[test]
    fn garbage_is_as_if_it_were_not_there() {
        let garbage: &[u8] = &[0xff; 4096];
        let dir = dir(&[("run.json", garbage), ("config.toml", garbage), ("operant.log", garbage)]);
        assert_eq!(operant_metrics::RunFile::read(dir.path()), None);
        assert!(settings(dir.path()).is_empty() && events(dir.path()).is_empty());
        assert_eq!(checkpoint(dir.path()), None);
    }

    #[test]
    fn the_latest_checkpoint_is_the_one_of_most_steps() {
        let dir = dir(&[]);
        for name in ["step_000000000900", "step_000000001000", "step_x", "other"] {
            std::fs::create_dir_all(dir.path().join("checkpoints").join(name)).unwrap();
        }
        assert_eq!(checkpoint(dir.path()).map(|saved| saved.env_steps), Some(1000));
    }
}
