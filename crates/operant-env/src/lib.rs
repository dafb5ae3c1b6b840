//! operant-env holds the environments: the rules of each in one file, written once over lanes, and what all of them
//! share: spaces, auto-reset, registry, emission. It does not depend on policies, devices or files.
//!
//! An environment implements [`Env`]; everything else uses it through [`AnyEnv`]. `docs/environments.md` builds one
//! step by step.

#![forbid(unsafe_code)]
// A web page plays environments, and neither records nor replays them.
#![cfg_attr(target_family = "wasm", allow(dead_code, unused_imports))]

mod ahead;
mod any;
mod boards;
mod checked;
mod doc;
mod emit;
mod env;
pub mod exploitability;
pub mod grid;
pub mod keys;
pub mod openings;
mod own;
mod packing;
pub mod play;
mod poker;
mod registry;
pub mod replay;
mod rows;
mod running;
mod scene;
pub mod search;
mod spec;
mod stepper;
pub mod sticky;
mod vector;
pub mod versus;
pub mod world;

registry::environments! {
    cartpole::CartPole,
    mountain_car::MountainCar,
    mountain_car_continuous::MountainCarContinuous,
    pendulum::Pendulum,
    acrobot::Acrobot,
    t_maze::TMaze,
    repeat_previous::RepeatPrevious,
    pong::Pong,
    breakout_large::BreakoutLarge,
    game_2048::Game2048,
    snake::Snake,
    prover::Prover,
    connect_four::ConnectFour,
    othello::Othello,
    kuhn_poker::KuhnPoker,
    leduc_poker::LeducPoker,
    hex::Hex,
    go::Go,
    two_player_pong::TwoPlayerPong,
    capture_the_flag::CaptureTheFlag,
    ;
    minatar,
    hidden,
    minigrid,
    toy_text,
    quadrotor,
    body,
    craftax,
}

/// The lanes that environments are written over.
pub use operant_lane as lane;

pub use any::{AnyEnv, EnvCounters, LaneWidth, Seen, StepError, Stepped, Stepper, TileSpec, running_words};
pub use checked::{Checks, checked};
pub use doc::markdown;
pub use env::{Env, Step};
pub use own::{OwnArray, OwnSpace, OwnSpaces};
pub use packing::Packing;
pub use registry::{EnvError, EnvOptions, Registry, UnknownEnv};
pub use rows::{Rows, RowsMut, set_rows};
pub use scene::{
    BLUE, BROWN, DARK_GREEN, GREEN, GREY, PURPLE, Point, RED, Scene, Shape, WHITE, YELLOW, tone,
};
pub use spec::{
    ActionSpace, EnvMetric, EnvOption, EnvSpec, ObsSpace, OptionError, OptionValue, OptionValues,
    indices_per_word,
};
pub use stepper::stepper_on;
pub use vector::{Autoreset, Clock, Current, ENDED, Transition, numbers};
pub use versus::{Asked, Opponent, OpponentTile, Random, Versus};
