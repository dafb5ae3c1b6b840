//! The ring's clocks: a monotonic one for ages and the wall clock for dates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::os;

/// Nanoseconds since boot, suspended time included; the same in every process of the machine.
#[inline]
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(os::CLOCK);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Time elapsed since `moment`; zero for a moment in the future.
pub fn since(now: u64, moment: u64) -> Duration {
    Duration::from_nanos(now.saturating_sub(moment))
}

/// Nanoseconds since 1970.
pub fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
