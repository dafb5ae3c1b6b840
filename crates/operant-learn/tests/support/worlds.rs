//! The worlds that the default tier walks on the simulated GPU; all of them are walked in the nightly tier.

/// Appends their names to the arguments of a macro: `representatives! { world_tests! check: }`.
macro_rules! representatives {
    ($macro:ident! $($arguments:tt)*) => {
        $macro! { $($arguments)* cartpole pendulum acrobot t_maze taxi minatar_breakout }
    };
}

macro_rules! names {
    ($($world:ident)*) => { [$(stringify!($world)),*] };
}

/// A test for each world and variant in the nightly tier, for modules of a name that begins with `nightly_`.
macro_rules! nightly_tests {
    ($check:path) => {
        each_world! { #[ignore = "cargo xtask test --nightly"] $check }
        each_variant! { #[ignore = "cargo xtask test --nightly"] $check }
    };
}

/// The number of a representative, which gives each another order of threads.
pub fn number(world: &str) -> usize {
    let representatives = representatives!(names!);
    representatives.iter().position(|it| *it == world).expect("a representative")
}
