//! Inertias and stiffnesses, symmetric matrices over twists, and the elimination of a hinge from them: what is left of a leg is a matrix
//! that adds to the torso's, so that no system of equations has more than six unknowns.

use operant_lane::{Float, Lane, bundle};

use super::vector::{AT, Symmetric, Twist, Vector, add_times, dot, scaled, sum};
use crate::body::planar::{f, zero};

bundle! {
    /// A symmetric matrix over twists.
    pub struct Matrix {
        angular: [Float; 6],
        /// A row for each part of the angular velocity.
        mixed: [[Float; 3]; 3],
        linear: [Float; 6],
    }
}

bundle! {
    /// A hinge that was eliminated: its acceleration is `free - gain . twist` of its parent.
    pub struct Eliminated {
        gain: [[Float; 3]; 2],
        free: Float,
    }
}

impl<L: Lane> Eliminated<L> {
    #[inline(always)]
    pub fn none() -> Self {
        Eliminated { gain: [[zero::<L>(); 3]; 2], free: zero::<L>() }
    }

    /// The acceleration of the hinge.
    #[inline(always)]
    pub fn acceleration(&self, parent: Twist<L>) -> L::Float {
        self.free - (dot::<L>(self.gain[0], parent[0]) + dot::<L>(self.gain[1], parent[1]))
    }
}

impl<L: Lane> Matrix<L> {
    /// Eliminates a hinge: `column` is the matrix times its axis, `diagonal` its own entry, `force` the force on it.
    #[inline(always)]
    pub fn eliminate(
        &mut self,
        wrench: &mut Twist<L>,
        column: Twist<L>,
        diagonal: L::Float,
        force: L::Float,
    ) -> Eliminated<L> {
        let inverse = f::<L>(1.0) / diagonal;
        let gain = [scaled::<L>(column[0], inverse), scaled::<L>(column[1], inverse)];
        let free = force * inverse;
        for i in 0..3 {
            for j in 0..3 {
                if j >= i {
                    let at = AT[i][j];
                    self.angular[at] = (-column[0][i]).mul_add(gain[0][j], self.angular[at]);
                    self.linear[at] = (-column[1][i]).mul_add(gain[1][j], self.linear[at]);
                }
                self.mixed[i][j] = (-column[0][i]).mul_add(gain[1][j], self.mixed[i][j]);
            }
        }
        for k in 0..2 {
            wrench[k] = add_times::<L, 3>(wrench[k], column[k], -free);
        }
        Eliminated { gain, free }
    }

    #[inline(always)]
    pub fn plus(&self, other: &Self) -> Self {
        let mut mixed = self.mixed;
        for k in 0..3 {
            mixed[k] = sum::<L, 3>(self.mixed[k], other.mixed[k]);
        }
        Matrix {
            angular: sum::<L, 6>(self.angular, other.angular),
            mixed,
            linear: sum::<L, 6>(self.linear, other.linear),
        }
    }

    /// The twist that needs this wrench.
    #[inline(always)]
    pub fn solve(&self, [moment, force]: Twist<L>) -> Twist<L> {
        let linear = Factors::<L>::of(self.linear);
        let still = linear.solve(force);
        let mut angular = self.angular;
        let mut left = moment;
        let mut follow = [[zero::<L>(); 3]; 3];
        for i in 0..3 {
            follow[i] = linear.solve(self.mixed[i]);
            left[i] = left[i] - dot::<L>(follow[i], force);
            for j in 0..=i {
                angular[AT[i][j]] = angular[AT[i][j]] - dot::<L>(follow[i], self.mixed[j]);
            }
        }
        let turning = Factors::<L>::of(angular).solve(left);
        let mut motion = still;
        for i in 0..3 {
            motion = add_times::<L, 3>(motion, follow[i], -turning[i]);
        }
        [turning, motion]
    }
}

/// `L D L'` of a symmetric matrix.
struct Factors<L: Lane> {
    inverse: Vector<L>,
    /// Entries 10, 20 and 21.
    lower: Vector<L>,
}

impl<L: Lane> Factors<L> {
    #[inline(always)]
    fn of([a, b, c, d, e, g]: Symmetric<L>) -> Self {
        let one = f::<L>(1.0);
        let first = one / a;
        let [p, q] = [b * first, c * first];
        let second = one / (-p).mul_add(b, d);
        let rest = (-p).mul_add(c, e);
        let r = rest * second;
        let third = one / (-r).mul_add(rest, (-q).mul_add(c, g));
        Factors { inverse: [first, second, third], lower: [p, q, r] }
    }

    #[inline(always)]
    fn solve(&self, b: Vector<L>) -> Vector<L> {
        let [p, q, r] = self.lower;
        let y = (-p).mul_add(b[0], b[1]);
        let z = (-r).mul_add(y, (-q).mul_add(b[0], b[2]));
        let z = z * self.inverse[2];
        let y = (-r).mul_add(z, y * self.inverse[1]);
        [(-q).mul_add(z, (-p).mul_add(y, b[0] * self.inverse[0])), y, z]
    }
}
