//! Resident memory of this process.

use std::time::{Duration, Instant};

/// Age at which a reading is taken anew: reading costs as much as many small updates may have to spare.
const STALE: Duration = Duration::from_millis(250);

/// A reading of resident memory, refreshed a few times a second.
#[derive(Debug, Default)]
pub(crate) struct Resident {
    last: Option<(Instant, f64)>,
}

impl Resident {
    /// Bytes of resident memory; NaN where the system does not tell.
    pub fn bytes(&mut self) -> f64 {
        match self.last {
            Some((when, bytes)) if when.elapsed() < STALE => bytes,
            _ => {
                let bytes = read().unwrap_or(f64::NAN);
                self.last = Some((Instant::now(), bytes));
                bytes
            }
        }
    }
}

fn read() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}
