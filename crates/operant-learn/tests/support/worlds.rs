//! Walks over worlds as one test for each world, so that no core walks all of them while others are idle.

use operant_env::builtin;

/// Appends the worlds that the default tier walks on the simulated GPU to the arguments of a macro.
macro_rules! representatives {
    ($macro:ident! $($arguments:tt)*) => {
        $crate::support::worlds::$macro! { $($arguments)* cartpole pendulum acrobot t_maze taxi minatar_breakout }
    };
}
pub(crate) use representatives;

/// Appends all built-in environments.
macro_rules! all_worlds {
    ($macro:ident! $($arguments:tt)*) => {
        $crate::support::worlds::$macro! { $($arguments)*
            cartpole mountain_car mountain_car_continuous pendulum acrobot t_maze repeat_previous pong
            breakout_large game_2048 snake prover minatar_asterix minatar_breakout minatar_freeway
            minatar_seaquest minatar_space_invaders minigrid_empty_8x8 minigrid_empty_random_5x5
            minigrid_fourrooms minigrid_doorkey_8x8 minigrid_unlock minigrid_unlockpickup
            minigrid_blockedunlockpickup minigrid_obstructedmaze_1dl minigrid_keycorridor_s3r3
            minigrid_multiroom_n4_s5 minigrid_lavagap_s7 minigrid_lavacrossing_s9n1
            minigrid_simplecrossing_s9n1 minigrid_distshift1 minigrid_memory_s13
            minigrid_dynamic_obstacles_8x8 minigrid_redbluedoors_6x6 minigrid_gotodoor_5x5
            minigrid_fetch_5x5_n2 minigrid_putnear_6x6_n2 minigrid_lockedroom frozen_lake cliff_walking taxi
            blackjack quadrotor_hover quadrotor_lemniscate
        }
    };
}
pub(crate) use all_worlds;

/// Tests by the names of worlds, each of which calls a function with its name.
macro_rules! tests {
    ($check:path => $($world:ident)*) => {
        $(#[test] fn $world() { $check(stringify!($world)); })*
    };
}
pub(crate) use tests;

/// The same in the nightly tier, for modules of a name that begins with `nightly_`.
macro_rules! nightly_tests {
    ($check:path => $($world:ident)*) => {
        $(
            #[test]
            #[ignore = "cargo xtask test --nightly"]
            fn $world() { $check(stringify!($world)); }
        )*
    };
}
pub(crate) use nightly_tests;

macro_rules! names {
    ($($world:ident)*) => { [$(stringify!($world)),*] };
}
pub(crate) use names;

/// The number of a representative; a way to give each another order of threads.
pub fn number(world: &str) -> usize {
    let representatives = representatives!(names!);
    representatives.iter().position(|it| *it == world).expect("a representative")
}

#[test]
fn all_worlds_are_all_built_in_environments() {
    let registered: Vec<String> = builtin().specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(registered, all_worlds!(names!), "the list of support/worlds.rs follows the registry");
}
