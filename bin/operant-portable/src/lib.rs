//! The whole of operant as one function, which `cargo xtask release` compiles for each level of x86-64 under a name of its own, and the choice
//! between the levels.

/// The variable that overrides the choice, as in the Python package.
pub const VARIABLE: &str = "OPERANT_ISA";

/// A level of x86-64.
#[derive(Debug)]
pub struct Level {
    /// Its name, such as "v3".
    pub name: &'static str,
    /// The instruction sets that it adds to those of the level before, and whether this processor has them.
    pub adds: Vec<(&'static str, bool)>,
}

/// The place of the requested level among `levels`, of which the best is last; else of the best that the processor has.
///
/// # Errors
/// When there is no such level, or the processor lacks it, or even the first one; the text names what it lacks and what to do.
pub fn choose(levels: &[Level], asked: Option<&str>) -> Result<usize, String> {
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

#[cfg(feature = "level")]
mod level {
    use std::ffi::OsString;

    /// The `operant` command with this process's arguments; returns the exit code.
    #[expect(unsafe_code, reason = "the one function of this name in each copy, which the linker renames")]
    #[unsafe(no_mangle)]
    pub extern "C" fn operant_level_main() -> u8 {
        // Each copy has a standard library of its own, which takes the arguments when the process starts.
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        let program = std::env::current_exe().map_or_else(|_| "operant".into(), OsString::from);
        operant_cli::main_of(vec![program], arguments, &operant_cli::builtin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two levels of two sets each, of which a processor has the first `has`.
    fn levels(has: usize) -> [Level; 2] {
        let adds = |first: usize, names: [&'static str; 2]| {
            names.iter().enumerate().map(|(k, name)| (*name, first + k < has)).collect()
        };
        [
            Level { name: "v2", adds: adds(0, ["one", "two"]) },
            Level { name: "v3", adds: adds(2, ["three", "four"]) },
        ]
    }

    #[test]
    fn the_best_level_that_the_processor_has_is_taken() {
        assert_eq!([2, 3, 4].map(|has| choose(&levels(has), None)), [Ok(0), Ok(0), Ok(1)]);
        let old = choose(&levels(1), None).expect_err("too old");
        assert!(old.contains("it lacks two (x86-64-v2)") && old.contains("from source"), "{old}");
    }

    #[test]
    fn a_requested_level_has_to_be_there() {
        assert_eq!(choose(&levels(4), Some("v2")), Ok(0));
        let lacks = choose(&levels(2), Some("v3")).expect_err("lacking");
        assert!(
            lacks.starts_with("OPERANT_ISA=v3: this processor lacks three four\n  remedy: unset it"),
            "{lacks}"
        );
        let unknown = choose(&levels(4), Some("v9")).expect_err("unknown");
        assert!(unknown.starts_with("OPERANT_ISA=v9: expected one of v2, v3\n"), "{unknown}");
    }
}
