//! How busy each core is, between two readings of `/proc/stat`.
//!
//! procfs is not used, because its list of cores drops their numbers: with core 1 offline, its second entry is core 2.
//! The columns are described in proc_stat(5).

use crate::cores::{CoreKind, CpuCore};

/// One core that the process may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoreSample {
    /// Its number in the system.
    pub number: u32,
    pub kind: CoreKind,
    /// Share of the time in which it was busy, with any process, 0 to 1; NaN where not known yet.
    pub utilization: f32,
}

/// Means over the usable cores, each 0 to 1; NaN where there is nothing to average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuSummary {
    /// All usable cores.
    pub all: f64,
    pub performance: f64,
    pub efficiency: f64,
    /// Efficiency over performance; NaN also where the performance cores are idle.
    pub balance: f64,
    /// The least busy core over the most busy one; NaN where all are idle or there is one core.
    pub evenness: f64,
}

/// The usable cores, with the last reading of each.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    cores: Vec<Meter>,
}

#[derive(Debug)]
struct Meter {
    core: CpuCore,
    /// `None` while the core is not listed: it is offline or does not exist.
    last: Option<Ticks>,
    /// Busy share of the last period that had a tick.
    share: f64,
}

impl CpuMeter {
    /// Reads nothing yet: shares are known from the second [`CpuMeter::read`] on.
    pub fn new(cores: Vec<CpuCore>) -> Self {
        let cores = cores.into_iter().map(|core| Meter { core, last: None, share: f64::NAN }).collect();
        CpuMeter { cores }
    }

    /// Parses a text of `/proc/stat`; the shares then cover the time since the previous reading.
    pub fn read(&mut self, stat: &str) {
        let mut cores = self.cores.iter_mut().peekable();
        // Both sides are in the order of the numbers.
        for (number, ticks) in stat.lines().take_while(|line| line.starts_with("cpu")).filter_map(parse_line)
        {
            while let Some(meter) = cores.next_if(|meter| meter.core.number < number) {
                meter.gone();
            }
            if let Some(meter) = cores.next_if(|meter| meter.core.number == number) {
                meter.read(ticks);
            }
        }
        cores.for_each(Meter::gone);
    }

    /// The cores that the last reading listed, by number.
    pub fn cores(&self) -> impl Iterator<Item = CoreSample> {
        self.cores.iter().filter(|meter| meter.last.is_some()).map(|meter| CoreSample {
            number: meter.core.number,
            kind: meter.core.kind,
            utilization: meter.share as f32,
        })
    }

    /// The means.
    pub fn summary(&self) -> CpuSummary {
        let performance = self.mean(|kind| kind == CoreKind::Performance);
        let efficiency = self.mean(|kind| kind == CoreKind::Efficiency);
        let balance = if performance > 0.0 { efficiency / performance } else { f64::NAN };
        CpuSummary { all: self.mean(|_| true), performance, efficiency, balance, evenness: self.evenness() }
    }

    fn evenness(&self) -> f64 {
        let known = || self.cores.iter().map(|meter| meter.share).filter(|share| !share.is_nan());
        let most = known().fold(0.0, f64::max);
        if known().count() > 1 && most > 0.0 { known().fold(1.0, f64::min) / most } else { f64::NAN }
    }

    fn mean(&self, of: impl Fn(CoreKind) -> bool) -> f64 {
        let known = self.cores.iter().filter(|meter| of(meter.core.kind) && !meter.share.is_nan());
        let (sum, count) = known.fold((0.0, 0u32), |(sum, count), meter| (sum + meter.share, count + 1));
        // 0 / 0 is NaN, the value for "no such core".
        sum / f64::from(count)
    }
}

impl Meter {
    fn gone(&mut self) {
        self.last = None;
        self.share = f64::NAN;
    }

    fn read(&mut self, ticks: Ticks) {
        if let Some(last) = self.last.replace(ticks) {
            match ticks.since(&last) {
                Period::Busy(share) => self.share = share,
                // Ticks are 10 ms, so two close readings may have no tick between them; the old share stays.
                Period::Empty => {}
                Period::Backwards => self.share = f64::NAN,
            }
        }
    }
}

/// Ticks since boot in which a core was idle, and busy with user, nice, system, irq, softirq and stolen time.
///
/// Idle includes iowait: the kernel counts one sleep as either, and moves it from one to the other afterwards. Guests are
/// in user and nice already. Stolen time is busy: the core had work and could not do other work in it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ticks {
    idle: u64,
    busy: [u64; 6],
}

/// The period between two readings of a core.
enum Period {
    /// This share of it was busy.
    Busy(f64),
    /// No tick.
    Empty,
    /// The counters restarted from zero.
    Backwards,
}

/// Ticks by which a counter may fall without a restart: the kernel reads the idle time of a running core without stopping it.
const JITTER: u64 = 2;

impl Ticks {
    fn since(&self, earlier: &Ticks) -> Period {
        let pairs = || {
            let now = self.busy.into_iter().chain([self.idle]);
            now.zip(earlier.busy.into_iter().chain([earlier.idle]))
        };
        if pairs().any(|(now, then)| now.saturating_add(JITTER) < then) {
            return Period::Backwards;
        }
        // In f64: sums of garbage cannot overflow it.
        let total: f64 = pairs().map(|(now, then)| now.saturating_sub(then) as f64).sum();
        if total == 0.0 {
            return Period::Empty;
        }
        let idle = self.idle.saturating_sub(earlier.idle) as f64;
        Period::Busy(((total - idle) / total).clamp(0.0, 1.0))
    }
}

/// Parses `cpu3 user nice system idle iowait irq softirq steal guest guest_nice`. The line of all CPUs has no number and is
/// skipped; columns that an older kernel lacks are 0.
fn parse_line(line: &str) -> Option<(u32, Ticks)> {
    let mut columns = line.strip_prefix("cpu")?.split_ascii_whitespace();
    if !line.as_bytes().get(3)?.is_ascii_digit() {
        return None;
    }
    let number = columns.next()?.parse().ok()?;
    let mut values = [0u64; 8];
    for (place, value) in values.iter_mut().enumerate() {
        *value = match columns.next() {
            Some(text) => text.parse().ok()?,
            None if place < 4 => return None,
            None => 0,
        };
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = values;
    Some((
        number,
        Ticks { idle: idle.saturating_add(iowait), busy: [user, nice, system, irq, softirq, steal] },
    ))
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
