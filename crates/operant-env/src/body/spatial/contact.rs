//! What may push the body: limits of its hinges, and balls at the ends of its capsules that may touch the floor. Each has rows, whose
//! stiffness counts where the row pushes: a limit one, a contact the four edges of its friction pyramid.

use operant_lane::{Float, Lane, Mask, Uint, bundle};

use super::matrix::Matrix;
use super::model::{IMPEDANCE, JOINT_WEIGHTS, MARGIN, RANGES};
use super::vector::{AT, Twist, Vector, add_times, cross, dot, outside, scaled, sum, times};
use crate::body::planar::{f, zero};

bundle! {
    /// A ball that may touch the floor.
    pub struct Contact {
        /// Where it touches.
        at: [Float; 3],
        /// Directions along the floor.
        along: [[Float; 3]; 2],
        /// 0 where it does not touch.
        stiffness: Float,
        /// The acceleration that would need no force.
        reference: [Float; 3],
    }
}

bundle! {
    /// A limit of a joint that may push.
    pub struct Limit {
        /// 1 at the lower end, -1 at the upper one.
        side: Float,
        /// 0 where the joint is within its range.
        stiffness: Float,
        /// The acceleration that would need no force.
        reference: Float,
    }
}

impl<L: Lane> Limit<L> {
    #[inline(always)]
    pub fn none() -> Self {
        Limit { side: f::<L>(1.0), stiffness: zero::<L>(), reference: zero::<L>() }
    }

    #[inline(always)]
    pub fn of(part: usize, q: L::Float, v: L::Float) -> Self {
        let [low, high] = RANGES[part];
        let [below, above] = [q - f::<L>(low), f::<L>(high) - q];
        let is_low = below.lt(above);
        let r = is_low.select(below, above);
        let side = is_low.select(f::<L>(1.0), f::<L>(-1.0));
        let none = Limit { side, stiffness: zero::<L>(), reference: zero::<L>() };
        L::when(r.lt(zero::<L>()), none, |none| {
            let [stiffness, spring] = IMPEDANCE.of::<L>(r, JOINT_WEIGHTS[part]);
            Limit { stiffness, reference: (f::<L>(-IMPEDANCE.damping()) * side).mul_add(v, spring), ..none }
        })
    }

    /// How much more the joint accelerates than without a force; below 0 the limit pushes.
    #[inline(always)]
    pub fn row(&self, x: L::Float) -> L::Float {
        self.side.mul_add(x, -self.reference)
    }
}

impl<L: Lane> Contact<L> {
    #[inline(always)]
    pub fn none() -> Self {
        let o = zero::<L>();
        Contact { at: [o; 3], along: [[o; 3]; 2], stiffness: o, reference: [o; 3] }
    }

    #[inline(always)]
    pub fn touches(&self) -> L::Mask {
        self.stiffness.gt(zero::<L>())
    }

    /// The contact of a ball at `centre`, whose capsule is along `axis`.
    #[inline(always)]
    pub fn of(
        axes: &[Vector<L>; 3],
        height: L::Float,
        [centre, axis]: [Vector<L>; 2],
        [spin, velocity]: Twist<L>,
        radius: f64,
        weight: f64,
    ) -> Self {
        let distance = height - f::<L>(radius);
        let r = distance - f::<L>(MARGIN);
        L::when(r.lt(zero::<L>()), Self::none(), |_| {
            let up = axes[2];
            let along = add_times::<L, 3>(axis, up, -dot::<L>(axis, up));
            let square = dot::<L>(along, along);
            let along = scaled::<L>(along, f::<L>(1.0) / square.sqrt());
            let along = square.gt(f::<L>(1e-28)).select(along, axes[0]);
            let at = add_times::<L, 3>(centre, up, distance.mul_add(f::<L>(-0.5), f::<L>(-radius)));
            // An edge of the friction pyramid weighs 2 mu^2 (1 + mu^2), mu is 1.
            let [stiffness, spring] = IMPEDANCE.of::<L>(r, 4.0 * weight);
            let velocity = sum::<L, 3>(velocity, cross::<L>(spin, at));
            let damping = scaled::<L>(velocity, f::<L>(-IMPEDANCE.damping()));
            let reference = add_times::<L, 3>(damping, up, spring);
            Contact { at, along: [along, cross::<L>(up, along)], stiffness, reference }
        })
    }

    /// How much more the body accelerates along the edges of the friction pyramid than without a force; below 0 an edge pushes.
    #[inline(always)]
    pub fn rows(&self, up: Vector<L>, [turning, acceleration]: Twist<L>) -> [L::Float; 4] {
        let moves = sum::<L, 3>(acceleration, cross::<L>(turning, self.at));
        let more = add_times::<L, 3>(moves, self.reference, f::<L>(-1.0));
        let normal = dot::<L>(up, more);
        let [a, b] = [dot::<L>(self.along[0], more), dot::<L>(self.along[1], more)];
        [normal + a, normal - a, normal + b, normal - b]
    }

    /// A bit for each edge that pushes, from `first` on.
    #[inline(always)]
    pub fn bits(&self, up: Vector<L>, twist: Twist<L>, first: usize) -> L::Uint {
        let rows = self.rows(up, twist);
        let mut bits = L::Uint::splat(0);
        for edge in 0..4 {
            let bit = L::Uint::splat(1 << (first + edge));
            bits = bits | rows[edge].lt(zero::<L>()).select(bit, L::Uint::splat(0));
        }
        bits
    }

    /// Adds the stiffness of the edges that push, and what force they have without an acceleration.
    #[inline(always)]
    pub fn stiffen(
        &self,
        (mut matrix, wrench): (Matrix<L>, Twist<L>),
        up: Vector<L>,
        bits: L::Uint,
        first: usize,
    ) -> (Matrix<L>, Twist<L>) {
        let mut s = [zero::<L>(); 4];
        for edge in 0..4 {
            s[edge] = has::<L>(bits, first + edge).select(self.stiffness, zero::<L>());
        }
        let [p, q] = self.along;
        let [a, b] = [s[0] + s[1], s[2] + s[3]];
        let [c, d] = [s[0] - s[1], s[2] - s[3]];
        let of_up = add_times::<L, 3>(add_times::<L, 3>(scaled::<L>(up, a + b), p, c), q, d);
        let of_p = add_times::<L, 3>(scaled::<L>(up, c), p, a);
        let of_q = add_times::<L, 3>(scaled::<L>(up, d), q, b);
        let mut k = [zero::<L>(); 6];
        for i in 0..3 {
            for j in i..3 {
                k[AT[i][j]] = q[i].mul_add(of_q[j], p[i].mul_add(of_p[j], up[i] * of_up[j]));
            }
        }
        let at = self.at;
        let columns = [
            cross::<L>(at, [k[0], k[1], k[2]]),
            cross::<L>(at, [k[1], k[3], k[4]]),
            cross::<L>(at, [k[2], k[4], k[5]]),
        ];
        for i in 0..3 {
            let row = [columns[0][i], columns[1][i], columns[2][i]];
            let turned = cross::<L>(at, row);
            for j in 0..3 {
                matrix.mixed[i][j] = matrix.mixed[i][j] + row[j];
                if j >= i {
                    matrix.angular[AT[i][j]] = matrix.angular[AT[i][j]] + turned[j];
                }
            }
        }
        matrix.linear = sum::<L, 6>(matrix.linear, k);
        let force = times::<L>(k, self.reference);
        (matrix, [sum::<L, 3>(wrench[0], cross::<L>(at, force)), sum::<L, 3>(wrench[1], force)])
    }

    /// Its moment about `centre` and its force, in the axes of the world, added to a sum.
    #[inline(always)]
    pub fn push(
        &self,
        axes: &[Vector<L>; 3],
        centre: Vector<L>,
        twist: Twist<L>,
        sums: Twist<L>,
    ) -> Twist<L> {
        L::when(self.touches(), sums, |[moment, force]| {
            let mut rows = self.rows(axes[2], twist);
            for edge in 0..4 {
                rows[edge] = -(rows[edge].min(zero::<L>()) * self.stiffness);
            }
            let normal = scaled::<L>(axes[2], (rows[0] + rows[1]) + (rows[2] + rows[3]));
            let own = add_times::<L, 3>(normal, self.along[0], rows[0] - rows[1]);
            let own = add_times::<L, 3>(own, self.along[1], rows[2] - rows[3]);
            let arm = add_times::<L, 3>(self.at, centre, f::<L>(-1.0));
            let turns = outside::<L>(axes, cross::<L>(arm, own));
            [sum::<L, 3>(moment, turns), sum::<L, 3>(force, outside::<L>(axes, own))]
        })
    }
}

/// Whether a bit is set.
#[inline(always)]
pub fn has<L: Lane>(bits: L::Uint, bit: usize) -> L::Mask {
    (bits & L::Uint::splat(1 << bit)).ne(L::Uint::splat(0))
}
