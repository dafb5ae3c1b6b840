//! A leg: two parts with their inertias, and the balls that may touch the floor.

use operant_lane::{Float, Lane, Mask, bundle};

use super::contact::{Contact, Limit, has};
use super::matrix::{Eliminated, Matrix};
use super::model::{ARMATURE, PARTS, Shape};
use super::vector::{AT, Symmetric, Twist, Vector, add_times, cross, dot, scaled, sum, times};
use crate::body::planar::{f, zero};

bundle! {
    /// A part of a leg.
    pub struct Part {
        angular: [Float; 6],
        /// Mass times the centre's place.
        moment: [Float; 3],
        /// What moves it against the joints: centrifugal forces and gravity.
        force: [[Float; 3]; 2],
        /// The torque on its hinge but for its limit.
        torque: Float,
        limit: (Of Limit),
    }
}

bundle! {
    /// A leg.
    pub struct Leg {
        /// The hip, along x and y.
        hip: [Float; 2],
        /// The direction from hip to ankle, along x and y.
        along: [Float; 2],
        /// What a unit velocity of the ankle adds to the velocity at the torso's centre, along z.
        lift: Float,
        parts: [(Of Part); 2],
        /// Both ends of the capsules to the hip, to the ankle, and below.
        contacts: [(Of Contact); 6],
    }
}

/// A matrix over twists and a wrench, of a link and what was eliminated into it.
pub type Link<L> = (Matrix<L>, Twist<L>);

impl Shape {
    /// Its angular inertia about the torso's centre, its moment, and what moves it: along `axis`, its centre at `at` with an acceleration
    /// (minus gravity) while no joint accelerates.
    #[inline(always)]
    pub fn part<L: Lane>(
        &self,
        axis: Vector<L>,
        at: Vector<L>,
        [spin, turning]: Twist<L>,
        acceleration: Vector<L>,
    ) -> (Symmetric<L>, Vector<L>, Twist<L>) {
        let [mass, across, more] = [f::<L>(self.mass), f::<L>(self.across), f::<L>(self.along - self.across)];
        let moment = scaled::<L>(at, mass);
        let slanted = scaled::<L>(axis, more);
        let diagonal = across + dot::<L>(moment, at);
        let mut angular = [zero::<L>(); 6];
        for i in 0..3 {
            for j in i..3 {
                let own = (-moment[i]).mul_add(at[j], slanted[i] * axis[j]);
                angular[AT[i][j]] = if i == j { own + diagonal } else { own };
            }
        }
        let force = scaled::<L>(acceleration, -mass);
        let turn = add_times::<L, 3>(scaled::<L>(turning, across), slanted, dot::<L>(axis, turning));
        let turn = add_times::<L, 3>(turn, cross::<L>(spin, slanted), dot::<L>(axis, spin));
        (angular, moment, [add_times::<L, 3>(cross::<L>(at, force), turn, f::<L>(-1.0)), force])
    }
}

impl<L: Lane> Part<L> {
    #[inline(always)]
    fn none() -> Self {
        let o = zero::<L>();
        Part { angular: [o; 6], moment: [o; 3], force: [[o; 3]; 2], torque: o, limit: Limit::none() }
    }

    /// Its inertia, and what moves it.
    #[inline(always)]
    fn link(&self, shape: &Shape) -> Link<L> {
        let (o, m, [x, y, z]) = (zero::<L>(), f::<L>(shape.mass), self.moment);
        let matrix = Matrix {
            angular: self.angular,
            mixed: [[o, -z, y], [z, o, -x], [-y, x, o]],
            linear: [m, o, o, m, o, m],
        };
        (matrix, self.force)
    }

    /// Twice its kinetic energy.
    #[inline(always)]
    fn energy(&self, shape: &Shape, [spin, v]: Twist<L>) -> L::Float {
        let momentum =
            add_times::<L, 3>(scaled::<L>(cross::<L>(spin, self.moment), f::<L>(2.0)), v, f::<L>(shape.mass));
        dot::<L>(spin, times::<L>(self.angular, spin)) + dot::<L>(v, momentum)
    }
}

impl<L: Lane> Leg<L> {
    #[inline(always)]
    pub fn none() -> Self {
        let o = zero::<L>();
        Leg { hip: [o; 2], along: [o; 2], lift: o, parts: [Part::none(); 2], contacts: [Contact::none(); 6] }
    }

    /// The twists of the torso and the leg's parts for velocities or accelerations of torso, hip and ankle.
    #[inline(always)]
    pub fn twists(&self, torso: Twist<L>, [hip, ankle]: [L::Float; 2]) -> [Twist<L>; 3] {
        let upper = self.hip_adds(torso, hip);
        [torso, upper, self.ankle_adds(upper, ankle)]
    }

    #[inline(always)]
    fn hip_adds(&self, [spin, v]: Twist<L>, hip: L::Float) -> Twist<L> {
        let [x, y] = self.hip;
        [[spin[0], spin[1], spin[2] + hip], [y.mul_add(hip, v[0]), (-x).mul_add(hip, v[1]), v[2]]]
    }

    #[inline(always)]
    fn ankle_adds(&self, [spin, v]: Twist<L>, ankle: L::Float) -> Twist<L> {
        let [x, y] = self.along;
        [
            [(-y).mul_add(ankle, spin[0]), x.mul_add(ankle, spin[1]), spin[2]],
            [v[0], v[1], self.lift.mul_add(ankle, v[2])],
        ]
    }

    /// What a wrench does on the hip.
    #[inline(always)]
    fn on_hip(&self, [moment, force]: Twist<L>) -> L::Float {
        let [x, y] = self.hip;
        (-x).mul_add(force[1], y.mul_add(force[0], moment[2]))
    }

    /// What a wrench does on the ankle.
    #[inline(always)]
    fn on_ankle(&self, [moment, force]: Twist<L>) -> L::Float {
        let [x, y] = self.along;
        self.lift.mul_add(force[2], x.mul_add(moment[1], -(y * moment[0])))
    }

    /// The torso with the leg eliminated into it, and the leg's hinges; `bits` are the rows that push.
    #[inline(always)]
    pub fn eliminate(&self, torso: Link<L>, up: Vector<L>, bits: L::Uint) -> (Link<L>, [Eliminated<L>; 2]) {
        let mut links = [torso, self.parts[0].link(&PARTS[0]), self.parts[1].link(&PARTS[1])];
        for number in 0..6 {
            let contact = &self.contacts[number];
            links[number / 2] = L::when(contact.touches(), links[number / 2], |link| {
                contact.stiffen(link, up, bits, 4 * number)
            });
        }
        let [mut torso, mut upper, mut lower] = links;
        let mut diagonals = [f::<L>(ARMATURE); 2];
        let mut forces = [zero::<L>(); 2];
        for k in 0..2 {
            let Part { torque, limit, .. } = self.parts[k];
            let stiffness = has::<L>(bits, 24 + k).select(limit.stiffness, zero::<L>());
            diagonals[k] = diagonals[k] + stiffness;
            forces[k] = (stiffness * limit.side).mul_add(limit.reference, torque);
        }
        let mut column = [[zero::<L>(); 3]; 2];
        let [x, y] = self.along;
        let m = &lower.0;
        for i in 0..3 {
            let turns = x.mul_add(m.angular[AT[i][1]], -(y * m.angular[AT[i][0]]));
            column[0][i] = self.lift.mul_add(m.mixed[i][2], turns);
            let turns = x.mul_add(m.mixed[1][i], -(y * m.mixed[0][i]));
            column[1][i] = self.lift.mul_add(m.linear[AT[i][2]], turns);
        }
        let force = forces[1] + self.on_ankle(lower.1);
        let diagonal = diagonals[1] + self.on_ankle(column);
        let ankle = lower.0.eliminate(&mut lower.1, column, diagonal, force);
        let [x, y] = self.hip;
        upper.0 = upper.0.plus(&lower.0);
        let m = &upper.0;
        for i in 0..3 {
            let turns = y.mul_add(m.mixed[i][0], m.angular[AT[i][2]]);
            column[0][i] = (-x).mul_add(m.mixed[i][1], turns);
            let turns = y.mul_add(m.linear[AT[i][0]], m.mixed[2][i]);
            column[1][i] = (-x).mul_add(m.linear[AT[i][1]], turns);
        }
        for k in 0..2 {
            upper.1[k] = sum::<L, 3>(upper.1[k], lower.1[k]);
        }
        let force = forces[0] + self.on_hip(upper.1);
        let diagonal = diagonals[0] + self.on_hip(column);
        let hip = upper.0.eliminate(&mut upper.1, column, diagonal, force);
        torso.0 = torso.0.plus(&upper.0);
        for k in 0..2 {
            torso.1[k] = sum::<L, 3>(torso.1[k], upper.1[k]);
        }
        (torso, [hip, ankle])
    }

    /// The accelerations of hip and ankle.
    #[inline(always)]
    pub fn accelerations(&self, [hip, ankle]: &[Eliminated<L>; 2], torso: Twist<L>) -> [L::Float; 2] {
        let first = hip.acceleration(torso);
        [first, ankle.acceleration(self.hip_adds(torso, first))]
    }

    /// Twice the kinetic energy of its parts and motors.
    #[inline(always)]
    pub fn energy(&self, torso: Twist<L>, hinges: [L::Float; 2], before: L::Float) -> L::Float {
        let twists = self.twists(torso, hinges);
        let mut energy = before;
        for part in 0..2 {
            let own = hinges[part];
            energy = energy + self.parts[part].energy(&PARTS[part], twists[1 + part]);
            energy = (own * f::<L>(ARMATURE)).mul_add(own, energy);
        }
        energy
    }
}
