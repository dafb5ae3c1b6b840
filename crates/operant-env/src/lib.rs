//! operant-env holds the environments: the rules of each in one file, written once over lanes, and what all of them
//! share: spaces, auto-reset, registry, emission. It knows no policy, no device and no file.
//!
//! [`Env`] is the trait; `docs/environments.md` builds one step by step.

#![forbid(unsafe_code)]

pub mod acrobot;
pub mod cartpole;
pub mod emit;
mod env;
pub mod grid;
pub mod minatar_breakout;
pub mod mountain_car;
pub mod mountain_car_continuous;
pub mod pendulum;
pub mod random_play;
pub mod registry;
pub mod replay;
mod rows;
mod scene;
mod spec;
pub mod sticky;
mod vector;

/// The lanes that environments are written over.
pub use operant_lane as lane;

pub use env::{Env, Step};
pub use registry::{EnvOptions, UnknownEnv, Visitor, with_env};
pub use rows::{Rows, RowsMut};
pub use scene::{Point, Scene, Shape};
pub use spec::{ActionSpace, EnvOption, EnvSpec, ObsSpace, OptionError};
pub use vector::{Clock, Current, Transition};
