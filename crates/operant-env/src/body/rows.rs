//! The rows of the convex problem whose optimum are the forces of limits and contacts: a limit, a point on the floor, or two links that
//! touch each other, each with its stiffness and the acceleration that needs no force.

use operant_lane::{Float, Lane, Mask, Uint};

use super::model::Impedance;
use super::planar::{Twist, Vector, f, zero};

/// Words of 31 bits; each row that may push has a bit.
pub const WORDS: usize = 2;

/// A limit of a joint that may push.
#[derive(Clone, Copy)]
pub struct Limit<L: Lane> {
    /// 1 at the lower end, -1 at the upper one.
    pub side: L::Float,
    /// 0 where the joint is within its range.
    pub stiffness: L::Float,
    /// The acceleration that would need no force.
    pub reference: L::Float,
}

impl<L: Lane> Limit<L> {
    #[inline(always)]
    pub fn none() -> Self {
        Limit { side: f::<L>(1.0), stiffness: zero::<L>(), reference: zero::<L>() }
    }
}

/// A point that may touch the floor.
#[derive(Clone, Copy)]
pub struct Contact<L: Lane> {
    pub at: Vector<L>,
    /// 0 where it does not touch.
    pub stiffness: L::Float,
    /// The accelerations along the normal and the floor that would need no force.
    pub reference: Vector<L>,
}

impl<L: Lane> Contact<L> {
    #[inline(always)]
    pub fn none() -> Self {
        Contact { at: [zero::<L>(); 2], stiffness: zero::<L>(), reference: [zero::<L>(); 2] }
    }
}

/// Two links that may touch each other.
#[derive(Clone, Copy)]
pub struct Touch<L: Lane> {
    /// Moment and force on the second link of a unit force between them; the first link has the opposite.
    pub wrench: Twist<L>,
    pub stiffness: L::Float,
    pub reference: L::Float,
}

impl<L: Lane> Touch<L> {
    #[inline(always)]
    pub fn none() -> Self {
        Touch { wrench: [zero::<L>(); 3], stiffness: zero::<L>(), reference: zero::<L>() }
    }
}

/// The rows that push, a bit for each in the order in which they are noted.
pub struct Rows<L: Lane> {
    pub words: [L::Uint; WORDS],
    pub next: usize,
}

impl<L: Lane> Rows<L> {
    #[inline(always)]
    pub fn note(&mut self, pushes: L::Mask) {
        let bit = pushes.select(L::Uint::splat(1 << (self.next % 31)), L::Uint::splat(0));
        self.words[self.next / 31] = self.words[self.next / 31] | bit;
        self.next += 1;
    }
}

/// The closest points of the axes of two links, whose ends these are: a point of the first, and the vector from it to the second's. The
/// mask is false where the axes cross: then they push out of the plane.
#[inline(always)]
pub fn closest<L: Lane>(first: [Vector<L>; 2], second: [Vector<L>; 2]) -> (Vector<L>, Vector<L>, L::Mask) {
    let minus = |a: Vector<L>, b: Vector<L>| [a[0] - b[0], a[1] - b[1]];
    let dot = |a: Vector<L>, b: Vector<L>| a[1].mul_add(b[1], a[0] * b[0]);
    let cross = |a: Vector<L>, b: Vector<L>| a[0] * b[1] - a[1] * b[0];
    // The point of a segment that is nearest to `end`.
    let nearest = |segment: [Vector<L>; 2], end: Vector<L>| {
        let along = minus(segment[1], segment[0]);
        let part = dot(minus(end, segment[0]), along) / dot(along, along);
        let part = part.clamp(zero::<L>(), f::<L>(1.0));
        [along[0].mul_add(part, segment[0][0]), along[1].mul_add(part, segment[0][1])]
    };
    let mut best: Option<(Vector<L>, Vector<L>, L::Float)> = None;
    for side in 0..4 {
        let (from, gap) = match side {
            0 | 1 => (first[side], minus(nearest(second, first[side]), first[side])),
            _ => {
                let from = nearest(first, second[side - 2]);
                (from, minus(second[side - 2], from))
            }
        };
        let square = dot(gap, gap);
        best = Some(match best {
            None => (from, gap, square),
            Some(best) => {
                let (from, gap, square) = <_ as operant_lane::Select<L::Mask>>::select(
                    square.lt(best.2),
                    (from, gap, square),
                    best,
                );
                (from, gap, square)
            }
        });
    }
    let (from, gap, _) = best.expect("four sides");
    let apart = |segment: [Vector<L>; 2], other: [Vector<L>; 2]| {
        let along = minus(segment[1], segment[0]);
        let [a, b] = other.map(|end| cross(along, minus(end, segment[0])));
        (a * b).lt(zero::<L>())
    };
    (from, gap, !(apart(first, second) & apart(second, first)))
}

impl Impedance {
    /// The stiffness of a row whose inverse weight is `weight`, and the acceleration of its spring, at a distance of `r < 0`.
    #[inline(always)]
    pub fn of<L: Lane>(&self, r: L::Float, weight: f64) -> Vector<L> {
        let [least, most] = [self.range[0], self.range[1]];
        let one = f::<L>(1.0);
        let d = if least == most {
            f::<L>(least)
        } else {
            let x = (-r * f::<L>(1.0 / self.width)).min(one);
            let rest = one - x;
            let half = x.le(f::<L>(0.5));
            let y = half.select(f::<L>(2.0) * (x * x), (rest * rest).mul_add(f::<L>(-2.0), one));
            y.mul_add(f::<L>(most - least), f::<L>(least))
        };
        [d / ((one - d) * f::<L>(weight)), f::<L>(-self.spring()) * d * r]
    }
}
