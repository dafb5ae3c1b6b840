//! A body that moves freely in space: a torso with four legs of two hinges each, its acceleration under joint limits and contacts with the
//! floor, and its motion over time. The physics is that of MuJoCo; docs/bodies.md has the formulas.
//!
//! Everything is computed in the axes of the torso, about its centre: there hips are constant, and nothing depends on the position along
//! the floor. Angles of ankles are mirrored so that all four legs are the same but for their direction: each step of the computation is
//! a [`Lane::scan`](operant_lane::Lane::scan) over the legs, which CUDA has once. In the order of an evaluation:
//!
//! - [`placed`]: where the [`leg`]s are, how they move, and what may push them ([`contact`]);
//! - [`solver`]: the acceleration, by elimination of the joints ([`matrix`]) for each set of rows that push;
//! - [`motion`]: the evaluations of a time step.
//!
//! [`model`] has the constants, [`vector`] the arithmetic.

mod contact;
mod leg;
mod matrix;
mod model;
mod motion;
mod placed;
mod solver;
mod vector;

pub use model::{MARGIN, RADIUS, TIMESTEP, TORSO_RADIUS};
pub use motion::{Motion, advance};
pub use placed::points;
