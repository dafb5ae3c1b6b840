//! A test for each world, for suites that walk all of them. `cargo xtask worlds` writes this file; do not edit it.

/// Tests with the names of worlds, each with these attributes, that call a function with the name.
macro_rules! world_tests {
    ($(#[$attribute:meta])* $check:path: $($name:ident)*) => {
        world_tests! { @all [$(#[$attribute])*] $check: $($name)* }
    };
    (@all $attributes:tt $check:path: $($name:ident)*) => {$(
        world_tests! { @one $attributes $check: $name }
    )*};
    (@one [$(#[$attribute:meta])*] $check:path: $name:ident) => {
        #[test]
        $(#[$attribute])*
        fn $name() {
            $check(stringify!($name));
        }
    };
}

/// A test for each world with its own rules: `each_world! { #[ignore = "why"] check }`.
#[allow(unused_macros)] // not every suite needs both
macro_rules! each_world {
    ($($test:tt)*) => {
        world_tests! {
            $($test)*:
            cartpole
            mountain_car
            mountain_car_continuous
            pendulum
            acrobot
            t_maze
            repeat_previous
            pong
            breakout_large
            game_2048
            snake
            prover
            connect_four
            othello
            kuhn_poker
            leduc_poker
            hex
            go_9x9
            two_player_pong
            capture_the_flag
            minatar_asterix
            minatar_breakout
            minatar_freeway
            minatar_seaquest
            minatar_space_invaders
            minigrid_empty_8x8
            minigrid_empty_random_5x5
            minigrid_fourrooms
            minigrid_doorkey_8x8
            minigrid_unlock
            minigrid_unlockpickup
            minigrid_blockedunlockpickup
            minigrid_obstructedmaze_1dl
            minigrid_keycorridor_s3r3
            minigrid_multiroom_n4_s5
            minigrid_lavagap_s7
            minigrid_lavacrossing_s9n1
            minigrid_simplecrossing_s9n1
            minigrid_distshift1
            minigrid_memory_s13
            minigrid_dynamic_obstacles_8x8
            minigrid_redbluedoors_6x6
            minigrid_gotodoor_5x5
            minigrid_fetch_5x5_n2
            minigrid_putnear_6x6_n2
            minigrid_lockedroom
            frozen_lake
            cliff_walking
            taxi
            blackjack
            quadrotor_hover
            quadrotor_lemniscate
            half_cheetah
            hopper
            walker2d
            ant
            swimmer
            reacher
            inverted_pendulum
            inverted_double_pendulum
            craftax_classic
        }
    };
}

/// A test for each variant of a world: another size, layout or action set.
#[allow(unused_macros)]
macro_rules! each_variant {
    ($($test:tt)*) => {
        world_tests! {
            $($test)*:
            minatar_asterix_minimal
            minatar_breakout_minimal
            minatar_freeway_minimal
            minatar_space_invaders_minimal
            cartpole_no_velocity
            mountain_car_no_velocity
            mountain_car_continuous_no_velocity
            pendulum_no_velocity
            minigrid_empty_5x5
            minigrid_doorkey_5x5
            minigrid_doorkey_6x6
            minigrid_doorkey_16x16
            minigrid_keycorridor_s3r1
            minigrid_keycorridor_s3r2
            minigrid_multiroom_n2_s4
            minigrid_multiroom_n4_s5_v1
            minigrid_lavagap_s5
            minigrid_lavagap_s6
            minigrid_memory_s7
            minigrid_memory_s9
            minigrid_memory_s11
            minigrid_memory_s13_random
            minigrid_dynamic_obstacles_5x5
            minigrid_dynamic_obstacles_6x6
            frozen_lake_8x8
        }
    };
}
