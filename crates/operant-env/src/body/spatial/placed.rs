//! The body in motion: where its parts are, what moves them, and what may push them, before the acceleration is known.

use operant_lane::{Float, Lane, bundle};

use super::contact::{Contact, Limit};
use super::leg::{Leg, Part};
use super::model::{
    DAMPING, GEAR, GRAVITY, HIPS, LEGS, LENGTHS, MIRRORS, MOTORS, OUTWARD, PARTS, RADIUS, TORSO,
    TORSO_RADIUS, TORSO_WEIGHT, WEIGHTS,
};
use super::vector::{
    Twist, Vector, add_times, axes, cross, dot, inside, outside, scaled, sum, swing, turned,
};
use crate::body::planar::{f, zero};

/// A body in motion.
pub struct Placed<L: Lane> {
    /// The axes of the world.
    pub axes: [Vector<L>; 3],
    /// What moves the torso: centrifugal forces and gravity.
    pub force: Twist<L>,
    pub contact: Contact<L>,
    pub legs: [Leg<L>; LEGS],
}

bundle! {
    /// How a leg is placed.
    struct Hinges {
        /// The hip, along x and y.
        hip: [Float; 2],
        /// Where the leg points to, along x and y.
        outward: [Float; 2],
        angles: [Float; 2],
        speeds: [Float; 2],
        /// Controls of its motors.
        controls: [Float; 2],
    }
}

impl<L: Lane> Placed<L> {
    /// The body in motion.
    #[inline(never)]
    pub fn of(q: &[L::Float; 15], v: &[L::Float; 14], control: &[L::Float; 8]) -> Self {
        let o = zero::<L>();
        let axes = axes::<L>([q[3], q[4], q[5], q[6]]);
        let spin = [v[3], v[4], v[5]];
        let torso = [spin, inside::<L>(&axes, [v[0], v[1], v[2]])];
        let up = axes[2];
        let turn = f::<L>(TORSO.across - TORSO.along) * spin[2];
        let force = [[turn * spin[1], -(turn * spin[0]), o], scaled::<L>(up, f::<L>(-GRAVITY * TORSO.mass))];
        let contact = Contact::of(&axes, q[2], [[o; 3], axes[0]], torso, TORSO_RADIUS, TORSO_WEIGHT);
        let none = [o; 2];
        let mut hinges =
            [Hinges { hip: none, outward: none, angles: none, speeds: none, controls: none }; LEGS];
        for k in 0..LEGS {
            hinges[k] = Hinges {
                hip: [f::<L>(HIPS[k][0]), f::<L>(HIPS[k][1])],
                outward: [f::<L>(OUTWARD[k][0]), f::<L>(OUTWARD[k][1])],
                angles: [q[7 + 2 * k], q[8 + 2 * k]],
                speeds: [v[6 + 2 * k], v[7 + 2 * k]],
                controls: [control[MOTORS[k]], control[MOTORS[k] + 1]],
            };
        }
        let mut legs = [Leg::none(); LEGS];
        L::scan(&hinges, &mut legs, (), |hinges, leg, ()| Self::leg(hinges, leg, &axes, torso, q[2]));
        Placed { axes, force, contact, legs }
    }

    #[inline(always)]
    fn leg(hinges: &Hinges<L>, leg: &mut Leg<L>, axes: &[Vector<L>; 3], torso: Twist<L>, height: L::Float) {
        let (o, up, spin) = (zero::<L>(), axes[2], torso[0]);
        let Hinges { hip, outward, angles, speeds, controls } = *hinges;
        let [outward, along, down] = directions::<L>(outward, angles);
        let side = [-along[1], along[0], o];
        let hip = [hip[0], hip[1], o];
        let knee = add_times::<L, 3>(hip, along, f::<L>(LENGTHS[1]));
        let tip = add_times::<L, 3>(knee, down, f::<L>(LENGTHS[2]));
        leg.hip = [hip[0], hip[1]];
        leg.along = [along[0], along[1]];
        leg.lift = knee[1].mul_add(along[1], knee[0] * along[0]);

        let upper = [spin[0], spin[1], spin[2] + speeds[0]];
        let lower = add_times::<L, 3>(upper, side, speeds[1]);
        let turning = [speeds[0] * spin[1], -(speeds[0] * spin[0]), o];
        let turning_lower = add_times::<L, 3>(turning, cross::<L>(upper, side), speeds[1]);
        let at_hip = sum::<L, 3>(scaled::<L>(up, f::<L>(GRAVITY)), swing::<L>(spin, [o; 3], hip));
        let half = scaled::<L>(along, f::<L>(0.5 * LENGTHS[1]));
        let swung = swing::<L>(upper, turning, half);
        let at_upper = sum::<L, 3>(at_hip, swung);
        let at_knee = sum::<L, 3>(at_upper, swung);
        let half_lower = scaled::<L>(down, f::<L>(0.5 * LENGTHS[2]));
        let at_lower = sum::<L, 3>(at_knee, swing::<L>(lower, turning_lower, half_lower));
        let parts = [
            PARTS[0].part::<L>(along, sum::<L, 3>(hip, half), [upper, turning], at_upper),
            PARTS[1].part::<L>(down, sum::<L, 3>(knee, half_lower), [lower, turning_lower], at_lower),
        ];
        for k in 0..2 {
            let (angular, moment, force) = parts[k];
            let torque = speeds[k].mul_add(f::<L>(-DAMPING), controls[k] * f::<L>(GEAR));
            leg.parts[k] = Part { angular, moment, force, torque, limit: Limit::of(k, angles[k], speeds[k]) };
        }
        let twists = leg.twists(torso, speeds);
        let (ends, capsules) = ([[o; 3], hip, knee, tip], [outward, along, down]);
        for number in 0..6usize {
            let (capsule, end) = (number / 2, ends[number.div_ceil(2)]);
            let height = height + dot::<L>(up, end);
            leg.contacts[number] = Contact::of(
                axes,
                height,
                [end, capsules[capsule]],
                twists[capsule],
                RADIUS,
                WEIGHTS[capsule],
            );
        }
    }
}

/// Outward from the torso, from hip to ankle, and from there on.
#[inline(always)]
fn directions<L: Lane>([x, y]: [L::Float; 2], angles: [L::Float; 2]) -> [Vector<L>; 3] {
    let o = zero::<L>();
    let (sin, cos) = angles[0].sin_cos();
    let along = [cos * x - sin * y, sin * x + cos * y, o];
    let (sin, cos) = angles[1].sin_cos();
    [[x, y, o], along, [cos * along[0], cos * along[1], -sin]]
}

/// Hip, ankle and end of each leg, from the floor below the torso's centre; angles as MuJoCo has them.
#[inline(always)]
pub fn points<L: Lane>(q: &[L::Float; 15]) -> [[[L::Float; 3]; 3]; LEGS] {
    let axes = axes::<L>(turned::<L>([q[3], q[4], q[5], q[6]], [zero::<L>(); 3]));
    let mut points = [[[zero::<L>(), zero::<L>(), q[2]]; 3]; LEGS];
    for k in 0..LEGS {
        let ankle = q[8 + 2 * k] * f::<L>(MIRRORS[k]);
        let outward = [f::<L>(OUTWARD[k][0]), f::<L>(OUTWARD[k][1])];
        let directions = directions::<L>(outward, [q[7 + 2 * k], ankle]);
        let mut at = points[k][0];
        for (number, length) in LENGTHS.into_iter().enumerate() {
            at = add_times::<L, 3>(at, outside::<L>(&axes, directions[number]), f::<L>(length));
            points[k][number] = at;
        }
    }
    points
}
