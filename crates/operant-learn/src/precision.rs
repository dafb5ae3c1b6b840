//! The arithmetic of the networks. Environments are always single precision.

use std::fmt;
use std::str::FromStr;

/// What matrix products are computed in; sums are f32 in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// Single precision: the reference.
    #[default]
    F32,
    /// Operands rounded to 10 bits of mantissa, on tensor cores.
    Tf32,
    /// Operands rounded to 7 bits of mantissa, on tensor cores.
    Bf16,
}

impl Precision {
    /// All of them, the most exact first.
    pub const ALL: [Precision; 3] = [Self::F32, Self::Tf32, Self::Bf16];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.name() == name)
            .ok_or_else(|| format!("there is no precision \"{name}\"; give f32, tf32 or bf16"))
    }
}
