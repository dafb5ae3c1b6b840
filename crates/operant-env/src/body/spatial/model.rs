//! What Ant is made of: lengths in m, masses in kg, angles in rad, moments of inertia in kg m^2.

use core::f64::consts::FRAC_1_SQRT_2 as DIAGONAL;

use crate::body::model::{DEGREE, Impedance};

pub use crate::body::model::GRAVITY;

/// Legs.
pub const LEGS: usize = 4;
/// Where the legs point to along x and y. Gymnasium calls them front left, front right, back left and back right.
pub const OUTWARD: [[f64; 2]; LEGS] =
    [[DIAGONAL, DIAGONAL], [-DIAGONAL, DIAGONAL], [-DIAGONAL, -DIAGONAL], [DIAGONAL, -DIAGONAL]];
/// Where the hips are along x and y, from the torso's centre.
pub const HIPS: [[f64; 2]; LEGS] = [[0.2, 0.2], [-0.2, 0.2], [-0.2, -0.2], [0.2, -0.2]];
/// The motor of each leg's hip; that of its ankle follows.
pub const MOTORS: [usize; LEGS] = [2, 4, 6, 0];
/// 1 where an ankle's axis is to the left of its leg, -1 to the right.
pub const MIRRORS: [f64; LEGS] = [1.0, -1.0, -1.0, 1.0];
/// Lengths of a leg's capsules: to the hip, to the ankle, and below.
pub const LENGTHS: [f64; 3] = {
    let square = core::f64::consts::SQRT_2;
    [0.2 * square, 0.2 * square, 0.4 * square]
};

/// A link that is the same all around an axis.
pub struct Shape {
    pub mass: f64,
    /// Moments of inertia about its centre across and along the axis.
    pub across: f64,
    pub along: f64,
}

/// The torso with the capsules that are fixed to it; its axis is z.
pub const TORSO: Shape = Shape { mass: 0.483880249663, across: 0.0111203569804, along: 0.0135857154998 };
/// The part of a leg from hip to ankle, and the part below.
pub const PARTS: [Shape; 2] = [
    Shape { mass: 0.0391577537285, across: 0.000567966083193, along: 0.000118441898060 },
    Shape { mass: 0.0675922045327, across: 0.00267479066004, along: 0.000209432140633 },
];
/// Mass of the whole body.
pub const MASS: f64 = TORSO.mass + LEGS as f64 * (PARTS[0].mass + PARTS[1].mass);
/// Ranges of hips and ankles.
pub const RANGES: [[f64; 2]; 2] = [[-30.0 * DEGREE, 30.0 * DEGREE], [30.0 * DEGREE, 70.0 * DEGREE]];
/// Inverse inertias of hips and ankles in the initial pose.
pub const JOINT_WEIGHTS: [f64; 2] = [0.982635955973, 0.995102431753];
/// Inverse inertias in the initial pose of the torso, and of the capsules of a leg: to the hip, to the ankle, and below.
pub const TORSO_WEIGHT: f64 = 1.10143749914;
pub const WEIGHTS: [f64; 3] = [1.18047179479, 1.80877623358, 3.98441332858];
/// Radii of the torso and of capsules.
pub const TORSO_RADIUS: f64 = 0.25;
pub const RADIUS: f64 = 0.08;
/// Distance at which contacts begin to push.
pub const MARGIN: f64 = 0.02;
/// Contacts and limits.
pub const IMPEDANCE: Impedance = Impedance::DEFAULT;
/// Damping and armature of hips and ankles.
pub const DAMPING: f64 = 1.0;
pub const ARMATURE: f64 = 1.0;
/// Torque of a motor at a control of 1.
pub const GEAR: f64 = 150.0;
/// Time step, s.
pub const TIMESTEP: f64 = 0.01;
