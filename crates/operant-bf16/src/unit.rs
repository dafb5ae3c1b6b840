//! The implementations: AMX, AVX512_BF16, and a portable twin of each.

use std::fmt;
use std::sync::OnceLock;

use crate::amx;

/// The implementation of layers in bf16. A unit and its twin give the same bits, but NaNs may differ in their payload. AMX and AVX512_BF16 differ in
/// the order of sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit(pub(crate) Mode);

/// How products and vectors are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// AMX and AVX-512. Made only where the process may use both.
    Amx,
    /// AVX512_BF16 and AVX-512. Made only where the CPU has both.
    Dot,
    /// Products by the twin of AMX, vectors by AVX-512: for tests without AMX. Created only if the CPU has AVX-512.
    Vectors,
    /// All in portable code, in the order of AMX or of AVX512_BF16.
    Twin(Order),
}

/// The order of a product's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The order of `tdpbf16ps`.
    Amx,
    /// The order of `vdpbf16ps`.
    Dot,
}

impl Mode {
    /// The order of its sums.
    pub fn order(self) -> Order {
        match self {
            Self::Amx | Self::Vectors => Order::Amx,
            Self::Dot => Order::Dot,
            Self::Twin(order) => order,
        }
    }
}

/// A unit that was searched for once.
type Found = OnceLock<Result<Unit, String>>;

fn found(once: &'static Found, find: impl FnOnce() -> Result<Unit, String>) -> Result<Unit, &'static str> {
    once.get_or_init(find).as_ref().map(|unit| *unit).map_err(String::as_str)
}

impl Unit {
    /// Products by tiles: AMX, if this process may use it.
    ///
    /// # Errors
    /// Why it cannot, in one line.
    pub fn tiles() -> Result<Self, &'static str> {
        static FOUND: Found = OnceLock::new();
        found(&FOUND, || amx::request().map(|()| Self(Mode::Amx)))
    }

    /// Dot products of pairs: AVX512_BF16; None without it.
    pub fn dot() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bf16")
        {
            return Some(Self(Mode::Dot));
        }
        None
    }

    /// The fastest, if it is faster than f32: AMX, or on AMD's CPUs AVX512_BF16. A core of Zen 4 multiplies and adds 236 GFLOP/s by
    /// `vdpbf16ps` and 117 in f32 (`operant bench --precision f32,bf16`, 2026-11-26); on Intel's CPUs the instruction is slower than f32.
    ///
    /// # Errors
    /// Why there is none, in one line.
    pub fn fastest() -> Result<Self, &'static str> {
        static FOUND: Found = OnceLock::new();
        let dot = || Self::dot().filter(|_| is_amd());
        found(&FOUND, || match (Self::tiles(), dot()) {
            (Ok(unit), _) | (Err(_), Some(unit)) => Ok(unit),
            (Err(reason), None) => Err(format!("{reason} and no fast AVX512_BF16")),
        })
    }

    /// All that this machine has, to be compared with their twins.
    pub fn all() -> Vec<Self> {
        let mut units: Vec<Self> = Self::tiles().into_iter().chain(Self::dot()).collect();
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            units.push(Self(Mode::Vectors));
        }
        units
    }

    /// The portable twin of AMX, for tests: hundreds of times slower.
    pub const TILES_TWIN: Self = Self(Mode::Twin(Order::Amx));

    /// The portable twin of AVX512_BF16, for tests.
    pub const DOT_TWIN: Self = Self(Mode::Twin(Order::Dot));

    /// The portable unit with the bits of this one.
    #[must_use]
    pub fn twin(self) -> Self {
        Self(Mode::Twin(self.0.order()))
    }
}

/// Whether AMD made this CPU.
fn is_amd() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = std::arch::x86_64::__cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

impl fmt::Display for Unit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Mode::Amx => "AMX",
            Mode::Dot => "AVX512_BF16",
            Mode::Vectors => "AVX-512 around the twin of AMX",
            Mode::Twin(Order::Amx) => "the twin of AMX",
            Mode::Twin(Order::Dot) => "the twin of AVX512_BF16",
        })
    }
}
