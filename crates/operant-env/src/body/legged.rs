//! What Hopper and Walker2d have in common: a torso on legs of a thigh, a lower leg and a foot.

use super::model::{DEGREE, Link};

/// The height of the torso at the start, m.
pub const HEIGHT: f64 = 1.25;

/// The torso.
pub const TORSO: Link =
    Link::hinged(None, 2, 1.0, [0.0; 2], [3.6651914291880923, 0.069245938072875], [0.0; 2]);

/// A thigh.
pub const fn thigh(dof: usize) -> Link {
    Link::hinged(Some(0), dof, -1.0, [0.0, -0.2], [4.057890510886818, 0.09329875682692194], [0.0, -0.225])
}

/// The leg below a thigh.
pub const fn leg(thigh: usize, dof: usize) -> Link {
    let inertia = [2.7813566959781637, 0.07230254017320971];
    Link::hinged(Some(thigh), dof, -1.0, [0.0, -0.45], inertia, [0.0, -0.25])
}

/// A foot below a leg, of this mass and moment of inertia; its centre of mass is `ahead` of the ankle.
pub const fn foot(leg: usize, dof: usize, inertia: [f64; 2], ahead: f64) -> Link {
    Link::hinged(Some(leg), dof, -1.0, [0.0, -0.5], inertia, [ahead, 0.0])
}

/// The ends of the capsules of torso, thigh and leg.
pub const ENDS: [[[f64; 2]; 2]; 3] =
    [[[0.0, 0.2], [0.0, -0.2]], [[0.0, 0.0], [0.0, -0.45]], [[0.0, 0.0], [0.0, -0.5]]];
/// The radii of torso, thigh, leg and foot.
pub const RADII: [f64; 4] = [0.05, 0.05, 0.04, 0.06];
/// How far hips and knees turn.
pub const BEND: [f64; 2] = [-150.0 * DEGREE, 0.0];
/// How far ankles turn.
pub const TILT: [f64; 2] = [-45.0 * DEGREE, 45.0 * DEGREE];
