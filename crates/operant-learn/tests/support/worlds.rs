//! Which worlds are played on the simulated GPU: six by default, one of each kind in `--all`, all of them in `--nightly`.

/// Appends the names of the six to the arguments of a macro: `representatives! { world_tests! check: }`.
macro_rules! representatives {
    ($macro:ident! $($arguments:tt)*) => {
        $macro! { $($arguments)* cartpole pendulum acrobot t_maze taxi minatar_breakout }
    };
}

/// Like `representatives`, with the other worlds of `Registry::of_each_kind`.
macro_rules! other_kinds {
    ($macro:ident! $($arguments:tt)*) => {
        $macro! {
            $($arguments)* mountain_car mountain_car_continuous quadrotor_hover breakout_large game_2048 prover minatar_freeway
            minigrid_multiroom_n4_s5 half_cheetah craftax_classic connect_four
        }
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

/// The index of a world, by which tests vary the order of threads and the precision between worlds.
pub fn number(world: &str) -> usize {
    let (six, others) = (representatives!(names!), other_kinds!(names!));
    six.iter().chain(&others).position(|it| *it == world).expect("walked in --all")
}

#[test]
fn every_kind_is_walked_in_all() {
    let kinds: std::collections::BTreeSet<String> =
        operant_env::builtin().of_each_kind().specs().into_iter().map(|spec| spec.name).collect();
    let walked = representatives!(names!).into_iter().chain(other_kinds!(names!));
    let walked: std::collections::BTreeSet<String> = walked.map(str::to_owned).collect();
    assert!(kinds.is_subset(&walked), "not walked: {:?}", kinds.difference(&walked));
}
