//! The build target of this program, and CPU features that it does not use.

use serde::Serialize;

/// The target of this build.
#[derive(Debug, Serialize)]
pub struct Target {
    /// `x86_64`.
    pub arch: &'static str,
    /// `linux`.
    pub os: &'static str,
    /// Instruction sets that the arithmetic was compiled for.
    pub features: Vec<&'static str>,
    /// Instruction sets that this CPU has and the program does not use.
    pub unused_features: Vec<&'static str>,
}

/// Instruction sets that speed up lanes: (name, compiled for, available on this CPU).
macro_rules! features {
    ($detected:ident: $($name:tt),*) => {
        vec![$(($name, cfg!(target_feature = $name), std::arch::$detected!($name))),*]
    };
}

impl Target {
    /// The target of this program.
    pub fn of_this_build() -> Self {
        let features = features();
        let names = |keep: fn(bool, bool) -> bool| {
            features
                .iter()
                .filter(|(_, built, there)| keep(*built, *there))
                .map(|(name, _, _)| *name)
                .collect()
        };
        Target {
            arch: std::env::consts::ARCH,
            os: std::env::consts::OS,
            features: names(|built, _| built),
            unused_features: names(|built, there| there && !built),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<(&'static str, bool, bool)> {
    features!(is_x86_feature_detected:
        "sse4.2", "avx", "avx2", "fma", "bmi2", "avx512f", "avx512bw", "avx512dq", "avx512vl")
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<(&'static str, bool, bool)> {
    // Vectors have a fixed length here, so that SVE would not be used.
    features!(is_aarch64_feature_detected: "neon")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<(&'static str, bool, bool)> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_features_are_available_and_not_listed_as_unused() {
        // This test would not run otherwise.
        for (name, built, there) in features() {
            assert!(there || !built, "{name}");
        }
        let target = Target::of_this_build();
        assert!(target.features.iter().all(|name| !target.unused_features.contains(name)), "{target:?}");
        assert_eq!(target.features.contains(&"avx2"), cfg!(target_feature = "avx2"));
    }
}
