//! Counters of bus transfers and launches, so that tests can show that the training loop has none inside.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes copied between host and device, and launches, since a device was opened. A graph's copies and launches count each
/// time that the graph is launched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Bytes from the host to the device.
    pub bytes_h2d: u64,
    /// Bytes from the device to the host.
    pub bytes_d2h: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Graphs launched.
    pub graphs: u64,
}

impl Transfers {
    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Transfers) -> Transfers {
        Transfers {
            bytes_h2d: self.bytes_h2d.saturating_sub(earlier.bytes_h2d),
            bytes_d2h: self.bytes_d2h.saturating_sub(earlier.bytes_d2h),
            launches: self.launches.saturating_sub(earlier.launches),
            graphs: self.graphs.saturating_sub(earlier.graphs),
        }
    }
}

/// The counters: one set per device and one per graph.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    bytes_h2d: AtomicU64,
    bytes_d2h: AtomicU64,
    launches: AtomicU64,
    graphs: AtomicU64,
}

impl Counters {
    pub fn add(&self, more: &Transfers) {
        self.bytes_h2d.fetch_add(more.bytes_h2d, Ordering::Relaxed);
        self.bytes_d2h.fetch_add(more.bytes_d2h, Ordering::Relaxed);
        self.launches.fetch_add(more.launches, Ordering::Relaxed);
        self.graphs.fetch_add(more.graphs, Ordering::Relaxed);
    }

    pub fn read(&self) -> Transfers {
        Transfers {
            bytes_h2d: self.bytes_h2d.load(Ordering::Relaxed),
            bytes_d2h: self.bytes_d2h.load(Ordering::Relaxed),
            launches: self.launches.load(Ordering::Relaxed),
            graphs: self.graphs.load(Ordering::Relaxed),
        }
    }
}
