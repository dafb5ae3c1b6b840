//! The portable program: the whole of operant for each level of x86-64, and the choice between them. The objects of the levels are arguments
//! of the linker; `cargo xtask release` gives them.

use std::process::ExitCode;

use operant_portable::{Level, VARIABLE, choose};

// SAFETY: each is `operant_level_main` of a copy (lib.rs) under the level's name: it takes no argument and returns a `u8`, as declared here.
#[expect(unsafe_code, reason = "the copies are not known to the compiler")]
unsafe extern "C" {
    safe fn operant_main_v2() -> u8;
    safe fn operant_main_v3() -> u8;
    safe fn operant_main_v4() -> u8;
}

macro_rules! level {
    ($name:literal, $main:expr, $($set:tt)*) => {
        ($main, Level { name: $name, adds: vec![$(($set, is_x86_feature_detected!($set))),*] })
    };
}

/// The program of every level, the best last.
fn levels() -> [(extern "C" fn() -> u8, Level); 3] {
    [
        level!("v2", operant_main_v2, "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "cmpxchg16b"),
        level!("v3", operant_main_v3, "avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe"),
        level!("v4", operant_main_v4, "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl"),
    ]
}

fn main() -> ExitCode {
    let (programs, levels): (Vec<_>, Vec<_>) = levels().into_iter().unzip();
    let asked = std::env::var_os(VARIABLE).filter(|asked| !asked.is_empty());
    match choose(&levels, asked.as_deref().map(|asked| asked.to_string_lossy()).as_deref()) {
        Ok(place) => ExitCode::from(programs[place]()),
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(2)
        }
    }
}
