//! What computes: AMX, or its twin.

use std::fmt;
use std::sync::OnceLock;

use crate::tiles;

/// What computes layers in bf16. All units give the same bits; NaNs may differ in their payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit(pub(crate) Mode);

/// How products and vectors are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// AMX and AVX-512. Made only where the process may use both.
    Amx,
    /// Products by the twin, vectors by AVX-512: what can be tested without AMX. Made only where there is AVX-512.
    Vectors,
    /// All in portable code.
    Twin,
}

impl Unit {
    /// AMX, if this process may use it.
    ///
    /// # Errors
    /// Why it cannot, as the end of a sentence about the CPU or the system.
    pub fn amx() -> Result<Self, &'static str> {
        static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
        match FOUND.get_or_init(tiles::request) {
            Ok(()) => Ok(Self(Mode::Amx)),
            Err(reason) => Err(reason),
        }
    }

    /// The portable twin of AMX: its bits, hundreds of times slower. For tests.
    pub fn twin() -> Self {
        Self(Mode::Twin)
    }

    /// The twin's products between the vector code that stands around AMX's; None without AVX-512. For tests.
    pub fn vectors() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Some(Self(Mode::Vectors));
        }
        None
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Mode::Amx => "AMX",
            Mode::Vectors => "the twin of AMX with AVX-512",
            Mode::Twin => "the twin of AMX",
        })
    }
}
