//! The portable program: the whole of operant for each level of x86-64, and the choice between them. The objects of the levels are arguments
//! of the linker; `cargo xtask release` gives them.

use std::process::ExitCode;

// Each of them is `operant_level_main` of a copy, under the level's name. They take nothing, and what they return fits every caller.
#[expect(unsafe_code, reason = "the copies are not known to the compiler")]
unsafe extern "C" {
    safe fn operant_main_v2() -> u8;
    safe fn operant_main_v3() -> u8;
    safe fn operant_main_v4() -> u8;
}

/// The variable that overrides the choice, as in the Python package.
const VARIABLE: &str = "OPERANT_ISA";

/// A level of x86-64.
struct Level {
    name: &'static str,
    main: extern "C" fn() -> u8,
    /// The instruction sets that it adds to those of the level before, and whether this processor has them.
    adds: Vec<(&'static str, bool)>,
}

macro_rules! level {
    ($name:literal, $main:expr, $($set:tt)*) => {
        Level { name: $name, main: $main, adds: vec![$(($set, is_x86_feature_detected!($set))),*] }
    };
}

/// All levels, the best last.
fn levels() -> [Level; 3] {
    [
        level!("v2", operant_main_v2, "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "cmpxchg16b"),
        level!("v3", operant_main_v3, "avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe"),
        level!("v4", operant_main_v4, "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl"),
    ]
}

/// The place of the requested level, else of the best that the processor has.
fn choose(levels: &[Level], asked: Option<&str>) -> Result<usize, String> {
    let missing_up_to = |place: usize| {
        let adds = levels[..=place].iter().flat_map(|level| &level.adds);
        adds.filter(|(_, there)| !there).map(|(set, _)| *set).collect::<Vec<_>>()
    };
    let Some(asked) = asked else {
        let best = (0..levels.len()).rev().find(|place| missing_up_to(*place).is_empty());
        let why =
            || format!("this processor is too old: it lacks {} (x86-64-v2)", missing_up_to(0).join(" "));
        return best
            .ok_or_else(|| format!("{}\n  remedy: build operant from source for this processor", why()));
    };
    let names = || levels.iter().map(|level| level.name).collect::<Vec<_>>().join(", ");
    let place = levels.iter().position(|level| level.name == asked);
    let place = place
        .ok_or_else(|| format!("{VARIABLE}={asked}: expected one of {}\n  remedy: unset it", names()))?;
    match missing_up_to(place).as_slice() {
        [] => Ok(place),
        missing => {
            Err(format!("{VARIABLE}={asked}: this processor lacks {}\n  remedy: unset it", missing.join(" ")))
        }
    }
}

fn main() -> ExitCode {
    let levels = levels();
    let asked = std::env::var_os(VARIABLE).filter(|asked| !asked.is_empty());
    match choose(&levels, asked.as_deref().map(|asked| asked.to_string_lossy()).as_deref()) {
        Ok(place) => ExitCode::from((levels[place].main)()),
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(2)
        }
    }
}
